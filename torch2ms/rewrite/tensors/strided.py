"""Slices with a step whose gradient MindSpore's kernel does not take: those of dimensions in the middle."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.translation import Translation

Element = cst.SubscriptElement


def strided(original: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.BaseExpression | None:
    """`x[:, 0::2, 1::2]` one dimension after the other; nothing where MindSpore can do it as it stands."""
    places = _places(original)
    if places is None:
        return None
    rank = work.facts.rank(original.value)
    left = [i for i, place in places.items() if _in_the_middle(place, rank)]
    if not left:
        return None
    made = code(updated.value)
    for i in left:
        part = updated.slice[i].slice
        assert isinstance(part, cst.Slice) and part.step is not None
        lower, upper = (code(b) if b is not None else "None" for b in (part.lower, part.upper))
        made = f"strided({made}, {places[i]}, {lower}, {upper}, {code(part.step)})"
    work.notes.needs.add("strided")
    node = cst.parse_expression(made)
    rest = [e.with_changes(slice=cst.Slice(None, None)) if i in left else e for i, e in enumerate(updated.slice)]
    while rest and (_whole(rest[-1]) or _dots(rest[-1])):
        rest.pop()
    if not rest or all(_whole(e) or _dots(e) for e in rest):
        return node
    rest[-1] = rest[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return cst.Subscript(node, rest)


def _places(node: cst.Subscript) -> dict[int, int] | None:
    """The dimensions of the elements with a step, from the end behind an ellipsis; None where they are not seen."""
    elements = [e.slice for e in node.slice]
    if any(isinstance(e, cst.Index) and (e.star is not None or not _counts(e.value)) for e in elements):
        return None
    found: dict[int, int] = {}
    dots = next((i for i, e in enumerate(elements) if isinstance(e, cst.Index) and _is_dots(e.value)), None)
    for i, element in enumerate(elements):
        if isinstance(element, cst.Slice) and element.step is not None and constant(element.step) != 1:
            before = elements[:i]
            behind = dots is not None and i > dots
            counted = elements[i:] if behind else before
            size = sum(not (isinstance(e, cst.Index) and constant(e.value) is None) for e in counted)
            found[i] = -size if behind else size
    return found


def _counts(index: cst.BaseExpression) -> bool:
    """An index that stands for one dimension, a new one or the rest: a literal."""
    return _is_dots(index) or isinstance(constant(index), int) or constant(index) is None


def _in_the_middle(place: int, rank: int | None) -> bool:
    if place < 0:
        return place != -1
    return place > 0 and (rank is None or place < rank - 1)


def _is_dots(node: cst.BaseExpression) -> bool:
    return type(node) is cst.Ellipsis


def _dots(element: Element) -> bool:
    return isinstance(element.slice, cst.Index) and _is_dots(element.slice.value)


def _whole(element: Element) -> bool:
    part = element.slice
    return isinstance(part, cst.Slice) and part.lower is part.upper is part.step is None
