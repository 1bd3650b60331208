"""What values depend on in one case alone: branches of an `if`, sides of an expression, items of what is returned.

All layers ran, and those behind what is not taken have no gradient in torch all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.choices import LAYERS, moving, own
from torch2ms.tape.forward.keyed import filled_whole, goes_through, key_of, left_behind
from torch2ms.tape.ledger.beyond import weighted_parts

NOTHING: frozenset[str] = frozenset()
PICKING = (cst.Subscript, cst.IfExp)
Lists = Callable[[str], bool]  # whether layers in a list have a place, each of them the same


def real(value: Value) -> frozenset[str]:
    return frozenset(d for d in value.deps if not d.startswith(("@", "^")))


def lists_of(stmts: list[Stmt], module: ModuleInfo, project: Project) -> Lists:
    """Asks of the networks that statements name whether a place is that of a list of layers."""

    @cache
    def networks(beside: bool) -> dict[str, Value]:  # the first at each place; what the object's other methods name
        cls = stmts[0].block.scope.cls if beside and stmts else None
        every = [s for scope in cls.children for s in scope.body.walk()] if cls is not None else []
        return _networks(every if beside else stmts, module)

    def lists(place: str) -> bool:
        parent, _, name = place.rpartition(".")
        if not parent:
            whole = networks(False).get(place)
            return whole is not None and whole.name in LAYERS
        value = networks(False).get(parent) or networks(True).get(parent)
        cls = class_of(value, module, project) if value is not None else None
        part = weighted_parts(cls, project).get(name) if cls is not None else None
        return part is not None and part.name in LAYERS

    return lists


def _networks(stmts: list[Stmt], module: ModuleInfo) -> dict[str, Value]:
    found: dict[str, Value] = {}
    for node in (n for s in stmts for n in s.nodes if type(n) is cst.Name or type(n) is cst.Attribute):
        value = module.value(node)
        if value.kind == "module" and value.name:
            if value.name in LAYERS:
                found[value.place] = value
            found.setdefault(value.place, value)
    return found


def picked(stmt: Stmt, module: ModuleInfo, lists: Lists) -> Iterator[tuple[cst.BaseExpression, frozenset[str]]]:
    """What the expressions of a statement decide by, and what some of the results depend on alone."""
    stored = {id(t.target) for t in stmt.node.targets} if isinstance(stmt.node, cst.Assign) else ()
    for node in descend(own(stmt)):
        if isinstance(node, cst.IfExp):
            yield node.test, by_side(node, module, lists)
        elif isinstance(node, cst.Subscript) and moving(node) and id(node) not in stored:
            places = by_item(node, module, lists)
            yield from ((test, places) for test in (deciding(node, stmt) if places else [node]))


def deciding(node: cst.Subscript, stmt: Stmt) -> list[cst.BaseExpression]:
    """What decides which items of a container an expression reads: of a clause that goes through all of them, its
    conditions alone (`sum(losses[k] * weights[k] for k in losses if k in weights)`)."""
    holder, counter = code(node.value), node.slice[0].slice
    if isinstance(counter, cst.Index) and type(counter.value) is cst.Name:
        name = counter.value.value
        for clause in (n for n in descend(own(stmt)) if type(n) is cst.CompFor):
            if type(clause.target) is cst.Name and clause.target.value == name and goes_through(clause.iter) == holder:
                return [i.test for i in clause.ifs]
        for around, loop in ((a, a.node) for a in stmt.ancestors() if isinstance(a.node, cst.For)):
            if key_of(loop) == name:
                through = goes_through(loop.iter, around)
                whole = through == holder or filled_whole(through, node.value, stmt)
                return [] if whole and not left_behind(node, stmt) else [node]
    return [node]


def by_branch(stmt: Stmt, stmts: list[Stmt], module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """Of an `if` among statements: what something that it binds or returns depends on in one branch alone."""
    blocks: list[Block | None] = [*stmt.blocks, None][:2]
    names = {name for block in blocks if block is not None for s in block.walk() for name in s.defs}
    found = NOTHING
    for name in names:
        one, other = (_left(name, block, stmt, stmts) for block in blocks)
        if one is not None and other is not None:
            found |= _apart(one[0], other[0], one[1] != other[1], lists)
    every = [s for s in stmts if isinstance(s.node, cst.Return)]
    inside = {id(s) for block in stmt.blocks for s in block.walk()}
    for mine in (s for s in every if id(s) in inside):
        for other_return in (s for s in every if s is not mine):
            found |= _apart(_returned(mine, module), _returned(other_return, module), True, lists)
    return found


def by_side(node: cst.IfExp, module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """What an expression depends on in one case alone."""
    sides = node.body, node.orelse
    one, other = (real(module.value(side)) for side in sides)
    return _apart(one, other, code(node.body) != code(node.orelse), lists)


def by_item(node: cst.Subscript, module: ModuleInfo, lists: Lists) -> frozenset[str]:
    """What some items of a list, tuple or dict depend on, and others do not."""
    value = module.value(node.value)
    if value.kind not in ("list", "tuple", "dict"):
        return NOTHING
    items = [real(item) for item in value.items or ()]
    if not items:
        return frozenset(d for d in real(value) if lists(d))
    whole = frozenset().union(*items)
    return (whole - items[0].intersection(*items)) | frozenset(d for d in whole if len(items) > 1 and lists(d))


def _apart(one: frozenset[str], other: frozenset[str], differ: bool, lists: Lists) -> frozenset[str]:
    return (one ^ other) | frozenset(d for d in one & other if differ and lists(d))


def _returned(stmt: Stmt, module: ModuleInfo) -> frozenset[str]:
    assert isinstance(stmt.node, cst.Return)
    return real(module.value(stmt.node.value)) if stmt.node.value is not None else NOTHING


def _left(
    name: str, block: Block | None, stmt: Stmt, stmts: list[Stmt]
) -> tuple[frozenset[str], frozenset[str]] | None:
    """What a name depends on behind a branch, and what was used for it; None where that is not seen."""
    bound = [s for s in block.walk() if name in s.out and name in s.defs] if block is not None else []
    bound = bound or [s for s in stmts if s.number < stmt.number and name in s.out and name in s.defs]
    last = bound[-1] if bound else None
    return (real(last.out[name]), frozenset(last.uses)) if last is not None else None
