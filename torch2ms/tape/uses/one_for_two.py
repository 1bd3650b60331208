"""Gradients of one network that a loop stores in another as they are: one tensor that both have.

`for p, q in zip(net.parameters(), fast.parameters()): p.grad = q.grad`. What is clipped, scaled or added to by way of
the one shows in the other as well, until either is cleared. MindSpore's gradients are values, and each would go on
alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.uses.kept import changes, empties, keeps, parts, shown

WHY = "what it stores is the gradient of `{}` as well, which is used after one of the two has changed"


def changed_for_both(fill: Event, owner: Owner, records: Records) -> str:
    """Why what a loop fills may not be taken for values of its own; "" where it may."""
    for source in _sources(fill, owner, records):
        if any(_used_changed(path, owner, source, records) for path in _paths(fill.stmt, records)):
            return WHY.format(source.place)
    return ""


def _sources(fill: Event, owner: Owner, records: Records) -> Iterator[Owner]:
    """The other owners whose gradients the loop stores without a copy."""
    loop = fill.stmt.node
    assert isinstance(loop, cst.For)
    reads = [e for e in records.events if e.kind == "leaf_grad" and not e.writes]
    for node in _stored(fill.stmt, loop):
        listed = [shown(part) for part in parts(node)]
        kept = {id(n) for n in listed if isinstance(n, cst.Attribute)}
        name = dotted(node)
        for event in reads:
            whole = name and any(
                place == name and any(shown(part) is event.node for part in parts(value))
                for place, value in keeps(event.stmt, records.module)
            )
            if id(event.node) in kept or whole:
                yield from (o for o in records.owners if o is not owner and concerns(event, o, records.owners))


def _stored(stmt: Stmt, loop: cst.For) -> Iterator[cst.BaseExpression]:
    """What the loop goes through to take from it what it stores."""
    for inner in stmt.blocks[0].stmts:
        node = inner.node
        if type(node) is not cst.Assign or not dotted(node.targets[0].target).endswith((".grad", ".grad.data")):
            continue
        value = shown(_unwrapped(node.value))
        if isinstance(loop.target, cst.Tuple) and isinstance(loop.iter, cst.Call) and dotted(loop.iter.func) == "zip":
            pairs = zip(loop.target.elements, loop.iter.args, strict=False)
            yield from (arg.value for target, arg in pairs if dotted(target.value) == dotted(value) != "")


def _unwrapped(node: cst.BaseExpression) -> cst.BaseExpression:
    """`Variable(g)` is `g`."""
    wraps = isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] == "Variable" and len(node.args) == 1
    return node.args[0].value if wraps else node  # type: ignore[attr-defined]


def _paths(stmt: Stmt, records: Records) -> Iterator[list[Stmt]]:
    """The statements that run behind the loop: to the end, round each loop that it stands in, in the next call."""
    every = list(records.scope.body.walk())
    inside = set(map(id, stmt.walk()))
    rest = [s for s in every if s.number > stmt.number and id(s) not in inside]
    yield rest
    for loop in stmt.ancestors():
        if loop.is_loop:
            turn = loop.walk()
            yield [s for s in rest if s in turn] + [s for s in turn if s.number <= stmt.number] + rest
    if records.scope.is_function:
        yield rest + [s for s in every if s.number <= stmt.number]


def _used_changed(path: list[Stmt], owner: Owner, source: Owner, records: Records) -> bool:
    """One of the two uses its gradients after the other has changed them."""
    changed: list[Owner] = []  # who wrote into what both have, or had
    together, alone = True, len(records.owners) == 1
    names = {root(place) for place in source.owns or {source.place}}
    for stmt in path:
        if names & stmt.defs and not stmt.blocks:
            return False  # another network takes its place
        for event in (e for e in records.events if e.stmt is stmt):
            for mine, other in ((owner, source), (source, owner)):
                writes = changes(event, mine, records)
                used = writes or event.kind in LOADS and concerns(event, mine, records.owners)
                if other in changed and used and not empties(event, mine, alone):
                    return True
                if empties(event, mine, alone) or event.kind == "fill" and mine.filled_by(event):
                    together, changed = False, [o for o in changed if o is not other]
                elif writes and together:
                    changed.append(mine)
        if not together and not changed:
            return False
    return False
