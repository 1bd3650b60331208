"""Gradients that are kept without a copy while torch goes on writing into them.

`g = p.grad` is one with the gradient until somebody sets that to None: what is clipped, scaled, zeroed or added to
later shows in `g` as well. MindSpore's gradients are values of one call, and `g` would stay what it was.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.assigned import side_by_side
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.ledger.clears import zeroes
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event, Owner

SHOWN = {"detach", "view", "reshape", "flatten", "squeeze"}  # methods that show the same memory
CONTAINERS = {"append", "add", "insert", "extend"}
WHY = "it is kept without a copy, and used after the gradient itself has changed"


def kept_while_changed(event: Event, owner: Owner, records: Records) -> bool:
    """The read keeps the gradient itself, which changes before the last use of what keeps it."""
    stmt = event.stmt
    names = {place for place, node in keeps(stmt, records.module) for own in parts(node) if shown(own) is event.node}
    if not names:
        return False
    kept = names | _aliases(names, records)
    return any(_walk(path, stmt, kept, owner, records) for path in _paths(stmt, kept, records))


def keeps(stmt: Stmt, module: ModuleInfo) -> Iterator[tuple[str, cst.BaseExpression]]:
    """What the statement puts where: under a name, as an item, into a container."""
    node = stmt.node
    if type(node) is cst.Assign:
        for target, value in (pair for t in node.targets for pair in side_by_side(t.target, node.value)):
            item = isinstance(target, cst.Subscript)
            place = target.value if isinstance(target, cst.Subscript) else target
            copied = item and module.value(place).kind in ("tensor", "numpy")  # `rows[i] = x.grad`
            if dotted(place) and not copied:
                yield dotted(place), value
    elif type(node) is cst.Expr and type(node.value) is cst.Call and type(node.value.func) is cst.Attribute:
        func = node.value.func
        if func.attr.value in CONTAINERS and node.value.args and dotted(func.value):
            yield dotted(func.value), node.value.args[-1].value


def parts(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The values that are in a list, a tuple or a dictionary; the value itself, where it is none."""
    if isinstance(node, (cst.List, cst.Tuple)):
        for element in node.elements:
            yield from parts(element.value)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from parts(node.elt)
    elif isinstance(node, cst.DictComp):
        yield from parts(node.value)
    elif isinstance(node, cst.IfExp):
        yield from (*parts(node.body), *parts(node.orelse))
    elif isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple", "dict") and node.args:
        yield from parts(node.args[0].value)
    else:
        yield node


def shown(node: cst.BaseExpression) -> cst.BaseExpression:
    """What the expression shows the memory of: `p.grad` of `p.grad.data.view(-1)`."""
    while True:
        if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in SHOWN:
            node = node.func.value
        elif type(node) is cst.Attribute and node.attr.value == "data":
            node = node.value
        else:
            return node


def _aliases(names: set[str], records: Records) -> set[str]:
    """Other places that get what these hold."""
    found: set[str] = set()
    for _ in range(2):
        for stmt in records.scope.body.walk():
            for place, node in keeps(stmt, records.module):
                if any(dotted(shown(part)) in names | found for part in parts(node)):
                    found.add(place)
    return found - names


def _paths(stmt: Stmt, kept: set[str], records: Records) -> Iterator[list[Stmt]]:
    """The statements that run behind the read: to the end, and round each loop that it stands in."""
    every = list(records.scope.body.walk())
    rest = [s for s in every if s.number > stmt.number]
    yield rest
    for loop in stmt.ancestors():
        if loop.is_loop:
            inside = loop.walk()
            yield [s for s in inside if s.number > stmt.number] + [s for s in inside if s.number <= stmt.number] + rest
    if records.scope.is_function and any("." in place or place not in records.scope.locals for place in kept):
        yield rest + [s for s in every if s.number <= stmt.number]  # the next call


def _walk(path: list[Stmt], read: Stmt, kept: set[str], owner: Owner, records: Records) -> bool:
    """Something changes the gradient on the way, and something kept is used behind that."""
    live, changed = set(kept), False
    around = {id(s.block) for s in (read, *read.ancestors())}
    for stmt in path:
        used = changed and any(u == k or u.startswith(f"{k}.") for u in stmt.uses for k in live)
        if used and not _stores(stmt, records.module):
            return True
        for event in (e for e in records.events if e.stmt is stmt):
            if event.kind == "clear" and not _zeroes(event):
                if not changed and id(stmt.block) in around and owner.cleared_by(event, len(records.owners) == 1):
                    return False  # another tensor takes its place
            else:
                changed = changed or changes(event, owner, records)
        if type(stmt.node) is cst.Assign and id(stmt.block) in around:
            for place, node in keeps(stmt, records.module):
                same = any(dotted(shown(part)) in live for part in parts(node))
                live = live | {place} if same else live - {place}
        if not live:
            return False
    return False


def _stores(stmt: Stmt, module: ModuleInfo) -> bool:
    """A container takes something in: nothing that is in there is used."""
    return type(stmt.node) is cst.Expr and any(True for _ in keeps(stmt, module))


def _zeroes(event: Event) -> bool:
    """The clear leaves the gradient where it is, and fills it with zeros."""
    node = event.node
    if event.zeroed or zeroes(event):
        return True
    if type(event.stmt.node) is cst.Expr and type(node) is cst.Attribute and node.attr.value == "grad":
        return True  # `w.grad.zero_()`
    kept = argument(node, 0, "set_to_none") if type(node) is cst.Call else None
    return kept is not None and constant(kept) is False


def empties(event: Event, owner: Owner, alone: bool) -> bool:
    """The event sets the gradients of the owner to None."""
    return event.kind == "clear" and not _zeroes(event) and owner.cleared_by(event, alone)


def keeps_zeros(event: Event) -> bool:
    """The clear may leave zeros behind instead of None."""
    kept = argument(event.node, 0, "set_to_none") if type(event.node) is cst.Call else None
    return _zeroes(event) or kept is not None and constant(kept) is not True


def changes(event: Event, owner: Owner, records: Records) -> bool:
    """The event writes into the gradients of the owner."""
    if event.kind == "backward":
        return owner.takes(event.value.deps) and records.accumulates(event, owner)
    if event.kind == "clear":
        return owner.cleared_by(event, len(records.owners) == 1) or owner.met(event)
    if event.kind in ("clip_norm", "clip_value", "unscale"):
        return concerns(event, owner, records.owners)
    if event.kind != "leaf_grad" or not event.writes or not concerns(event, owner, records.owners):
        return False
    node = event.stmt.node
    return not (type(node) is cst.Assign and any(t.target is event.node for t in node.targets))
