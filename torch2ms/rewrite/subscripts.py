"""Indices: MindSpore's tensors take integers, slices, lists and tensors, but nothing of NumPy's."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.project import ModuleInfo
from torch2ms.analysis.tree import code
from torch2ms.analysis.values import Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

TAKEN = ("tensor", "param")


def indexed(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.Subscript:
    """`x[idx]`, read or written, with indices that MindSpore takes."""
    receiver = work.module.value(original.value)
    if receiver.kind not in TAKEN:
        return updated
    elements = [
        new.with_changes(slice=_part(old.slice, new.slice, work, alone=len(original.slice) == 1, varied=receiver.deps))
        for old, new in zip(original.slice, updated.slice, strict=True)
    ]
    if all(made.slice is new.slice for made, new in zip(elements, updated.slice, strict=True)):
        return updated
    tier = Tier.ASSUMED if receiver.likely else Tier.EXACT
    why = "MindSpore's tensors take no index of this type: converted"
    why += f"; assumed: `{code(original.value)}` is a tensor" if receiver.likely else ""
    work.notes.findings.append(Finding("T2M613", tier, f"index of {code(original.value)}", why))
    return updated.with_changes(slice=elements)


def surplus_dims(target: cst.Subscript, stored: cst.BaseExpression, module: ModuleInfo) -> int:
    """How many dimensions what is stored has more than its place: torch takes them where their size is 1."""
    receiver, value = module.value(target.value), module.value(stored)
    if receiver.kind != "tensor" or receiver.likely or value.kind != "tensor" or value.likely or module.reshapes:
        return 0
    if receiver.rank is None or not value.rank:
        return 0
    place = receiver.rank
    for element in target.slice:
        if isinstance(element.slice, cst.Slice):
            continue
        assert isinstance(element.slice, cst.Index)
        if element.slice.star is not None or module.value(element.slice.value).kind != "int":
            return 0
        place -= 1
    return max(value.rank - place, 0) if place > 0 else 0


def _part(
    old: cst.BaseSlice, new: cst.BaseSlice, work: Translation, alone: bool, varied: frozenset[str]
) -> cst.BaseSlice:
    if isinstance(old, cst.Slice) and isinstance(new, cst.Slice):
        bounds = {
            name: _called("int", getattr(new, name))
            for name in ("lower", "upper", "step")
            if (bound := getattr(old, name)) is not None and work.module.value(bound).kind == "numpy"
        }
        return new.with_changes(**bounds) if bounds else new
    if not isinstance(old, cst.Index) or not isinstance(new, cst.Index) or old.star is not None:
        return new
    value = work.module.value(old.value)
    if value.kind == "tensor":
        # a number among others: the gradient of MindSpore's own form fails
        number = value.rank == 0 and not value.likely and value.dtype != "bool"
        return new.with_changes(value=_called("int", new.value)) if number and varied and not alone else new
    if value.kind == "numpy" and value.rank == 0:
        return new.with_changes(value=_called("int", new.value))
    if _array(value):
        work.notes.needs.add("ms")
        return new.with_changes(value=_called(f"{work.alias('ms')}.Tensor", new.value))
    if value.name == "range":
        return new.with_changes(value=_called("list", new.value))
    return new


def _array(value: Value) -> bool:
    return value.kind == "numpy" or value.kind == "list" and value.name == "of numpy"


def _called(name: str, node: cst.BaseExpression) -> cst.BaseExpression:
    bare = node.with_changes(lpar=[], rpar=[]) if "\n" not in code(node) and not isinstance(node, cst.Tuple) else node
    return cst.Call(cst.parse_expression(name), [cst.Arg(bare)])
