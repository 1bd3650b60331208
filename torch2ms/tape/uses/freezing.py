"""Parameters that are frozen and thawed while a program trains: whether a gradient reaches them where it counts."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import overlaps
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, STEPS, Records
from torch2ms.tape.model import ENTRY, Event, Owner
from torch2ms.tape.uses.late_thaws import named_between
from torch2ms.tape.uses.toggles import (
    NOBODY_KNOWS,
    Toggle,
    by_context,
    left_by,
    taken,
    toggles,
)


def thaws(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Parameters of an optimizer are frozen or thawed after it was made, and may be frozen where it matters."""
    trained = records.events if project.freezes_trained else ()
    steps = [e.stmt for e in trained if e.kind in STEPS and e.place == owner.place]
    around = [a for s in steps for a in s.ancestors() if type(a.node) is cst.With]
    if around and by_context(around, module, project, owner.owns, frozen=True):
        return True
    every = (*toggles(scope, module, project), *named_between(steps, scope, module, project))
    found = [t for t in every if t.place == NOBODY_KNOWS or _concerns(t, owner)]
    if not any(_in_loop(t, module) or _moved_on(t, owner, scope, module, records) for t in found):
        return False
    places = sorted({t.place for t in found})
    if NOBODY_KNOWS in places:
        return True
    frozen: list[str] = []
    for event in records.events:
        if event.kind in STEPS and event.place == owner.place:
            played = [records.events[n] for n, _ in records.held(event, owner) if n != ENTRY]
            for place in places:
                mine = [t for t in found if overlaps(t.place, place)]
                if not all(flag_at(e.stmt, mine) for e in (event, *played)):
                    frozen.append(place)
    if frozen and owner.owns is None and set(frozen) < set(places):  # the others are what it trains
        owner.assumed.add(
            f"`{owner.place}` holds no parameters of `{'`, `'.join(sorted(set(frozen)))}`, frozen where it steps"
        )
        return False
    return bool(frozen)


def thaws_by_hand(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Gradients of a network are read where parts of it may be frozen, which thaw or freeze at other times.

    The lists of its trainable parameters are of different lengths then: gradients would go to others.
    """
    mine = [e for e in records.events if e.kind in LOADS and concerns(e, owner, records.owners)]
    found = toggles(scope, module, project) if mine else []
    found = [t for t in found if t.place == NOBODY_KNOWS or _concerns(t, owner)]
    if not any(t.stmt.number > mine[0].stmt.number or _in_turns(t, mine) for t in found):
        return False
    numbers = {n for m in mine for n, _ in records.held(m, owner)} - {ENTRY}
    played = [*mine, *(records.events[n] for n in numbers)]
    places = {t.place for t in found}
    return NOBODY_KNOWS in places or not all(
        flag_at(e.stmt, [t for t in found if overlaps(t.place, place)]) for e in played for place in places
    )


def switched_behind(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Flags change between a forward and its backward call: torch looks at them then, MindSpore in the forward."""
    found = [t for t in toggles(scope, module, project) if t.place != NOBODY_KNOWS and _concerns(t, owner)]
    played = [e for e in records.events if e.kind == "backward" and owner in records.takers(e)] if found else []
    mine = {t.place: {id(o.stmt): o for o in found if overlaps(o.place, t.place)} for t in found}
    thawed = {p for p, each in mine.items() if left_by(scope.body.stmts, each) == (frozenset({True}), False)}
    return any(_runs_before(t, e, mine[t.place] if t.place in thawed else {}) for e in played for t in found)


def _runs_before(toggle: Toggle, event: Event, whole: dict[int, Toggle]) -> bool:
    """The network makes what the event goes backward from in front of the switch, which stands before the event.

    `whole` are all switches of a function that begins and ends with the parameters thawed: where they are so at the
    forward and at the backward call, what happens between does not matter.
    """
    around = (toggle.stmt, *toggle.stmt.ancestors())  # a switch that not every way passes changes flags, too
    if not toggle.stmt.number < event.stmt.number or all(s.block is not event.stmt.block for s in around):
        return False
    stmts = event.stmt.block.stmts
    wanted = set(event.stmt.all_uses)
    before = [inner for s in stmts[: stmts.index(event.stmt)] for inner in s.walk() if inner.is_small]
    for stmt in reversed(before):
        if not stmt.defs & wanted or stmt.excludes(toggle.stmt):  # one of the branches of which one runs
            continue
        if stmt.number < toggle.stmt.number and any(overlaps(toggle.place, use) for use in stmt.uses - {"self"}):
            if not whole or not _before(stmt, whole) == _before(event.stmt, whole) == {True}:
                return True
        made = stmt.defs if stmt.block is event.stmt.block else set()  # or something else made it
        wanted = (wanted - made | stmt.uses) - {"self"}
    return False


def _moved_on(toggle: Toggle, owner: Owner, scope: Scope, module: ModuleInfo, records: Records) -> bool:
    """The optimizer had the parameters before, and moves what has no gradient: by decay, or by what it remembers."""
    mine = [v for _, v in taken(toggle, scope, module) if v.place == owner.place]
    stepped = any(
        e.kind in STEPS and e.place == owner.place and e.stmt.number < toggle.stmt.number for e in records.events
    )
    return bool(mine) and (stepped or any(v.dtype == "decays" for v in mine))


def _concerns(toggle: Toggle, owner: Owner) -> bool:
    return owner.owns is None or any(overlaps(toggle.place, o) for o in owner.owns)


def _in_loop(toggle: Toggle, module: ModuleInfo) -> bool:
    """A loop other than one over the parameters themselves stands around it."""
    around = [a for a in toggle.stmt.ancestors() if a.is_loop]
    return any(not _over_parameters(a, module) for a in around)


def _in_turns(toggle: Toggle, events: list[Event]) -> bool:
    """A loop around the statement comes to one of the events as well."""
    around = {id(a) for a in toggle.stmt.ancestors() if a.is_loop}
    return any(id(a) in around for event in events for a in event.stmt.ancestors())


def _over_parameters(loop: Stmt, module: ModuleInfo) -> bool:
    if not isinstance(loop.node, cst.For):
        return False
    given = loop.node.iter
    inner = [a.value for a in given.args] if isinstance(given, cst.Call) and dotted(given.func) == "zip" else [given]
    return any(module.value(node).kind in ("params", "named_params") for node in inner)


def flag_at(stmt: Stmt, found: list[Toggle]) -> bool:
    """True where every way to a statement leaves the parameters thawed."""
    return _before(stmt, {id(t.stmt): t for t in found}) == {True}


def _before(stmt: Stmt, found: dict[int, Toggle]) -> frozenset[bool]:
    """The flags that are possible when a statement begins."""
    flags, passes = left_by(stmt.block.stmts[: stmt.block.stmts.index(stmt)], found)
    if not passes:
        return flags
    around = stmt.block.owner
    if around is None:
        return flags | {True}
    flags |= _before(around, found)
    return flags | left_by(stmt.block.stmts, found)[0] if around.is_loop else flags
