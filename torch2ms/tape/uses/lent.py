"""Gradients that a loop fills with tensors which have another name: what writes into `p.grad` writes into them.

`for p, g in zip(params, grads): p.grad = g`, then a clip: torch's `grads` are clipped as well.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.model import Event, Owner

WRITING = ("clip_norm", "clip_value")


def lent(event: Event, events: list[Event], owner: Owner, owners: list[Owner]) -> str:
    """The name that shows in torch what an event writes into the gradients of an owner, and is used again."""
    if event.kind not in WRITING and not event.writes or event.kind == "fill":
        return ""
    for fill in events:
        if fill.kind == "fill" and _behind(event.stmt, fill.stmt) and concerns(fill, owner, owners):
            name = _given(fill)
            stmts = fill.stmt.block.scope.body.walk() if name else []
            if any(name in s.uses and _names(s, name) for s in stmts if _behind(s, fill.stmt)):
                return name
    return ""


def _given(fill: Event) -> str:
    """`grads` of a loop over `zip(params, grads)` that does nothing but hand them over."""
    loop, body = fill.node, fill.stmt.blocks[0].stmts
    if not isinstance(loop, cst.For) or not isinstance(loop.target, cst.Tuple) or not isinstance(loop.iter, cst.Call):
        return ""
    names = [dotted(e.value) for e in loop.target.elements]
    for stmt in body:
        value = dotted(stmt.node.value) if isinstance(stmt.node, cst.Assign) else ""
        if value in names and len(names) == len(loop.iter.args):
            return dotted(loop.iter.args[names.index(value)].value)
    return ""


def _names(stmt: Stmt, name: str) -> bool:
    """The statement says the name; `p.grad /= 3` uses what it stands for as well."""
    return any(isinstance(n, (cst.Name, cst.Attribute)) and dotted(n) == name for n in stmt.nodes)


def _behind(stmt: Stmt, loop: Stmt) -> bool:
    return stmt.number > loop.number and not any(a is loop for a in stmt.ancestors())
