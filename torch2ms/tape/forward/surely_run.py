"""Whether a forward runs a part of a network whatever is the case, with all the layers that have parameters in it."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children
from torch2ms.analysis.values import Value
from torch2ms.tape.ledger.beyond import weighted_parts, weights

PERHAPS = (cst.BooleanOperation, cst.Lambda)  # what is in them may never run


def runs(stmt: Stmt, place: str, module: ModuleInfo, project: Project) -> bool:
    """The statement runs the part at a place, or the network that has it as an attribute."""
    for call in _certain(stmt):
        value = module.value(call.func)
        if value.kind != "module" or not value.place:
            continue
        if value.place == place and whole(value, module, project):
            return True
        above, _, name = place.rpartition(".")
        cls = class_of(value, module, project) if value.place == above else None
        if cls is not None and _runs_part(cls, name, project):
            return True
    return False


def whole(value: Value, module: ModuleInfo, project: Project) -> bool:
    """A call of the network runs every layer of it that has parameters."""
    if value.name.startswith("torch.nn."):
        return value.name not in ("torch.nn.ModuleList", "torch.nn.ModuleDict") and all(
            whole(item, module, project) for item in value.items or ()
        )
    cls = class_of(value, module, project)
    if cls is None or cls.method("forward") is None or weights(cls):
        return False
    return all(_runs_part(cls, name, project) for name in weighted_parts(cls, project))


def _runs_part(cls: ClassInfo, name: str, project: Project) -> bool:
    forward, part = cls.method("forward"), weighted_parts(cls, project).get(name)
    if forward is None or part is None or not whole(part, cls.module, project):
        return False
    stmts = forward.scope.body.stmts
    if any(type(s.node) is cst.Return for stmt in stmts if stmt.blocks for s in stmt.walk()):
        return False
    return any(dotted(call.func) == f"self.{name}" for stmt in stmts for call in _certain(stmt))


def _certain(stmt: Stmt) -> list[cst.Call]:
    """The calls that run whenever a small statement does."""
    found: list[cst.Call] = []
    stack: list[cst.CSTNode] = [stmt.node] if not stmt.blocks and not stmt.modes else []
    while stack:
        node = stack.pop()
        if isinstance(node, PERHAPS):
            continue
        if isinstance(node, (cst.IfExp, cst.BaseComp)):  # what is asked runs, and what is gone through first
            stack.append(node.test if isinstance(node, cst.IfExp) else node.for_in.iter)
            continue
        if isinstance(node, cst.Call):
            found.append(node)
        stack += children(node)
    return found
