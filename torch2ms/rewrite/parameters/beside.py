"""Buffers that have the name of a parameter, `register_buffer("weight", ...)` of a loss: told by their classes.

Both are Parameters in MindSpore. Where parameters may be frozen the flag does not tell them apart, and where
a name is that of both, the name does not either.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant

OF_LAYERS = re.compile(r"weight|bias|in_proj_weight|in_proj_bias|(weight|bias)_[ih]h(_l\d+(_reverse)?)?")
REFUSED = "which class registers a buffer of a parameter's name is not seen"
TODO = "give the buffer another name"


@once
def clashes(project: Project) -> bool:
    """A buffer has the name of a parameter, or a parameter is called as statistics of normalisation are."""
    own = _parameters(project)
    layers = any(OF_LAYERS.fullmatch(name) for name in project.buffers)
    return layers or bool(project.buffers & own) or any(name.startswith("moving_") for name in own)


@once
def buffers_by_class(project: Project) -> dict[str, tuple[str, ...]] | None:
    """Classes and the names of their buffers; None if some are not seen."""
    found: dict[str, set[str]] = {}
    if any(module.has("spectral_norm") for module in project.modules.values()):
        return None  # the layer that keeps its vectors is of a class of MindSpore's
    for module in project.modules.values():
        if not module.has("register_buffer"):
            continue
        for scope in module.scope.walk():
            for call in (c for stmt in scope.body.walk() for c in stmt.calls if name_called(c) == "register_buffer"):
                name = constant(argument(call, 0, "name"))
                if not isinstance(name, str):
                    continue  # under a computed name it stays a buffer of MindSpore's
                own = isinstance(call.func, cst.Attribute) and dotted(call.func.value) == "self"
                if scope.cls is None or not own:
                    return None
                found.setdefault(scope.cls.name, set()).add(name)
    return {cls: tuple(sorted(names)) for cls, names in found.items()}


def beside(project: Project, given: str) -> str:
    """The call that lists the names and parameters of a module, `given`, by the classes of its layers."""
    return f"named_beside({given}, {buffers_by_class(project)!r})"


def _parameters(project: Project) -> set[str]:
    """The names under which the project's own classes have parameters."""
    classes = [cls for m in project.modules.values() for cls in m.classes.values() if cls.kind == "module"]
    return {name for cls in classes for name, value in cls.attrs.items() if value.name == "parameter"}
