"""Optimizers that may be None: what is done with them stands under questions whether they are there.

`if encoder_optimizer is not None: encoder_optimizer.zero_grad()` drops whatever there is to drop: where it is None,
nobody has its gradients.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.model import Event, Owner

STEPS = ("step", "scaler_step", "unscale", "scaler_update")


def mark_absent(owners: list[Owner], events: list[Event], scope: Scope) -> None:
    """Tell of the optimizers which may be None where gradients are taken, if others are there in any case."""
    optimizers = [o for o in owners if o.kind == "optimizer"]
    backward = [e.stmt for e in events if e.kind == "backward"]
    if not optimizers or not backward:
        return
    questions = [s for s in scope.body.walk() if type(s.node) is cst.If]
    asked = {o.place: [q for q in questions if _asks(q, o.place)] for o in optimizers if not o.weights}
    asked = {place: some for place, some in asked.items() if some}
    for owner in (o for o in optimizers if o.place in asked):
        unasked = [stmt for stmt in backward if not _known(stmt, owner.place)]
        if unasked and len(asked) == len(optimizers):
            owner.assumed.add(f"`{owner.place}` is there where gradients are taken")
        elif unasked and any(_looks(e, owner) for e in events):
            owner.looked_at = True
        elif unasked:
            ahead = (q for q in asked[owner.place] if any(_ahead(q, stmt, owner.place) for stmt in unasked))
            owner.absent = frozenset(map(id, ahead))
            owner.weights = f"({owner.place}.parameters if {owner.place} is not None else ())"
    for owner in (o for o in optimizers if not o.weights and o.place not in asked):
        held = [place for place in _held_by(owner.place) if any(_asks(q, place) for q in questions)]
        unsure = {place for place in held for stmt in backward if not _known(stmt, place)}
        owner.assumed |= {f"`{place}` is there where gradients are taken" for place in unsure}


def _held_by(place: str) -> list[str]:
    """The objects that a place is reached through: `self.opt` of `self.opt.optimizer`, not `self` itself."""
    parts = place.split(".")
    return [".".join(parts[:end]) for end in range(2, len(parts))]


def _looks(event: Event, owner: Owner) -> bool:
    """It may use the gradients without asking: a norm of all that a network has, with what nobody clears meanwhile."""
    if event.kind in ("backward", "clear", *STEPS) or _known(event.stmt, owner.place):
        return False
    if event.value.kind == "optimizer" or event.value.name.startswith("param_group"):
        return event.place == owner.place
    used = frozenset(d for d in event.value.deps if not d.startswith("@")) or frozenset({event.place})
    seen = owner.owns is not None and not any(o.startswith(("^", "@")) for o in owner.owns)
    return not seen or any_overlap(used, owner.owns or frozenset())


def perhaps_none(place: str, scope: Scope) -> bool:
    """The scope asks whether what the place holds is there."""
    return any(type(s.node) is cst.If and _asks(s, place) for s in scope.body.walk())


def _asks(question: Stmt, place: str) -> bool:
    assert isinstance(question.node, cst.If)
    return asks(question.node.test, place) is not None


def _ahead(question: Stmt, backward: Stmt, place: str) -> bool:
    """It is asked before each backward call: what an optimizer that is made later finds is dropped here.

    Behind the call that would be too late: gradients are left from the time when it was None.
    """
    above = next((s for s in (backward, *backward.ancestors()) if s.block is question.block), None)
    if above is None or above.number <= question.number:
        return False
    stmts = question.block.stmts
    between = stmts[stmts.index(question) + 1 : stmts.index(above) + 1]
    return not any(place in inner.defs for stmt in between for inner in stmt.walk())


def asks(test: cst.BaseExpression, place: str) -> bool | None:
    """What a condition says of what the place holds: it is there, it is None; None for other conditions."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        inner = asks(test.expression, place)
        return None if inner is None else not inner
    if not isinstance(test, cst.Comparison):
        return True if dotted(test) == place else None
    if dotted(test.left) != place or len(test.comparisons) != 1 or dotted(test.comparisons[0].comparator) != "None":
        return None
    return {cst.Is: False, cst.IsNot: True}.get(type(test.comparisons[0].operator))


def there(stmt: Stmt, place: str) -> Block | None:
    """The branch of an `if` statement that runs where the place is not None, if that is all it asks."""
    assert isinstance(stmt.node, cst.If)
    asked = asks(stmt.node.test, place)
    if asked is None:
        return None
    return stmt.blocks[0] if asked else stmt.blocks[1] if len(stmt.blocks) > 1 else None


def _known(stmt: Stmt, place: str) -> bool:
    """The statement runs only where the place is not None."""
    block = stmt.block
    while block.owner is not None:
        if type(block.owner.node) is cst.If and there(block.owner, place) is block:
            return True
        block = block.owner.block
    return False
