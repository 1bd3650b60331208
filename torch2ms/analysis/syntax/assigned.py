"""What assignments bind, target by target."""

from __future__ import annotations

import libcst as cst

Pair = tuple[cst.BaseExpression, cst.BaseExpression]  # a target and the value that it gets


def assigned(node: cst.CSTNode) -> list[Pair]:
    """Target and value of `a = x`, and of each part of `a, b = x, y`; nothing of `a = b = x` and other statements."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return []
    return side_by_side(node.targets[0].target, node.value)


def side_by_side(target: cst.BaseExpression, value: cst.BaseExpression) -> list[Pair]:
    """`a, b = x, y` binds a to x and b to y, where both are written out."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        return [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True)]
    return [(target, value)]
