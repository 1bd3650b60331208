"""Walking LibCST nodes without its visitors: only the fields that can hold code, in source order."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import lru_cache
from typing import Any, TypeVar

import libcst as cst

from torch2ms.analysis.syntax.text import code as code

Node = TypeVar("Node", bound=cst.CSTNode)
_SKIP = {
    "lpar", "rpar", "lbracket", "rbracket", "lbrace", "rbrace", "comma", "equal", "semicolon", "operator",
    "leading_lines", "header", "footer", "trailing_whitespace", "lines_after_decorators", "indent", "dot",
    "colon", "first_colon", "second_colon", "newline", "comment",
}  # fmt: skip
_FIELDS: dict[Any, tuple[str, ...]] = {}
_BACKWARDS: dict[type, tuple[str, ...]] = {}  # the same, as a stack takes them
_ALL_FIELDS: dict[type, tuple[str, ...]] = {}
_ORDER: dict[type, tuple[str, ...]] = {cst.IfExp: ("body", "test", "orelse"),
          cst.Parameters: ("posonly_params", "params", "star_arg", "kwonly_params", "star_kwarg")}  # fmt: skip
WORD = re.compile(r"""'[^'\\\r\n]*'|"[^"\\\r\n]*\"""")
DIGITS = re.compile(r"0|[1-9][0-9]*")
WORDS = {"None": None, "True": True, "False": False}


class _Kinds(dict[type, bool]):
    """Whether classes are nodes of the tree: asking their abstract base class each time would cost more than a walk."""

    def __missing__(self, kind: type) -> bool:
        known = self[kind] = issubclass(kind, cst.CSTNode)
        return known


is_node = _Kinds().__getitem__  # by the class of an instance


def code_fields(kind: type) -> tuple[str, ...]:
    """The fields of a class of nodes that can hold code."""
    names = _FIELDS.get(kind)
    if names is None:
        held = (f for f in fields(kind) if f.name not in _SKIP and f.type not in (str, "str"))
        names = _FIELDS[kind] = tuple(f.name for f in held if not f.name.startswith("whitespace"))
    return names


def source_order(kind: type) -> tuple[str, ...]:
    """The same in the order in which they stand in the source."""
    return _ORDER.get(kind) or code_fields(kind)


def children(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes directly below that are code, not layout."""
    found: list[cst.CSTNode] = []
    kind = node.__class__
    names = _FIELDS.get(kind)
    for name in code_fields(kind) if names is None else names:
        value = getattr(node, name)
        held = value.__class__
        if held is tuple or held is list:
            found += value  # LibCST's sequences hold nodes alone
        elif is_node(held):
            found.append(value)
    return found


def descend(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The node and everything below it, parents first."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        kind = current.__class__
        backwards = _BACKWARDS.get(kind)
        if backwards is None:
            backwards = _BACKWARDS[kind] = tuple(reversed(code_fields(kind)))
        for name in backwards:
            value = getattr(current, name)
            held = value.__class__
            if held is tuple or held is list:
                stack += value[::-1]  # LibCST's sequences hold nodes alone
            elif is_node(held):
                stack.append(value)


def gathered(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The same as a list, for who needs them all: a generator is resumed for every node."""
    found: list[cst.CSTNode] = []
    stack = [node]
    while stack:
        current = stack.pop()
        found.append(current)
        kind = current.__class__
        backwards = _BACKWARDS.get(kind)
        if backwards is None:
            backwards = _BACKWARDS[kind] = tuple(reversed(code_fields(kind)))
        for name in backwards:
            value = getattr(current, name)
            held = value.__class__
            if held is tuple or held is list:
                stack += value[::-1]
            elif is_node(held):
                stack.append(value)
    return found


def replaced(node: Node, **changes: Any) -> Node:
    """The node with other values in some fields: `with_changes`, without its questions about fields."""
    kind = node.__class__
    names = _ALL_FIELDS.get(kind)
    if names is None:
        names = _ALL_FIELDS[kind] = tuple(field.name for field in fields(kind))
    for name in names:
        if name not in changes:
            changes[name] = getattr(node, name)
    return kind(**changes)


def changed(node: Node, **changes: Any) -> Node:
    """The node with other values in some fields; the node itself where they are the same."""
    for name, value in changes.items():
        held = getattr(node, name)
        if held is value:
            continue
        if held != value and not (value.__class__ is list and held.__class__ is tuple and held == tuple(value)):
            return replaced(node, **changes)
    return node


@lru_cache(maxsize=10_000)
def literal_value(text: str) -> Any:
    """The value of a Python literal given as text; nobody may change it. Raises ValueError or SyntaxError for others.

    Most are plain words and numbers: `ast.literal_eval` parses, and leaves a circle of functions to the collector.
    """
    if WORD.fullmatch(text):
        return text[1:-1]
    if DIGITS.fullmatch(text):
        return int(text)
    return WORDS[text] if text in WORDS else ast.literal_eval(text)


def constant(node: cst.CSTNode | None) -> object:
    """The Python value of a literal (number, string, True, False, None), `...` for anything else."""
    if type(node) is cst.Name:
        return {"True": True, "False": False, "None": None}.get(node.value, ...)
    if type(node) is cst.Integer:
        return int(node.value.replace("_", ""), 0)
    if type(node) is cst.Float:
        return float(node.value.replace("_", ""))
    if type(node) is cst.SimpleString:
        return literal_value(node.value)
    if type(node) is cst.UnaryOperation and type(node.operator) is cst.Minus:
        value = constant(node.expression)
        return -value if isinstance(value, (int, float)) and not isinstance(value, bool) else ...
    return ...
