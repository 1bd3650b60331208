"""Heads of loops in which gradients are taken: what a loop runs over, and what of it each turn differentiates."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend


def counts(node: cst.For) -> bool:
    """`for i, y in enumerate(outputs)`."""
    return isinstance(node.iter, cst.Call) and dotted(node.iter.func) == "enumerate" and len(node.iter.args) == 1


def beside(
    target: cst.BaseExpression, over: cst.BaseExpression, used: set[str]
) -> tuple[cst.BaseExpression, cst.BaseExpression]:
    """The part of a loop over several things that is used: `y` and `ys` of `for name, y in zip(names, ys)`."""
    if not isinstance(over, cst.Call) or dotted(over.func) != "zip" or not isinstance(target, cst.Tuple):
        return target, over
    pairs = [(e.value, a.value) for e, a in zip(target.elements, over.args, strict=False)]
    wanted = [(t, a) for t, a in pairs if {n.value for n in descend(t) if type(n) is cst.Name} & used]
    return wanted[0] if len(wanted) == 1 else (target, over)


def shown(
    target: cst.BaseExpression, over: cst.BaseExpression, used: set[str]
) -> tuple[cst.BaseExpression, str] | None:
    """What takes the output out of a list that stands in the head of a loop, and where it is in each of its items.

    `for loss in [a, b]`, `for name, loss in [("a", a), ("b", 0.5 * b)]`: made again, as long as it calls nothing.
    """
    if not isinstance(over, (cst.List, cst.Tuple)) or not over.elements:
        return None
    if not all(_is_plain(n) for n in descend(over)):
        return None
    if isinstance(target, cst.Name):
        return target, ""
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else []
    wanted = [n for n, part in enumerate(parts) if dotted(part) in used]
    rows = [len(e.value.elements) if isinstance(e.value, (cst.List, cst.Tuple)) else 0 for e in over.elements]
    return (parts[wanted[0]], f"[{wanted[0]}]") if len(wanted) == 1 and set(rows) == {len(parts)} else None


def _is_plain(node: cst.CSTNode) -> bool:
    """Part of an expression that is the same text in MindSpore: names, numbers and what is computed of them."""
    if isinstance(node, cst.Attribute):
        return isinstance(node.value, cst.Name) and node.value.value == "self"
    other = isinstance(node, (cst.BaseExpression, cst.StarredElement))
    kinds = (cst.Name, cst.BaseNumber, cst.SimpleString, cst.BinaryOperation, cst.UnaryOperation, cst.List, cst.Tuple)
    return not other or isinstance(node, kinds)


def held(over: cst.BaseExpression) -> tuple[str, str]:
    """What a loop runs over, and what it asks of it: `losses`, `losses.items()`, `losses.values()`."""
    if isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) and not over.args:
        asked = over.func.attr.value
        return (dotted(over.func.value), asked) if asked in ("items", "values") else ("", "")
    return dotted(over), ""


def key_of(target: cst.BaseExpression, asked: str) -> str:
    """The name that stands for the key in each turn."""
    if asked == "items":
        pair = isinstance(target, cst.Tuple) and len(target.elements) == 2
        return dotted(target.elements[0].value) if pair else ""  # type: ignore[attr-defined]
    return "" if asked else dotted(target)


def picks(output: cst.BaseExpression, target: cst.BaseExpression, key: str, made: set[str]) -> bool:
    """The output is the value beside the key, or what a dict of the forward has under it."""
    if isinstance(target, cst.Tuple) and dotted(output):
        return dotted(output) == dotted(target.elements[1].value)
    one = isinstance(output, cst.Subscript) and len(output.slice) == 1 and dotted(output.value) in made
    index = output.slice[0].slice if one else None  # type: ignore[attr-defined]
    return isinstance(index, cst.Index) and dotted(index.value) == key
