"""Steps whose backward call stays as it is: they get a mark, too."""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.tape.forward.unseen import unseen_steps
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.ledger.events import find
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan
from torch2ms.tape.refusals import refuse

STAYS = "the backward call before it stays as it is"


def mark_steps(
    events: list[Event], scope: Scope, module: ModuleInfo, plan: Plan, lifting: Lifting, project: Project
) -> None:
    """A step that a method takes has no gradients either where the backward call before it stays as it is.

    Nor has the step of something that is not seen: `self.optimizers[name].step()`.
    """
    staying = [e for e in events if e.kind == "backward" and id(e.node) in plan.refused]
    if not staying:
        return
    for stmt, call in (found for event in staying for found in unseen_steps(event, scope, module, project)):
        if id(call) not in plan.refused and id(stmt) not in plan.replaced and lifting.callee.get(id(call)) is None:
            refuse(Event("step", stmt, call), STAYS, plan)
    for stmt in scope.body.walk():
        for call in stmt.calls:
            callee = lifting.callee.get(id(call))
            if callee is None or id(call) in plan.refused or id(stmt) in plan.replaced or id(call) in plan.expressions:
                continue
            kinds = {e.kind for e in find(callee.scope, callee.module)}
            if kinds & {"step", "scaler_step"} and "backward" not in kinds:
                refuse(Event("step", stmt, call), STAYS, plan)
