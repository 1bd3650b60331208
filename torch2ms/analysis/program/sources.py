"""What an expression is computed from, through the statements before it in its function."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code


def computed_from(test: cst.BaseExpression, stmt: Stmt) -> tuple[list[str], set[str]]:
    """The texts that an expression of a statement is computed by, itself first, and all that they read."""
    stmts, uses = feeding(test, stmt)
    return [code(test), *(code(before.node) for before in stmts)], uses


def feeding(node: cst.BaseExpression, stmt: Stmt) -> tuple[list[Stmt], set[str]]:
    """The statements that an expression of another one is computed by, the last one first, and all that they read."""
    stmts, uses = [], expression_uses(node, stmt)
    for before in reversed(stmt.block.scope.body.walk()):
        if not before.blocks and before.number < stmt.number and before.defs & uses:
            stmts.append(before)
            uses |= before.uses
    return stmts, uses
