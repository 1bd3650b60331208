"""Packages that work on torch. When it is they that are converted, their names are their own.

Asked before anything is converted: LibCST is not imported here.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from torch2ms.packs import packs

# packages whose objects are torch's: what is imported from them is translated or marked
_KNOWN = ("torch", "torchvision", "torchaudio", "apex", "functorch", "accelerate", "deepspeed", "lightning",
           "lightning_fabric", "pytorch_lightning", "timm", "torchmetrics", "botorch", "captum", "einops", "gpytorch",
           "higher", "ignite", "kornia", "learn2learn", "opacus", "pyro", "pytorch_metric_learning", "skorch",
           "tensordict", "torch_geometric", "torch_optimizer", "torch_scatter", "torch_sparse", "torchattacks",
           "torchdiffeq", "torchrl", "torchtext", "torch_xla")  # fmt: skip
_OWN: ContextVar[frozenset[str]] = ContextVar("own packages", default=frozenset())
FOREIGN = frozenset(_KNOWN).union(*(pack.roots for pack in packs()))


def is_foreign(name: str) -> bool:
    root = name.split(".", 1)[0]
    return root in FOREIGN and root not in _OWN.get()


@contextmanager
def own_packages(names: Iterable[str]) -> Iterator[None]:
    """While the modules of these packages are converted, they are nobody else's: captum's files import captum."""
    token = _OWN.set(frozenset(names))
    try:
        yield
    finally:
        _OWN.reset(token)


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
