"""What the places of a scope hold at one point, without copying what is known around it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import overload

from torch2ms.analysis.evaluation.guess import by_name
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.shapes import forgotten
from torch2ms.analysis.values import AROUND, Value, join, replace

NAMED = {"optimizer", "scheduler"}  # kinds that their names speak for
Changes = dict[str, Value | None]  # None: the place is gone
NOWHERE = -1


@dataclass(slots=True)
class Turn:
    """The first turn of a loop, and what it took from the time before: another that finds the same does the same."""

    layer: int  # where it writes
    reads: set[str] = field(default_factory=set)
    joins: list[tuple[str, Callable[[Value | None], Value | None], Value | None]] = field(default_factory=list)
    moved: bool = False  # what lies before the loop was changed


class Env:
    """Values by place, in layers: a branch or a turn of a loop writes to one of its own, which is then merged.

    What a scope does not bind itself is looked up in the scope around it; with `later`, as it may be by then: names
    that are `settled` there hold one tensor all along.
    """

    def __init__(
        self,
        outer: Env | None = None,
        hidden: set[str] | frozenset[str] = frozenset(),
        *,
        later: bool = False,
        settled: frozenset[str] = frozenset(),
    ) -> None:
        self.layers: list[Changes] = [{}]
        self.outer = outer
        self.hidden = hidden
        self.later = later
        self.settled = settled
        self.parts: dict[str, set[str]] = {}  # place -> places below it that were ever written
        self.asked: dict[str, Value | None] = {}  # what was looked up in the scope around, and found there
        self.turns: list[Turn] = []

    @overload
    def get(self, place: str) -> Value | None: ...
    @overload
    def get(self, place: str, default: Value) -> Value: ...
    def get(self, place: str, default: Value | None = None) -> Value | None:
        """The value of a place."""
        if len(self.layers) == 1 and (known := self.layers[0].get(place)) is not None:
            return known  # no branch and no loop is under way: what most names are
        found, at = self._look(place)
        if self.turns and at < self.turns[-1].layer:
            self.read_before(place, at)
        return default if found is None else found

    def peek(self, place: str) -> Value | None:
        """The value of a place, for what does not depend on it."""
        return self._look(place)[0]

    def _look(self, place: str) -> tuple[Value | None, int]:
        """The value of a place, and the layer that has it."""
        layers = self.layers
        at = len(layers)
        while at:
            at -= 1
            if place in layers[at]:
                return layers[at][place], at
        if self.outer is None or place.partition(".")[0] in self.hidden:
            return None, NOWHERE
        found = self.asked[place] = self.outer.get(place)
        if not self.later or found is None or place in self.settled and found.kind == "tensor":
            return found, NOWHERE
        return forgotten(found), NOWHERE

    def __contains__(self, place: str) -> bool:
        return self.get(place) is not None

    def __getitem__(self, place: str) -> Value:
        found = self.get(place)
        if found is None:
            raise KeyError(place)
        return found

    def __setitem__(self, place: str, value: Value) -> None:
        self.layers[-1][place] = value
        above, dot, _ = place.rpartition(".")
        while dot:
            below = self.parts.setdefault(above, set())
            if place in below:
                break
            below.add(place)
            above, dot, _ = above.rpartition(".")

    def update(self, values: dict[str, Value]) -> None:
        """Write several places."""
        for place, value in values.items():
            self[place] = value

    def forget_below(self, place: str) -> None:
        """`place` is bound anew: its attributes are not what they were."""
        for below in self._below(place):
            if below in self:
                self.layers[-1][below] = None

    def rebase(self, old: str, new: str) -> None:
        """An object that had no name yet has one: what came from it tells so."""
        for at, layer in enumerate(self.layers):
            for place, value in layer.items():
                if value is not None:
                    layer[place] = moved = rebase(value, old, new)
                    if moved != value:
                        for turn in self.turns:
                            turn.moved = turn.moved or at < turn.layer

    def _below(self, place: str) -> set[str]:
        own = self.parts.get(place, set())
        if self.outer is None or place.partition(".")[0] in self.hidden:
            return own
        return own | self.outer._below(place)

    # --- branches and loops

    def push(self) -> None:
        """What is written from now on can be taken back."""
        self.layers.append({})

    def pop(self) -> Changes:
        """Take back what was written since `push`, and return it."""
        return self.layers.pop()

    def begin_turn(self) -> None:
        """What is written from now on is written by a turn of the innermost loop."""
        self.turns.append(Turn(len(self.layers) - 1))

    def end_turn(self) -> bool:
        """The turn has happened, or not; whether the next one may find something else than this one found."""
        turn = self.turns.pop()
        layer = self.layers.pop()
        was = {place: self._look(place)[0] for place in turn.reads if place in layer}
        for place, value in layer.items():
            layer[place] = self._joined(place, lambda before, value=value: _perhaps(value, before))  # type: ignore[misc]
        self.layers.append(layer)
        return (
            turn.moved
            or any(layer[place] != before for place, before in was.items())
            or any(place in layer and again(layer[place]) != joined for place, again, joined in turn.joins)
        )

    def read_before(self, place: str, at: int = NOWHERE) -> None:
        """The turns that write above a layer depend on what it holds."""
        for turn in reversed(self.turns):
            if at >= turn.layer:
                return
            turn.reads.add(place)

    def _joined(self, place: str, joined: Callable[[Value | None], Value | None]) -> Value | None:
        """What a place holds by what it held before."""
        before, at = self._look(place)
        value = joined(before)
        for turn in reversed(self.turns):
            if at >= turn.layer:
                break
            turn.joins.append((place, joined, value))
        return value

    def keep(self) -> None:
        """The newest layer has happened."""
        changes = self.layers.pop()
        self.layers[-1].update(changes)

    def merge(self, results: list[Changes]) -> None:
        """One of several things has happened, nobody knows which."""
        merged: Changes = {}
        for place in dict.fromkeys(place for changes in results for place in changes):

            def one_of_them(before: Value | None, place: str = place) -> Value | None:
                value: Value | None = None
                for changes in results:
                    other = changes.get(place) if place in changes else before
                    if other is not None:
                        value = other if value is None else either(value, other, place)
                return value

            merged[place] = self._joined(place, one_of_them)
        self.layers[-1].update(merged)


def _perhaps(value: Value | None, before: Value | None) -> Value | None:
    """What a place holds that something may have written, or not."""
    if before is None:
        return value
    return before if value is None else join(value, before)


def either(one: Value, other: Value, place: str) -> Value:
    """One of two values; where they are of different kinds, the one that the name speaks for."""
    value = join(one, other)
    if value.name != AROUND and value.kind == "unknown" and one.kind != other.kind and {one.kind, other.kind} & NAMED:
        meant = by_name(place.rpartition(".")[2]).kind
        return next((replace(v, likely=True) for v in (one, other) if v.kind in NAMED and v.kind == meant), value)
    return value
