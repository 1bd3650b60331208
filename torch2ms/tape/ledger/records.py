"""What the ledger says of the gradient events of one scope: who loads what they store, and what they add to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from operator import is_not

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import listed
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.absent import mark_absent
from torch2ms.tape.ledger.clears import SOME, zeroes
from torch2ms.tape.ledger.ledger import Ledger
from torch2ms.tape.ledger.peers import refuse_peers
from torch2ms.tape.ledger.renewed import OTHER, bindings
from torch2ms.tape.ledger.several import Several
from torch2ms.tape.model import ENTRY, Event, Owner, State

LEFT_OUT = "its inputs leave out some of what `{}` has, whose gradients stay as they are"
LOADS = ("step", "scaler_step", "clip_norm", "clip_value", "grad_loop", "leaf_grad", "unscale", "taken")
STEPS = ("step", "scaler_step", "handed")


class Records:
    """The events of a scope, the owners of gradients, and the ledger's answers about them.

    `entered`: callers may have left gradients behind; `assume_cleared`: the user says that they did not. `stored` are
    the optimizers that keep their gradients from one call to the next.
    """

    def __init__(
        self,
        scope: Scope,
        module: ModuleInfo,
        events: list[Event],
        entered: bool = True,
        assume_cleared: bool = False,
        stored: Sequence[Owner] = (),
    ) -> None:
        self.scope = scope
        self.module = module
        self.assume_cleared = assume_cleared
        self.stored = stored
        outside = set(scope.params) | ({"self"} if scope.cls is not None else set())
        if scope.is_function:
            heads = {e.place.partition(".")[0] for e in events}
            outside |= {h for h in heads if h not in scope.locals or _taken_out(h, scope)}
        self.outside = outside if entered else set()
        self.several = Several(scope, module.functions.get(id(scope)))
        self.joined: set[int] = set()  # ids of statements whose backward call happens with another one
        self.read(events)

    def read(self, events: list[Event]) -> None:
        """Keep the records of these events."""
        self.events = events
        self.number = {id(e): n for n, e in enumerate(events)}
        kept = [replace(o, before={}, assumed=set(o.assumed)) for o in self.stored]
        self.owners = owners.collect(self.scope, self.module, events, kept)
        mark_absent(self.owners, events, self.scope)
        if self.scope.is_function and self.outside:
            self.outside |= {o.place.partition(".")[0] for o in self.owners} - self.scope.locals
        self.tell_fills_apart()
        for owner in self.owners:
            if owner.kind != "leaf" and not owner.stored:
                places = owner.owns if owner.owns is not None else frozenset({owner.place})
                owner.bound = bindings(places, self.scope, self.module, seen=owner.owns is not None)
        self.ledger = self.account()
        self.refuse_mixed()
        if self.several.bound or self.several.args:
            self.refuse_several()
        refuse_peers(events, self.owners, self.scope)
        self.refuse_doubtful()

    def tell_fills_apart(self) -> None:
        """What writes to some of the gradients of an owner, or to those of several, neither fills nor clears them."""
        for event in self.events:
            meant = [o for o in self.owners if event.kind == "fill" and owners.concerns(event, o, self.owners)]
            if event.kind == "fill" and (not meant or not all(o.filled_by(event) for o in meant)):
                event.kind = "grad_loop"
        for event in self.events:
            if zeroes(event) and any(o.cleared_in_part([event]) for o in self.owners):
                event.kind, event.writes = "grad_loop", True

    def account(self) -> Ledger:
        """The ledger; with `--assume-cleared` as it is where nothing is left of an earlier call."""
        ledger = Ledger(self.scope, self.events, self.owners, self.outside)
        told = [o for o in self.owners if self.entry_leaks(o) and self.entry_reaches(o)] if self.assume_cleared else []
        if not told:
            return ledger
        for owner in self.owners:
            owner.before.clear()
        for owner in told:
            owner.assumed.add(f"the gradients of `{owner.place}` are clear when the function is called")
        return Ledger(self.scope, self.events, self.owners, self.outside, cleared=told)

    def refuse_mixed(self) -> None:
        """Gradients that are there in part when they are loaded, or of another object, or of some inputs alone."""
        events = self.events
        for event in (e for e in events if e.kind in LOADS):
            for owner in (o for o in self.owners if owners.concerns(event, o, self.owners)):
                state = owner.before.get(self.number[id(event)], State())
                for number in state.parted:
                    events[number].problem = events[number].problem or SOME
                for number in {n for n, _ in state.held if n != ENTRY} if state.swapped else ():
                    events[number].problem = events[number].problem or OTHER
        for event in (e for e in events if e.kind == "backward" and e.inputs is not None):
            if partly := [o for o in self.owners if o.takes(event.value.deps) and not self.named(o, event)]:
                event.problem = event.problem or LEFT_OUT.format(partly[0].place)

    def refuse_doubtful(self) -> None:
        """What is cleared may be what an optimizer trains of which nothing is seen, and in which gradients add up."""
        unseen = [o for o in self.owners if o.kind == "optimizer" and o.owns is None]
        clears = [e for e in self.events if e.kind == "clear" and not e.problem] if unseen else []
        for event in clears:
            if any(o.cleared_by(event, len(self.owners) == 1) for o in self.owners):
                continue
            for owner in unseen:
                loads = [e for e in self.events if e.kind in LOADS and owners.concerns(e, owner, self.owners)]
                if any(carried for load in loads for _, carried in self.held(load, owner)):
                    event.problem = "whose gradients it clears is not seen"

    def named(self, owner: Owner, event: Event) -> bool:
        """The inputs of a backward call name all that the owner has: nothing of it keeps the gradient that it had."""
        if owner.kind == "leaf" and not owner.parameter:
            return True  # those that are looked at are found with the events
        named = [self.module.value(n).deps for n in listed(event.inputs)]
        given = frozenset().union(*named)
        return owner.owns is not None and all(any(o == d or o.startswith(f"{d}.") for d in given) for o in owner.owns)

    def refuse_several(self) -> None:
        """What one of several objects of a kind has in its gradients may be of other calls, and of another name."""
        for owner in self.owners:
            loads = [e for e in self.events if e.kind in LOADS and owners.concerns(e, owner, self.owners)]
            used = any(n == ENTRY for load in loads for n, _ in self.held(load, owner))
            for event in self.events:
                takes = event.kind == "backward" and owner.takes(event.value.deps)
                if takes or event in loads:
                    left = used and any(n == ENTRY for n, _ in self.held(event, owner))
                    event.problem = event.problem or self.several.problem(event, owner, left, takes)

    def entry_reaches(self, owner: Owner) -> bool:
        """What callers left behind is there when a backward call adds to it, or when it is loaded."""
        return any(
            (ENTRY, True) in self.held(e, owner)
            for e in self.events
            if e.kind == "backward" or e.kind in LOADS and owners.concerns(e, owner, self.owners)
        )

    def beside_stored(self) -> Owner | None:
        """An owner whose gradients add up, and are among those of an optimizer that others clear and step."""
        stored = [o.owns for o in self.owners if o.stored]
        for owner in self.owners if stored else ():
            apart = not owner.stored and owner.kind == "module"
            if not apart or not any(
                s is None or any_overlap(s, owner.owns or frozenset({owner.place})) for s in stored
            ):
                continue
            loads = [e for e in self.events if e.kind in LOADS and owners.concerns(e, owner, self.owners)]
            if any(carried for e in loads for _, carried in self.held(e, owner)):
                return owner
        return None

    def held(self, event: Event, owner: Owner) -> frozenset[tuple[int, bool]]:
        state = owner.before.get(self.number[id(event)])
        return state.held if state is not None else frozenset()

    def takers(self, event: Event) -> list[Owner]:
        """The owners that load what this backward event stores."""
        number = self.number[id(event)]
        found = []
        for owner in self.owners:
            loads = [e for e in self.events if e.kind in LOADS and owners.concerns(e, owner, self.owners)]
            if owner.stored:
                loads += [e for e in self.events if reaches(e, owner)]
            left = owner.stored and any(n == number for n, _ in owner.exit.held)
            if left or any(number == n for load in loads for n, _ in self.held(load, owner)):
                found.append(owner)
        return found

    def lost_fills(self) -> list[Event]:
        """Loops that fill gradients which nothing in the scope uses: they are meant for others."""
        return [e for e in self.events if e.kind == "fill" and not self.taking(e)]

    def taking(self, fill: Event) -> list[Owner]:
        """The owners that use what a loop fills."""
        inner, number = set(map(id, fill.stmt.walk())), self.number[id(fill)]
        others = [e for e in self.events if e.kind in LOADS and id(e.stmt) not in inner]
        return [o for o in self.owners if any(number == n for e in others for n, _ in self._held_of(e, o))]

    def _held_of(self, event: Event, owner: Owner) -> frozenset[tuple[int, bool]]:
        return self.held(event, owner) if owners.concerns(event, owner, self.owners) else frozenset()

    def filled(self, owner: Owner) -> bool:
        """Some backward call of the scope stores into the owner."""
        return any(owner in self.takers(e) for e in self.events if e.kind == "backward")

    def accumulates(self, event: Event, owner: Owner) -> bool:
        """Something may be in the owner's gradients when this event adds to them."""
        held = self.held(event, owner)
        return any(n != ENTRY or owner.stored for n, _ in held) or self.entry_matters(event, owner)

    def gaps(self, owner: Owner) -> list[tuple[Event, list[Event]]]:
        """What uses gradients that are there only if a condition held, and what stores them.

        PyTorch finds None there, and a step passes over it. A loop that stores is taken to run: what stands behind it
        has no gap.
        """
        if owner.kind == "leaf" or owner.stored:
            return []
        found = []
        for event in self.events:
            if event.kind not in LOADS or not owners.concerns(event, owner, self.owners):
                continue
            held = [self.events[n] for n, _ in self.held(event, owner) if n != ENTRY]
            stores = [e for e in held if e.kind == "backward" and not self.accumulates(e, owner)]
            turns = _loops(event)
            state = owner.before.get(self.number[id(event)], State())
            if stores and not state.some and all(_loops(e) <= turns for e in stores):
                found.append((event, stores))
        return found

    def entry_matters(self, event: Event, owner: Owner) -> bool:
        """Gradients that callers left behind reach this event, and this function leaves some itself."""
        return any(n == ENTRY for n, _ in self.held(event, owner)) and bool({n for n, _ in owner.exit.held} - {ENTRY})

    def may_be_empty(self, event: Event, owner: Owner) -> bool:
        state = owner.before.get(self.number[id(event)])
        return state is None or state.empty or owner.stored and _opens(self.scope, self.module)

    def entry_leaks(self, owner: Owner) -> bool:
        left = bool({n for n, _ in owner.exit.held} - {ENTRY})
        return left and not owner.stored and not self.scope.is_module

    def root_deps(self, event: Event) -> frozenset[str]:
        if event.lifted:
            return event.value.deps
        return frozenset().union(*(self.module.value(r).deps for r in event.roots))

    def entry_seen(self, event: Event, owner: Owner, others: bool = False) -> bool:
        """Gradients of an earlier call may be there: of this function, or of others that leave some behind."""
        if owner.stored:
            return False  # they are there, and are added to
        left = bool({n for n, _ in owner.exit.held} - {ENTRY})
        return (ENTRY, True) in self.held(event, owner) and (left or others and owner.kind == "optimizer")


class Read:
    """Records that were made already, of scopes as they are entered: several ask for those of the same events."""

    def __init__(self) -> None:
        # by ids of the scope and its events, which the records keep; and how the events were
        self.known: dict[tuple[int, ...], tuple[Records, list[object]]] = {}

    def of(self, scope: Scope, module: ModuleInfo, events: Sequence[Event]) -> Records:
        """The records of a scope with these events, as long as these stay as they are; nobody may change them."""
        key = (id(scope), *map(id, events))
        records, before = self.known.get(key, (None, []))
        if records is None or any(map(is_not, before, _held(events))):
            records = Records(scope, module, list(events))
            self.known[key] = (records, _held(events))
        return records


def _held(events: Sequence[Event]) -> list[object]:
    """What all fields of events hold."""
    return [value for event in events for value in vars(event).values()]


def _opens(scope: Scope, module: ModuleInfo) -> bool:
    """The scope opens a context of the program's own, which may clear when it is entered."""
    opened = [item.item for stmt in scope.body.walk() if isinstance(stmt.node, cst.With) for item in stmt.node.items]
    made = (module.value(one.func if isinstance(one, cst.Call) else one) for one in opened)
    return any(value.kind in ("class", "function", "method", "object") for value in made)


def _taken_out(name: str, scope: Scope) -> bool:
    """A local name that is bound to what was there before: `opt = opts[key]`, `a, b = opts["a"], opts["b"]`,
    `opt = self.get_optimizer("main")` of a method that returns an attribute."""
    stmts = [s for s in scope.body.walk() if name in s.defs]
    places = (s.out[name].place for s in stmts if name in s.out)
    if any(p and p.partition(".")[0] != name for p in places):
        return True
    bound = [s.node for s in stmts]
    values = [n.value for n in bound if type(n) is cst.Assign]
    parts = [e.value for v in values if type(v) is cst.Tuple for e in v.elements]
    unpacked = any(type(n.targets[0].target) is cst.Tuple for n in bound if type(n) is cst.Assign)
    kinds = (cst.Subscript, cst.Attribute, cst.Name) if unpacked else (cst.Subscript, cst.Attribute)
    return any(isinstance(v, kinds) for v in [*values, *parts])


def reaches(event: Event, owner: Owner) -> bool:
    """The event is a call of a function that finds the gradients which the owner keeps."""
    return owner.place in event.effects or event.handing is not None and owner.place in event.handing.places


def _loops(event: Event) -> set[int]:
    return {id(a) for a in event.stmt.ancestors() if a.is_loop}
