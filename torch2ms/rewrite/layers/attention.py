"""Attention without its weights: PyTorch gives None beside the result, MindSpore the weights or nothing."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.api import Rule
from torch2ms.rewrite.translation import Translation


def unweighted(rule: Rule, original: cst.Call, made: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """`attention(q, k, v, need_weights=False)`, where the second of its results may be looked at."""
    if rule.name != "torch.nn.MultiheadAttention.__call__" or not isinstance(made, cst.Call):
        return made
    asked = [
        a.value for i, a in enumerate(original.args) if (a.keyword.value if a.keyword else i) in ("need_weights", 4)
    ]
    if not asked or constant(asked[0]) is not False or _unread(original, work):
        return made
    return cst.parse_expression(f"({code(made)}[0], None)")


def _unread(call: cst.Call, work: Translation) -> bool:
    """`out, _ = attention(...)`, and nobody reads the second name."""
    stmt = work.stmt
    node = stmt.node if stmt is not None else None
    if stmt is None or not isinstance(node, cst.Assign) or node.value is not call:
        return False
    target = node.targets[0].target
    if not isinstance(target, cst.Tuple) or len(target.elements) != 2 or len(node.targets) != 1:
        return False
    second, scope = target.elements[1].value, stmt.block.scope
    if not isinstance(second, cst.Name) or scope.is_module:
        return isinstance(second, cst.Name) and second.value == "_"
    return not any(second.value in other.uses for home in scope.walk() for other in home.body.walk())
