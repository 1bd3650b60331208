"""Joining tensors of several element types, which MindSpore does not promote."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use

_WHOLE = ("uint8", "int8", "int16", "int32", "int64")
_BROKEN = ("float16", "bfloat16", "float32", "float64")
_JOINED = {"concat": "cat", "concatenate": "cat"}


def promoted(types: set[str]) -> str:
    """The element type that torch gives a result of several, empty where this table does not say."""
    if "complex64" in types or "complex128" in types:
        return "complex128" if types & {"complex128", "float64"} else "complex64"
    broken = types.intersection(_BROKEN)
    if broken == {"float16", "bfloat16"}:
        return "float32"
    if broken:
        return max(broken, key=_BROKEN.index)
    whole = types.intersection(_WHOLE)
    if whole == {"uint8", "int8"}:
        return "int16"
    return max(whole, key=_WHOLE.index) if whole else ""


def joined(use: Use) -> Choice:
    """`cat`, `stack`, `hstack` and the like of a list whose elements are known to differ in type."""
    name = _JOINED.get(use.short, use.short)
    axis = ", {dim:axis}" if name in ("cat", "stack") else ""
    node = use.node("tensors")
    elements = node.elements if isinstance(node, (cst.List, cst.Tuple)) else ()
    types = [use.facts.dtype(e.value) if isinstance(e, cst.Element) else "" for e in elements]
    common = promoted(set(types)) if all(types) and len(set(types)) > 1 else ""
    parts = f"[part.astype(ms.{common}) for part in {{tensors}}]" if common else "{tensors}"
    return Choice(f"ops.{name}({parts}{axis})")
