"""Statements that write settings of parameter groups: a learning rate is a Parameter in MindSpore, and is assigned."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Tier
from torch2ms.rewrite import named_settings, rates
from torch2ms.rewrite.writer import Writer

WHY = "written with ops.assign: plain writes are ignored or shadow the scheduler"
ASSIGNED = "written with ops.assign where it is the learning rate"


def rate(target: cst.Subscript, given: cst.BaseExpression, writer: Writer) -> list[cst.BaseStatement]:
    """The learning rate of a group gets another value."""
    writer.needs.add("ops")
    writer.tell("T2M502", rates.WHAT, WHY)
    writer.plan.expressions.setdefault(id(target), code(target))
    return writer.text("ops.assign({0}, {1})", target, given)


def rate_and_names(node: cst.Assign, writer: Writer) -> list[cst.BaseStatement] | None:
    """`lr = group["lr"] = value`."""
    targets = [t.target for t in node.targets]
    held = [t for t in targets if isinstance(t, cst.Subscript) and rates.is_rate(t, writer.module)]
    named = [t for t in targets if isinstance(t, cst.Name)]
    if not held:
        return None
    if len(named) + len(held) != len(targets) or not named and not atomic(node.value):
        todo = "write the rate in a statement of its own"
        writer.refuse("T2M502", rates.WHAT, "other things get the same value with it", todo)
        return None
    given: cst.BaseExpression = named[0] if named else node.value
    lines = writer.text("{0} = {1}", named[0], node.value) if named else []
    for name in named[1:]:
        lines += writer.text("{0} = {1}", name, named[0])
    return [*lines, *(line for one in held for line in rate(one, given, writer))]


def setting(
    target: cst.Subscript, value: cst.BaseExpression, writer: Writer, operator: str = ""
) -> list[cst.BaseStatement] | None:
    """The setting gets another value; `operator`: it is changed by one."""
    asked = named_settings.unsaid(target, writer.module)
    if asked is None:
        return None
    if not dotted(asked) or not dotted(target.value):
        todo = "ask whether it is the learning rate: that is written with ops.assign"
        writer.refuse("T2M502", named_settings.WHAT, named_settings.WHY, todo)
        return None
    writer.needs.add("ops")
    writer.tell("T2M502", named_settings.WHAT, f"{ASSIGNED}; {named_settings.WHY}", Tier.EXACT)
    writer.plan.expressions.setdefault(id(target), code(target))
    right = "{1}" if not operator or dotted(value) or isinstance(value, (cst.Call, cst.Integer, cst.Float)) else "({1})"
    new = f"{{0}}.item() {operator.rstrip('=')} {right}" if operator else "{1}"
    other = f"{{0}} {operator or '='} {{1}}"
    return writer.text(
        f'if {{2}} == "{named_settings.RATE}":\n    ops.assign({{0}}, {new})\nelse:\n    {other}', target, value, asked
    )
