"""Walking LibCST nodes without its visitors: only the fields that can hold code, in source order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import libcst as cst

_SKIP = {
    "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "equal", "semicolon", "operator",
    "leading_lines", "header", "footer", "trailing_whitespace", "lines_after_decorators", "indent", "dot",
    "colon", "first_colon", "second_colon", "newline", "comment",
}  # fmt: skip
_FIELDS: dict[type, tuple[str, ...]] = {}


def _code_fields(kind: type) -> tuple[str, ...]:
    names = tuple(f.name for f in fields(kind) if f.name not in _SKIP and not f.name.startswith("whitespace"))
    _FIELDS[kind] = names
    return names


def children(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes directly below that are code, not layout."""
    kind = type(node)
    for name in _FIELDS.get(kind) or _code_fields(kind):
        value = getattr(node, name)
        if isinstance(value, cst.CSTNode):
            yield value
        elif isinstance(value, (list, tuple)):
            for item in value:
                if isinstance(item, cst.CSTNode):
                    yield item


def descend(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, parents first."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(list(children(current))))


def constant(node: cst.CSTNode | None) -> object:
    """The Python value of a literal (number, string, True, False, None), `...` for anything else."""
    if isinstance(node, cst.Name):
        return {"True": True, "False": False, "None": None}.get(node.value, ...)
    if isinstance(node, cst.Integer):
        return int(node.value.replace("_", ""), 0)
    if isinstance(node, cst.Float):
        return float(node.value.replace("_", ""))
    if isinstance(node, cst.SimpleString):
        return node.evaluated_value
    if isinstance(node, cst.UnaryOperation) and isinstance(node.operator, cst.Minus):
        value = constant(node.expression)
        return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else ...
    return ...


def code(node: cst.CSTNode) -> str:
    """The source text of a node."""
    return _EMPTY.code_for_node(node)


_EMPTY = cst.Module([])
