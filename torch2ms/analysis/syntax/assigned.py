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


MAKING = ("list", "tuple", "dict", "OrderedDict")


def members(value: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a collection holds that is written out, as far as it is seen; of anything else, that itself."""
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        return [part for e in value.elements for part in (members(e.value) if type(e) in _STARRED else [e.value])]
    if isinstance(value, (cst.ListComp, cst.GeneratorExp)):
        return [value.elt]
    if isinstance(value, cst.DictComp):
        return [value.value]
    if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, (cst.Add, cst.Multiply)):
        return [part for side in (value.left, value.right) for part in members(side)]
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.func.value in MAKING:
        return [part for arg in value.args for part in members(arg.value)]
    return [value]


_STARRED = (cst.StarredElement, cst.StarredDictElement)
