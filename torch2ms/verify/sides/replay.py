"""Hand the recorded draws out again, in call order, and say where the two sides' requests part."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from torch2ms.verify.trace import Array, Trace

Shape = tuple[int, ...]
RANDOM_INITIALIZERS = (
    "Normal",
    "Uniform",
    "TruncatedNormal",
    "XavierUniform",
    "XavierNormal",
    "HeUniform",
    "HeNormal",
    "Orthogonal",
    "Sparse",
    "VarianceScaling",
)


class Divergence(Exception):
    """The program asked for a draw that the recorded stream does not have."""


class Stream:
    """The recorded draws of one class (draws, initial values, shuffles) and how far they are used."""

    def __init__(self, recorded: Trace, observed: Trace) -> None:
        self.recorded, self.observed = recorded, observed
        self.draws = [e for e in recorded.of("draw") if e["draw"] != "constant"]
        self.shuffles = recorded.of("shuffle")
        self.used: set[int] = set()
        self.count = 0
        self.shuffled = 0
        self.reordered = 0
        self.sample: list[int] | None = None  # the sample a dataset is making: it has draws of its own

    def take(self, kinds: tuple[str, ...], shape: Shape, request: str, **parameters: Any) -> dict[str, Any] | None:
        """The next unused draw of these kinds and this shape; None (and a reported divergence) if there is none.

        A draw further on may be taken first: independent draws may change places with the evaluation order. That is
        counted and reported. Parameters given must be the recorded ones.
        """
        self.count += 1
        mine = [(i, e) for i, e in enumerate(self.draws) if i not in self.used and e["sample"] == self.sample]
        head = next((i for i, e in mine if not e["initial"]), None)
        for i, event in mine:
            if event["draw"] not in kinds or not _same_shape(event, shape):
                continue
            if not all(self._same(event.get(name), value) for name, value in parameters.items() if value is not None):
                continue
            self.used.add(i)
            if i != head and not event["initial"]:
                self.reordered += 1
            return event
        there = "nothing (the stream is used up)"
        if head is not None:
            event = self.draws[head]
            there = f"{event['source']}{tuple(event['shape'])}{_settings(event)}"
        text = f"draw {self.count}: torch {there}, mindspore {request}{tuple(shape)}{_settings(parameters)}"
        self.observed.add("divergence", text=text)
        return None

    def take_initial(self, shape: Shape, kind: str = "", **parameters: Any) -> Array | None:
        """The next recorded initial value of this shape (axes of length one aside).

        None where a draw of this kind with these parameters comes before it: `w.data.uniform_(a, b)` fills a tensor
        that torch does not know for a parameter any more.
        """
        for i, event in enumerate(self.draws):
            if i in self.used:
                continue
            same = [n for n in event["shape"] if n != 1] == [n for n in shape if n != 1]
            if event["initial"] and same:
                self.used.add(i)
                return self.value(event).reshape(shape)
            if event["draw"] == kind and tuple(event["shape"]) == tuple(shape) and all(
                self._same(event.get(name), value) for name, value in parameters.items()
            ):  # fmt: skip
                return None
        return None

    def initial_of(self, uid: str) -> Array | None:
        """What torch's initializers left in the parameter with this construction record, if any touched it."""
        found = None
        for event in self.recorded.of("draw"):
            if event.get("into") == uid:
                found = self.value(event)
        return found

    def take_shuffle(self, length: int) -> Array | None:
        """The next recorded permutation, which must be of this many samples."""
        self.shuffled += 1
        if self.shuffled > len(self.shuffles):
            self.observed.add("divergence", text=f"shuffle {self.shuffled}: torch shuffled {len(self.shuffles)} times")
            return None
        order = self.value(self.shuffles[self.shuffled - 1])
        if len(order) != length:
            text = f"shuffle {self.shuffled}: torch {len(order)} samples, mindspore {length}"
            self.observed.add("divergence", text=text)
            return None
        return order

    def passes(self) -> dict[int, list[list[int]]]:
        """The indices fetched in every pass of the loaders whose samples draw random numbers, by loader."""
        events = self.recorded.of("fetch")
        drawing = {event["place"][0] for event in events if event["draws"]}
        return {n: [e["indices"] for e in events if e["place"][0] == n] for n in drawing}

    def value(self, event: dict[str, Any]) -> Array:
        """The recorded numbers."""
        return self.recorded.arrays[event["value"]]

    def parameter(self, value: Any) -> Any:
        """A recorded parameter: a number, or the array it stands for."""
        return self.recorded.arrays[value["array"]] if isinstance(value, dict) else value

    def finish(self) -> None:
        """Report what torch drew and nobody asked for."""
        rest = [e for i, e in enumerate(self.draws) if i not in self.used and not e["initial"]]
        self.observed.meta["draws"] = {"used": len(self.used), "left": len(rest), "reordered": self.reordered}
        if len(self.shuffles) > self.shuffled:
            self.observed.meta["unused"] = f"torch shuffled {len(self.shuffles)} times, mindspore {self.shuffled}"
        if rest:
            first = f"{rest[0]['source']}{tuple(rest[0]['shape'])}"
            self.observed.meta["unused"] = f"torch drew {len(rest)} more, first {first}"

    def _same(self, recorded: Any, asked: Any) -> bool:
        if recorded is None:
            return True
        recorded, asked = np.asarray(self.parameter(recorded)), np.asarray(asked)
        try:
            return bool(np.allclose(recorded, asked, rtol=1e-3, atol=1e-5))
        except ValueError:
            return False


def _same_shape(event: dict[str, Any], shape: Shape) -> bool:
    """Equal shapes; masks and samples may differ by axes of length one (dropout1d runs as dropout2d, for example).

    In a mask neighbouring axes may be one: attention has its batch and its heads together, or apart.
    """
    if event["draw"] == "dropout":
        return _merges(event["shape"], shape) or _merges(shape, event["shape"])
    if event["draw"] == "multinomial":
        return [n for n in event["shape"] if n != 1] == [n for n in shape if n != 1]
    return tuple(event["shape"]) == tuple(shape)


def _merges(fine: Sequence[int], coarse: Sequence[int]) -> bool:
    """The second shape is the first with neighbouring axes made one."""
    sizes = [math.prod(fine[i:]) for i in range(len(fine) + 1)]
    return all(math.prod(coarse[i:]) in sizes for i in range(len(coarse) + 1)) and math.prod(coarse) == sizes[0]


def _settings(event: dict[str, Any]) -> str:
    shown = [f"{n}={event[n]:g}" for n in ("low", "high", "mean", "std", "p", "rate") if _is_number(event.get(n))]
    return f" [{', '.join(shown)}]" if shown else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
