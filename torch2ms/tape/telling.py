"""Findings on gradient calls: the form that was chosen, and what it assumes."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap
from torch2ms.findings import Finding, Tier
from torch2ms.tape.chosen_networks import chooses
from torch2ms.tape.forms.calls import Call
from torch2ms.tape.ledger.records import LOADS
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.verdicts import Verdicts


def tell_call(call: Call, verdicts: Verdicts, plan: Plan) -> None:
    kept = ", ".join(f"`{o.variable}`" for o in call.owners if o.stored)
    tier, why = Tier.EXACT, call.form + (f"; gradients stay in {kept}, where other calls find them" if kept else "")
    why += "; what its forward shares with another one runs in both" if call.beside else ""
    notes = sorted({n for o in call.owners for n in o.assumed} | call.assumed | call.region.assumed)
    if _goes_on(call.event.stmt):
        notes.append("no exception leaves the forward (MindSpore's next one may fail where it indexes a tensor)")
    if notes:
        tier, why = Tier.ASSUMED, why + "; assumed: " + ", ".join(notes)
    if any(_partly(call, o, verdicts) for o in call.owners):
        tier, why = (
            Tier.ASSUMED,
            why
            + "; assumed: every parameter of the optimizer takes part in the loss"
            + " (torch skips those without gradient)",
        )
    others = verdicts.project.leaving - {id(verdicts.scope)}
    if any(verdicts.records.entry_seen(call.event, o, bool(others)) for o in call.owners):
        tier, why = Tier.ASSUMED, why + "; assumed: the gradients are empty when the function is called"
    if verdicts.handed is not None and not verdicts.handed.called:
        tier, why = Tier.ASSUMED, why + f"; assumed: callers outside hand `{verdicts.handed.playback}` over as well"
        why += "" if verdicts.handed.clears else ", and clear the gradients before each call"
    what = "backward call" if call.event.handing is None else "call that goes backward"
    for stmt in call.event.branches or [call.event.stmt]:
        plan.findings.append(Finding("T2M101", tier, what, why, line=stmt.lineno))
    plan.needs.add("ms")


def tell_dead(event: Event, verdicts: Verdicts, plan: Plan) -> None:
    forward = [r for r in event.roots if not dotted(r) and not event.lifted and not event.branches]
    plan.replaced[id(event.stmt)] = [Text("{0}", [r]) for r in forward]
    why = "nobody reads the gradients it stores: the forward stays, the backward goes"
    tier = Tier.EXACT
    if any(e.kind in LOADS for e in verdicts.records.events):
        tier, why = Tier.ASSUMED, why + "; assumed: no optimizer holds the parameters behind it"
    elif verdicts.scope.is_function and verdicts.testing() and not verdicts.kept_inside(event):
        tier, why = Tier.ASSUMED, why + "; assumed: no other test looks at them"
    elif verdicts.scope.is_function and not verdicts.project.reads_gradients:
        tier, why = Tier.ASSUMED, why + "; assumed: nothing outside the converted files reads them"
    plan.findings.append(Finding("T2M104", tier, "backward call without a reader", why, line=event.stmt.lineno))


def _goes_on(stmt: Stmt) -> bool:
    """A failing forward is passed over: `try: ...; loss.backward()`, `except RuntimeError: continue`."""
    inner = stmt
    for around in stmt.ancestors():
        node = around.node
        if around.is_loop:
            return False
        if isinstance(node, cst.Try) and inner.block is around.blocks[0]:
            return not all(_raises(h.body) for h in node.handlers)
        inner = around
    return False


def _raises(body: cst.BaseSuite) -> bool:
    last = body.body[-1] if body.body else None
    line = last.body[-1] if isinstance(last, cst.SimpleStatementLine) else last
    return isinstance(line, cst.Raise)


def _partly(call: Call, owner: Owner, verdicts: Verdicts) -> bool:
    """Some parameters may get no gradient in torch; MindSpore gives zeros, and momentum or decay moves them."""
    if owner.kind != "optimizer" or owner.plain:
        return False
    real = frozenset(d for d in call.event.value.deps if not d.startswith(("@", "^")))
    missing = (
        owner.owns is not None
        and real
        and any(not any_overlap(frozenset({o}), real) for o in owner.owns if not o.startswith("^"))
    )
    if missing or verdicts.module.conditional:
        return True
    return chooses([*call.region.all, call.event.stmt], verdicts.scope, verdicts.module, verdicts.project)
