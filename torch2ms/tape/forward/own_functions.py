"""Methods of the same object and functions beside that a forward calls, and networks that they run in one case alone.

They have the names of their caller for these networks.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.forward.branching import decided_by, ways
from torch2ms.tape.forward.given import Given
from torch2ms.tape.forward.left import Skipped
from torch2ms.tape.forward.unsteady import changes
from torch2ms.tape.forward.watched import spelled


def of_branches(
    info: FunctionInfo, stmt: Stmt, given: Given, module: ModuleInfo, project: Project
) -> Iterator[Skipped]:
    """The layers that a method of an object, or a function, runs in one case alone."""
    stmts = list(info.scope.body.walk())
    branches = [s for s in stmts if decided_by(s)]
    if not branches:
        return
    cls = class_around(stmt, project) if info.cls is not None else None
    calls = [(s, c, info.module.value(c.func)) for s in stmts if not s.blocks for c in s.calls]
    ran = [(s, code(c.func), value.place) for s, c, value in calls if value.place and value.kind == "module"]
    for branch in branches if ran else ():
        sides = [{(name, place) for s, name, place in ran if s in inner.walk()} for inner in branch.blocks]
        sides += [set()] if None in ways(branch) else []
        outside = {name for s, name, _ in ran if s not in branch.walk()}
        for name, place in sorted(set[tuple[str, str]]().union(*sides) - sides[0].intersection(*sides)):
            for test in decided_by(branch) if name not in outside else ():
                moves = changes(test, branch, info, given, cls, project)
                yield Skipped(place, code(test), moves, spelled(place, stmts, module))


def own_lines(
    call: cst.Call, stmt: Stmt, module: ModuleInfo, project: Project
) -> tuple[list[Stmt], list[str], ModuleInfo, FunctionInfo | None] | None:
    """What a call runs that has the names of its caller, its parameters, and the function if it is none without a name:
    a method of the same object, a function or lambda beside it or in it."""
    if (method := of_self(call, stmt, project)) is not None:
        return list(method.scope.body.walk()), method.scope.params, method.module, method
    scope: Scope | None = stmt.block.scope
    name = dotted(call.func)
    while name and "." not in name and scope is not None:
        for child in scope.children:
            if child.is_function and child.name == name:
                return list(child.body.walk()), child.params, module, module.functions.get(id(child))
        for made in scope.body.walk() if name in scope.locals else ():
            if name in made.defs and isinstance(made.node, cst.Assign) and isinstance(made.node.value, cst.Lambda):
                return [made], [p.name.value for p in made.node.value.params.params], module, None
        scope = scope.parent
    return None


def class_around(stmt: Stmt, project: Project) -> ClassInfo | None:
    """The class in whose method a statement stands."""
    scope = stmt.block.scope.cls
    return next((c for m in project.modules.values() for c in m.classes.values() if c.scope is scope), None)


def of_self(call: cst.Call, stmt: Stmt, project: Project) -> FunctionInfo | None:
    """The method of the same object that a call reaches: `self.loss(batch)`."""
    if type(call.func) is not cst.Attribute or dotted(call.func.value) != "self":
        return None
    cls = class_around(stmt, project)
    return cls.method(call.func.attr.value) if cls is not None and cls.kind == "object" else None
