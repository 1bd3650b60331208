"""Annotations: assignments that have some are read as those without, and what stands in quotes is read as code.

What is trained and differentiated is known by assignments; `loss: Tensor = criterion(out, y)` is one more of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TypeVar

import libcst as cst

from torch2ms.analysis.syntax.names import Imports, dotted, is_foreign
from torch2ms.analysis.syntax.tree import changed, children, code, code_fields, is_node

Node = TypeVar("Node", bound=cst.CSTNode)
BODIES = ("body", "orelse", "handlers", "finalbody", "cases")
ANNOTATED = re.compile(r"^[ \t]*[^\W\d][\w.]*(?:\[[^\]\n]*\])*[ \t]*:[ \t]*[^\s=]", re.MULTILINE).search
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


def but_none(annotation: cst.BaseExpression) -> cst.BaseExpression:
    """What an annotation names beside None: `Net` in `Optional[Net]` and `Net | None`."""
    if type(annotation) is cst.Subscript and dotted(annotation.value).rpartition(".")[2] == "Optional":
        held = annotation.slice[0].slice
        return held.value if type(held) is cst.Index else annotation
    if type(annotation) is cst.BinaryOperation and type(annotation.operator) is cst.BitOr:
        sides = (annotation.left, annotation.right)
        return next((one for one, other in (sides, sides[::-1]) if dotted(other) == "None"), annotation)
    return annotation


Annotated = dict[int, cst.AnnAssign]  # by id of the target that each assigns to


def read_plainly(tree: cst.Module, source: str) -> tuple[cst.Module, Annotated]:
    """The tree with annotated assignments as plain ones, and what they were; bodies of classes declare with them."""
    found: Annotated = {}
    if not ANNOTATED(source):
        return tree, found

    def plain(node: cst.CSTNode, declares: bool) -> cst.CSTNode:
        if type(node) is not cst.AnnAssign or declares or node.value is None or "#" in code(node.annotation.annotation):
            return node
        found[id(node.target)] = node
        return cst.Assign([cst.AssignTarget(node.target)], node.value, semicolon=node.semicolon)

    return _with_small(tree, plain, declares=False), found


def as_written(node: Node, annotated: Annotated) -> Node:
    """A statement with the annotations that it had, where nothing in it was translated."""

    def written(small: cst.CSTNode, declares: bool) -> cst.CSTNode:
        was = annotated.get(id(small.targets[0].target)) if type(small) is cst.Assign else None
        return small if was is None else was

    return _with_small(node, written, declares=False) if annotated else node


def _with_small(node: Node, made: Callable[[cst.CSTNode, bool], cst.CSTNode], declares: bool) -> Node:
    """A statement, or what holds statements, with each small one made anew; `declares`: in the body of a class."""
    kind = node.__class__
    names = _HOLDING.get(kind)
    if names is None:
        small = issubclass(kind, cst.BaseSmallStatement)
        names = _HOLDING[kind] = () if small else tuple(name for name in BODIES if name in code_fields(kind))
    if not names:
        return made(node, declares)  # type: ignore[return-value]
    inside = kind is cst.ClassDef or declares and kind is not cst.FunctionDef
    changes: dict[str, object] = {}
    for name in names:
        held = getattr(node, name)
        if held.__class__ is tuple or held.__class__ is list:
            changes[name] = [_with_small(stmt, made, inside) for stmt in held]
        elif is_node(held.__class__):
            changes[name] = _with_small(held, made, inside)
    return changed(node, **changes)


_HOLDING: dict[type, tuple[str, ...]] = {}  # fields with statements, by class; none: it is a small one


def annotated_again(was: cst.AnnAssign, annotation: cst.Annotation, node: cst.Assign) -> cst.AnnAssign:
    """An assignment with an annotation, laid out as it was."""
    return was.with_changes(
        target=node.targets[0].target, annotation=annotation, value=node.value, semicolon=node.semicolon
    )
