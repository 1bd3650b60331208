"""Small patterns of the text that many ask for."""

from __future__ import annotations

from typing import TypeGuard

import libcst as cst


def is_docstring(node: cst.CSTNode | None) -> bool:
    """A statement that is a text."""
    return isinstance(node, cst.Expr) and isinstance(node.value, (cst.SimpleString, cst.ConcatenatedString))


def is_gradient(node: cst.CSTNode) -> TypeGuard[cst.Attribute]:
    """`x.grad`, and `torch.autograd.grad` without its call."""
    return type(node) is cst.Attribute and node.attr.value == "grad"


def element(node: cst.CSTNode) -> cst.BaseExpression:
    """What a comprehension makes of each turn; of a dict the value."""
    return node.value if isinstance(node, cst.DictComp) else node.elt  # type: ignore[attr-defined]
