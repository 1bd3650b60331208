"""The gradient ledger: what the `.grad` of an owner holds wherever it is used.

An owner is an optimizer, a module or a leaf. Its state is the set of backward events whose gradients may be in it, each
of this iteration or carried over from an earlier one, and whether it may be empty. Loops run to a fixpoint.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.ledger.absent import asks
from torch2ms.tape.ledger.clears import for_some
from torch2ms.tape.model import LEFT_OVER, Event, Owner, State

TURNS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.Lambda)  # what is in them runs again and again


class Ledger:
    """Runs the events of a scope for every owner."""

    def __init__(
        self,
        scope: Scope,
        events: list[Event],
        owners: list[Owner],
        outside: set[str],
        cleared: Sequence[Owner] = (),  # those whose gradients are empty on entry, as the user says
        entered: Sequence[Owner] = (),  # leaves in which an earlier call may have left gradients
    ) -> None:
        self.scope = scope
        self.events = events
        self.by_stmt: dict[int, list[tuple[int, Event]]] = {}
        for number, event in enumerate(events):
            self.by_stmt.setdefault(id(event.stmt), []).append((number, event))
        self.owners = owners
        for owner in owners:
            optimizers = [o for o in owners if o.kind == owner.kind]
            known = owner.place.partition(".")[0] in outside and (owner.kind != "leaf" or owner in entered)
            known = known and owner not in cleared
            start = owner.entry if owner.stored else LEFT_OVER if known else State()
            run = _Run(self, owner, alone=len(optimizers) == 1)
            end = run.block(scope.body, start)
            owner.exit = end if run.returned is None else end | run.returned
            run.part(owner.exit)


class _Run:
    def __init__(self, ledger: Ledger, owner: Owner, alone: bool) -> None:
        self.ledger = ledger
        self.owner = owner
        self.alone = alone
        self.breaks: list[State | None] = []
        self.continues: list[State | None] = []
        self.raises: list[State | None] = []  # where `raise` stands in a `try`
        self.returned: State | None = None
        self.dead = False

    def block(self, block: Block, state: State) -> State:
        for stmt in block.stmts:
            state = self.stmt(stmt, state)
        return state

    def stmt(self, stmt: Stmt, state: State) -> State:
        node = stmt.node
        for number, event in self.ledger.by_stmt.get(id(stmt), ()):
            state = self.event(number, event, state)
        if self.owner.kind == "leaf" and self.owner.place in stmt.defs and type(node) is not cst.AugAssign:
            self.part(state)
            state = State()
        if not stmt.blocks:
            state = self.renewed(stmt, state)
        if self.owner.stored and self.owner.place in stmt.defs:
            state = State() if id(stmt) in self.owner.made else LEFT_OVER
        if not stmt.blocks:
            self.leave(node, state)
            return state
        if type(node) is cst.For or type(node) is cst.While:
            return self.loop(stmt, state)
        if type(node) is cst.If:
            taken = [self.block(b, state) for b in stmt.blocks]
            reach = [not _leaves(b) for b in stmt.blocks]
            out: State | None = None
            if id(stmt) in self.owner.absent:  # without it nobody has its gradients
                return taken[0] if asks(node.test, self.owner.place) else taken[1] if len(taken) > 1 else state
            for one, falls in zip(taken, reach, strict=False):
                if falls:
                    out = one if out is None else out | one
            if len(stmt.blocks) == 1:
                out = state if out is None else out | state
            return out if out is not None else taken[0]
        if isinstance(node, (cst.Try, cst.TryStar)):
            return self.tried(stmt, state)
        if isinstance(node, cst.Match):
            out = state
            for block in stmt.blocks:
                out = out | self.block(block, state)
            return out
        for block in stmt.blocks:
            state = self.block(block, state)
        return state

    def tried(self, stmt: Stmt, state: State) -> State:
        """A `try`: its handlers begin with what there was before it, behind it, or where it raises."""
        self.raises.append(None)
        out = self.block(stmt.blocks[0], state)
        raised = self.raises.pop()
        begun = state | out if raised is None else state | out | raised
        handlers = [block for block in stmt.blocks[1:] if block.role == "handler"]
        others = [block for block in stmt.blocks[1:] if block.role != "handler"]
        if others and others[0].role == "orelse":
            out = self.block(others.pop(0), out)
        for block in handlers:
            handled = self.block(block, begun)
            if not _leaves(block):
                out = out | handled
        for block in others:
            out = self.block(block, out)
        return out

    def renewed(self, stmt: Stmt, state: State) -> State:
        """The networks are others from here on: they have no gradients, or some of their own."""
        new = self.owner.bound.get(id(stmt))
        if new is None or not state.held:
            return state
        if not new:
            return replace(state, swapped=True)
        self.owner.emptied.add(id(stmt))
        return State()

    def part(self, state: State) -> None:
        """The name of a leaf is bound to another tensor: what it held stays with the one before."""
        self.owner.left |= bool(state.held)

    def leave(self, node: cst.CSTNode, state: State) -> None:
        """Statements that go elsewhere take the state along."""
        kind = node.__class__
        if kind is cst.Break and self.breaks:
            self.breaks[-1] = state if self.breaks[-1] is None else self.breaks[-1] | state
        elif kind is cst.Continue and self.continues:
            self.continues[-1] = state if self.continues[-1] is None else self.continues[-1] | state
        elif kind is cst.Raise and self.raises:
            self.raises[-1] = state if self.raises[-1] is None else self.raises[-1] | state
        elif kind is cst.Return:
            self.returned = state if self.returned is None else self.returned | state

    def loop(self, stmt: Stmt, state: State) -> State:
        head = state
        out = state
        bound = self.owner.kind == "leaf" and self.owner.place in stmt.defs
        for _ in range(4):
            self.breaks.append(None)
            self.continues.append(None)
            if bound:
                self.part(head)
            end = self.block(stmt.blocks[0], State() if bound else self.renewed(stmt, head))
            again = self.continues.pop()
            left = self.breaks.pop()
            if _leaves(stmt.blocks[0]):
                end = again if again is not None else end
            elif again is not None:
                end = end | again
            ran = end | left if left is not None else end
            out = replace(head | ran, filled=ran.some)
            new = state | end.carried()
            if new == head:
                break
            head = head | new
        for block in stmt.blocks[1:]:
            out = self.block(block, out)
        if clear := self.sweeps(stmt):  # every turn empties one parameter: afterwards all are empty
            return State() if self.owner.cleared_by(clear, self.alone) else out
        return out

    def sweeps(self, stmt: Stmt) -> Event | None:
        """A loop over parameters that clears each one's gradient."""
        if not any(e.kind == "grad_loop" for _, e in self.ledger.by_stmt.get(id(stmt), ())):
            return None
        for inner in stmt.blocks[0].walk():
            for _, event in self.ledger.by_stmt.get(id(inner), ()):
                if event.kind == "clear" and not for_some(event.stmt, stmt):
                    return event
        return None

    def swept(self, event: Event) -> bool:
        """The clear of one parameter in such a loop: the others still hold theirs."""
        return any(
            any(e.kind == "grad_loop" for _, e in self.ledger.by_stmt.get(id(a), ())) for a in event.stmt.ancestors()
        )

    def event(self, number: int, event: Event, state: State) -> State:
        seen = self.owner.before.get(number)
        self.owner.before[number] = state if seen is None else seen | state
        if self.owner.stored and (effect := event.effects.get(self.owner.place)) is not None:
            if event.stmt.is_loop:  # its head is asked again in each turn
                return LEFT_OVER
            if not _in_turns(event):
                return effect
            self.owner.before[number] |= effect
            return state | effect
        if event.kind == "handed" and event.handing is not None:
            handed = event.handing.handed
            if self.owner.stored and self.owner.place in event.handing.places:
                return LEFT_OVER
            if self.owner.place in event.handing.places:
                left = frozenset({(number, False)}) if handed.leaves else frozenset()
                return State(left, not left)
            return _added(state, number) if self.owner.takes(_root_deps(event)) else state
        if event.kind == "backward" and self.owner.takes(_root_deps(event)):
            return _added(state, number)
        if event.kind == "spill" and self.owner.kind != "leaf" and self.owner.takes(_root_deps(event)):
            return _added(state, number)
        if event.kind == "fill" and self.owner.filled_by(event):
            return State(frozenset({(number, False)}), False)
        if event.kind == "clear" and self.swept(event):
            return state
        if event.kind == "clear" and self.owner.cleared_in_part(self.beside(number)):
            return replace(state, parted=state.parted | {number}) if state.held else state
        if event.kind == "clear" and self.owner.cleared_by(event, self.alone):
            return State()
        return state

    def beside(self, number: int) -> list[Event]:
        """A clear and those right beside it, which may empty the parts of one owner one after the other."""
        events = self.ledger.events
        found = [events[number]]
        for way in (events[number + 1 :], events[:number][::-1]):
            for other in way:
                if other.kind != "clear" or other.stmt.block is not found[0].stmt.block:
                    break
                found.append(other)
        return found


def _in_turns(event: Event) -> bool:
    """The call is made once for each element: `[step(x) for x in data]`, `map(lambda x: step(x), data)`."""
    if getattr(event.stmt.node, "value", None) is event.node:
        return False
    around = [n for n in event.stmt.nodes if type(n) in TURNS]
    return any(inner is event.node for node in around for inner in descend(node))


def _added(state: State, number: int) -> State:
    """The gradients of one more backward call are in it."""
    return replace(state, held=state.held | {(number, False)}, empty=False)


def _root_deps(event: Event) -> frozenset[str]:
    return event.value.deps


LEAVING = frozenset((cst.Return, cst.Raise, cst.Break, cst.Continue))


def _leaves(block: Block) -> bool:
    """The block never falls off its end."""
    return bool(block.stmts) and type(block.stmts[-1].node) in LEAVING
