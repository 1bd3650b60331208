"""Gradients that may not be there, and those that an optimizer keeps: where they begin."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.tape.functions.stores import Stores
from torch2ms.tape.ledger.absent import perhaps_none
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.uses.loops import asks, asks_of_each

GUARDED = ("step", "clip_norm", "clip_value")  # what torch passes over where there are no gradients


def unguarded(event: Event, owner: Owner) -> str:
    """Why a use of gradients that may not be there cannot be put under a condition, "" if it can."""
    alone = isinstance(event.stmt.node, cst.Expr) and event.stmt.node.value is event.node
    named = event.kind == "clip_norm" and _named(event)
    asked = owner.stored and event.kind in ("grad_loop", "leaf_grad") and (asks(event) or _raises(event))
    asked = asked or owner.stored and event.taking is not None and asks_of_each(event.taking.taken)
    if event.kind == "step" and not owner.stored or event.kind in GUARDED and alone or named or asked or event.lifted:
        return ""
    return f"the gradients of `{owner.place}` are there only where a condition held"


def _raises(event: Event) -> bool:
    """A method of a gradient is called in any case, as in `p.grad.mul_(0.5)`: torch raises as well where it is None."""
    stmts = event.stmt.blocks[0].stmts if event.kind == "grad_loop" and event.stmt.blocks else [event.stmt]
    asked = (n.value for s in stmts if not s.blocks for n in s.nodes if type(n) is cst.Attribute)
    return any(type(held) is cst.Attribute and held.attr.value == "grad" for held in asked)


def _named(event: Event) -> bool:
    """The norm of what is clipped gets a name: it is zero where there are no gradients."""
    return bool(_without_gradients(event))


def _without_gradients(event: Event) -> str:
    """`norm = ms.tensor(0.0)` for `norm = clip_grad_norm_(...)`, also for its number; "" for other statements."""
    node, norm = event.stmt.node, event.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or "{" in code(node):
        return ""
    value = node.value
    number = isinstance(value, cst.Call) and (
        type(value.func) is cst.Attribute
        and value.func.attr.value == "item"
        and value.func.value is norm
        or dotted(value.func) == "float"
        and len(value.args) == 1
        and value.args[0].value is norm
    )
    if value is not norm and not number:
        return ""
    return f"{code(node.targets[0].target)} = {'0.0' if number else 'ms.tensor(0.0)'}"


def guard_empty(records: Records, plan: Plan) -> None:
    """`if grads is not None:` around what uses gradients that may not be there."""
    last: dict[str, Stmt] = {}  # the guarded statement before, by the name of the gradients
    for event in records.events:
        if event.kind not in LOADS or event.lifted:
            continue
        for owner in records.owners:
            used = owner.accumulating or owner.stored
            used = used and records.may_be_empty(event, owner) and concerns(event, owner, records.owners)
            items = plan.replaced.get(id(event.stmt)) if used and owner.kind != "leaf" else None
            if event.taking is not None and not _passed_over(event):
                continue  # it does more than use gradients: what it does without any is not left out in silence
            if not items or not all(isinstance(i, Text) for i in items):
                continue
            before = last.get(owner.variable)
            if before is not None and _next_to(before, event.stmt):
                items = [*plan.replaced[id(before)], *items]
                plan.replaced[id(event.stmt)] = []
            else:
                last[owner.variable] = before = event.stmt
            guarded = _guarded(items, owner)  # type: ignore[arg-type]
            if event.kind == "clip_norm" and (otherwise := _without_gradients(event)):
                guarded = Text(f"{guarded.template}\nelse:\n    {otherwise}", guarded.nodes)
                plan.needs |= {"ms"} if "ms." in otherwise else set()
                last.pop(owner.variable)
            plan.replaced[id(before)] = [guarded]


def _passed_over(event: Event) -> bool:
    """Without gradients, the called function would do nothing, and nobody takes what it returns."""
    assert event.taking is not None
    scope = event.taking.taken.info.scope
    named = {"self", *scope.params}
    for stmt in scope.body.walk():
        kept = isinstance(stmt.node, cst.Expr) and not isinstance(stmt.node.value, cst.SimpleString)
        changes = {d for d in stmt.defs | stmt.muts if "." in d and root(d) in named and not d.endswith(".grad")}
        if changes or kept and not _of_gradients(stmt):
            return False
    return isinstance(event.stmt.node, cst.Expr)


def _of_gradients(stmt: Stmt) -> bool:
    """The statement clips, or changes gradients in place."""
    return "grad" in code(stmt.node)


def _next_to(first: Stmt, second: Stmt) -> bool:
    """The second stands right behind the first, without a comment between."""
    stmts = first.block.stmts
    talks = any(line.comment is not None for line in second.leading) or (
        first.trailing is not None and first.trailing.comment is not None
    )
    return first.block is second.block and stmts.index(second) == stmts.index(first) + 1 and not talks


def _guarded(items: list[Text], owner: Owner) -> Text:
    """The statements under one condition; those that stand under it already join."""
    head = f"if {owner.variable} is not None:"
    lines: list[str] = []
    nodes: list[cst.CSTNode] = []
    for item in items:
        text = item.template
        for number in reversed(range(len(item.nodes))):
            text = text.replace(f"{{{number}}}", f"{{{number + len(nodes)}}}")
        nodes += item.nodes
        own = text.split("\n")
        lines += own[1:] if own[0] == head else [f"    {line}" for line in own]
    return Text("\n".join([head, *lines]), nodes)


def unfilled(place: str, line: int) -> Finding:
    """The refusal of an optimizer that would find no gradients whenever it steps."""
    why = f"no backward call is seen that fills the gradients of `{place}`"
    return Finding("T2M113", Tier.REFUSED, "optimizer step", why, "call the optimizer with the gradients", line)


def begin_stores(stores: Stores, plans: dict[int, Plan]) -> None:
    """The attribute exists from the statement on that makes the optimizer, or from the first that may need it."""
    for group, creation in stores.creations:
        if group in stores.used:
            text = Text(f"{creation.place}.grads = None")
            if group not in stores.filled and not any(plan.marks for plan in plans.values()):
                plans[id(creation.module)].refuse(creation.stmt, unfilled(creation.place, creation.stmt.lineno))
            plans[id(creation.module)].behind.setdefault(id(creation.stmt), []).append(text)
    for group, module, place, first in stores.late:
        if group in stores.used:
            begin = f'{place}.grads = getattr({place}, "grads", None)'
            asked = perhaps_none(place, first.block.scope)
            text = Text(f"if {place} is not None:\n    {begin}" if asked else begin)
            if (made := _made_later(place, first)) is not None:
                plans[id(module)].behind.setdefault(id(made), []).append(text)
                continue
            lines = plans[id(module)].before.setdefault(id(_begin(place, first)), [])
            using = (n for n, line in enumerate(lines) if isinstance(line, Text) and f"{place}.grads" in line.template)
            lines.insert(next(using, len(lines)), text)


def _made_later(place: str, first: Stmt) -> Stmt | None:
    """The statement that gives an optimizer its name, where that comes after the first event."""
    made = [s for s in first.block.scope.body.walk() if place in s.defs and not s.blocks]
    return made[0] if made and made[0].number > first.number else None


def _begin(place: str, first: Stmt) -> Stmt:
    """The outermost statement around the first event that the optimizer is not bound in."""
    top = first
    for ancestor in first.ancestors():
        if place.partition(".")[0] in ancestor.all_defs | ancestor.defs:
            break
        top = ancestor
    return top
