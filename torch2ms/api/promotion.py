"""The element type that torch gives a result of several."""

from __future__ import annotations

from collections.abc import Sequence

_WHOLE = ("uint8", "int8", "int16", "int32", "int64")
_BROKEN = ("float16", "bfloat16", "float32", "float64")


def narrowed(types: Sequence[str], ranks: Sequence[int | None]) -> str:
    """The type of the tensors with dimensions, where MindSpore would take the wider one of tensors without any."""
    if "" in types or None in ranks:
        return ""
    inner = {kind for kind, rank in zip(types, ranks, strict=True) if rank == 0}
    outer = {kind for kind, rank in zip(types, ranks, strict=True) if rank != 0}
    wide = promoted(outer) if inner and outer else ""
    category = next((c for c in (_WHOLE, _BROKEN) if wide in c), ())
    below = _WHOLE if category is _BROKEN else ()
    if not all(kind in category or kind in below or kind == "bool" for kind in inner):
        return ""
    return wide if promoted(inner | outer) != wide else ""


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
