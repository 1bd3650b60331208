"""What kept gradients hold where a function is entered, and what a call leaves in them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.program.sites import Site
from torch2ms.analysis.program.structure import Scope
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import ENTRY, LEFT_OVER, Event, Owner, State

ROUNDS = 4  # what is known spreads over as many calls


@dataclass(eq=False)
class Part:
    """One scope that meets the one optimizer of a group; `sites` are all calls of it, None where some are not seen."""

    scope: Scope
    module: ModuleInfo
    events: list[Event]
    touches: list[Event]
    owner: Owner
    sites: list[Site] | None
    exit: State = LEFT_OVER
    before: dict[int, State] = field(default_factory=dict)  # by id of a call: what is held before it
    last: list[object] = field(default_factory=list)  # what this was worked out from

    def run(self) -> bool:
        """Work out what is held in it; False where nothing is known that was not known the last time.

        Most functions only lead to those that touch gradients: what they are entered with soon stays the same.
        """
        events = sorted([*self.events, *self.touches], key=lambda e: e.stmt.number)
        known = [self.owner.entry, *(value for event in events for value in vars(event).values())]
        if known == self.last:
            return False
        self.last = known
        records = Records(self.scope, self.module, events, stored=[self.owner])
        owner = next(o for o in records.owners if o.place == self.owner.place)
        self.exit = _outside(owner.exit)
        numbered = ((id(touch.node), records.number[id(touch)]) for touch in self.touches)
        self.before = {call: _outside(owner.before.get(number, LEFT_OVER)) for call, number in numbered}
        return True


def settle(parts: Iterable[Part], callee: dict[int, FunctionInfo], certain: set[int]) -> None:
    """Give owners their entry states and touches their effects; `certain` are ids of calls that reach just one."""
    known = {id(p.scope): p for p in parts}
    for _ in range(ROUNDS):
        before: dict[int, State] = {}
        ran = False
        for part in known.values():
            for touch in part.touches:  # what the called function leaves behind
                info = callee.get(id(touch.node))
                one = known.get(id(info.scope)) if info is not None and id(touch.node) in certain else None
                if one is not None and _looks_only(one):
                    touch.effects = {part.owner.place: None}
                    continue
                touch.effects = {part.owner.place: one.exit if one is not None else LEFT_OVER}
            ran |= part.run()
            before |= part.before
        if not ran:
            return
        for part in known.values():
            entered = [before.get(id(s.call), LEFT_OVER) for s in part.sites] if part.sites else [LEFT_OVER]
            state = entered[0]
            for other in entered[1:]:
                state |= other
            part.owner = replace(part.owner, entry=state)


def uses_left(owner: Owner, scope: Scope, module: ModuleInfo, events: list[Event]) -> bool:
    """Something in the scope uses gradients that were left in an optimizer before, or by a call that touches it."""
    records = Records(scope, module, sorted(events, key=lambda e: e.stmt.number), stored=[owner])
    met = [o for o in records.owners if o.place == owner.place]
    loads = [(e, o) for o in met for e in records.events if e.kind in LOADS and concerns(e, o, records.owners)]
    return any(n == ENTRY for e, o in loads for n, _ in records.held(e, o))


def _looks_only(part: Part) -> bool:
    """The function uses gradients, and leaves them as they are."""
    return not part.touches and not any(e.kind in ("backward", "handed", "clear", "fill") for e in part.events)


def _outside(state: State) -> State:
    """A state as other functions see it: they do not know the events behind it."""
    return State(LEFT_OVER.held if state.held else frozenset(), state.empty)
