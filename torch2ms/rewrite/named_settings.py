"""Settings of a parameter group under a name that only the run tells: `group[self.field]`.

The learning rate is a Parameter in MindSpore, read as a number and written with `ops.assign`; the others are numbers.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.translation import Translation

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
