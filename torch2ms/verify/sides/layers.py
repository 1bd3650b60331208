"""The table of layers that own parameters: what a torch parameter is called and shaped like on the other side."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from torch2ms.data import rules_dir
from torch2ms.verify.trace import Array

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


@dataclass(frozen=True)
class Layer:
    """One row of rules/params.toml."""

    torch: str
    cells: tuple[str, ...]
    rename: dict[str, str] = field(default_factory=dict)
    parts: dict[str, str] = field(default_factory=dict)
    expand: dict[str, int] = field(default_factory=dict)
    drop: tuple[str, ...] = ()


@lru_cache(maxsize=1)
def layer_table() -> dict[str, Layer]:
    """The rows by torch class name."""
    document = tomllib.loads((rules_dir() / "params.toml").read_text(encoding="utf-8"))
    return {
        name: Layer(
            name,
            tuple(row["cells"]),
            row.get("rename", {}),
            row.get("parts", {}),
            row.get("expand", {}),
            tuple(row.get("drop", ())),
        )
        for name, row in document["layers"].items()
    }


def mindspore_name(layer: Layer, owner: str, name: str) -> str:
    """The MindSpore name of parameter `name` (dotted for a layer of layers) owned by a part of class `owner`."""
    *path, leaf = name.split(".")
    own = layer_table().get(owner, layer)
    return ".".join([*(layer.parts.get(part, part) for part in path), own.rename.get(leaf, leaf)])


def fit(array: Array, shape: tuple[int, ...]) -> Array | None:
    """The array in the other side's shape if they differ by axes of length one only, else None."""
    if array.shape == tuple(shape):
        return array
    if [n for n in array.shape if n != 1] == [n for n in shape if n != 1]:
        return array.reshape(shape)
    return None


def describe(parameter: Any) -> str:
    """Shape as text for messages."""
    return "x".join(map(str, parameter.shape)) or "scalar"
