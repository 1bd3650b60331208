"""What of a statement is evaluated first, and what of it late, never or often."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.plan import Plan

LATE = frozenset({
    cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation
})  # fmt: skip
QUIET = frozenset({cst.Name, cst.Integer, cst.Float, cst.SimpleString})


def evaluated_first(stmt: Stmt, module: ModuleInfo, plan: Plan) -> Iterator[cst.CSTNode]:
    """The expressions of a statement of which nothing else is evaluated before, each behind what it is a part of.

    Names, constants and what is looked up under them do not count, nor do changes that stand above it already.
    """
    yield from _evaluated(getattr(stmt.node, "value", None), module, plan)


def _evaluated(node: cst.CSTNode | None, module: ModuleInfo, plan: Plan) -> Iterator[cst.CSTNode]:
    if node is None or id(node) in plan.expressions:
        return
    yield node
    for part in _parts(node, module):
        yield from _evaluated(part, module, plan)
        if type(part) not in QUIET and not _looked_up(part, module) and id(part) not in plan.expressions:
            return


def _parts(node: cst.CSTNode, module: ModuleInfo) -> list[cst.BaseExpression]:
    """What is evaluated whenever a node is, in order."""
    if type(node) is cst.Call:
        args = [arg.value for arg in node.args]
        if type(node.func) is cst.Attribute and module.value(node.func).kind != "api":
            return [node.func.value, *args]
        return args
    if type(node) is cst.BinaryOperation:
        return [node.left, node.right]
    if type(node) is cst.Comparison or type(node) is cst.BooleanOperation:
        return [node.left]
    if type(node) is cst.Attribute or type(node) is cst.Subscript:
        return [node.value]
    if type(node) is cst.UnaryOperation:
        return [node.expression]
    return [element.value for element in node.elements] if type(node) is cst.Tuple or type(node) is cst.List else []


def _looked_up(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`self.kept`, `state[name]`: a reference, which no change in place makes another.

    Rows of a tensor are, where their number is written; those that other tensors pick are a copy of their own.
    """
    if type(node) is not cst.Subscript:
        return bool(dotted(node))
    places = [part.slice.value for part in node.slice if type(part.slice) is cst.Index]
    written = len(places) == len(node.slice) and all(constant(place) is not ... for place in places)
    held = module.value(node.value).kind in ("dict", "list", "tuple") and all(dotted(place) for place in places)
    return (written or held) and _looked_up(node.value, module)
