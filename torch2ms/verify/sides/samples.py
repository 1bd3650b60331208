"""Random numbers drawn while a dataset makes one sample: augmentation.

Loaders fetch ahead, in threads, and one skips the rest of a pass that the other asks for; in call order such draws
cannot be given to the other side. So each sample draws from streams of its own, named by loader, pass and index, on
both sides, and the program's streams are left where they were.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import random
import sys
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

Place = list[int]  # number of the loader, number of the pass, index of the sample


@contextlib.contextmanager
def own_streams(place: Place) -> Iterator[list[bool]]:
    """NumPy's and Python's streams belong to one sample; yields a list that says afterwards whether it drew."""
    seed = zlib.crc32(repr(place).encode())
    numpy, python, drew = np.random.get_state(), random.getstate(), [False]
    np.random.seed(seed)
    random.seed(seed)
    start = _position(), random.getstate()
    try:
        yield drew
    finally:
        drew[0] = (_position(), random.getstate()) != start
        np.random.set_state(numpy)
        random.setstate(python)


def _position() -> tuple[int, int, float]:
    """Where NumPy's stream is: enough to see that something was drawn."""
    state = np.random.get_state(legacy=False)
    return int(state["state"]["pos"]), int(state["has_gauss"]), float(state["gauss"])


def marks() -> list[int]:
    """Where NumPy's and Python's streams are now, as two numbers to compare."""
    numpy = np.random.get_state(legacy=False)["state"]
    place = numpy["key"].tobytes() + repr(numpy["pos"]).encode()
    return [zlib.crc32(place), zlib.crc32(repr(random.getstate()).encode())]


def seed_generators(root: str) -> None:
    """`np.random.default_rng()` without a seed, in the program's files: the n-th gets n on both sides."""
    make, count = np.random.default_rng, itertools.count()

    @functools.wraps(make)
    def default_rng(seed: Any = None) -> np.random.Generator:
        if seed is None and sys._getframe(1).f_code.co_filename.startswith(root):
            seed = next(count)
        return make(seed)

    np.random.default_rng = default_rng
