"""What a body computes for its caller alone, where the caller does not want it."""

from __future__ import annotations

from typing import cast

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.rewriter import Rewriter


def without_unread(lines: list[cst.BaseStatement], names: set[str]) -> list[cst.BaseStatement]:
    """The statements without what they bind to these names, as far as no statement reads them."""
    targets = {
        id(n.target) for line in lines for n in descend(line)
        if isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Name)
    }  # fmt: skip
    read = {n.value for line in lines for n in descend(line) if isinstance(n, cst.Name) and id(n) not in targets}
    writer = _Unread(names - read)
    made = [cast(cst.BaseStatement, writer.rewrite(line)) for line in lines]
    return [line for line in made if not isinstance(line, cst.SimpleStatementLine) or line.body]


class _Unread(Rewriter):
    def __init__(self, names: set[str]) -> None:
        self.names = names

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        node = updated.body[0] if len(updated.body) == 1 else None
        if not isinstance(node, cst.Assign) or len(node.targets) != 1:
            return updated
        if dotted(node.targets[0].target) not in self.names:
            return updated
        plain = bool(dotted(node.value)) or constant(node.value) is not ...
        return updated.with_changes(body=[] if plain else [cst.Expr(node.value)])

    def leave_IndentedBlock(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        body = [n for n in updated.body if not isinstance(n, cst.SimpleStatementLine) or n.body]
        if len(body) == len(updated.body):
            return updated
        return updated.with_changes(body=body or [cst.SimpleStatementLine([cst.Pass()])])

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        if isinstance(updated.orelse, cst.Else) and _empty(updated.orelse.body):
            return updated.with_changes(orelse=None)
        return updated


def _empty(suite: cst.BaseSuite) -> bool:
    nodes = [s for line in suite.body for s in (line.body if isinstance(line, cst.SimpleStatementLine) else [line])]
    return all(isinstance(n, cst.Pass) for n in nodes)
