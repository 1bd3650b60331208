"""Statements that choose one of several blocks, `if` and `match`: the ways through them, and what decides."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.forward.given import Given


def decided_by(stmt: Stmt) -> list[cst.BaseExpression]:
    """What decides which block a statement runs; nothing where it is no choice."""
    node = stmt.node
    if type(node) is cst.If:
        return [node.test]
    if type(node) is not cst.Match:
        return []
    return [node.subject, *(case.guard for case in node.cases if case.guard is not None)]


def ways(stmt: Stmt) -> list[Block | None]:
    """The blocks of which a statement runs one, None for none of them."""
    node = stmt.node
    complete = any(_takes_all(case) for case in node.cases) if isinstance(node, cst.Match) else len(stmt.blocks) > 1
    return [*stmt.blocks] if complete else [*stmt.blocks, None]


def settled(stmt: Stmt, given: Given) -> list[Block] | None:
    """The block that runs at every step, by what is written out, or no block; None where that is not seen."""
    node = stmt.node
    if isinstance(node, cst.If):
        met = given.settled(node.test)
        return None if met is None else stmt.blocks[:1] if met else stmt.blocks[1:]
    if not isinstance(node, cst.Match) or not isinstance(node.subject, cst.Name):
        return None
    if (name := node.subject.value) not in given.written:
        return None
    for case, block in zip(node.cases, stmt.blocks, strict=True):
        if _takes_all(case):
            return [block]
        pattern = case.pattern.value if isinstance(case.pattern, cst.MatchValue) else None
        value = constant(pattern) if pattern is not None and case.guard is None else ...
        if value is ...:
            return None
        if value == given.written[name]:
            return [block]
    return []


def _takes_all(case: cst.MatchCase) -> bool:
    """`case _:`, `case other:`"""
    return case.guard is None and isinstance(case.pattern, cst.MatchAs) and case.pattern.pattern is None
