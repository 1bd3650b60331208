"""What is made outside of a loop whose every turn goes backward: a graph it brought along would be freed at once."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value
from torch2ms.tape.model import Event


def lent(varied: dict[str, Value], stmt: Stmt, around: list[Stmt], module: ModuleInfo) -> bool:
    """What the statement makes is used in every turn of the loops around the event, and nothing tells of a graph: what
    a loop binds anew is used in one turn alone."""
    anew = {root(d) for owner in around if owner.is_loop for d in owner.all_defs}
    return not anew & {root(p) for p in varied} and all(unseen_made(v, stmt, module) for v in varied.values())


def unseen_made(value: Value, stmt: Stmt, module: ModuleInfo) -> bool:
    """Nothing tells that the statement makes a graph of what it is given: an unseen call, or its batches."""
    if value.kind != "loader":
        return value.kind == "unknown"
    return not any(module.value(call.func).name == value.name for s in stmt.walk() for call in s.calls)


def freed_each_turn(event: Event, around: list[Stmt], events: set[int]) -> bool:
    """A loop is among the statements around the event, and every turn of it goes backward and frees the graphs.

    Flags that the loop does not change are set in each of its turns, or in none.
    """
    if event.retain_graph or event.create_graph:
        return False
    guards: list[Stmt] = []
    for stmt in around:
        if type(stmt.node) is cst.If:
            guards.append(stmt)
        if isinstance(stmt.node, (cst.For, cst.While)):
            changed = {root(d) for d in stmt.all_defs | stmt.all_muts}
            kept = [g for g in guards if is_flag(g) and not changed & {root(u) for u in g.uses}]
            settled = (g in kept or goes_backward(g, events) for g in guards)
            ends = (type(s.node) in (cst.Break, cst.Return) for b in stmt.blocks for s in b.stmts)
            return all(settled) and not any(ends)
    return False


def is_flag(guard: Stmt) -> bool:
    """`if args.train:`, `if step_too and scaler is not None:`"""
    assert isinstance(guard.node, cst.If)
    return not any(type(n) in (cst.Call, cst.Subscript, cst.BinaryOperation) for n in descend(guard.node.test))


def goes_backward(stmt: Stmt, events: set[int]) -> bool:
    """Whatever the conditions in it turn out to be, the graphs are freed."""
    inner = [any(goes_backward(s, events) for s in b.stmts) for b in stmt.blocks]
    if type(stmt.node) is cst.If:
        return len(inner) == 2 and all(inner)
    return id(stmt) in events or type(stmt.node) is cst.With and any(inner)
