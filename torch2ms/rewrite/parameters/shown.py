"""Parameters that are made of a part or another shape of a tensor, which `ops.assign` writes nothing into.

MindSpore copies what a Parameter with a name is made of, and shows the memory of what one without a name is made of.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import constant
from torch2ms.api import Outcome

NAMED = ("torch.nn.Conv", "torch.nn.Linear")  # layers that call them weight and bias in MindSpore, too
SAME = {"detach", "contiguous", "requires_grad_", "data", "cpu"}
SHOWING = {"view", "reshape", "view_as", "reshape_as", "flatten", "ravel", "unflatten", "unsqueeze", "squeeze", "t",
            "transpose", "permute", "swapaxes", "swapdims", "movedim", "moveaxis", "narrow", "select", "diagonal",
            "expand", "expand_as", "broadcast_to", "T", "mT"}  # fmt: skip


def held(outcome: Outcome, original: cst.Call, stmt: Stmt | None, module: ModuleInfo) -> Outcome:
    """`ms.Parameter(x.view(2, 3).copy())`; the weight of a layer in a network gets its name there instead.

    MindSpore names a Parameter by its last attribute alone, and no optimizer takes two of one name.
    """
    node = outcome.node
    if not isinstance(node, cst.Call) or not node.args or not original.args or stmt is None:
        return outcome
    if any(a.keyword and a.keyword.value == "name" for a in node.args):
        return outcome
    if name := _inside(stmt, original) or _of_each(stmt, module):
        tight = cst.SimpleWhitespace("")
        equal = cst.AssignEqual(whitespace_before=tight, whitespace_after=tight)
        named = cst.Arg(cst.parse_expression(name), keyword=cst.Name("name"), equal=equal)
        return replace(outcome, node=node.with_changes(args=[*node.args, named]))
    if not shows(original.args[0].value, stmt, 3):
        return outcome
    first = node.args[0]
    copy = cst.Call(cst.Attribute(parenthesised(first.value), cst.Name("copy")))
    return replace(outcome, node=node.with_changes(args=[first.with_changes(value=copy), *node.args[1:]]))


def _inside(stmt: Stmt, call: cst.Call) -> str:
    """`fc.weight` for `self.fc.weight = nn.Parameter(...)`, "" where no layer of a network gets it."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or node.value is not call or len(node.targets) != 1:
        return ""
    parts: list[str] = []
    target: cst.BaseExpression = node.targets[0].target
    while isinstance(target, (cst.Attribute, cst.Subscript)):
        if isinstance(target, cst.Attribute):
            parts.insert(0, target.attr.value)
        else:
            index = target.slice[0].slice
            number = constant(index.value) if isinstance(index, cst.Index) and len(target.slice) == 1 else None
            if type(number) is not int or number < 0:
                return ""
            parts.insert(0, str(number))
        target = target.value
    return repr(".".join(parts)) if isinstance(target, cst.Name) and len(parts) > 1 else ""


def _of_each(stmt: Stmt, module: ModuleInfo) -> str:
    """`conv.weight.name` for `conv.weight = nn.Parameter(...)` of each layer of a loop, or that callers give."""
    node = stmt.node
    made = node.value if isinstance(node, cst.Assign) else None
    if not isinstance(node, cst.Assign) or not isinstance(made, cst.Call) or len(node.targets) != 1:
        return ""
    target = node.targets[0].target
    if module.value(made.func).name != "torch.nn.Parameter" or not isinstance(target, cst.Attribute):
        return ""
    if not isinstance(target.value, cst.Name):
        return ""
    layer, attr, scope = target.value.value, target.attr.value, stmt.block.scope
    turning = any(a.is_loop and layer in a.defs for a in stmt.ancestors())
    if attr in ("weight", "bias") and turning and _read_before(dotted(target), stmt):
        return f"{dotted(target)}.name"
    if attr not in ("weight", "bias") or not module.value(target.value).name.startswith(NAMED):
        return ""
    if not turning and (layer not in scope.params or layer == "self"):
        return ""
    return f"{layer}.weight.name" if attr == "weight" else f"{layer}.weight.name.replace('weight', 'bias')"


def _read_before(place: str, stmt: Stmt) -> bool:
    """What the statement replaces is there: `bias = layer.bias.view(3, -1)` stands before it in its block."""
    before = stmt.block.stmts[: stmt.block.stmts.index(stmt)]
    return any(type(n) is cst.Attribute and dotted(n.value) == place for s in before for n in s.nodes)


def shows(node: cst.BaseExpression, stmt: Stmt, depth: int) -> bool:
    """The expression is a view of another tensor."""
    if isinstance(node, cst.Name):
        return bool(depth) and any(shows(value, made, depth - 1) for made, value in _bound(node.value, stmt))
    if isinstance(node, cst.Subscript):
        return not any(isinstance(e.slice, cst.Index) and isinstance(constant(e.slice.value), str) for e in node.slice)
    inner = node.func if isinstance(node, cst.Call) else node
    if not isinstance(inner, cst.Attribute):
        return False
    if inner.attr.value in SAME:
        return shows(inner.value, stmt, depth)
    return inner.attr.value in SHOWING and (isinstance(node, cst.Call) or inner.attr.value in ("T", "mT"))


def _bound(name: str, stmt: Stmt) -> list[tuple[Stmt, cst.BaseExpression]]:
    """The last assignment of a name before a statement."""
    made = [s for s in stmt.block.scope.body.walk() if name in s.defs and s.number < stmt.number]
    node = made[-1].node if made else None
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or dotted(node.targets[0].target) != name:
        return []
    return [(made[-1], node.value)]
