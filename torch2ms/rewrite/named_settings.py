"""Settings of a parameter group under a name that only the run tells: `group[self.field]`.

The learning rate is a Parameter in MindSpore, read as a number and written with `ops.assign`; the others are numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.findings import Tier
from torch2ms.rewrite.translation import Translation

if TYPE_CHECKING:
    from torch2ms.rewrite.writer import Writer

RATE = "lr"
WHAT = "setting of a group"
WHY = "which one is seen when it runs: the learning rate is a Parameter, the others are numbers"


def unsaid(node: cst.CSTNode, module: ModuleInfo) -> cst.BaseExpression | None:
    """The name of a setting of a group, where it may be the learning rate's and the source does not tell."""
    if type(node) is not cst.Subscript or module.value(node).name != "param_group_item" or len(node.slice) != 1:
        return None
    part = node.slice[0].slice
    if not isinstance(part, cst.Index) or constant(part.value) is not ... or _another(part.value):
        return None
    name = dotted(part.value)
    made = [s for scope in module.scope.walk() for s in scope.body.walk() if name and name in s.defs]
    others = bool(made) and all(isinstance(s.node, cst.Assign) and _another(s.node.value) for s in made)
    return None if others else part.value


def _another(name: cst.BaseExpression) -> bool:
    """A text of several parts, one of which is in no `lr`: f"initial_{field}"."""
    parts = name.parts if isinstance(name, cst.FormattedString) else ()
    return any(isinstance(p, cst.FormattedStringText) and p.value not in RATE for p in parts)


def read(node: cst.Subscript, updated: cst.Subscript, work: Translation) -> cst.BaseExpression | None:
    """The setting as a number, or as what it is."""
    asked = unsaid(node, work.module)
    if asked is None:
        return None
    work.tell("T2M502", WHAT, f"read as a number; {WHY}")
    held, key = code(updated), code(updated.slice[0].slice)
    return cst.parse_expression(f'({held}.item() if {key} == "{RATE}" else {held})')


def written(target: cst.Subscript, value: cst.BaseExpression, writer: Writer, operator: str = "") -> list[
    cst.BaseStatement
] | None:
    """The setting gets another value; `operator`: it is changed by one."""
    asked = unsaid(target, writer.module)
    if asked is None:
        return None
    if not dotted(asked) or not dotted(target.value):
        writer.refuse("T2M502", WHAT, WHY, "ask whether it is the learning rate: that is written with ops.assign")
        return None
    writer.needs.add("ops")
    writer.tell("T2M502", WHAT, f"written with ops.assign where it is the learning rate; {WHY}", Tier.EXACT)
    writer.plan.expressions.setdefault(id(target), code(target))
    right = "{1}" if not operator or dotted(value) or isinstance(value, (cst.Call, cst.Integer, cst.Float)) else "({1})"
    new = f"{{0}}.item() {operator.rstrip('=')} {right}" if operator else "{1}"
    other = f"{{0}} {operator or '='} {{1}}"
    return writer.text(
        f'if {{2}} == "{RATE}":\n    ops.assign({{0}}, {new})\nelse:\n    {other}', target, value, asked
    )
