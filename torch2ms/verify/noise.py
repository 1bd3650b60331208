"""Gradients that are nothing but rounding errors, and what to do about them.

A bias in front of a batch normalisation has the gradient zero; in floating point it is noise of the size of a
rounding error, different on every framework, and Adam turns noise of any size into updates of the size of the
learning rate. Such a parameter says nothing about a translation. It is recognised by two measurements, never by a
wider tolerance: on both sides its gradient is tiny beside the largest of the step, and in a second torch run, whose
weights are disturbed in their last digit only, it changes by a good part of its own size, which a gradient that
carries information does not. Then both sides run again with that gradient at its true value, zero, and everything
must agree within the ordinary tolerance.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from torch2ms.verify.compare import pair_parameters
from torch2ms.verify.numbers import largest
from torch2ms.verify.trace import Trace, key_of

TINY = 1e-5  # of the largest gradient of the step
ROUNDING = 1.2e-7  # one rounding error of single precision
KERNELS = 1e-6  # how far apart the frameworks' exp, tanh and the like are on equal input
UNSTABLE = 0.1  # of its own size, under a disturbance of one rounding error

Entry = dict[str, Any]


def candidates(torch: Trace, mindspore: Trace) -> set[str]:
    """Parameters whose gradients are tiny on both sides at every step and do not agree with each other."""
    small: dict[str, bool] = {}
    apart: set[str] = set()
    for left, right in zip(torch.of("step"), mindspore.of("step"), strict=False):
        pairs, _, _ = pair_parameters(left["parameters"], right["parameters"], torch, mindspore)
        sizes = [(_size(torch, a), _size(mindspore, b)) for a, b in pairs]
        biggest = max((max(size) for size in sizes), default=0.0)
        for (a, b), size in zip(pairs, sizes, strict=True):
            if a["gradient"] is None or b["gradient"] is None:
                continue
            key = key_of(a)
            small[key] = small.get(key, True) and max(size) <= TINY * biggest
            if max(size) and _apart(torch, a, mindspore, b) > UNSTABLE * max(size):
                apart.add(key)
    return {key for key, is_small in small.items() if is_small and key and key in apart}


def tiny(trace: Trace) -> set[str]:
    """Parameters whose gradient is tiny beside the largest at every step: what one side alone can suspect."""
    small: dict[str, bool] = {}
    for step in trace.of("step"):
        sizes = {key_of(entry): _size(trace, entry) for entry in step["parameters"]}
        biggest = max(sizes.values(), default=0.0)
        for key, size in sizes.items():
            small[key] = small.get(key, True) and 0.0 < size <= TINY * biggest
    return {key for key, is_small in small.items() if key and is_small}


def confirmed(torch: Trace, disturbed: Trace, wanted: set[str]) -> dict[str, str]:
    """Of the candidates, those that a rounding error in the weights changes; with the figures as text."""
    found: dict[str, str] = {}
    if not _same_draws(torch, disturbed):
        return found
    for left, right in zip(torch.of("step"), disturbed.of("step"), strict=False):
        biggest = max((_size(torch, a) for a in left["parameters"]), default=0.0)
        for a, b in zip(left["parameters"], right["parameters"], strict=False):
            size = _size(torch, a)
            if key_of(a) not in wanted or not size or b["gradient"] is None:
                continue
            change = _apart(torch, a, disturbed, b) / size
            if change >= UNSTABLE and key_of(a) not in found:
                found[key_of(a)] = (
                    f"{a['name'] or a['uid']}: its gradient ({size:.1e}; the step's largest is {biggest:.1e}) is "
                    f"rounding noise: a disturbance of 1e-7 in the weights changes it by {change:.0%}; compared with "
                    "it held at zero on both sides"
                )
    return found


def _size(trace: Trace, entry: Entry) -> float:
    return 0.0 if entry["gradient"] is None else largest(trace.arrays[entry["gradient"]])


def _apart(left: Trace, a: Entry, right: Trace, b: Entry) -> float:
    x, y = (trace.arrays[entry["gradient"]].astype(np.float64).ravel() for trace, entry in ((left, a), (right, b)))
    return largest(x - y)


def _same_draws(left: Trace, right: Trace) -> bool:
    a, b = left.of("draw", "shuffle"), right.of("draw", "shuffle")
    return len(a) == len(b) and all(
        np.array_equal(left.arrays[x["value"]], right.arrays[y["value"]], equal_nan=True)
        for x, y in zip(a, b, strict=True)
    )
