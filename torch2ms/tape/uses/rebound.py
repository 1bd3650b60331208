"""Buffers that are bound anew: `self.register_buffer("mem", torch.zeros(0))`, and `self.mem = decay * self.mem + x`.

MindSpore copies what is assigned to a Parameter into it: the values lose their graph, they need the shape of those
before, and what was None at first stays none. A plain attribute takes what it is given, as torch's buffers do.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.classes import ClassInfo
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value


@once
def attributes(project: Project) -> frozenset[tuple[str, str]]:
    """The buffers that are plain attributes in MindSpore: the class whose method registers each, and its name.

    Bound anew are those with a graph, those which are None at first, and those that no state of torch's keeps.
    """
    found: set[tuple[str, str]] = set()
    for module in project.modules.values() if project.buffers else ():
        for cls in module.classes.values() if module.has("register_buffer") else ():
            calls = (c for child in cls.scope.children for s in child.body.walk() for c in s.calls)
            for call in (c for c in calls if name_called(c) == "register_buffer"):
                name, made = constant(argument(call, 0, "name")), argument(call, 1, "tensor")
                values = _bound_anew(name, cls, project) if isinstance(name, str) and made is not None else []
                passing = constant(argument(call, 2, "persistent")) is False
                if values and (passing or constant(made) is None or any(values)):
                    found.add((cls.qualified, str(name)))
    return frozenset(found)


def _bound_anew(name: str, cls: ClassInfo, project: Project) -> list[bool]:
    """Of each assignment to a buffer of the class, in the constructor or later, whether the value has a graph."""
    related = {c.qualified for c in (*cls.lineage(), *cls.below())}
    return [graph for owner, graph in _assigned(project).get(name, ()) if not owner or owner in related]


@once
def _assigned(project: Project) -> dict[str, list[tuple[str, bool]]]:
    """By the name of a buffer, whose it is where it is assigned ("" if that is not seen), and whether with a graph."""
    found: dict[str, list[tuple[str, bool]]] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if not any(place.rpartition(".")[2] in project.buffers for place in stmt.defs | stmt.muts):
                    continue
                for target, value in _given(stmt):
                    if type(target) is cst.Attribute and target.attr.value in project.buffers:
                        owner = _owner(target.value, scope, module)
                        graph = _recorded(module.value(value), scope, module)
                        found.setdefault(target.attr.value, []).append((owner, graph))
    return found


def _given(stmt: Stmt) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """The targets of a statement, and what each of them gets."""
    if type(stmt.node) is cst.Assign:
        yield from ((t.target, stmt.node.value) for t in stmt.node.targets)
    elif type(stmt.node) is cst.AugAssign:
        yield stmt.node.target, stmt.node.value


def _owner(held: cst.BaseExpression, scope: Scope, module: ModuleInfo) -> str:
    """The class of the object whose attribute is assigned."""
    if dotted(held) == "self" and scope.cls is not None:
        return f"{module.name}.{scope.cls.name}"
    value = module.value(held)
    return value.name if value.kind in ("module", "object") else ""


def _recorded(value: Value, scope: Scope, module: ModuleInfo) -> bool:
    """Whether the value has a graph; what no caller is seen to pass may have one."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    info = cls.methods.get(scope.name) if cls is not None else None
    passed = {f"@{name}" for name in info.args} if info is not None else set()
    return bool(value.deps - passed)
