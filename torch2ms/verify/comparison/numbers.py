"""When two arrays count as equal, and how far apart they are."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from torch2ms.verify.trace import Array

OWN_WAY = re.compile(r"\btensor\(|\bTensor\(shape=|\bParameter (?:\(|containing)|^\s*\(\w+\): \w+[(<]", re.M)


@dataclass(frozen=True)
class Tolerance:
    """`atol` is meant for tensors of magnitude up to one and grows with the tensor's largest value."""

    rtol: float
    atol: float


FLOAT32 = Tolerance(2e-4, 2e-5)
HALF = Tolerance(2e-3, 5e-4)
NOTHING = 1e-9  # of the largest number on a printed line: far below the last digit of single precision
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|nan|inf)(?![\w.]*\w)")


@dataclass(frozen=True)
class Judgement:
    """The outcome for one pair of tensors."""

    equal: bool
    max_abs: float
    max_rel: float
    why: str = ""


def judge(left: Array, right: Array, tolerance: Tolerance, scale: float = 1.0, moved: float = np.inf) -> Judgement:
    """Compare in float64. `scale` is the magnitude below which `atol` does not shrink.

    `moved` is how far the values have come from where they started: a wrong update of a weight must not hide in a
    tolerance that is wide beside the update, so the difference may be a fiftieth of it (or the weight's own rounding).
    """
    if left.shape != right.shape:
        if left.size == right.size == 1:
            left, right = left.reshape(()), right.reshape(())
        else:
            return Judgement(False, np.inf, np.inf, f"shapes {left.shape} and {right.shape}")
    kind = np.complex128 if np.iscomplexobj(left) or np.iscomplexobj(right) else np.float64
    a, b = left.astype(kind), right.astype(kind)
    if not np.array_equal(np.isnan(a), np.isnan(b)):
        return Judgement(False, np.nan, np.nan, f"{np.isnan(a).sum()} NaN in torch, {np.isnan(b).sum()} in mindspore")
    finite = np.isfinite(a) & np.isfinite(b)
    infinite = ~finite & ~np.isnan(a)
    if not np.array_equal(a[infinite], b[infinite]):
        return Judgement(False, np.inf, np.inf, "infinite in different places")
    why = f"{np.isnan(a).sum()} NaN in the same places" if np.isnan(a).any() else ""
    x, y = a[finite], b[finite]
    if not x.size:
        return Judgement(True, 0.0, 0.0, why)
    difference, size = np.abs(x - y), np.abs(x)
    top = float(size.max())
    allowed = tolerance.atol * max(scale, top) + tolerance.rtol * size
    if moved < np.inf:
        allowed = np.minimum(allowed, max(moved / 50, 1e-6 * top))
    equal = bool((difference <= allowed).all())
    relative = float((difference / np.maximum(size, 1e-3 * top + 1e-12)).max())
    return Judgement(equal, float(difference.max()), relative, why)


def largest(array: Array) -> float:
    """The largest finite magnitude, 0 if there is none."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def printed_numbers(text: str) -> list[list[str]]:
    """The numbers of every printed line that has any."""
    lines = (NUMBER.findall(line) for line in text.splitlines())
    return [numbers for numbers in lines if numbers]


def writes_by_itself(text: str) -> bool:
    """A framework wrote a tensor in a container, a parameter or a network: on as many lines as it likes."""
    return OWN_WAY.search(text) is not None


def aligned(left: list[list[str]], right: list[list[str]]) -> list[list[str]]:
    """The right lines, broken where the left ones are: frameworks wrap the same tensor at other places."""
    numbers = [number for line in right for number in line]
    if len(numbers) != sum(map(len, left)):
        return right
    ends = list(accumulate(map(len, left), initial=0))
    return [numbers[start:end] for start, end in pairwise(ends)]


def different_lines(left: list[list[str]], right: list[list[str]]) -> list[int]:
    """The lines, counted from 1, whose numbers differ."""
    found = []
    for i, (one, other) in enumerate(zip(left, right, strict=False), 1):
        top = max((abs(x) for x in map(float, one) if x < float("inf")), default=0.0)
        alike = len(one) == len(other) and all(map(same_printed, one, other, [NOTHING * top] * len(one)))
        if not alike:
            found.append(i)
    return found


def same_printed(left: str, right: str, nothing: float = 0.0) -> bool:
    """Equal up to the last printed digit and the tolerance of single precision, or both next to nothing."""
    a, b = float(left), float(right)
    if a == b or (a != a and b != b) or abs(a - b) <= nothing:
        return True
    decimals = min(len(number.partition(".")[2].split("e")[0]) for number in (left, right))
    return abs(a - b) <= 1.01 * 10.0**-decimals * ("." in left or "e" in left) + 1e-3 * abs(a)
