"""Where a gradient call stands: in place of the forward, of the backward call, or in both branches of its guard."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.forms.calls import Call
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.asked_first import invariant, unchanged
from torch2ms.tape.plan import Branch, Item, Text


def place(
    writer: Writer, call: Call, definition: list[Item], line: list[Item], plain: Text, follow: list[Item]
) -> None:
    """Put the gradient call where it belongs; `plain` runs the forward alone, and needs the definition too."""
    region, event = call.region, call.event
    plan = writer.plan
    for stmt in region.all:
        plan.moved.add(id(stmt))
    for stmt in region.after:
        plan.moved.add(id(stmt))
    after = [i for s in region.after for i in (plan.replaced.get(id(s), [s]) if isinstance(s.node, cst.Del) else [s])]
    listing = lists_weights(call)
    plan.moved |= {id(s) for s in listing}
    asked, line = line, [*listing, *definition, *line]
    if call.keep:
        plan.moved.add(id(event.stmt))
        follow = [*follow, event.stmt]
    if not region.guards:
        if region.stmts and (adjacent(writer, region.stmts[-1], event.stmt) or id(region.stmts[-1]) in plan.replaced):
            plan.replaced.setdefault(id(region.stmts[-1]), [])
            plan.replaced[id(event.stmt)] = [*line, *after, *follow]
        elif region.stmts:
            plan.replaced[id(region.stmts[-1])] = [*line, *after]
            plan.replaced[id(event.stmt)] = follow
        else:
            plan.replaced[id(event.stmt)] = [*line, *follow]
        return
    guard = region.guards[-1]
    if len(region.guards) == 1 and invariant(guard, region):
        call.form = "the gradient function where the condition holds, the plain forward where it does not"
        test = guard.node.test  # type: ignore[union-attr]
        if region.guarded:
            made: list[Item] = [_either(test, line, list(region.stmts), guard, event.stmt)]
        else:  # both branches call the function
            made = [*definition, _either(test, [*listing, *asked], [plain], guard, event.stmt)]
        merge(writer, call, guard, made, after, follow)
        return
    call.form = "the gradient is taken with the forward, and used where the condition holds"
    if region.guarded or not region.stmts:
        plan.replaced[id(event.stmt)] = [*line, *follow]
        return
    if len(region.guards) == 1 and (there := _asked_for(call, guard)) is not None:
        line = [*definition, Branch(there, [*listing, *asked], [plain])]
    plan.replaced[id(region.stmts[-1])] = [*line, *after]
    plan.replaced[id(event.stmt)] = follow


def _asked_for(call: Call, guard: Stmt) -> cst.BaseExpression | None:
    """The part of a condition that asks for an optimizer: `loss is not None and self.opt is not None`."""
    parts = [guard.node.test] if isinstance(guard.node, cst.If) else []
    while isinstance(parts[-1] if parts else None, cst.BooleanOperation):
        both = parts.pop()
        assert isinstance(both, cst.BooleanOperation)
        if not isinstance(both.operator, cst.And):
            return None
        parts = [both.right, *parts, both.left]
    for part in parts:
        named = part
        if isinstance(part, cst.Comparison) and isinstance(part.comparisons[0].operator, cst.IsNot):
            named = part.left
        place = dotted(named)
        owned = any(o.place == place or o.place.startswith(f"{place}.") for o in call.owners if place)
        if owned and unchanged(expression_uses(part, guard), guard, call.region):
            return part
    return None


def _either(test: cst.BaseExpression, line: list[Item], other: list[Item], guard: Stmt, backward: Stmt) -> Branch:
    """The gradient is taken in the branch that goes backward, which may be the other one."""
    block = backward.block
    while block.owner is not None and block.owner is not guard:
        block = block.owner.block
    return Branch(test, line, other) if block is guard.blocks[0] else Branch(test, other, line)


def lists_weights(call: Call) -> list[Stmt]:
    """Statements between the forward and the call that list its weights: they have to come before both."""
    region, stmt = call.region, call.event.stmt
    if call.weights is None or not region.stmts or region.block is not stmt.block:
        return []
    names = {root(u) for u in expression_uses(call.weights, stmt)}
    block = region.block.stmts
    between = block[block.index(region.stmts[-1]) + 1 : block.index(stmt)]
    made = {root(d) for s in [*region.stmts, *between] for d in s.all_defs}
    return [s for s in between if {root(d) for d in s.defs} & names and not {root(u) for u in s.all_uses} & made]


def adjacent(writer: Writer, last: Stmt, backward: Stmt) -> bool:
    """Nothing that stays stands between the forward and the backward call."""
    block = last.block
    if backward.block is not block:
        return False
    between = block.stmts[block.stmts.index(last) + 1 : block.stmts.index(backward)]
    return all(id(s) in writer.plan.moved or id(s) in writer.gone for s in between)


def merge(writer: Writer, call: Call, guard: Stmt, made: list[Item], after: list[Item], follow: list[Item]) -> None:
    """Join the new `if`, the last of what was made, with the user's own where nothing stands between."""
    *definition, branch = made
    assert isinstance(branch, Branch)
    region, plan = call.region, writer.plan
    block = region.block
    anchor = region.stmts[-1]
    between = block.stmts[block.stmts.index(anchor) + 1 : block.stmts.index(guard)]
    plan.replaced[id(call.event.stmt)] = follow
    own_body = guard.blocks[0]
    taken = call.event.stmt.block is own_body and len(guard.blocks) == 1
    staying = [s for s in own_body.stmts if s not in region.guarded]
    reads = {root(u) for s in staying for u in s.all_uses}
    writes = {root(d) for s in region.after for d in s.all_defs | s.all_muts}
    near = region.late or all(id(s) in plan.moved or id(s) in plan.replaced for s in between)
    if taken and near and not reads & writes:
        plan.replaced[id(anchor)] = []
        joined = Branch(branch.test, [*branch.body, *staying], branch.orelse)
        plan.replaced[id(guard)] = [*definition, joined, *after]
        return
    if region.late:
        plan.replaced[id(anchor)] = []
        plan.before.setdefault(id(guard), []).extend([*made, *after])
        return
    plan.replaced[id(anchor)] = [*made, *after]
