"""What becomes of resets of gradients: most are dropped, the others empty the accumulators that take their place."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.ledger.renewed import starts
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Item, Plan, Text
from torch2ms.tape.refusals import refuse


def dead_clears(records: Records, handed_back: bool) -> set[int]:
    """Clears that nothing later notices: the next store starts afresh, or nobody loads.

    `handed_back`: the function gives its caller the gradients that it was given, cleared or not.
    """
    dead = set()
    stores = [e for e in records.events if e.kind == "backward"]
    live_owners = [
        o for o in records.owners
        if handed_back or o.stored or o.initial or any(records.accumulates(e, o) for e in stores) or records.gaps(o)
    ]  # fmt: skip
    for event in records.events:
        if event.kind == "clear" and not any(
            o.cleared_by(event, len(records.owners) == 1) and (not o.stored or records.held(event, o))
            for o in live_owners
        ):
            dead.add(id(event.stmt))
    return dead


def plan_clears(records: Records, plan: Plan, dropped: set[int], handed_back: bool) -> None:
    for event in records.events:
        if event.kind == "clear" and event.lifted and id(event.stmt) not in dropped:
            for owner in records.owners:
                held = owner.accumulating or owner.stored or owner.initial
                if held and owner.cleared_by(event, len(records.owners) == 1):
                    where = plan.before if event.taking is None else plan.behind  # used first, cleared then
                    there = where.setdefault(id(event.stmt), [])
                    text = f"{owner.variable} = {_emptied(event, owner, records, plan)}"
                    if not any(isinstance(i, Text) and i.template == text for i in there):
                        there.append(Text(text))
        if event.kind != "clear" or event.lifted:
            continue
        items: list[Text] = []
        if id(event.stmt) not in dropped:
            for owner in records.owners:
                held = handed_back or owner.accumulating or owner.stored or owner.initial
                if held and owner.cleared_by(event, len(records.owners) == 1):
                    text = _left(event, owner, records)
                    plan.needs |= {"ops"} if "ops." in text else set()
                    items.append(Text(f"{owner.variable} = {text}"))
        if items and any(id(a) in plan.contexts and id(a) not in plan.halved for a in event.stmt.ancestors()):
            refuse(event, "it stands inside an autocast block, which becomes a function", plan)
            continue
        if items and (loop := _loop_over_gradients(event, records)) is not None:
            plan.behind.setdefault(id(loop), []).extend(items)
            items = []
        above = {
            i.template
            for i in (*plan.before.get(id(event.stmt), ()), *_right_before(event, plan))
            if isinstance(i, Text)
        }
        plan.replaced[id(event.stmt)] = [item for item in items if item.template not in above]
        why = (
            "becomes the reset of the accumulator"
            if items
            else "gradient functions start from nothing at each call: dropped"
        )
        plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=event.lineno))
        for inner in (s for block in event.stmt.blocks for s in block.walk() if any(map(_cuts, s.calls))):
            plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=inner.lineno))


def _right_before(event: Event, plan: Plan) -> Sequence[Item]:
    """What the statement before this one became: `for p in params: p.grad = None`, then `optimizer.zero_grad()`."""
    stmts = event.stmt.block.stmts
    at = stmts.index(event.stmt)
    return plan.replaced.get(id(stmts[at - 1]), ()) if at else ()


def _left(event: Event, owner: Owner, records: Records) -> str:
    """What a clear of this scope leaves in the variable: `x.grad.zero_()` zeros, `opt.zero_grad()` nothing."""
    if owner.kind != "leaf" or not isinstance(event.stmt.node, cst.Expr):
        return "None"
    zeros = f"ops.zeros_like({owner.variable})"
    if not leaves_zeros(event):
        return "None"
    if not _zero_grads(event):
        return zeros
    return f"None if {owner.variable} is None else {zeros}" if records.may_be_empty(event, owner) else zeros


def leaves_zeros(event: Event) -> bool:
    """`x.grad.zero_()`, `opt.zero_grad(set_to_none=False)`: the gradient is there afterwards, and is zero."""
    cleared = _zero_grads(event)
    kept = not cleared or any(constant(a.value) is False for c in cleared for a in c.args)
    return kept and isinstance(event.stmt.node, cst.Expr)


def _zero_grads(event: Event) -> list[cst.Call]:
    return [c for c in event.stmt.calls if dotted(c.func).rpartition(".")[2] == "zero_grad"]


def _loop_over_gradients(event: Event, records: Records) -> Stmt | None:
    """The loop over parameters and their gradients that a reset of one of them stands in."""
    loops = {id(e.stmt) for e in records.events if e.kind == "grad_loop"}
    return next((a for a in event.stmt.ancestors() if id(a) in loops), None)


def _emptied(event: Event, owner: Owner, records: Records, plan: Plan) -> str:
    """What a function that clears leaves in the gradient of a leaf: zeros if it has one, or nothing."""
    if not event.zeroed or owner.kind != "leaf" or not (owner.initial or records.gaps(owner)):
        return "None"
    plan.needs.add("ops")
    zeros = f"ops.zeros_like({owner.variable})"
    return f"None if {owner.variable} is None else {zeros}" if records.may_be_empty(event, owner) else zeros


def _cuts(call: cst.Call) -> bool:
    """`p.grad.detach_()` before the gradient is set to zero."""
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "detach_"


def start_accumulators(records: Records, scope: Scope, plan: Plan) -> None:
    """Accumulators exist before the first loop that adds to them."""
    for owner in records.owners:
        watched = owner.accumulating or owner.initial
        if owner.kind == "leaf" and watched and (made := _bindings(owner, records, scope)):
            for stmt in made:
                start = Text(f"{owner.variable} = None")
                if stmt.blocks:
                    plan.before.setdefault(id(stmt.blocks[0].stmts[0]), []).append(start)
                else:
                    plan.behind.setdefault(id(stmt), []).append(start)
            if not _given_first(owner, records, scope):
                continue
        if not watched or owner.stored:
            continue
        made = [s for s in scope.body.walk() if id(s) in owner.emptied]
        for stmt in (m for m in made if not _filled_first(m, owner, records)):
            plan.behind.setdefault(id(stmt), []).append(Text(f"{owner.variable} = None"))
        first = next(
            e for e in records.events if e.kind == "backward" and owner.place in {o.place for o in records.takers(e)}
        )
        if first.stmt.block is scope.body and not owner.initial and not records.accumulates(first, owner):
            continue  # it starts afresh, perhaps above its own statement
        top = first.stmt
        for ancestor in first.stmt.ancestors():
            top = ancestor
        covered = any(
            e.stmt.block is scope.body and e.stmt.number < top.number
            and (e.kind == "clear" and owner.cleared_by(e, len(records.owners) == 1)
                 or e.kind == "fill" and owner.filled_by(e))
            for e in records.events
        )  # fmt: skip
        if not covered and not starts(made, first.stmt):
            plan.before.setdefault(id(top), []).append(Text(f"{owner.variable} = None"))


def _bindings(owner: Owner, records: Records, scope: Scope) -> list[Stmt]:
    """The statements after which the name of a leaf is another tensor, without gradient; the last of those in a row."""
    made = [s for s in scope.body.walk() if owner.place in s.defs and not isinstance(s.node, cst.AugAssign)]
    marks = [e.stmt.number for e in records.events]
    found = []
    for stmt, later in zip_longest(made, made[1:]):
        block = stmt.blocks[0] if stmt.blocks else stmt.block
        row = later is not None and later.block is block and not later.blocks
        followed = not row or any(stmt.number <= n <= later.number for n in marks)
        if followed and not _filled_first(stmt, owner, records):
            found.append(stmt)
    return found


def _given_first(owner: Owner, records: Records, scope: Scope) -> bool:
    """Its gradient plays a part before the function gives the name, a parameter, another tensor."""
    bound = (s.number for s in scope.body.walk() if owner.place in s.defs)
    taken = (e.stmt.number for e in records.events if e.kind == "backward" and owner in records.takers(e))
    return owner.place in scope.params and min(taken, default=0) < min(bound, default=0)


def _filled_first(made: Stmt, owner: Owner, records: Records) -> bool:
    """A backward call that starts afresh is the first that happens after the statement: nothing looks before it."""
    block = made.block.stmts
    events = {id(e.stmt): e for e in records.events if e.kind != "backward" or owner in records.takers(e)}
    for stmt in () if made.blocks else block[block.index(made) + 1 :]:
        if (event := events.get(id(stmt))) is not None:
            return event.kind == "backward" and not records.accumulates(event, owner)
        if any(id(inner) in events for inner in stmt.walk()):
            return False
    return False
