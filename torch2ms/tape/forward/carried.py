"""Values that go from one turn of a loop into the next with their graph: `loss = loss + step_loss`.

Where the backward call waits for several turns, the graphs of all of them are played back. A function of one turn's
forward would take what the turns before made for numbers.
"""

from __future__ import annotations

from collections.abc import Container

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import NO_DEPS

LEAVING = (cst.Break, cst.Continue, cst.Return, cst.Raise)
CUTS = ("detach", "data", "item", "numpy", "tolist")  # `h = tuple([each.data for each in h])`


def reads_itself(stmt: Stmt) -> str:
    """The name that a statement binds to something made of what it was: `loss += step_loss`, "" for others."""
    node = stmt.node
    if type(node) is cst.AugAssign:
        return dotted(node.target)
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return ""
    name = dotted(node.targets[0].target)
    if name not in stmt.uses:
        return ""
    return "" if any(type(n) is cst.Attribute and n.attr.value in CUTS for n in descend(node.value)) else name


def carried(place: str, stmt: Stmt, region: Container[int]) -> frozenset[str]:
    """What the former value of a place depends on where an earlier turn of a loop around the region made it."""
    current: Stmt | None = stmt
    while current is not None:
        stmts = current.block.stmts
        before = stmts[: stmts.index(current)]
        if any(_binds(s, place, region) for s in before):
            return NO_DEPS
        current = current.block.owner
        if current is not None and current.is_loop and id(current) not in region:
            return _left(place, current) if place not in current.defs else NO_DEPS  # `for x, y in loader:` binds it
    return NO_DEPS


def kept_for_calls(forward: list[Stmt], block: Block, backward: Stmt) -> dict[str, list[Stmt]]:
    """The places by which a graph may go from one call of the function to the next, each with the statements that bind
    it: the backward call waits for several calls, as in `self.loss += step_loss` before `if self.n % k == 0:`.

    Where each call goes backward, the graph of the call before is played back, and no program uses it again."""
    scope, over = block.scope, _over(forward, block, backward) if forward and block.scope.is_function else None
    if over is None:
        return {}
    read: set[str] = set()
    made: dict[str, list[Stmt]] = {}
    for stmt in (inner for s in forward for inner in s.walk()):
        read |= {u for u in stmt.uses - made.keys() if root(u) in scope.params or root(u) not in scope.locals}
        for place in stmt.defs & read:
            made.setdefault(place, []).append(stmt)
    around = [block, *(owner.block for owner in forward[0].ancestors())]
    behind = (s for each in around for s in each.stmts if type(over.node) is cst.If and s.number > backward.number)
    last = {place: s for s in behind if s.is_small for place in s.defs & made.keys()}
    return {place: [last[place]] if place in last else stmts for place, stmts in made.items()}


def _over(forward: list[Stmt], block: Block, backward: Stmt) -> Stmt | None:
    """The condition over the backward call, or the statement that ends the function between it and its forward."""
    top = backward
    while top.block is not block and top.block.owner is not None:
        top = top.block.owner
        if type(top.node) is cst.If:
            return top
    between = (s for s in block.stmts if forward[0].number < s.number < top.number)
    return next((inner for s in between for inner in s.walk() if type(inner.node) is cst.Return), None)


def _binds(stmt: Stmt, place: str, region: Container[int]) -> bool:
    """The statement gives the place a value of this turn; a branch of the forward stands for all of them."""
    if stmt.is_small:
        return place in stmt.defs
    if isinstance(stmt.node, (cst.Try, cst.TryStar)):  # `try: x, y = next(batches)`, `except StopIteration: break`
        ways = [block.stmts for block in stmt.blocks if block.role in ("body", "handler")]
        return all(any(_binds(s, place, region) for s in way) or type(way[-1].node) in LEAVING for way in ways)
    return (id(stmt) in region or isinstance(stmt.node, cst.With)) and any(place in s.defs for s in stmt.walk())


def _left(place: str, loop: Stmt) -> frozenset[str]:
    """What the place depends on at the end of a turn."""
    found = NO_DEPS
    for stmt in reversed(loop.blocks[0].stmts):
        if place in stmt.defs and stmt.is_small:
            return found | (stmt.out[place].deps if place in stmt.out else NO_DEPS)
        for inner in stmt.walk():
            if inner is not stmt and place in inner.defs and place in inner.out:
                found |= inner.out[place].deps
    return found
