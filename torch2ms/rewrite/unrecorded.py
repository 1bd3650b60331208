"""Statements that run inside of a gradient function where torch records nothing: what they store has no graph."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import changed
from torch2ms.analysis.values import FILLING
from torch2ms.rewrite.gradmodes import stopper, unrecorded
from torch2ms.rewrite.writer import Writer


class KeptApart:
    """Names that a block binds lose their graphs where it ends; what goes into a container, or out of the function in
    turn, loses it at once."""

    def __init__(self) -> None:
        self.made: list[cst.CSTNode] = []  # alive, so that nothing else gets their ids

    def of(self, stmt: Stmt, writer: Writer) -> cst.CSTNode:
        """The statement with the graphs taken from what it stores."""
        node = stmt.node
        if not writer.differentiated or not isinstance(node, (cst.Assign, cst.AugAssign, cst.Expr)):
            return node
        if writer.module.uses_mindspore or not unrecorded(stmt, writer):
            return node
        if isinstance(node, cst.Expr):
            value = self.filling(node.value, writer)
            return node if value is node.value else changed(node, value=value)
        targets = [node.target] if isinstance(node, cst.AugAssign) else [t.target for t in node.targets]
        parts = any(type(t) is cst.Subscript or type(t) is cst.Attribute and not stmt.modes for t in targets)
        return changed(node, value=self.cut(node.value, writer)) if parts else node

    def filling(self, node: cst.BaseExpression, writer: Writer) -> cst.BaseExpression:
        """`kept.append(x)`, `table.update(a=x)` and `yield x`."""
        if type(node) is cst.Yield and isinstance(node.value, cst.BaseExpression):
            return changed(node, value=self.cut(node.value, writer))
        fills = type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in FILLING
        if not fills or writer.module.value(node.func.value).kind in ("module", "set"):  # type: ignore[attr-defined]
            return node
        args = [changed(a, value=self.cut(a.value, writer)) if not a.star else a for a in node.args]  # type: ignore[attr-defined]
        made = changed(node, args=args)
        writer.module.values[id(made)] = writer.module.value(node)
        self.made.append(made)
        return made

    def cut(self, node: cst.BaseExpression, writer: Writer) -> cst.BaseExpression:
        value = writer.module.value(node)
        stop = stopper(value, wanted=True)
        if not stop or id(node) in writer.plan.expressions:
            return node
        writer.needs.add("ops" if "." in stop else stop)
        made = cst.Call(cst.parse_expression(writer.aliased(stop)), [cst.Arg(node)])
        writer.module.values[id(made)] = value.cut()
        self.made.append(made)
        return made
