"""In-place methods as the text shows them, alone and in chains: `x.add_(y).mul_(z)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant

NOT_IN_PLACE = {"requires_grad_", "retain_grad_", "detach_"}
TYPED = {"eq_", "ne_", "gt_", "ge_", "lt_", "le_", "greater_", "less_", "not_equal_", "greater_equal_", "less_equal_",
         "logical_not_", "logical_and_", "logical_or_", "logical_xor_"}  # fmt: skip


def is_change(node: cst.CSTNode) -> bool:
    """A call that is written like a change in place: `x.add_(y)`."""
    if type(node) is not cst.Call or type(node.func) is not cst.Attribute:
        return False
    name = node.func.attr.value
    return name.endswith("_") and not name.endswith("__") and name not in NOT_IN_PLACE


def base(node: cst.CSTNode) -> cst.CSTNode:
    """What a chain of in-place methods starts from."""
    while is_change(node):
        node = node.func.value  # type: ignore[attr-defined]
    return node


def is_temporary(node: cst.CSTNode, module: ModuleInfo | None = None) -> bool:
    """What a call or an operator gives, `.data` of a copy, or elements that a mask picks."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data" and isinstance(node.value, cst.Call):
        return isinstance(node.value.func, cst.Attribute) and node.value.func.attr.value == "clone"
    if isinstance(node, cst.UnaryOperation):
        return not isinstance(node.operator, cst.Plus)  # which gives the tensor itself
    if module is not None and picked(node, module):
        return True
    return isinstance(node, (cst.Call, cst.BinaryOperation, cst.Comparison))


def picked(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`x[~mask]`, `x[x > 0]`, `x[rows, :]`: elements that a mask or a list of numbers picks are a copy."""
    places = [e.slice.value for e in node.slice if type(e.slice) is cst.Index] if type(node) is cst.Subscript else []
    return any(_picks(place, module, alone=len(node.slice) == 1) for place in places)  # type: ignore[attr-defined]


def _picks(place: cst.BaseExpression, module: ModuleInfo, alone: bool) -> bool:
    value = module.value(place)
    if value.kind == "tensor" and not value.likely and (value.rank or value.dtype == "bool"):
        return True
    if not alone:
        return False
    inverted = isinstance(place, cst.UnaryOperation) and isinstance(place.operator, cst.BitInvert)
    return (inverted or isinstance(place, cst.Comparison)) and value.kind == "tensor"


def of_dict(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`state["h"]`: what a dict holds under a key that is written there."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not dotted(node.value):
        return False
    index = node.slice[0].slice
    return module.value(node.value).kind == "dict" and isinstance(index, cst.Index) and constant(index.value) is not ...
