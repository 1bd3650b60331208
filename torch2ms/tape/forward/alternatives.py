"""Networks of one of several classes: `net = Small() if small else Large()`, a factory, a loop over classes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import choices

DEPTH = 3  # functions that give on what others made


def classes_of(name: str, scope: Scope, module: ModuleInfo, project: Project, depth: int = DEPTH) -> list[ClassInfo]:
    """The classes of which a name of the scope may be an instance, as far as is seen."""
    found: dict[int, ClassInfo] = {}
    for stmt in scope.body.walk() if depth else ():
        if type(stmt.node) is cst.Assign and name in stmt.defs:
            for target in (t.target for t in stmt.node.targets):
                place = _position(target, name)
                if place is not None:
                    made = _made(stmt.node.value, place, scope, module, project, depth)
                    found |= {id(cls): cls for cls in made}
    return list(found.values())


def _position(target: cst.BaseExpression, name: str) -> int | None:
    """Which part of a value the target takes for the name: -1 for all of it; None if it takes none."""
    if isinstance(target, cst.Tuple):
        names = [dotted(element.value) for element in target.elements]
        return names.index(name) if name in names else None
    return -1 if dotted(target) == name else None


def _made(
    node: cst.BaseExpression, place: int, scope: Scope, module: ModuleInfo, project: Project, depth: int
) -> Iterator[ClassInfo]:
    """The classes of what an expression makes, or of one part of it."""
    if isinstance(node, cst.IfExp):
        for side in (node.body, node.orelse):
            yield from _made(side, place, scope, module, project, depth)
    elif isinstance(node, cst.Tuple) and 0 <= place < len(node.elements):
        yield from _made(node.elements[place].value, -1, scope, module, project, depth)
    elif isinstance(node, cst.Name) and place < 0:
        yield from classes_of(node.value, scope, module, project, depth - 1)
    elif isinstance(node, cst.Call):
        value = module.value(node.func)
        for one in choices(value) if place < 0 and value.kind == "class" else ():
            if (cls := class_of(one, module, project)) is not None:
                yield cls
        info = project.find(value.name, module) if value.kind == "function" and value.name else None
        for stmt in info.scope.body.walk() if isinstance(info, FunctionInfo) else ():
            if isinstance(info, FunctionInfo) and isinstance(stmt.node, cst.Return) and stmt.node.value is not None:
                yield from _made(stmt.node.value, place, info.scope, info.module, project, depth - 1)
