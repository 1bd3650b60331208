"""Functions that are handed a wrapper of training: the parameter goes where nothing of it is left."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.syntax.mentions import free_names
from torch2ms.analysis.syntax.tree import descend


@dataclass(frozen=True)
class Taken:
    """Parameters that were taken from a function."""

    called: str
    name: str
    parameters: frozenset[str]


def passed(project: Project) -> dict[str, set[str]]:
    """Parameters that every caller hands such an object, by the name of the function."""
    found: dict[str, set[str]] = {}
    for module in project.modules.values():
        for info in module.functions.values():
            if names := given(info):
                found.setdefault(called(info), set()).update(names)
    return found


def given(info: FunctionInfo) -> set[str]:
    """The parameters of a function that callers hand such an object."""
    return {n for n, v in info.args.items() if v.kind == "object" and v.name in FAMILIES}


def called(info: FunctionInfo) -> str:
    """The name by which a function is called."""
    return info.cls.scope.name if info.cls is not None and info.name == "__init__" else info.name


def missed(trees: list[cst.Module], taken: list[Taken]) -> set[str]:
    """The functions, by the names by which they are called, that still use a parameter they lost."""
    if not taken:
        return set()
    functions = [node for tree in trees for node in descend(tree) if type(node) is cst.FunctionDef]
    free = [(node.name.value, free_names(node)) for node in functions]
    return {t.called for t in taken for name, names in free if name == t.name and t.parameters & names}
