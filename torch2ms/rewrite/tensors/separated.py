"""Numbers apart from a tensor among the indices: torch picks with them first, MindSpore counts them among the tensors.

`x[0, :, i]` has the dimensions of `x[0][:, i]` in torch; in MindSpore, as in NumPy, those of `i` go first.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.translation import Translation

_SEVERAL = ("tensor", "list", "numpy")


def separated(original: cst.Subscript, updated: cst.Subscript, work: Translation, read: bool) -> cst.Subscript | None:
    """The numbers in an index of their own; None where MindSpore's answer has torch's dimensions."""
    if len(original.slice) < 3:
        return None
    kinds = "".join(_kind(element.slice, work, read) for element in original.slice)
    if "?" in kinds or not _moved(kinds):
        return None
    last = kinds.rindex("n")
    elements = [e.with_changes(comma=cst.MaybeSentinel.DEFAULT) for e in updated.slice]
    picking = [
        element if kind in "n." else element.with_changes(slice=cst.Slice(None, None))
        for i, (kind, element) in enumerate(zip(kinds, elements, strict=True))
        if kind != "+" and (i <= last or "." in kinds[:last])
    ]
    rest = [element for kind, element in zip(kinds, elements, strict=True) if kind != "n"]
    return cst.Subscript(cst.Subscript(updated.value, picking), rest)


def _kind(index: cst.BaseSlice, work: Translation, read: bool) -> str:
    """n: a number, t: a tensor or a list, `:`, `.`, +: a new dimension, ?: what is not seen."""
    if isinstance(index, cst.Slice):
        return ":"
    assert isinstance(index, cst.Index)
    if index.star is not None:
        return "?"
    if isinstance(index.value, cst.Ellipsis):
        return "."
    value, known = work.module.value(index.value), constant(index.value)
    if known is None:
        return "+"
    if type(known) is int or value.kind == "int":
        return "n"
    rank = work.facts.rank(index.value) if value.kind == "tensor" else value.rank
    if rank == 0:
        return "n" if read or code(index.value).startswith("int(") else "?"
    return "t" if value.kind in _SEVERAL and (value.dtype != "bool" or rank in (None, 1)) else "?"


def _moved(kinds: str) -> bool:
    """Whether the numbers alone keep the tensors from standing side by side, behind other dimensions."""
    if "n" not in kinds or "t" not in kinds:
        return False
    without = kinds.replace("n", "")
    whole = kinds.strip(":.+").strip("nt")  # what stands between the first and the last of them
    return bool(whole) and not without.strip(":.+").strip("t") and without[0] != "t"
