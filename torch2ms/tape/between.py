"""What stands between a forward, where a gradient is taken, and its backward call."""

from __future__ import annotations

from torch2ms.analysis.program.structure import Scope
from torch2ms.tape.forms.calls import Call
from torch2ms.tape.forms.interface import of_only_module
from torch2ms.tape.forms.placement import adjacent
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Event, Owner


def made_between(call: Call, scope: Scope, writer: Writer) -> bool:
    """An optimizer is made between the two."""
    stmts = call.region.stmts
    for owner in call.owners:  # one that is made within the forward moves behind the call
        if owner.kind == "optimizer" and any(owner.place in s.defs for s in call.region.after):
            owner.weights = owner.weights or of_only_module(owner)
            if not owner.weights:
                return True
    if not stmts or adjacent(writer, stmts[-1], call.event.stmt):
        return False
    bound = [(o, [s.number for s in scope.body.walk() if o.place in s.defs]) for o in call.owners]
    return any(
        o.kind == "optimizer" and not o.weights and found and stmts[-1].number < min(found) < call.event.stmt.number
        for o, found in bound
    )


def cleared_between(call: Call, owner: Owner, records: Records, writer: Writer, dropped: set[int]) -> bool:
    """A reset that stays stands between the two; ids of the statements of those that go are `dropped`."""
    stores = [e for e in records.events if e.kind == "backward" and owner in records.takers(e)]
    stmts = call.region.stmts
    if not any(records.accumulates(e, owner) for e in stores):
        return False
    if not stmts or adjacent(writer, stmts[-1], call.event.stmt):
        return False
    between = [e for e in records.events if stmts[-1].number < e.stmt.number < call.event.stmt.number]
    resets = [e for e in between if e.kind == "clear" and id(e.stmt) not in dropped]
    return any(owner.cleared_by(e, len(records.owners) == 1) for e in resets)


def looked_at(event: Event, region: Region, takers: list[Owner], records: Records) -> set[str]:
    """Owners whose gradients are used between the two; kept ones: or changed there."""
    start = region.stmts[-1].number if region.stmts else event.stmt.number
    between = [e for e in records.events if start < e.stmt.number < event.stmt.number]
    loads = [e for e in between if e.kind in LOADS]
    found = {o.place for o in takers for e in loads if owners.concerns(e, o, records.owners)}
    changed = [e for e in between if e.kind in ("clear", "touch", "backward", "handed")]
    return found | {o.place for o in takers if o.stored and changed}
