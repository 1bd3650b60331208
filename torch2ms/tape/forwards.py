"""The forward of a gradient event, and why it cannot become a function where it cannot."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.boundness import unbound_before
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.tape.crossing import crossing
from torch2ms.tape.forward.asked import ASKED, note_asked
from torch2ms.tape.forward.computed import computes
from torch2ms.tape.forward.dependents import dependents
from torch2ms.tape.forward.effects import effects
from torch2ms.tape.forward.layers import through_layers
from torch2ms.tape.forward.left import DEPENDING
from torch2ms.tape.forward.partial import left_out_at_times, left_out_of_networks, picked_anew
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.forward.shared import Regions, together
from torch2ms.tape.forward.stashes import Stash, feeding, related, used_among
from torch2ms.tape.forward.unseen import through_unseen
from torch2ms.tape.forward.watched import unwatched
from torch2ms.tape.functions.handing import more_than
from torch2ms.tape.ledger.hooks import has_hooks
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, STEPS
from torch2ms.tape.left_out import graphless
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.uses.toggles import by_context
from torch2ms.tape.verdicts import Verdicts


@dataclass
class Outside:
    """What other functions do to the graphs of this one."""

    incomplete: str = ""  # why the calls around it and this function are no episode
    left: list[Stash] = field(default_factory=list)  # lists outside of functions that hold graphs


LEFT_BEFORE = "the step comes when a `with` block has thawed parameters again: it would move those without a gradient"
SWITCHED = "a `with` block of its forward freezes or thaws parameters, at which MindSpore looks as the forward begins"
BY_CALLER = "the loss is made by the caller of this function"


def forward_of(
    event: Event, wanted: list[Owner], finder: Finder, verdicts: Verdicts, outside: Outside
) -> tuple[Region, str]:
    """The forward of an event, and why it cannot be one, "" if it can."""
    if verdicts.played(event):
        assert verdicts.handed is not None
        region = finder.find(
            event, None, active=dependents([verdicts.handed.root], event, verdicts.scope, verdicts.module, entry=True)
        )
        passed = event.handing is not None and (region.stmts or not isinstance(event.roots[0], cst.Name))
        if other := more_than(verdicts.handed.root, region, verdicts.module):
            return region, f"the loss depends on `{other}` beside what callers made"
        return region, region.problem or ("the loss is changed before it is handed on" if passed else "")
    owns: frozenset[str] | None = frozenset()
    for owner in wanted:
        owns = None if owner.owns is None or owns is None else owns | owner.owns
    if event.episode is not None:
        region = Region(event, event.stmt.block, list(event.episode.stmts), after=list(event.episode.after))
    else:
        region = finder.find(event, owns if wanted else None)
        if left := _left_elsewhere(event, verdicts, outside.left):
            return region, outside.incomplete or f"`{left}` brings along what other functions left in it"
    if region.problem:
        return region, region.problem
    if event.kind == "handed" and not region.all and isinstance(event.roots[0], cst.Name):
        return region, "how the loss depends on the parameters is not seen"
    if (
        wanted
        and all(d.startswith("@") for d in verdicts.records.root_deps(event))
        and not any(o.kind == "leaf" for o in wanted)
    ):
        active, models = through_unseen(event, verdicts.scope, verdicts.module)
        if event.kind == "backward" and not models:
            active, kept = through_layers(event, verdicts.scope, verdicts.module, verdicts.project)
            if kept:
                for owner in wanted:
                    owner.assumed.add(f"the model that is called fills `{kept}` of its layers")
                region = finder.find(event, None, active=active)
                return region, region.problem
        if not models or event.kind != "backward":
            return region, outside.incomplete or "how the loss depends on the parameters is not seen"
        if picking := picked_anew(models, event, wanted, verdicts.project):
            return region, DEPENDING.format(picking)
        for owner in wanted:
            owner.assumed.add(f"`{'`, `'.join(models)}` holds the parameters of `{owner.place}`")
        region = finder.find(event, None, active=active)
        return region, region.problem
    if place := crossing(verdicts, event, region, owns if wanted else None):
        return region, f"`{place}` brings a graph along that is made elsewhere"
    if asked := note_asked(event, region, wanted, verdicts.records, verdicts.project):
        return region, "a called function " + ASKED.format(asked)
    if _only_looked_at(event, wanted, verdicts):
        return region, "" if not wanted or computes(region, verdicts.module, verdicts.project) else BY_CALLER
    if why := _left_out(event, region, wanted, verdicts):
        return region, why
    if wanted and by_context((i for s in region.all for i in s.walk()), verdicts.module, verdicts.project, owns):
        return region, SWITCHED
    if wanted and by_context(_left_before(event, verdicts), verdicts.module, verdicts.project, owns):
        return region, LEFT_BEFORE
    if wanted and not computes(region, verdicts.module, verdicts.project):
        return region, BY_CALLER
    return region, ""


def _left_out(event: Event, region: Region, wanted: list[Owner], verdicts: Verdicts) -> str:
    """Why steps would move layers that torch leaves alone; "" where the optimizers leave them alone as well."""
    around = verdicts.module, verdicts.project
    records = verdicts.records
    steps = [e for e in records.events if e.kind in STEPS]
    number = records.number.get(id(event))  # none of two that were put together
    if number is not None and not event.lifted:  # gradients that are only looked at move nothing
        mine = [(o, [e for e in steps if concerns(e, o, records.owners)]) for o in wanted]
        wanted = [o for o, own in mine if not own or any(n == number for e in own for n, _ in records.held(e, o))]
    left = [*left_out_at_times(event, region, wanted, steps, *around)]
    left += left_out_of_networks(event, region, wanted, steps, *around)
    idle = {**verdicts.idle.get(id(event), {}), **{each.code: each.why for each in left}}
    region.idle = {p: why for p, why in idle.items() if not any(p.startswith((f"{o}.", f"{o}[")) for o in idle if o)}
    if not region.idle:
        return ""
    named = {root(p) for p in region.idle} & event.stmt.block.scope.locals
    if "" in region.idle or unbound_before(named, event.stmt) or unwatched(region, *around):
        return next(iter(region.idle.values()))
    verdicts.project.idle.add(verdicts.module.name)
    return "" if verdicts.module.skips else next(iter(region.idle.values()))


def _left_before(event: Event, verdicts: Verdicts) -> Iterator[Stmt]:
    """The `with` blocks around a backward call that end before an optimizer steps with its gradients."""
    records = verdicts.records
    number, owners = records.number.get(id(event)), [o for o in records.owners if o.kind == "optimizer"]
    asked = [(e, o) for e in records.events if e.kind in STEPS for o in owners if concerns(e, o, records.owners)]
    steps = [e.stmt for e, o in asked if any(n == number for n, _ in records.held(e, o))]
    for around in (a for a in event.stmt.ancestors() if type(a.node) is cst.With):
        within = set(map(id, around.walk()))
        if any(id(step) not in within for step in steps):
            yield around


def _only_looked_at(event: Event, owners: list[Owner], verdicts: Verdicts) -> bool:
    """Loops and comprehensions of this scope read what the event stores, and no optimizer steps with it."""
    records = verdicts.records
    number = records.number.get(id(event))  # none of two that were put together
    leaving = event.lifted or event.handing is not None or event.closure is not None or event.episode is not None
    if number is None or leaving or any(o.stored for o in owners) or any(e.kind == "touch" for e in records.events):
        return False
    others = [e for e in records.events if e.kind in LOADS and e.kind not in ("grad_loop", "leaf_grad")]
    return not any(n == number for e in others for o in owners for n, _ in records.held(e, o))


def fit_together(
    pair: tuple[Event, Event], regions: Regions, takers: dict[int, list[Owner]], finder: Finder, verdicts: Verdicts,
    outside: Outside, compiled: bool,
) -> bool:  # fmt: skip
    """One function may hold both forwards, and those of all other events stay what they are.

    What stood between may come along where it only computes; not into functions that may be `compiled`. Hooks see each
    of the two gradients, not their sum.
    """
    if any(has_hooks(m) for m in verdicts.project.modules.values()):
        return False
    first, second = pair
    both, trial = together(second, first), finder.without(first)
    alone = {id(s) for e, r in regions if e in (first, second) for s in r.all}
    found: Regions = []
    for event, before in regions:
        if event is first:
            continue
        region, problem = forward_of(both if event is second else event, takers[id(event)], trial, verdicts, outside)
        if problem or region.guards != before.guards or region.cut != before.cut or region.late != before.late:
            return False
        if event is not second and region.all != before.all:
            return False
        more = [s for s in region.all if event is second and id(s) not in alone]
        if more and compiled or not all(_only_computes(s, takers[id(event)], verdicts.module) for s in more):
            return False
        for stmt in region.all:
            trial.taken.setdefault(id(stmt), region)
        found.append((event, region))
    return verdicts.overlap(found, trial) is None


def _only_computes(stmt: Stmt, owners: list[Owner], module: ModuleInfo) -> bool:
    """Nothing is printed or called that is not known, and the weights stay what they are."""
    if not stmt.is_small or effects(stmt, module) & {"io", "mode"}:
        return False
    weights = {root(place) for o in owners for place in (o.place, *(o.owns or ()))}
    return not any(root(m) in weights for m in stmt.all_muts)


def _left_elsewhere(event: Event, verdicts: Verdicts, left: list[Stash]) -> str:
    """A list outside of this function, filled with graphs by others, that the loss is made of."""
    if not left or event.lifted:
        return ""
    roots = set().union(*(expression_uses(r, event.stmt) for r in event.roots))
    used = feeding(event.stmt, roots)
    near = {id(m) for m in related(verdicts.project, verdicts.module)}
    others = verdicts.local_names() | {d[1:] for d in graphless(verdicts.scope, verdicts.module)}
    for stash in left:
        elsewhere = [f for f in stash.fills if f.scope is not verdicts.scope and id(f.module) in near]
        if elsewhere and used_among(stash, used) and not (stash.bare and stash.name in others):
            return stash.name
    return ""
