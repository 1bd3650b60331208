"""Packages that work on torch, when it is they that are converted: their names are their own then."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable

from torch2ms.analysis.syntax.names import FOREIGN


def around(paths: Iterable[str], exists: Callable[[str], bool] = os.path.exists) -> tuple[str, ...]:
    """The packages in which the modules stand, sorted; torch itself stays what it is."""
    asked: set[str] = set()
    found = set()
    for path in paths:
        folder, _, _ = path.rpartition("/")
        while folder and folder not in asked:
            asked.add(folder)
            above, _, name = folder.rpartition("/")
            if name in FOREIGN and name != "torch" and exists(f"{folder}/__init__.py"):
                found.add(name)
            folder = above
    return tuple(sorted(found))
