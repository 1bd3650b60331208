"""Backward calls that share a forward: one function returns the sum of their roots, if each owner gets the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.liveness import exposed, read_after
from torch2ms.analysis.program.structure import Stmt
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forward.effects import leaves
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan

Regions = list[tuple[Event, Region]]


def complete(regions: Regions) -> None:
    """Give forwards that share statements what these need of each other's: both run them, neither hands it on."""
    for _, region in regions:
        for _, other in regions:
            within = {id(s) for s in region.stmts}
            if other is region or other.block is not region.block or not within & {id(s) for s in other.stmts}:
                continue
            both = {s.number: s for s in (*region.stmts, *other.stmts, region.event.stmt, other.event.stmt)}
            read = read_after(region.block, [both[number] for number in sorted(both)], -1)
            for stmt in reversed(other.stmts):
                own = {root(d) for d in stmt.all_defs}
                if id(stmt) not in within and own & set(exposed(region.stmts)) and not own & read:
                    region.stmts = sorted([*region.stmts, stmt], key=lambda s: s.number)


def join(regions: Regions, takers: dict[int, list[Owner]], records: Records, plan: Plan) -> bool:
    """Join the first two that can be; True if any were."""
    for (first, one), (second, two) in zip(regions, regions[1:], strict=False):
        shared = {id(s) for s in one.all} & {id(s) for s in two.all}
        if not (shared or _interleaved(one, two)) or one.guards or two.guards:
            continue
        if not _alike(first, second) or not _joinable(first, second, takers) or _may_end(first, second):
            continue
        if (first.inputs or second.inputs) and {*map(id, takers[id(first)])} != {*map(id, takers[id(second)])}:
            continue  # each reaches parameters of its own
        waits = not _changed(first, second) & {root(u) for u in first.stmt.uses}  # the root is the same later
        inner = {id(e) for e in records.events if e.kind == "gradcall" and e.create_graph and e.stmt in two.all}
        if waits and all(id(e) in inner for e in _between(first, second, records)):  # a penalty on its gradient
            absorb(second, first, "one function with the next: it returns the sum", records, plan)
            return True
        if (clears := _brought_forward(first, second, two, takers, records)) is not None:
            for clear in clears:
                _move(clear, first, records, plan)
            why = "one function with the one before: what is recorded then does not change until here"
            absorb(first, second, why, records, plan)
            return True
    return False


def apart(region: Region, others: list[Region]) -> list[Stmt]:
    """Statements of other forwards that take nothing from this one: what they share with it they make by themselves."""
    mine = {id(s): {root(d) for d in s.all_defs} for s in region.all}
    found: list[Stmt] = []
    for other in others:
        theirs = {id(s) for s in other.all}
        alone = set[str]().union(*(made for key, made in mine.items() if key not in theirs))
        if not theirs & mine.keys() or other.block is not region.block:
            continue
        found += [s for s in other.all if id(s) not in mine and not alone & {root(u) for u in s.all_uses}]
    return found


def following(regions: Regions, takers: dict[int, list[Owner]], records: Records) -> Iterator[tuple[Event, Event]]:
    """Backward calls that follow each other in a block, for the same owners: nothing between looks at gradients.

    `real_loss.backward(); fake_loss.backward(); optimizer.step()`: the gradients add up, one function gives their sum.
    """
    for (first, one), (second, two) in pairwise(regions):
        plain = not any(e.lifted or e.episode or e.branches or e.inputs or e.create_graph for e in (first, second))
        whole = not any(r.guards or r.cut or r.tried or r.late or not r.stmts for r in (one, two))
        if not plain or not whole or not _alike(first, second) or one.block is not two.block:
            continue
        same = {id(o) for o in takers[id(first)]} == {id(o) for o in takers[id(second)]} != set()
        waits = not _changed(first, second) & {root(u) for u in first.stmt.uses}
        if same and waits and not _may_end(first, second) and not _between(first, second, records):
            yield first, second


def together(kept: Event, gone: Event) -> Event:
    """One event for both, at the place of `kept`."""
    first, second = (gone, kept) if gone.stmt.number < kept.stmt.number else (kept, gone)
    return replace(
        kept,
        value=kept.value.with_deps(kept.value.deps | gone.value.deps),
        roots=[*first.roots, *second.roots],
        cotangents=[*first.cotangents, *second.cotangents],
        absorbed=[*kept.absorbed, gone, *gone.absorbed],
    )


def _interleaved(one: Region, two: Region) -> bool:
    """Statements of the one stand between statements of the other: `q1 = f(x); q2 = g(x); l1 = ...; l2 = ...`."""
    if not one.stmts or not two.stmts or one.cut or two.cut:
        return False
    return two.stmts[0].number < one.stmts[-1].number and one.stmts[0].number < two.stmts[-1].number


def _alike(first: Event, second: Event) -> bool:
    plain = not any(c is not None for c in [*first.cotangents, *second.cotangents])
    apart = "handed" in (first.kind, second.kind) or first.stmt.block is not second.stmt.block
    return plain and not apart and first.scaler == second.scaler


def _joinable(first: Event, second: Event, takers: dict[int, list[Owner]]) -> bool:
    """Whoever takes the gradients of one of the two takes those of the other as well, or gets none from it."""
    one, two = takers[id(first)], takers[id(second)]
    alone = [o for o in one if o not in two and o.takes(second.value.deps)]
    return not alone and not any(o not in one and o.takes(first.value.deps) for o in two)


def _between(first: Event, second: Event, records: Records) -> list[Event]:
    """Loads of gradients, clears and gradient calls between two events of a block."""
    kinds = (*LOADS, "clear", "gradcall")
    return [e for e in records.events if first.stmt.number < e.stmt.number < second.stmt.number and e.kind in kinds]


def _stmts_between(first: Event, second: Event) -> list[Stmt]:
    stmts = first.stmt.block.stmts
    return stmts[stmts.index(first.stmt) + 1 : stmts.index(second.stmt)]


def _may_end(first: Event, second: Event) -> bool:
    """A turn of the loop may have the first alone: what it stored stays for the next."""
    return any(leaves(s) for s in _stmts_between(first, second))


def _changed(first: Event, second: Event) -> set[str]:
    """The names that statements between two events of a block bind or change."""
    return {root(d) for s in _stmts_between(first, second) for d in s.all_defs | s.all_muts}


def _brought_forward(
    first: Event, second: Event, region: Region, takers: dict[int, list[Owner]], records: Records
) -> list[Event] | None:
    """The clears that go before the first event if the second happens together with it; None where it cannot.

    `actor_loss.backward(); actor_opt.step(); critic_opt.zero_grad(); critic_loss.backward()`: the second graph is
    complete before the first is played back, and nothing between the two looks at the gradients that it gives.
    """
    mine = takers[id(second)]
    if any(o in takers[id(first)] for o in mine) or any(s.number > first.stmt.number for s in region.all):
        return None
    between = _stmts_between(first, second)
    if _changed(first, second) & {root(u) for u in second.stmt.uses}:
        return None
    clears: list[Event] = []
    for event in _between(first, second, records):
        if event.kind == "gradcall" or event.lifted or event.stmt not in between and event.kind == "clear":
            return None
        if event.kind == "clear":
            cleared = [o for o in records.owners if o.cleared_by(event, len(records.owners) == 1)]
            if any(o in mine for o in cleared):
                if any(o not in mine for o in cleared):
                    return None
                clears.append(event)
        elif any(owners.concerns(event, o, records.owners) for o in mine):
            return None
    return clears


def _move(clear: Event, first: Event, records: Records, plan: Plan) -> None:
    """The clear happens before the first event."""
    why = "gradient functions start from nothing at each call: dropped"
    plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=clear.lineno))
    plan.replaced[id(clear.stmt)] = []
    clear.stmt, clear.lifted = first.stmt, True
    records.events.remove(clear)
    records.events.insert(records.events.index(first), clear)


def absorb(kept: Event, gone: Event, why: str, records: Records, plan: Plan) -> None:
    """One event for both, at the place of one of them."""
    both = together(kept, gone)
    kept.value, kept.roots, kept.cotangents, kept.absorbed = both.value, both.roots, both.cotangents, both.absorbed
    records.events.remove(gone)
    records.joined.add(id(gone.stmt))
    plan.replaced[id(gone.stmt)] = []
    plan.findings.append(Finding("T2M101", Tier.EXACT, "backward call", why, line=gone.lineno))
