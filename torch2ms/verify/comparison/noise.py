"""Gradients that are nothing but rounding errors, and what to do about them.

A bias in front of a batch normalisation has the gradient zero, and so has the part of an attention's bias that belongs
to its keys; in floating point it is noise of the size of a rounding error, different on every framework, and Adam
turns noise of any size into updates of the size of the learning rate. Such elements say nothing about a translation.
They are recognised by two measurements, never by a wider tolerance: on both sides their gradient is tiny beside the
largest of the step, and in a second torch run, whose operators are disturbed in the last digit only, it changes by a
good part of its own size, which a gradient that carries information does not. Then both sides run again with those
elements at their true value, zero, and everything must agree within the ordinary tolerance.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from torch2ms.verify.comparison.numbers import largest
from torch2ms.verify.comparison.steps import pair_parameters
from torch2ms.verify.trace import Array, Trace, key_of

TINY = 1e-5  # of the largest gradient of the step
ROUNDING = 1.2e-7  # one rounding error of single precision
KERNELS = 1e-6  # how far apart the frameworks' exp, tanh and the like are on equal input
UNSTABLE = 0.1  # of its own size, under a disturbance of one rounding error
SPREAD = 10  # how much larger than what was seen of it noise may be at another step, or on the other side

Entry = dict[str, Any]


@dataclass(frozen=True)
class Noise:
    """Noise in the gradient of one parameter: what is no larger than `level` in it is held at zero."""

    level: float
    text: str


def candidates(torch: Trace, mindspore: Trace) -> set[str]:
    """Parameters with elements whose gradient is tiny on both sides at some step and does not agree."""
    found: set[str] = set()
    for left, right in zip(torch.of("step"), mindspore.of("step"), strict=False):
        pairs, _, _ = pair_parameters(left["parameters"], right["parameters"], torch, mindspore)
        sizes = [_larger(_flat(torch, a), _flat(mindspore, b)) for a, b in pairs]  # copies of layers may have no key
        limit = TINY * _biggest(sizes)
        for (a, b), size in zip(pairs, sizes, strict=True):
            x, y = _flat(torch, a), _flat(mindspore, b)
            if x is not None and y is not None and size is not None:
                apart = (np.abs(x - y) > UNSTABLE * size) & (size <= limit)
                found |= {key_of(a)} - {""} if apart.any() else set()
    return found


def tiny(trace: Trace) -> set[str]:
    """Parameters with elements whose gradient is tiny at some step: what one side alone can suspect."""
    found: set[str] = set()
    for step in trace.of("step"):
        sizes = [(key_of(entry), _larger(_flat(trace, entry))) for entry in step["parameters"]]
        limit = TINY * _biggest(size for _, size in sizes)
        found |= {k for k, size in sizes if k and size is not None and ((size > 0) & (size <= limit)).any()}
    return found


def confirmed(torch: Trace, disturbed: Trace, wanted: set[str]) -> dict[str, Noise]:
    """Of the candidates, those whose tiny elements a rounding error of the operators changes; with the figures."""
    found: dict[str, Noise] = {}
    for left, right in _steps_alike(torch, disturbed):
        biggest = _biggest(_larger(_flat(torch, a)) for a in left["parameters"])
        for a, b in zip(left["parameters"], right["parameters"], strict=False):
            key, x, y = key_of(a), _flat(torch, a), _flat(disturbed, b)
            if key not in wanted or x is None or y is None:
                continue
            size, change = np.abs(x), np.abs(x - y)
            noisy = (size > 0) & (size <= TINY * biggest) & (change >= UNSTABLE * size)
            level = min(SPREAD * largest(size[noisy]), TINY * biggest)
            if level > (found[key].level if key in found else 0.0):
                part = "its gradient" if size.max() <= level else "a part of its gradient"
                text = (
                    f"{a['name'] or key}: {part} ({largest(size[noisy]):.1e}; the step's largest is "
                    f"{biggest:.1e}) is rounding noise: a disturbance of its operators by 1e-7 changes it by "
                    f"{largest(change[noisy] / size[noisy]):.0%}; compared with it held at zero on both sides"
                )
                found[key] = Noise(level, text)
    return found


def _flat(trace: Trace, entry: Entry) -> Array | None:
    return None if entry["gradient"] is None else trace.arrays[entry["gradient"]].astype(np.float64).ravel()


def _larger(*arrays: Array | None) -> Array | None:
    """The larger magnitude of every element, if all are there."""
    sizes = [np.abs(a) for a in arrays if a is not None]
    return np.maximum.reduce(sizes) if len(sizes) == len(arrays) else None


def _biggest(sizes: Iterable[Array | None]) -> float:
    return max((largest(size) for size in sizes if size is not None), default=0.0)


def _steps_alike(left: Trace, right: Trace) -> Iterator[tuple[Entry, Entry]]:
    """The steps of both up to the first draw that differs: samples of a policy follow the weights, noise and all."""
    kinds = ("step", "draw", "shuffle")
    for a, b in zip(left.of(*kinds), right.of(*kinds), strict=False):
        if a["kind"] != b["kind"]:
            return
        if a["kind"] == "step":
            yield a, b
        elif not np.array_equal(left.arrays[a["value"]], right.arrays[b["value"]], equal_nan=True):
            return
