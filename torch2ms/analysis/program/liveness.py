"""Which names a part of a block reads from before it, and which of its results are read after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted

BRANCHING = frozenset(
    (cst.If, cst.For, cst.While, cst.Try, cst.TryStar, cst.Match)
)  # what their blocks do may not happen


def definite(stmt: Stmt) -> set[str]:
    """Names a statement certainly binds when it has run."""
    if type(stmt.node) in BRANCHING:
        if type(stmt.node) is cst.If and len(stmt.blocks) == 2:
            first, second = (set().union(*(definite(s) for s in b.stmts)) for b in stmt.blocks)
            return first & second
        return set()
    if type(stmt.node) is cst.With:
        return set(stmt.defs) | set().union(*(definite(s) for s in stmt.blocks[0].stmts))
    return {d for d in stmt.defs if "." not in d}


def exposed(stmts: Iterable[Stmt]) -> list[str]:
    """Names read before they are certainly bound, in order of first use."""
    bound: set[str] = set()
    found: dict[str, None] = {}
    for stmt in stmts:
        for name in _exposed(stmt, bound):
            found.setdefault(name)
        bound |= definite(stmt)
    return list(found)


def _exposed(stmt: Stmt, bound: set[str]) -> list[str]:
    ordered = _ordered_uses(stmt)
    names = [n for n in ordered if n not in bound]
    inner = set(bound) | {
        d for d in stmt.defs if "." not in d and (type(stmt.node) is cst.For or type(stmt.node) is cst.With)
    }
    for block in stmt.blocks:
        seen = set(inner)
        for child in block.stmts:
            names += _exposed(child, seen)
            seen |= definite(child)
    return names


def _ordered_uses(stmt: Stmt) -> list[str]:
    """Roots of the places a statement reads; as the text has them where that can be told."""
    wanted = {u.partition(".")[0] for u in stmt.uses | stmt.muts}
    from torch2ms.analysis.syntax.tree import descend

    ordered: dict[str, None] = {}
    if len(wanted) > 1 and not stmt.blocks:
        for node in stmt.nodes:
            if type(node) is cst.Name and node.value in wanted:
                ordered.setdefault(node.value)
                if len(ordered) == len(wanted):
                    break
            elif type(node) is cst.NamedExpr and (name := dotted(node.target)) in wanted - ordered.keys():
                if all(type(n) is not cst.Name or n.value != name for n in descend(node.value)):
                    wanted.discard(name)  # `(y := f(x)) + y.sum()` reads what it binds
    for name in sorted(wanted):
        ordered.setdefault(name)
    return list(ordered)


def read_after(block: Block, region: Sequence[Stmt], last: int) -> set[str]:
    """Names that may be read after statement `last` of the block with the value the region gave them."""
    inside = {id(s) for s in region}
    live: set[str] = set()
    killed: set[str] = set()

    def scan(stmts: Iterable[Stmt]) -> None:
        for stmt in stmts:
            if id(stmt) in inside:
                continue
            live.update(n for n in _exposed(stmt, killed) if n not in killed)
            killed.update(definite(stmt))

    scan(block.stmts[last + 1 :])
    # statements that stand between those of the region and move behind it
    scan_set = [s for s in block.stmts[:last] if id(s) not in inside and s.number > region[0].number]
    for stmt in scan_set:
        live.update(_exposed(stmt, set()))
    current = block
    while current.owner is not None:
        owner = current.owner
        if isinstance(owner.node, (cst.For, cst.While)) and current.role == "body":
            wrapped = set(killed)
            if type(owner.node) is cst.While:
                live.update(root(u) for u in owner.uses if root(u) not in wrapped)
            else:
                wrapped |= {d for d in owner.defs if "." not in d}
            body = owner.blocks[0].stmts
            for stmt in body:
                inner_region = [s for s in stmt.walk() if id(s) in inside]
                if inner_region and id(stmt) not in inside:
                    live.update(n for n in exposed(region) if n not in wrapped)
                    live.update(n for n in _exposed(stmt, wrapped))
                    break
                if id(stmt) in inside:
                    live.update(n for n in exposed(region) if n not in wrapped)
                    break
                live.update(_exposed(stmt, wrapped))
                wrapped |= definite(stmt)
        if current.role == "body" and (type(owner.node) is cst.Try or type(owner.node) is cst.TryStar):
            for other in owner.blocks[1:]:
                live.update(exposed(other.stmts))
        siblings = owner.block.stmts
        scan(siblings[siblings.index(owner) + 1 :])
        current = owner.block
    scope = block.scope
    for child in scope.children:
        live.update(root(u) for u in free_uses(child))
    return live
