"""Layers that an optimizer would move although no backward call reaches them: torch leaves them alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.values import NO_DEPS, any_overlap
from torch2ms.tape.forward.partial import never_recorded
from torch2ms.tape.forward.unreached import steps_elsewhere, unreached
from torch2ms.tape.ledger.event import Event
from torch2ms.tape.ledger.ledger import Owner
from torch2ms.tape.ledger.records import STEPS, Records


@dataclass
class LeftOut:
    """The places of such layers, and of those that something else may run with them."""

    surely: list[str] = field(default_factory=list)
    perhaps: list[str] = field(default_factory=list)


def left_out(
    event: Event,
    owner: Owner,
    reached: frozenset[str],
    scope: Scope,
    module: ModuleInfo,
    project: Project,
    records: Records,
) -> LeftOut:
    """What an optimizer holds beside what the losses depend on that `reached` it."""
    fills = event.kind in STEPS or owner.stored and event.kind == "backward"
    if owner.kind != "optimizer" or owner.plain or owner.owns is None or not fills:
        return LeftOut()
    if owner.in_turn & reached:
        owner.assumed.add(f"every module that `{owner.place}` holds has had its turn when it steps")
        return LeftOut()
    silent: list[str] = []
    if event.value.dtype == "decays" and not project.freezes:  # it may hold what is not frozen alone
        if part := never_recorded(owner, scope, module):
            silent = [part]
    if not reached or any(d.startswith("^") for d in reached):
        return LeftOut(silent)
    given = any(d.startswith("@") for d in reached)  # what nobody is seen to give a graph, it hardly has
    known = {v.place for v in module.values.values() if v.kind == "module" and v.name and v.place and not v.items}
    missing = [o for o in sorted(owner.owns) if o in known and not any_overlap(frozenset({o}), reached)]
    layers = _layers(event, owner, reached, given, scope, module, project, records)
    return LeftOut([*silent, *([] if given else missing), *layers.surely], layers.perhaps)


def _layers(
    event: Event,
    owner: Owner,
    reached: frozenset[str],
    given: bool,
    scope: Scope,
    module: ModuleInfo,
    project: Project,
    records: Records,
) -> LeftOut:
    """The layers that no loss of a step depends on, where decay or what other losses left moves them."""
    if event.kind not in STEPS or project.freezes:
        return LeftOut()
    decays = event.value.dtype == "decays"
    filling = [e for e in records.events if e.kind in ("backward", "handed")]
    ever = frozenset().union(*(records.root_deps(e) for e in filling if owner in records.takers(e)))
    others = steps_elsewhere(owner.place, scope, module, project)  # behind losses that reach more
    if given and not others or any(d.startswith("^" if others else ("^", "@")) for d in ever):
        return LeftOut()
    if not decays and not others and ever == reached:
        return LeftOut()
    parts = unreached(owner, reached, NO_DEPS if decays or others else ever, scope, module, project)
    found = [(p, sure) for p, sure in parts if decays or not others or "[" not in p]  # run by what goes over them
    return LeftOut([p for p, sure in found if sure], [p for p, sure in found if not sure])
