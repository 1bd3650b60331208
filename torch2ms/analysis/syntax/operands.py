"""Expressions as parts of others: which need parentheses there, and which may as well stand there twice."""

from __future__ import annotations

import libcst as cst

_ATOMS = frozenset({
    cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.SimpleString, cst.FormattedString, cst.Integer, cst.Float,
    cst.List, cst.Dict, cst.Set, cst.ListComp, cst.DictComp, cst.SetComp,
})  # fmt: skip


def atomic(node: cst.BaseExpression) -> bool:
    """True where a node can stand next to any operator without parentheses."""
    return type(node) in _ATOMS or bool(getattr(node, "lpar", ()))


def parenthesised(node: cst.BaseExpression) -> cst.BaseExpression:
    """The node with parentheses, unless it is atomic."""
    if atomic(node):
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def simple(node: cst.BaseExpression) -> bool:
    """True where evaluating an expression twice is as good as once."""
    if isinstance(node, (cst.Name, cst.Integer, cst.Float, cst.SimpleString, cst.Ellipsis)):
        return True
    if isinstance(node, cst.Attribute):
        return simple(node.value)
    if isinstance(node, cst.UnaryOperation):
        return simple(node.expression)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "astype":
        return simple(node.func.value)  # a conversion that a rule put around a name
    if isinstance(node, (cst.Tuple, cst.List)):
        return all(isinstance(element, cst.Element) and simple(element.value) for element in node.elements)
    if isinstance(node, cst.Subscript):
        return simple(node.value) and all(_simple_slice(part.slice) for part in node.slice)
    return False


def _simple_slice(part: cst.BaseSlice) -> bool:
    if isinstance(part, cst.Index):
        return simple(part.value)
    assert isinstance(part, cst.Slice)
    return all(bound is None or simple(bound) for bound in (part.lower, part.upper, part.step))
