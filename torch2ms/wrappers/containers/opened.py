"""`def backward(ctx, g): return -g`: functions whose body stands behind their colon, with a line for each statement.

Those of an autograd.Function, and those that take gradients, are written out statement by statement elsewhere.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import name_called
from torch2ms.editing.suites import Suites
from torch2ms.tape.project import callers
from torch2ms.wrappers.passes import each_module

TAKING = ("grad", "backward")


@each_module
def opened(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that has such functions."""
    found = _closed(module, project)
    return Opener(module, found).plain() if found else None


def _closed(module: ModuleInfo, project: Project) -> set[int]:
    """The functions, by id."""
    bodies = ((s, s.node) for s in module.scope.walk() if type(s.node) is cst.FunctionDef)
    suites = [(s, n) for s, n in bodies if type(n.body) is cst.SimpleStatementSuite]
    taking = callers({*TAKING}, project) if any(s.cls is None for s, _ in suites) else set()
    return {id(n) for s, n in suites if _concerns(s, module, taking)}


def _concerns(scope: Scope, module: ModuleInfo, taking: set[str]) -> bool:
    """`taking`: the names of functions that take gradients or call one that does, which may be called, and no more."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is not None and cls.kind == "autograd":
        return True
    called = {name_called(c) for s in scope.body.walk() for c in s.calls}
    alone = scope.cls is None and len(scope.body.stmts) == 1
    return not called.isdisjoint(TAKING) or alone and not called.isdisjoint(taking)


class Opener(Suites):
    """One module, with the functions to open."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        body = updated.body
        if id(original) not in self.found or not isinstance(body, cst.SimpleStatementSuite):
            return updated
        lines = [cst.SimpleStatementLine([_alone(small)]) for small in body.body]
        lines[-1] = lines[-1].with_changes(trailing_whitespace=body.trailing_whitespace)
        for small, line in zip(body.body, lines, strict=True):
            self.number(line.body[0], small)
        return updated.with_changes(body=cst.IndentedBlock(lines))


def _alone(small: cst.BaseSmallStatement) -> cst.BaseSmallStatement:
    return small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if hasattr(small, "semicolon") else small
