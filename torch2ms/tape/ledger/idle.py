"""What never sees a gradient: the optimizers of demonstrations of schedules, clippings before the backward call."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.torchcalls import HOST_LIBRARIES
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan

_GRADIENTS = re.compile(r"backward|\bgrad\b|autograd")


def drop_idle(events: list[Event], scope: Scope, module: ModuleInfo, plan: Plan, single: bool) -> list[Event]:
    """Leave out `optimizer.step()` of a script in which nothing ever makes a gradient: torch skips every parameter.

    `single`: the script is the whole project, so that nobody else calls its functions.
    """
    if not events or not (scope.is_module or single) or module.says(_GRADIENTS) or not _alone(module):
        return events
    idle = [e for e in events if e.kind in ("step", "clear") and isinstance(e.stmt.node, cst.Expr) and _own(e)]
    if not scope.is_module:  # the optimizer of the script, whoever calls the function
        idle = [e for e in idle if e.place in module.scope.locals and e.place not in scope.locals | set(scope.params)]
    if len(idle) != len(events):
        return events
    for event in idle:
        plan.replaced[id(event.stmt)] = []
        why = "nothing in this program makes a gradient, so there is nothing to apply or to clear: dropped"
        plan.findings.append(Finding("T2M108", Tier.EXACT, "optimizer without gradients", why, line=event.stmt.lineno))
    return []


def drop_early(records: Records, plan: Plan) -> bool:
    """Leave out clippings before the backward call, of gradients that were cleared: there is nothing to clip yet."""
    early = [e for e in records.events if e.kind in ("clip_norm", "clip_value") and _of_nothing(e, records)]
    for event in early:
        plan.replaced[id(event.stmt)] = []
        what = "clip_grad_norm_" if event.kind == "clip_norm" else "clip_grad_value_"
        why = "the gradients are cleared by then, backward comes later: nothing to clip, dropped"
        plan.findings.append(Finding("T2M108", Tier.EXACT, what, why, line=event.stmt.lineno))
    if early:
        records.read([e for e in records.events if e not in early])
    return bool(early)


def _of_nothing(event: Event, records: Records) -> bool:
    """Nobody asks for the norm, and no gradients are there: not of this function, nor any that callers left."""
    if not isinstance(event.stmt.node, cst.Expr) or event.stmt.node.value is not event.node:
        return False
    meant = [o for o in records.owners if owners.concerns(event, o, records.owners)]
    known = all(o.before.get(records.number[id(event)]) is not None for o in meant)
    return bool(meant) and known and not any(o.stored or records.held(event, o) for o in meant)


def _own(event: Event) -> bool:
    return event.value.kind in ("optimizer", "module") and not event.value.likely


def _alone(module: ModuleInfo) -> bool:
    """Nothing but torch and libraries that know nothing of gradients is imported."""
    targets = module.imports.table.values()
    return all(is_foreign(name) or name.partition(".")[0] in HOST_LIBRARIES for name in targets)
