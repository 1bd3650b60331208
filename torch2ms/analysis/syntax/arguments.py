"""What a call is given, by name or by position."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant


def argument(call: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """The value of an argument, by its name or its position."""
    for arg in call.args:
        if arg.keyword is not None and arg.keyword.value == name:
            return arg.value
        if arg.star == "**" and type(arg.value) is cst.Dict:  # `backward(**{"retain_graph": True})`
            for each in arg.value.elements:
                if type(each) is cst.DictElement and constant(each.key) == name:
                    return each.value
    if position < len(call.args):
        arg = call.args[position]
        if arg.keyword is None and not arg.star:
            return arg.value
    return None


def unless_none(call: cst.Call, position: int, name: str) -> cst.BaseExpression | None:
    """The argument, where it is not the None that torch takes as well."""
    node = argument(call, position, name)
    return node if node is not None and constant(node) is not None else None


def to_clip(call: cst.Call) -> cst.BaseExpression:
    """What a call clips; keywords may stand in any order."""
    return argument(call, 0, "parameters") or call.args[0].value


def is_on(node: cst.BaseExpression | None) -> bool:
    """A flag that is given, and not as one that is off."""
    return node is not None and constant(node) not in (False, None)


def decided(node: cst.BaseExpression | None) -> bool:
    """A flag that is given as neither on nor off; whether gradients are on, or a network trains, are no questions.

    Nobody differentiates again what was computed where they are not.
    """
    if node is None or constant(node) in (True, False, None):
        return False
    last = dotted(node.func if isinstance(node, cst.Call) else node).rpartition(".")[2]
    return last not in ("is_grad_enabled", "training", "is_training")


def listed(node: cst.BaseExpression | None) -> list[cst.BaseExpression]:
    """What a list or tuple that is written there holds, or the one thing that stands in its place."""
    if type(node) is cst.List or type(node) is cst.Tuple:
        return [e.value for e in node.elements]
    return [node] if node is not None else []
