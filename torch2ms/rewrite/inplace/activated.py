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
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Tier
from torch2ms.rewrite import apis
from torch2ms.rewrite.inplace import stores
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.writer import Writer


def activated(writer: Writer, stmt: Stmt, looked_at: set[int]) -> list[cst.BaseStatement]:
    """Plans the uses in the statement that see the activated tensor; the lines that give it to later writer."""
    plan, module = writer.plan, writer.module
    if id(stmt) in looked_at:
        return []
    for call in stmt.calls:
        first = activations.subject(call)
        if first is None or type(first.value) is not cst.Name:
            continue
        alone = type(stmt.node) is cst.Expr and stmt.node.value is call
        acts = activations.changes(call, module, writer.project)
        called = module.value(call.func)
        if not acts or alone and called.kind == "api" and stores.changes(called.name, call):
            continue  # `F.silu(x, inplace=True)` by itself is a store
        names = {first.value.value} | other_names(first.value.value, stmt)
        here = activations.names_in(stmt.node, names, call)
        later = names & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)) - stmt.defs
        if called.kind == "api" and not writer.scope.is_function:
            later |= names - stmt.defs  # whoever imports the module may look
        if not here and not later:
            continue
        looked_at.add(id(stmt))
        sure = acts - {activations.UNSURE}
        text = next(iter(sure))
        what = f"{code(call.func)}({first.value.value})"
        if len(sure) > 1 or text.startswith("("):
            why = f"it changes `{first.value.value}` in place, which is used again"
            writer.refuse("T2M614", what, why, "say inplace=False, or take the activation before the call")
            return []
        why = f"torch changes `{first.value.value}` in place: what is used again is the activation"
        tier = Tier.EXACT
        if activations.UNSURE in acts:
            tier, why = Tier.ASSUMED, f"{why}; assumed: the module begins with one"
        writer.tell("T2M614", what, why, tier)
        for node in here:
            plan.expressions[id(node)] = applied(writer, text, node.value)
        return [line for name in sorted(later)
                for line in writer.text(f"{name} = {applied(writer, text, name)}")]  # fmt: skip
    return []


def applied(writer: Writer, text: str, name: str) -> str:
    """The activation of a name, in MindSpore."""
    function, _, rest = text.partition("(")
    call = cst.parse_expression(f"{function}({name}{rest}")
    assert isinstance(call, cst.Call)
    work = writer.translation()
    made = apis.called(f"torch.nn.functional.{function}", call, call, work, Positions(work.module, work.plan))
    writer.absorb(work.notes)
    return code(made)


def other_names(name: str, stmt: Stmt) -> set[str]:
    """Names of the same tensor at the statement: `identity = x`, neither of the two bound again since."""
    body = list(stmt.block.scope.body.walk())
    found = set()
    for other in body:
        node = other.node
        if other.number >= stmt.number or not isinstance(node, cst.Assign) or len(node.targets) != 1:
            continue
        pair = {dotted(node.targets[0].target), dotted(node.value)}
        if name not in pair or len(pair) != 2 or any(not n or "." in n for n in pair):
            continue
        if not any(other.number < s.number < stmt.number and s.defs & pair for s in body):
            found |= pair - {name}
    return found
