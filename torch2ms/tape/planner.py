"""Gathers the gradient events of one scope, and plans the code that takes their place."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.tape.forwards import Outside
from torch2ms.tape.functions.clearing import called_clears, clearing, unasked
from torch2ms.tape.functions.episodes import plan_episode
from torch2ms.tape.functions.exports import plan_closure, plan_export
from torch2ms.tape.functions.lifting import called_events, lifted
from torch2ms.tape.functions.own_steps import around_torchs
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.functions.taking import plan_definition
from torch2ms.tape.ledger.events import find
from torch2ms.tape.ledger.idle import drop_idle
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan
from torch2ms.tape.refusals import give_up
from torch2ms.tape.scope_planner import ScopePlanner
from torch2ms.tape.staying import mark_steps
from torch2ms.tape.uses.scaling import joined


def plan_scope(scope: Scope, module: ModuleInfo, plan: Plan, lifting: Lifting, project: Project) -> None:
    """Add the edits for every gradient event of the scope to the plan."""
    export = lifting.exports.get(id(scope))
    if export is not None:
        plan_export(export, plan)
        return
    if (episode := lifting.episodes.get(id(scope))) is not None:
        plan_episode(episode, plan)
        return
    events = _events(scope, module, plan, lifting, project)
    if not events and (idle := lifting.taken.get(id(scope))) is not None:  # another version of it uses gradients
        plan_definition(idle, plan)
    if type(scope.node) is cst.ClassDef:  # it runs among the steps around it, and its functions see no name of it
        give_up(events, "it stands in the body of a class, outside of methods", plan)
        return
    single = len(project.modules) == 1
    if events := drop_idle(unasked(called_clears(events, lifting), plan), scope, module, plan, single):
        handed, taken = lifting.handed.get(id(scope)), lifting.taken.get(id(scope))
        planner = ScopePlanner(
            scope, module, plan, joined(events, scope, module), project, lifting.callee, handed, taken,
            lifting.stores.of(scope),
        )  # fmt: skip
        planner.outside = Outside(lifting.incomplete.get(id(scope), ""), lifting.left)
        if place := lifting.stores.again.get(id(scope)):
            why = f"an optimizer made over the parameters of `{place}` before may have left gradients in them"
            planner.refuse_problems()
            give_up(planner.records.events, why, plan)
            return
        planner.run()
        lifting.stores.used |= planner.used
        lifting.stores.filled |= planner.filled
        mark_steps(events, scope, module, plan, lifting, project)


def _events(scope: Scope, module: ModuleInfo, plan: Plan, lifting: Lifting, project: Project) -> list[Event]:
    """What the scope does to gradients itself, and what the functions that it calls do, in the order of the program."""
    own = find(scope, module) if id(scope) not in lifting.without else []
    if own and id(scope) not in lifting.taken and around_torchs(scope, module):
        plan.steps.add(id(scope.node))  # refused: else `optimizer(grads)` would go past it, to the class above
    closures = [e for e in own if e.kind == "step_closure" and plan_closure(e, scope, module, plan, lifting, project)]
    closure = lifting.closures.get(id(scope))
    events = [
        *clearing(scope, module, lifting),
        *(e for e in own if e not in closures),
        *lifted(scope, module, lifting),
        *called_events(scope, module, lifting),
        *([closure.load()] if closure is not None else []),
        *lifting.stores.touches.get(id(scope), ()),
    ]
    left = [e for e in sorted(events, key=lambda e: e.stmt.number) if not _cleared_there(e, lifting)]
    return lifting.spills.added(left, scope, module) if lifting.spills is not None else left


def _cleared_there(event: Event, lifting: Lifting) -> bool:
    """A call of a method that clears what an optimizer keeps: it does so itself, or was translated before."""
    info = lifting.callee.get(id(event.node)) if event.kind == "clear" and not event.lifted else None
    if info is None:
        return False
    return id(info.scope) in lifting.stores.owners or info.module.uses_mindspore and not find(info.scope, info.module)
