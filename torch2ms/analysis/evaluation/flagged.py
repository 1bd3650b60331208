"""Tensors that begin to accumulate gradients all together: `for p in [w, b]: p.requires_grad = True`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted

NONE: frozenset[str] = frozenset()


def flagged(scope: Scope, module: ModuleInfo) -> frozenset[str]:
    """Names of a scope that a loop over a display of them flags, and that are bound once, before it."""
    if not module.has("requires_grad"):
        return NONE
    found: set[str] = set()
    for stmt in scope.body.walk():
        if type(stmt.node) is cst.For and (target := dotted(stmt.node.target)):
            body = [s.node for b in stmt.blocks for s in b.stmts]
            if len(body) == 1 and _sets(body[0], target):
                found |= _elements(stmt, stmt.node.iter)
    return frozenset(name for name in found if _once(name, scope))


def _sets(node: cst.CSTNode, name: str) -> bool:
    if isinstance(node, cst.Expr) and isinstance(call := node.value, cst.Call):
        return dotted(call.func) == f"{name}.requires_grad_" and all(dotted(a.value) == "True" for a in call.args)
    target = node.targets[0].target if isinstance(node, cst.Assign) else None
    return (
        target is not None and dotted(target) == f"{name}.requires_grad" and dotted(node.value) == "True"  # type: ignore[attr-defined]
    )


def _elements(stmt: Stmt, over: cst.BaseExpression) -> set[str]:
    """The names in what the loop runs over: a display, or the name of one that nothing changes before."""
    if isinstance(over, cst.Name):
        block = stmt.block.stmts
        made = [s for s in block[: block.index(stmt)] if over.value in s.all_defs | s.all_muts]
        if len(made) != 1 or not isinstance(made[0].node, cst.Assign):
            return set()
        over = made[0].node.value
    if isinstance(over, cst.BinaryOperation) and isinstance(over.operator, cst.Add):
        return _elements(stmt, over.left) | _elements(stmt, over.right)
    names = [dotted(e.value) for e in over.elements] if isinstance(over, (cst.List, cst.Tuple)) else []
    return set(names) if all(names) else set()


def _once(name: str, scope: Scope) -> bool:
    made = [s for s in scope.body.walk() if name in s.defs]
    return len(made) == 1 and isinstance(made[0].node, cst.Assign)
