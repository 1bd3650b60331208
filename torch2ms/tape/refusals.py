"""Gradient events that stay as they are, under a mark that says why."""

from __future__ import annotations

from dataclasses import replace

from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.clears import SOME
from torch2ms.tape.model import Closure, Event
from torch2ms.tape.plan import Plan


def refuse(event: Event, why: str, plan: Plan) -> None:
    if event.closure is not None:
        _refuse_closure(event.closure, why, plan)
        return
    names = {"backward": ("T2M110", "backward call"), "handed": ("T2M110", "call that goes backward"),
             "gradcall": ("T2M210", "torch.autograd.grad"),
             "clear": ("T2M112", "reset of gradients"), "step": ("T2M113", "optimizer step"),
             "step_closure": ("T2M114", "step with a closure")}  # fmt: skip
    code, what = names.get(event.kind, ("T2M115", "use of gradients"))
    todo = "write the statements that feed the loss as a function and take its gradient with ms.value_and_grad"
    if event.kind in ("step", "scaler_step"):
        todo = "call the optimizer with the gradients"
    elif why == SOME:
        todo = "give them an optimizer of their own, and do not call it in the steps that drop their gradients"
    elif event.kind == "clear":
        todo = "MindSpore keeps no gradients: drop it once the backward call is translated"
    for other in event.absorbed:
        plan.replaced.pop(id(other.stmt), None)
        plan.findings[:] = [f for f in plan.findings if (f.code, f.line) != ("T2M101", other.lineno)]
        refuse(replace(other, absorbed=[]), why, plan)
    plan.refused.add(id(event.node))
    for stmt in event.branches or [event.stmt]:
        line = event.lineno if stmt is event.stmt else stmt.lineno
        plan.refuse(stmt, Finding(code, Tier.REFUSED, what, why, todo + f" ({why})", line))


def _refuse_closure(closure: Closure, why: str, plan: Plan) -> None:
    """Without gradients of the closure, its steps stay as they are."""
    closure.refused = True
    todo = f"call the optimizer with the gradients of the closure ({why})"
    for event in closure.steps:
        plan.replaced.pop(id(event.stmt), None)
        plan.findings = [f for f in plan.findings if (f.code, f.line) != ("T2M106", event.stmt.lineno)]
        found = Finding("T2M114", Tier.REFUSED, "step with a closure", why, todo, event.stmt.lineno)
        plan.refuse(event.stmt, found)


def give_up(events: list[Event], why: str, plan: Plan) -> None:
    done = {id(f) for f in plan.marks}
    for event in events:
        if not event.problem and event.kind != "touch" and id(event) not in done:
            refuse(event, why, plan)


def refusal(event: Event, why: str) -> Finding:
    """Some use of gradients that has no form."""
    return Finding(
        "T2M115",
        Tier.REFUSED,
        "use of gradients",
        why,
        f"use the tuple that the gradient function returns ({why})",
        event.stmt.lineno,
    )
