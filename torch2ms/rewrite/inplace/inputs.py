"""Tensors that a gradient function was given before, and that are written by masks or in several places afterwards.

MindSpore gives a tensor other memory under such an index, which it forbids for what a gradient function was given: it
raises. A write of the whole it allows.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.shown import target_places
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.inplace import views
from torch2ms.rewrite.writer import Writer

SHOWING = views.SAME | views.RESHAPED | views.TURNED | {"get", "items", "values"}
WALKING = {"enumerate", "zip", "reversed", "sorted", "list", "tuple"}
DEPTH = 3  # functions that hand on what they were given


def was_input(target: cst.BaseExpression, stmt: Stmt, writer: Writer) -> bool:
    """The tensor under a target may be one that a gradient function was given in a step before."""
    place = _root(target)
    return bool(writer.plan.inputs) and bool(place) and _given(place, stmt, writer, DEPTH)


def _given(place: str, stmt: Stmt, writer: Writer, depth: int) -> bool:
    scope = stmt.block.scope
    if depth and place in scope.params:
        handed = views.handed(place, scope, writer.module)
        if any(_given(other, at, writer, depth - 1) for node, at, _ in handed if (other := _root(node))):
            return True
    calls = list(_calls(scope, writer, depth))
    known = _together(scope, {name for _, names in calls for name in names}, writer.module)
    return place in known and not _new(place, stmt, [number for number, _ in calls], known)


def _new(place: str, stmt: Stmt, calls: list[int], known: set[str]) -> bool:
    """It is made in each turn of the loops around the statement, and no gradient function is given it in between."""
    loops = [a for a in stmt.ancestors() if a.is_loop]
    before = [s for s in stmt.block.scope.body.walk() if s.number < stmt.number and _binds(s, place, stmt)]
    if not before or any(a not in (before[-1], *before[-1].ancestors()) for a in loops):
        return False
    made = before[-1]
    sources = set(_shown(made, place)) & known - {place}
    return not any(made.number < n < stmt.number for n in calls) and all(_new(s, made, calls, known) for s in sources)


def _binds(made: Stmt, place: str, stmt: Stmt) -> bool:
    if type(made.node) is cst.For:
        return place in target_places(made.node.target) and made in stmt.ancestors()
    return not made.blocks and place in made.defs and made.block in [a.block for a in (stmt, *stmt.ancestors())]


def _calls(scope: Scope, writer: Writer, depth: int) -> Iterator[tuple[int, list[str]]]:
    """Where gradient functions are called in a scope, or functions that hand on to theirs, and what these are given."""
    yield from writer.plan.inputs.get(id(scope), ())
    for inner in writer.module.scope.walk() if depth else ():
        if inner is not scope and id(inner) in writer.plan.inputs:
            given = {name for _, names in writer.plan.inputs[id(inner)] for name in names}
            for name in _together(inner, given, writer.module) & set(inner.params):
                handed = views.handed(name, inner, writer.module)
                yield from ((at.number, [_root(node)]) for node, at, home in handed if home is scope and _root(node))


def _together(scope: Scope, names: set[str], module: ModuleInfo) -> set[str]:
    """These names, and those that may show the same tensors: containers, what is taken out of them, other names."""
    pairs = [(d, other) for s in scope.body.walk() for d in s.defs for other in _shown(s, d, module)]
    found, before = set(names), 0
    while len(found) != before:
        before = len(found)
        for one, other in pairs:
            if one in found or other in found:
                found |= {one, other}
    return found


def _shown(stmt: Stmt, place: str, module: ModuleInfo | None = None) -> Iterator[str]:
    """What a statement that binds a place may take its tensors from."""
    node = stmt.node
    if type(node) is cst.For:
        if module is None or module.value(node.iter).kind != "loader":  # which makes new ones
            yield from _roots(node.iter)
    elif type(node) is cst.Assign:
        for target in node.targets:
            pair = type(target.target) is cst.Tuple and type(node.value) is cst.Tuple
            if pair and len(target.target.elements) == len(node.value.elements):  # type: ignore[attr-defined]
                both = zip(target.target.elements, node.value.elements, strict=True)  # type: ignore[attr-defined]
                yield from (r for t, v in both if dotted(t.value) == place for r in _roots(v.value))
            else:
                yield from _roots(node.value)


def _roots(node: cst.BaseExpression) -> Iterator[str]:
    if type(node) is cst.Tuple or type(node) is cst.List:
        for element in node.elements:
            yield from _roots(element.value)
    elif type(node) is cst.Call and dotted(node.func) in WALKING:
        for arg in node.args:
            yield from _roots(arg.value)
    elif place := _root(node):
        yield place


def _root(node: cst.BaseExpression) -> str:
    """The name, or the attribute of the object, in which a tensor is found: `batch` of `batch["x"].view(-1)`."""
    while True:
        if type(node) is cst.Subscript:
            node = node.value
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in SHOWING:
            node = node.func.value
        elif type(node) is cst.Attribute and node.attr.value in SHOWING:
            node = node.value
        else:
            place = dotted(node)
            return ".".join(place.split(".")[:2]) if place.startswith("self.") else root(place)
