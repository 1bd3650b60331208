"""Steps of optimizers inside of steps of others: which of them are updates of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from torch2ms.verify.trace import Array


class Nested:
    """An optimizer around another one that changes nothing after the inner step has made no update of its own.

    Translations write some such steps out where they are called, so that only the inner one is left.
    """

    def __init__(self, to_array: Callable[[Any], Array | None]) -> None:
        self.to_array = to_array
        self.levels: list[dict[int, Array | None]] = []

    def begin(self) -> None:
        self.levels.append({})

    def end(self, parameters: Iterable[Any]) -> bool:
        """Whether the step that ends has changed a weight itself."""
        inside = self.levels.pop()
        if not inside and not self.levels:
            return True
        values = {id(p): None if (value := self.to_array(p)) is None else value.copy() for p in parameters}
        if self.levels:
            self.levels[-1] |= values
        return not inside or any(i not in inside or not _same(v, inside[i]) for i, v in values.items())


def _same(value: Array | None, other: Array | None) -> bool:
    return value is not None and other is not None and np.array_equal(value, other, equal_nan=True)
