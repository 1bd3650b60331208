"""Optimizers that never see a gradient: demonstrations of learning rate schedules."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.names import is_foreign
from torch2ms.analysis.program import Scope
from torch2ms.analysis.project import ModuleInfo
from torch2ms.analysis.torchcalls import HOST_LIBRARIES
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.events import Event
from torch2ms.tape.plan import Plan

_GRADIENTS = re.compile(r"backward|\bgrad\b|autograd")


def drop_idle(events: list[Event], scope: Scope, module: ModuleInfo, plan: Plan) -> list[Event]:
    """Leave out `optimizer.step()` of a script in which nothing ever makes a gradient: torch skips every parameter."""
    if not scope.is_module or _GRADIENTS.search(module.source) or not _alone(module):
        return events
    idle = [e for e in events if e.kind in ("step", "clear") and isinstance(e.stmt.node, cst.Expr) and _own(e)]
    if len(idle) != len(events):
        return events
    for event in idle:
        plan.replaced[id(event.stmt)] = []
        why = "nothing in this program makes a gradient, so there is nothing to apply or to clear: dropped"
        plan.findings.append(Finding("T2M108", Tier.EXACT, "optimizer without gradients", why, line=event.stmt.lineno))
    return []


def _own(event: Event) -> bool:
    return event.value.kind in ("optimizer", "module") and not event.value.likely


def _alone(module: ModuleInfo) -> bool:
    """Nothing but torch and libraries that know nothing of gradients is imported."""
    targets = module.imports.table.values()
    return all(is_foreign(name) or name.partition(".")[0] in HOST_LIBRARIES for name in targets)
