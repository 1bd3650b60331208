"""Chains of in-place methods: `x.add_(y).mul_(z)`."""

from __future__ import annotations

import libcst as cst

NOT_IN_PLACE = {"requires_grad_", "retain_grad_", "detach_"}


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


def is_temporary(node: cst.CSTNode) -> bool:
    """What a call or an operator gives, or `.data` of a copy."""
    if isinstance(node, cst.Attribute) and node.attr.value == "data" and isinstance(node.value, cst.Call):
        return isinstance(node.value.func, cst.Attribute) and node.value.func.attr.value == "clone"
    if isinstance(node, cst.UnaryOperation):
        return not isinstance(node.operator, cst.Plus)  # which gives the tensor itself
    return isinstance(node, (cst.Call, cst.BinaryOperation, cst.Comparison))
