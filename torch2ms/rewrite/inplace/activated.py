"""Activations with inplace=True whose argument is looked at again: `x + self.block(x)` adds the activated x.

MindSpore's activations return a new tensor. Nearly always nobody sees the difference; where somebody does, what is read
after the call is the activation of the old tensor.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.known import activations
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.findings import Tier
from torch2ms.rewrite import apis
from torch2ms.rewrite.inplace import order, stores
from torch2ms.rewrite.inplace.nested import LATE
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.writer import Writer


def activated(writer: Writer, stmt: Stmt, looked_at: set[int]) -> list[cst.BaseStatement]:
    """Plans the uses in the statement that see the activated tensor; the lines that give it to later ones."""
    if id(stmt) in looked_at:
        return []
    for call in stmt.calls:
        alone = type(stmt.node) is cst.Expr and stmt.node.value is call
        called = writer.module.value(call.func)
        if alone and called.kind == "api" and stores.changes(called.name, call):
            continue  # `F.silu(x, inplace=True)` by itself is a store
        lines: list[cst.BaseStatement] = []
        for arg, acts in activations.subjects(call, writer.module, writer.project):
            if type(arg.value) is not cst.Name:
                continue
            name = arg.value.value
            way = order.path(stmt.node, call)
            bound = order.own_scope(way, name)  # then the tensor is an element of something, or an argument of a lambda
            outside = called.kind == "api" and not writer.scope.is_function  # whoever imports the module may look
            here, later = _looking(writer, stmt, call, name, bound, outside)
            if not here and not later:
                continue
            looked_at.add(id(stmt))
            perhaps = any(type(n) in LATE for n in way[:-1] if n is not bound) or bound is not None and bool(later)
            perhaps = perhaps or called.kind == "api" and _again(writer, stmt, call, name, acts)
            if not here and not perhaps and called.kind == "api" and (target := _whole(stmt, call)):
                why = f"torch changes `{name}` in place: it is the same tensor as `{target}`"
                writer.tell("T2M614", f"{code(call.func)}({name})", why)
                lines += [line for other in sorted(later) for line in writer.text(f"{other} = {target}")]
                continue
            lines += _told(writer, call, name, acts, perhaps, here, later)
        if id(stmt) in looked_at:
            return lines
    return []


def _again(writer: Writer, stmt: Stmt, call: cst.Call, name: str, acts: frozenset[str]) -> bool:
    """The statement holds the result, the tensor itself, and changes it once more: `[F.elu_(x), F.elu_(x)]`."""
    if all(text.startswith(("relu(", "relu6(")) for text in acts):  # twice is once
        return False
    others = (other for other in stmt.calls if other is not call)
    return any(
        type(arg.value) is cst.Name and arg.value.value == name
        for other in others for arg, _ in activations.subjects(other, writer.module, writer.project)
    )  # fmt: skip


def _whole(stmt: Stmt, call: cst.Call) -> str:
    """The name that an assignment gives what the call returns, "" where it does something else with it."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or node.value is not call:
        return ""
    target = node.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def _looking(
    writer: Writer, stmt: Stmt, call: cst.Call, name: str, bound: cst.CSTNode | None, outside: bool
) -> tuple[list[cst.Name], set[str]]:
    """The uses in the statement that see what the call has changed, and the names by which later ones do."""
    after = liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt))
    if bound is not None:
        names, root, later = {name}, bound, order.sources(bound) & after
    else:
        names, root = {name} | other_names(name, stmt, writer), stmt.node
        later = (names if outside else names & after) - stmt.defs
    inside = {id(n) for n in descend(call)}
    uses = [n for n in order.reads(root, names) if id(n) not in inside]
    return [n for n in uses if order.sees(order.path(root, n), order.path(root, call))], later


def _told(
    writer: Writer, call: cst.Call, name: str, acts: frozenset[str], perhaps: bool, here: list[cst.Name],
    later: set[str],
) -> list[cst.BaseStatement]:  # fmt: skip
    """The finding for an activation that somebody sees, and what follows from it."""
    sure = acts - {activations.UNSURE}
    text = next(iter(sure))
    what = f"{code(call.func)}({name})"
    if len(sure) > 1 or text.startswith("(") or perhaps:
        why = f"it changes `{name}` in place, which is used again"
        writer.refuse("T2M614", what, why, "say inplace=False, or take the activation before the call")
        return []
    why = f"torch changes `{name}` in place: what is used again is the activation"
    tier = Tier.EXACT
    if activations.UNSURE in acts:
        tier, why = Tier.ASSUMED, f"{why}; assumed: the module begins with one"
    writer.tell("T2M614", what, why, tier)
    for node in here:
        writer.plan.expressions[id(node)] = applied(writer, text, node.value)
    return [line for other in sorted(later)
            for line in writer.text(f"{other} = {applied(writer, text, other)}")]  # fmt: skip


def applied(writer: Writer, text: str, name: str) -> str:
    """The activation of a name, in MindSpore."""
    function, _, rest = text.partition("(")
    call = cst.parse_expression(f"{function}({name}{rest}")
    assert isinstance(call, cst.Call)
    work = writer.translation()
    made = apis.called(f"torch.nn.functional.{function}", call, call, work, Positions(work.module, work.plan))
    writer.absorb(work.notes)
    return code(made)


def other_names(name: str, stmt: Stmt, writer: Writer) -> set[str]:
    """Names of the same tensor at the statement: `identity = x`, `y = F.relu_(x)`, neither bound again since."""
    body = list(stmt.block.scope.body.walk())
    found, todo = {name}, {name}
    while todo:
        fresh: set[str] = set()
        for other in body:
            node = other.node
            if other.number >= stmt.number or not isinstance(node, cst.Assign) or len(node.targets) != 1:
                continue
            pair = {dotted(node.targets[0].target), _same(node.value, writer)}
            if not todo & pair or len(pair) != 2 or any(not n or "." in n for n in pair):
                continue
            if not any(other.number < s.number < stmt.number and s.defs & pair for s in body):
                fresh |= pair - found
        found |= fresh
        todo = fresh
    return found - {name}


def _same(value: cst.BaseExpression, writer: Writer) -> str:
    """The name of the tensor that an expression is: itself, or what a function of torch changes in place."""
    if not isinstance(value, cst.Call):
        return dotted(value)
    if writer.module.value(value.func).kind != "api":
        return ""
    subjects = activations.subjects(value, writer.module, writer.project)
    return next((dotted(arg.value) for arg, acts in subjects if activations.UNSURE not in acts), "")
