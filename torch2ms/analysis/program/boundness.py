"""Which names have a value wherever a statement is reached, and which are read only if something holds."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import children

LEAVES = (cst.Return, cst.Raise, cst.Continue, cst.Break)
DEFINITIONS = (cst.FunctionDef, cst.ClassDef)


def perhaps_missing(names: Iterable[str], stmts: list[Stmt]) -> set[str]:
    """Those of the names that may have no value where the statements stand, which then do not read them.

    As an argument such a name would be read in any case.
    """
    left = unbound_before(names, stmts[-1]) if stmts else set()
    own = {d for s in stmts for d in s.all_defs} if left else set()
    return left - own - read_at_once(stmts) if left - own else set()


def unbound_before(names: Iterable[str], stmt: Stmt) -> set[str]:
    """Those of the names that have no value when the statement is reached on some way."""
    left = {*names}.difference(stmt.block.scope.params)
    while left:
        block = stmt.block
        for before in block.stmts[block.stmts.index(stmt) - 1 :: -1] if block.stmts[0] is not stmt else ():
            left -= _bound_by(before) if before.blocks else before.defs
            if not left:
                return left
        owner = block.owner
        if owner is None:
            break
        if isinstance(owner.node, (cst.For, cst.With) if block.role == "body" else (cst.Try, cst.TryStar)):
            left -= owner.defs
        stmt = owner
    return left


def _bound_by(stmt: Stmt) -> set[str]:
    """Names that have a value behind the statement; a branch that leaves does not get there."""
    if isinstance(stmt.node, (cst.If, cst.Try, cst.TryStar)):
        ways = {block.role: block for block in stmt.blocks if block.role in ("body", "orelse", "finalbody")}
        after = [b for b in stmt.blocks if b.role == "handler" or isinstance(stmt.node, cst.If)]
        kept = [set().union(*(_bound_by(s) for s in b.stmts)) for b in after if not _leaves(b.stmts)]
        if isinstance(stmt.node, cst.If):
            return set.intersection(*kept) if kept and "orelse" in ways else set()
        whole = [s for role in ("body", "orelse") if role in ways for s in ways[role].stmts]
        final = [s for s in ways["finalbody"].stmts] if "finalbody" in ways else []
        through = set().union(*(_bound_by(s) for s in whole))
        return set.intersection(through, *kept).union(*(_bound_by(s) for s in final))
    if isinstance(stmt.node, cst.With):
        return stmt.defs.union(*(_bound_by(s) for s in stmt.blocks[0].stmts))
    return liveness.definite(stmt)


def _leaves(stmts: list[Stmt]) -> bool:
    return bool(stmts) and isinstance(stmts[-1].node, LEAVES)


def read_at_once(stmts: Iterable[Stmt]) -> set[str]:
    """Names that the statements read whatever holds."""
    found: set[str] = set()
    for stmt in stmts:
        node = stmt.node
        if isinstance(node, DEFINITIONS):
            continue
        if not stmt.blocks:
            found |= _names(node)
        elif isinstance(node, (cst.If, cst.While)):
            found |= _names(node.test)
        elif isinstance(node, cst.For):
            found |= _names(node.iter)
        elif isinstance(node, (cst.With, cst.Try, cst.TryStar)):
            found |= {root(u) for u in stmt.uses} | read_at_once(stmt.blocks[0].stmts)
        if isinstance(node, cst.If) and len(stmt.blocks) == 2:
            found |= set.intersection(*(read_at_once(b.stmts) for b in stmt.blocks))
    return found


def _names(node: cst.CSTNode) -> set[str]:
    """The names of an expression but those that it reads under a condition, or later."""
    found: set[str] = set()
    stack = [node]
    while stack:
        part = stack.pop()
        if isinstance(part, cst.Name):
            found.add(part.value)
        elif isinstance(part, cst.IfExp):
            stack.append(part.test)
            found |= _names(part.body) & _names(part.orelse)
        elif isinstance(part, cst.BooleanOperation):
            stack.append(part.left)
        elif isinstance(part, cst.BaseComp):
            stack.append(part.for_in.iter)
        elif isinstance(part, cst.Attribute):
            stack.append(part.value)
        elif not isinstance(part, cst.Lambda):
            stack += children(part)
    return found
