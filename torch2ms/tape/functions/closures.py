"""`optimizer.step(closure)`: what the closure becomes, and what calls it.

A closure that ends in `loss.backward(); return loss` becomes the function of the loss, and the step takes its gradient.
Any other keeps its statements in their order, takes the gradient itself, and returns it behind what it returned.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.model import Closure, Event
from torch2ms.tape.plan import Plan, Text

USES = ("step", "scaler_step", "unscale", "scaler_update", "step_closure", "taken", "handed")


@dataclass(eq=False)
class Handover:
    """One `optimizer.step(closure)`."""

    event: Event
    scope: Scope
    module: ModuleInfo


def handovers(project: Project, events: dict[int, list[Event]]) -> dict[int, list[Handover]]:
    """Every step with a closure, by id of the closure's scope."""
    found: dict[int, list[Handover]] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            for event in events[id(scope)]:
                if event.kind == "step_closure" and (info := closure_of(event, scope, module, project)) is not None:
                    found.setdefault(id(info.scope), []).append(Handover(event, scope, module))
    return found


def closure_of(event: Event, scope: Scope, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The function that an optimizer's step is handed."""
    assert isinstance(event.node, cst.Call)
    return resolve(cst.Call(event.node.args[0].value), scope, module, project)


def has_form(event: Event) -> bool:
    """Steps of torch's optimizers only: what an optimizer of the program does with a closure is its own."""
    return bool(event.place) and event.value.name.startswith("torch.optim.")


def closure_in(info: FunctionInfo, events: list[Event], given: list[Handover]) -> Closure | None:
    """The closure as a function that returns its gradients, where everything about it is seen."""
    first = given[0].event
    if any(not has_form(g.event) or not _alike(g.event, first) or g.module is not info.module for g in given):
        return None
    if not all(_same_place(g.event.place, info.scope, g.scope) for g in given):
        return None
    if any(e.problem or e.kind in USES for e in events) or not any(e.kind == "backward" for e in events):
        return None
    returns = [s for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
    last = info.scope.body.stmts[-1]
    if len(returns) != 1 or returns[0] is not last or last.node.value is None:  # type: ignore[union-attr]
        return None
    if not all(second_order(g.event) or _received(g.event) for g in given):
        return None
    return Closure(first.place, first.value, last, [g.event for g in given])


def _alike(event: Event, other: Event) -> bool:
    """Both steps are of one optimizer, or of two over the same module: first Adam, then L-BFGS."""
    owns = event.value.owns
    return event.place == other.place or owns is not None and len(owns) == 1 and owns == other.value.owns


def _same_place(place: str, inner: Scope, outer: Scope) -> bool:
    """The place means the same optimizer in the closure as where the step is taken."""
    head = root(place)
    if head == "self" and inner.cls is not None:
        return outer.cls is inner.cls
    if head in inner.locals:
        return False
    around: Scope | None = inner
    while around is not None and around is not outer:
        around = around.parent
    return around is outer or head != "self" and head not in outer.locals


def second_order(event: Event) -> bool:
    """L-BFGS asks for the loss and the gradients itself, as often as it needs them."""
    return event.value.name.endswith(".LBFGS")


def _received(event: Event) -> str:
    """What takes the result of a step that stands alone, "" where it does not."""
    node = event.stmt.node
    if isinstance(node, cst.Expr) and node.value is event.node:
        return "_"
    if isinstance(node, cst.Assign) and len(node.targets) == 1 and node.value is event.node:
        return dotted(node.targets[0].target)
    return ""


def plan_step(event: Event, exported: bool, scope: Scope, module: ModuleInfo, plan: Plan) -> bool:
    """Write a step with a closure; False where it has no form."""
    assert isinstance(event.node, cst.Call)
    function = event.node.args[0].value
    differentiated = f"ms.value_and_grad({code(function)}, None, {event.place}.parameters)"
    if second_order(event):
        why = "L-BFGS is handed a function that returns the loss and the gradients"
        if event.node.args[0].keyword is not None:  # which the step of the definition has under its own name
            handed = differentiated if exported else code(function)
            plan.expressions[id(event.node)] = f"{code(event.node.func)}({handed})"
        elif exported:
            plan.expressions[id(function)] = differentiated
    elif target := _received(event):
        why = "gradient of the closure, then the step"
        grads = Writer(scope, module, plan).fresh("grads")
        form = f"ms.value_and_grad({{0}}, None, {event.place}.parameters)()" if exported else "{0}()"
        plan.replaced[id(event.stmt)] = [
            Text(f"{target}, {grads} = {form}", [function]),
            Text(f"{event.place}({grads})"),
        ]
    else:
        return False
    plan.needs |= {"ms"} if exported else set()
    plan.findings.append(Finding("T2M106", Tier.EXACT, "step with a closure", why, line=event.stmt.lineno))
    return True
