"""Activations with inplace=True whose argument is looked at again: `x + self.block(x)` adds the activated x.

MindSpore's activations return a new tensor. Nearly always nobody sees the difference; where somebody does, what is read
after the call is the activation of the old tensor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import activations, liveness
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Stmt
from torch2ms.analysis.tree import code
from torch2ms.findings import Tier
from torch2ms.rewrite.expressions import Expressions

if TYPE_CHECKING:
    from torch2ms.rewrite.statements import Statements


def activated(statements: Statements, stmt: Stmt) -> list[cst.BaseStatement]:
    """Plans the uses in the statement that see the activated tensor; the lines that give it to later statements."""
    plan, module = statements.emitter.plan, statements.module
    if id(stmt) in statements.looked_at:
        return []
    for call in stmt.calls:
        first = call.args[0] if call.args else None
        if first is None or first.keyword is not None or first.star or not isinstance(first.value, cst.Name):
            continue
        acts = activations.changes(call, module, statements.emitter.project)
        if not acts:
            continue
        names = {first.value.value} | other_names(first.value.value, stmt)
        here = activations.names_in(stmt.node, names, call)
        later = names & liveness.read_after(stmt.block, [stmt], stmt.block.stmts.index(stmt)) - stmt.defs
        if not here and not later:
            continue
        statements.looked_at.add(id(stmt))
        sure = acts - {activations.UNSURE}
        text = next(iter(sure))
        what = f"{code(call.func)}({first.value.value})"
        if len(sure) > 1 or text.startswith("("):
            why = f"it changes `{first.value.value}` in place, which is used again"
            statements.refuse("T2M614", what, why, "say inplace=False, or take the activation before the call")
            return []
        why = f"torch changes `{first.value.value}` in place: what is used again is the activation"
        tier = Tier.EXACT
        if activations.UNSURE in acts:
            tier, why = Tier.ASSUMED, f"{why}; assumed: the module begins with one"
        statements.tell("T2M614", what, why, tier)
        for node in here:
            plan.expressions[id(node)] = applied(statements, text, node.value)
        return [line for name in sorted(later)
                for line in statements.text(f"{name} = {applied(statements, text, name)}")]  # fmt: skip
    return []


def applied(statements: Statements, text: str, name: str) -> str:
    """The activation of a name, in MindSpore."""
    function, _, rest = text.partition("(")
    call = cst.parse_expression(f"{function}({name}{rest}")
    assert isinstance(call, cst.Call)
    emitter = statements.emitter
    visitor = Expressions(
        emitter.project, emitter.module, emitter.rules, emitter.plan, emitter.differentiated, emitter.aliases
    )
    made = visitor.api_call(f"torch.nn.functional.{function}", call, call)
    emitter.absorb(visitor.notes)
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
