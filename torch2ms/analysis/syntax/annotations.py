"""Annotations that stand in quotes, as names of what is imported for type checkers alone must."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.syntax.names import Imports, dotted, is_foreign
from torch2ms.analysis.syntax.tree import children

NAME = re.compile(r"(?<![\w.])[A-Za-z_]\w*")


def quotes(node: cst.CSTNode) -> Iterator[cst.SimpleString]:
    """The strings in an annotation that stand for code."""
    if type(node) is cst.SimpleString:
        yield node
    elif not (type(node) is cst.Subscript and dotted(node.value).rpartition(".")[2] == "Literal"):
        for child in children(node):
            yield from quotes(child)


def quoted(node: cst.SimpleString, imports: Imports) -> cst.BaseExpression | None:
    """The expression in the quotes, where it speaks of what is translated."""
    if "\\" in node.raw_value or not any(is_foreign(imports.table.get(n, "")) for n in NAME.findall(node.raw_value)):
        return None
    try:
        return cst.parse_expression(node.raw_value)
    except cst.ParserSyntaxError:
        return None


def names_in_quotes(annotation: cst.Annotation) -> set[str]:
    """Every name that the strings of an annotation mention."""
    return {name for string in quotes(annotation.annotation) for name in NAME.findall(string.raw_value)}
