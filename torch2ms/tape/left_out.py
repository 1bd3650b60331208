"""Layers that an optimizer would move although no backward call reaches them: torch leaves them alone."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.values import NO_DEPS, any_overlap
from torch2ms.tape.forward.partial import never_recorded
from torch2ms.tape.forward.turning import same_at_every_step
from torch2ms.tape.forward.unreached import steps_elsewhere, unreached
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.model import Event, Owner

AT_TIMES = "`{}` has a gradient at some steps only: torch passes over it at others, MindSpore's optimizer moves it"


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
    plain = graphless(scope, module)
    given = any(d.startswith("@") and d not in plain for d in reached)  # it may bring the graph of a layer along
    known = {v.place for v in module.values.values() if v.kind == "module" and v.name and v.place and not v.items}
    missing = [o for o in sorted(owner.owns) if o in known and not any_overlap(frozenset({o}), reached)]
    layers = _layers(event, owner, reached, given, plain, scope, module, project, records)
    return LeftOut([*silent, *([] if given else missing), *layers.surely], layers.perhaps)


def graphless(scope: Scope, module: ModuleInfo) -> frozenset[str]:
    """The parameters under which every caller hands over a tensor without a graph, as the places of what they bring."""
    info = module.functions.get(id(scope))
    given = info.args if info is not None else {}
    return frozenset(f"@{name}" for name, value in given.items() if value.kind == "tensor" and not value.deps)


def _layers(
    event: Event,
    owner: Owner,
    reached: frozenset[str],
    given: bool,
    plain: frozenset[str],
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
    if given and not others or any(d.startswith("^" if others else ("^", "@")) for d in ever - plain):
        return LeftOut()
    if not decays and not others and ever == reached:
        return LeftOut()
    parts = unreached(owner, reached, NO_DEPS if decays or others else ever, scope, module, project)
    found = [(p, sure) for p, sure in parts if decays or not others or "[" not in p]  # run by what goes over them
    return LeftOut([p for p, sure in found if sure], [p for p, sure in found if not sure])


def filled_at_times(event: Event, owner: Owner, filling: list[Event], records: Records, project: Project) -> str:
    """Why a step is not translated: a part of an optimizer gets gradients from a backward call under a condition alone,
    beside others that get them at every step; "" if there is none."""
    if event.kind not in STEPS or owner.kind != "optimizer" or owner.plain or owner.owns is None or len(filling) < 2:
        return ""
    around = {id(a) for a in event.stmt.ancestors()}
    asked = {id(e): [a for a in e.stmt.ancestors() if type(a.node) is cst.If and id(a) not in around] for e in filling}
    sure = _reached([e for e in filling if not asked[id(e)]], records)
    for branch in {id(a): a for tests in asked.values() for a in tests}.values():
        sure |= _either_way(branch, filling, records)
    for each in filling if sure else ():
        for place in sorted(d for d in records.root_deps(each) if not any_overlap(frozenset({d}), sure)):
            if any_overlap(frozenset({place}), owner.owns):
                tests = [a.node.test for a in asked[id(each)] if isinstance(a.node, cst.If)]
                names = [{root(u) for u in expression_uses(t, each.stmt)} for t in tests]
                within = each, owner, records.module, project
                if not all(same_at_every_step(t, asks, *within) for t, asks in zip(tests, names, strict=True)):
                    return AT_TIMES.format(place)
    return ""


def _reached(filling: list[Event], records: Records) -> frozenset[str]:
    return frozenset().union(*(records.root_deps(e) for e in filling))


def _either_way(branch: Stmt, filling: list[Event], records: Records) -> frozenset[str]:
    """What the backward calls in both branches of a condition reach."""
    ways = [{id(s) for s in block.walk()} for block in branch.blocks]
    found = [_reached([e for e in filling if id(e.stmt) in way], records) for way in ways]
    return found[0] & found[1] if len(found) > 1 else frozenset()
