"""Match a double-precision run of torch with the ordinary one, observation by observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch2ms.verify.comparison.numbers import largest
from torch2ms.verify.trace import Array, Trace, key_of

ROUNDING_TIMES = 4  # how many times torch's own accumulated rounding another framework may be from the exact value
ROUNDING_LIMIT = 1e-3  # of the tensor's size: what torch has lost beyond that can excuse nothing
DIGITS_LOST = 1e-5  # of the tensor's size: far above single precision's last digit
BESIDE_LIMIT = 1e-6  # of the largest gradient of the same loss: what is left where large terms cancel


class Reference:
    """What exact arithmetic gives for the arrays and losses of torch's trace."""

    def __init__(self, torch: Trace, double: Trace | None) -> None:
        self.arrays: dict[int, Array] = {}
        self.losses: dict[int, float] = {}
        self.torch, self.double = torch, double
        if double is None or [e["kind"] for e in torch.events] != [e["kind"] for e in double.events]:
            return
        for left, right in zip(torch.events, double.events, strict=True):
            if "value" in left and isinstance(left["value"], float):
                self.losses[id(left)] = right["value"]
            self._match(left, right)

    def _match(self, left: Any, right: Any) -> None:
        if isinstance(left, dict):
            for key, value in left.items():
                if key in right:
                    self._match(value, right[key])
        elif isinstance(left, list):
            if left and isinstance(left[0], dict) and "own" in left[0]:  # found by a walk over sets: in any order
                others = {key_of(entry): entry for entry in right}
                right = [others.get(key_of(entry), {}) for entry in left]
            for a, b in zip(left, right, strict=False):
                self._match(a, b)
        elif isinstance(left, str) and left in self.torch.arrays and self.double and right in self.double.arrays:
            a, b = self.torch.arrays[left], self.double.arrays[right]
            if a.shape == b.shape and a.dtype.kind in "fc":
                self.arrays[id(a)] = b

    def distances(self, truth: Array, left: Array, right: Array) -> tuple[float, float]:
        """How far torch's and MindSpore's values are from the exact ones."""
        return largest(left.astype(truth.dtype) - truth), largest(right.astype(truth.dtype) - truth)


def is_rounding(torch: float, mindspore: float, truth: Array, beside: float = 0.0) -> bool:
    """Whether MindSpore is about as near to the exact value as torch, which has itself only lost digits.

    `beside` is the size of what comes from the same sums, as the other gradients of a loss do.
    """
    lost = torch <= max(ROUNDING_LIMIT * largest(truth), BESIDE_LIMIT * beside)
    return lost and mindspore <= ROUNDING_TIMES * torch and bool(np.isfinite(mindspore))


def few_digits(torch: float, mindspore: float, truth: Array) -> bool:
    """Whether a constant loses digits where torch computes it, as sines of large angles do, and here about as many."""
    size = largest(truth)
    return DIGITS_LOST * size < torch and max(torch, mindspore) <= ROUNDING_LIMIT * size
