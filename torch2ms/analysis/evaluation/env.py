"""What the places of a scope hold at one point, without copying what is known around it."""

from __future__ import annotations

from typing import overload

from torch2ms.analysis.evaluation.guess import by_name
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.shapes import forgotten
from torch2ms.analysis.values import Value, join, replace

NAMED = {"optimizer", "scheduler"}  # kinds that their names speak for
Changes = dict[str, Value | None]  # None: the place is gone


class Env:
    """Values by place, in layers: a branch or a turn of a loop writes to one of its own, which is then merged.

    What a scope does not bind itself is looked up in the scope around it; with `later`, as it may be by then.
    """

    def __init__(
        self, outer: Env | None = None, hidden: set[str] | frozenset[str] = frozenset(), *, later: bool = False
    ) -> None:
        self.layers: list[Changes] = [{}]
        self.outer = outer
        self.hidden = hidden
        self.later = later
        self.parts: dict[str, set[str]] = {}  # place -> places below it that were ever written
        self.asked: dict[str, Value | None] = {}  # what was looked up in the scope around, and found there

    @overload
    def get(self, place: str) -> Value | None: ...
    @overload
    def get(self, place: str, default: Value) -> Value: ...
    def get(self, place: str, default: Value | None = None) -> Value | None:
        """The value of a place."""
        for layer in reversed(self.layers):
            if place in layer:
                found = layer[place]
                return default if found is None else found
        if self.outer is None or place.partition(".")[0] in self.hidden:
            return default
        found = self.asked[place] = self.outer.get(place)
        if found is None:
            return default
        return forgotten(found) if self.later else found

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
        for layer in self.layers:
            for place, value in layer.items():
                if value is not None:
                    layer[place] = rebase(value, old, new)

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

    def join_back(self) -> None:
        """The newest layer may or may not have happened."""
        layer = self.layers.pop()
        for place, value in layer.items():
            before = self.get(place)
            if before is not None:
                layer[place] = before if value is None else join(value, before)
        self.layers.append(layer)

    def keep(self) -> None:
        """The newest layer has happened."""
        changes = self.layers.pop()
        self.layers[-1].update(changes)

    def merge(self, results: list[Changes]) -> None:
        """One of several things has happened, nobody knows which."""
        merged: Changes = {}
        for place in dict.fromkeys(place for changes in results for place in changes):
            before = self.get(place)
            value: Value | None = None
            for changes in results:
                other = changes.get(place) if place in changes else before
                if other is not None:
                    value = other if value is None else either(value, other, place)
            merged[place] = value
        self.layers[-1].update(merged)


def either(one: Value, other: Value, place: str) -> Value:
    """One of two values; where they are of different kinds, the one that the name speaks for."""
    value = join(one, other)
    if value.kind == "unknown" and one.kind != other.kind and {one.kind, other.kind} & NAMED:
        meant = by_name(place.rpartition(".")[2]).kind
        return next((replace(v, likely=True) for v in (one, other) if v.kind in NAMED and v.kind == meant), value)
    return value
