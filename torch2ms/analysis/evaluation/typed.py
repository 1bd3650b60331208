"""Element types and ranks of tensors that objects keep: known where all that stores one is seen, and agrees."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import TYPE_CHECKING

from torch2ms.analysis import shapes
from torch2ms.analysis.values import EITHER, Value, replace

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ClassInfo, Project

_KEPT = ("int", "uint", "bool", "complex")  # types that a network keeps when it is moved to another one
_COMPUTED = re.compile(r"\bsetattr\(|__dict__|__setattr__|\bvars\(|__setstate__|\b_replace\(")


def lasting(attr: str, held: Value, bound: Collection[Value], cls: ClassInfo, project: Project) -> Value:
    """What the methods of a class put into an attribute, as every method sees it."""
    kept = held.kind == "tensor" and (held.dtype or held.rank is not None or held.odd)
    if not kept or not _all_seen(attr, bound, cls, project):
        return shapes.forgotten(held)
    if cls.kind == "module":
        return replace(held, dtype=held.dtype if held.dtype.startswith(_KEPT) else "")
    return held


def _all_seen(attr: str, bound: Collection[Value], cls: ClassInfo, project: Project) -> bool:
    """No class above or below, no other code and no value that nobody knows has a part in it."""
    if any(v.kind not in ("tensor", "none") or v.likely or v.name == EITHER for v in bound):
        return False
    if cls.children or len(list(cls.lineage())) > 1:
        return False
    return not project.says(_COMPUTED) and not project.says(_stored(attr))


@lru_cache(maxsize=1000)
def _stored(attr: str) -> re.Pattern[str]:
    """`holder.x = ...` of something else than `self`, and `self.x.data = ...`."""
    name = re.escape(attr)
    return re.compile(rf"(?<!\bself)\.{name}\s*(?:,[^=\n()]*)?(?:[-+*/@%&|^]|//|\*\*|<<|>>)?=(?!=)|\.{name}\.data\s*=")
