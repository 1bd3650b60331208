"""The MindSpore name and shape of a parameter in a PyTorch checkpoint, by the classes of the layers on its path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from torch2ms.verify.sides.layers import layer_table


@dataclass(frozen=True)
class Place:
    """Where an entry goes: its name there, and the axis of length one that it gets."""

    name: str
    expand: int | None = None


def place_of(key: str, classes: Mapping[str, str]) -> Place | None:
    """The place of a checkpoint's entry, None for what MindSpore does not keep.

    `classes` gives the torch class of each module path that is a layer of rules/params.toml.
    """
    table = layer_table()
    *path, leaf = key.split(".")
    parts: list[str] = []
    for depth, part in enumerate(path):
        owner = classes.get(".".join(path[:depth]))
        parts.append(table[owner].parts.get(part, part) if owner else part)
    own = table.get(classes.get(".".join(path), ""))
    if own is None:
        return Place(".".join([*parts, leaf]))
    if leaf in own.drop:
        return None
    return Place(".".join([*parts, own.rename.get(leaf, leaf)]), own.expand.get(leaf))
