"""Functions that go backward and leave the gradients to their callers: what such a function hands out."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.forms.interface import NOT_RETURNED
from torch2ms.tape.model import Event

# what uses gradients where it stands; unlike what the ledger lets load them, a step with a closure is among them
USES = ("step", "scaler_step", "clip_norm", "clip_value", "grad_loop", "leaf_grad", "unscale", "scaler_update",
        "step_closure")  # fmt: skip


@dataclass(eq=False)
class Export:
    """What a function does to gradients on behalf of its callers."""

    backward: Event
    clears: list[Event]
    returns: Stmt | None  # the return statement that hands out the root already
    closure: bool = False
    called: bool = False  # ... which other optimizers step behind a call of, too
    beside: cst.BaseExpression | None = None  # what it returns instead: that leaves the function beside the root


def export_of(info: FunctionInfo, events: list[Event]) -> Export | None:
    """The function has one unconditional backward call and leaves the gradients to others."""
    backwards = [e for e in events if e.kind == "backward"]
    if len(backwards) != 1 or any(e.kind in USES or e.kind == "gradcall" or e.problem for e in events):
        return None
    event = backwards[0]
    if event.stmt.block is not info.scope.body or len(event.roots) != 1 or event.inputs is not None:
        return None
    if any(c is not None for c in event.cotangents):
        return None
    name = dotted(event.roots[0])
    if not name or root(name) in info.scope.params and name == root(name):
        return None
    if not all(_surely_before(e.stmt, event.stmt) for e in events if e.kind == "clear"):
        return None
    returns = [s for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
    after = info.scope.body.stmts[info.scope.body.stmts.index(event.stmt) + 1 :]
    if not returns:
        if any(name in s.all_defs for s in after):
            return None
        return Export(event, [e for e in events if e.kind == "clear"], None)
    last = returns[0]
    if (
        len(returns) == 1
        and last in after
        and isinstance(last.node, cst.Return)
        and last.node.value is not None
        and dotted(last.node.value) == name
    ):
        return Export(event, [e for e in events if e.kind == "clear"], last)
    value = last.node.value if isinstance(last.node, cst.Return) else None
    alone = len(returns) == 1 and last is after[-1] if after else False
    if not alone or value is None or any(name in s.all_defs for s in after) or event.scaler:
        return None
    parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
    if any(info.module.value(p).kind in NOT_RETURNED for p in parts):
        return None
    return Export(event, [e for e in events if e.kind == "clear"], last, beside=value)


def _surely_before(stmt: Stmt, other: Stmt) -> bool:
    """The statement runs before the other one in every call of their function."""
    return stmt.number < other.number and all(isinstance(a.node, cst.For) for a in stmt.ancestors())
