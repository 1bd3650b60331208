"""Conditions that became constants, and what they leave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant

COMPARISONS: dict[type, Callable[[Any, Any], bool]] = {
    cst.Equal: lambda a, b: a == b,
    cst.NotEqual: lambda a, b: a != b,
    cst.GreaterThan: lambda a, b: a > b,
    cst.LessThan: lambda a, b: a < b,
    cst.GreaterThanEqual: lambda a, b: a >= b,
    cst.LessThanEqual: lambda a, b: a <= b,
    cst.Is: lambda a, b: a is b,
    cst.IsNot: lambda a, b: a is not b,
}


def folded(node: cst.BaseExpression) -> cst.BaseExpression:
    """A shorter form of an operation one of whose operands became a constant."""
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Not):
        value = constant(node.expression)
        return cst.Name(str(not value)) if isinstance(value, bool) else node
    if isinstance(node, cst.BooleanOperation):
        return _boolean(node)
    if isinstance(node, cst.Comparison) and len(node.comparisons) == 1:
        left, right = constant(node.left), constant(node.comparisons[0].comparator)
        compare = COMPARISONS.get(type(node.comparisons[0].operator))
        known = (bool, int, type(None))
        if compare is not None and isinstance(left, known) and isinstance(right, known):
            same = (
                isinstance(left, int)
                and isinstance(right, int)
                or not isinstance(
                    node.comparisons[0].operator,
                    (cst.GreaterThan, cst.LessThan, cst.GreaterThanEqual, cst.LessThanEqual),
                )
            )
            return cst.Name(str(compare(left, right))) if same else node
    if isinstance(node, cst.IfExp) and isinstance(value := constant(node.test), bool):
        return node.body if value else node.orelse
    return node


def _boolean(node: cst.BooleanOperation) -> cst.BaseExpression:
    left, right = constant(node.left), constant(node.right)
    decides = isinstance(node.operator, cst.Or)  # the value that makes the other operand meaningless
    if isinstance(left, bool):
        return node.left if left is decides else node.right
    if isinstance(right, bool) and right is not decides:
        return node.left
    return node


def shared_start(node: cst.If) -> list[cst.BaseStatement]:
    """The statements with which both branches of an `if` begin, where its test does nothing."""
    if not isinstance(node.orelse, cst.Else) or "(" in code(node.test):
        return []
    one, other = node.body.body, node.orelse.body.body
    if not (isinstance(node.body, cst.IndentedBlock) and isinstance(node.orelse.body, cst.IndentedBlock)):
        return []
    count = 0
    for first, second in zip(one, other, strict=False):
        if _text(first) != _text(second):
            break
        count += 1
    return list(one[:count])  # type: ignore[arg-type]


def without_start(node: cst.If, count: int) -> list[cst.BaseStatement]:
    """What is left of an `if` whose branches lose their first statements: one or none."""
    assert isinstance(node.orelse, cst.Else)
    one, other = node.body.body[count:], node.orelse.body.body[count:]
    if one and other:
        orelse = node.orelse.with_changes(body=node.orelse.body.with_changes(body=other))
        return [node.with_changes(body=node.body.with_changes(body=one), orelse=orelse, leading_lines=())]
    if one:
        return [node.with_changes(body=node.body.with_changes(body=one), orelse=None, leading_lines=())]
    if other:
        test = cst.UnaryOperation(cst.Not(), _operand(node.test))
        return [node.with_changes(test=test, body=node.orelse.body.with_changes(body=other), orelse=None,
                                  leading_lines=())]  # fmt: skip
    return []


def _operand(node: cst.BaseExpression) -> cst.BaseExpression:
    if isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or node.lpar:
        return node
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def empty(node: cst.BaseSuite) -> bool:
    """A suite that only passes."""
    lines = node.body
    return len(lines) == 1 and code(lines[0]).strip() == "pass"


def _text(stmt: cst.CSTNode) -> str:
    bare = stmt.with_changes(leading_lines=()) if hasattr(stmt, "leading_lines") else stmt
    if type(bare) is cst.SimpleStatementLine:  # what is remarked behind it
        bare = bare.with_changes(trailing_whitespace=cst.TrailingWhitespace())
    return code(bare).strip()
