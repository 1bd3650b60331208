"""`norm = clip_grad_norm_(ps, c) if c else 0.0` as an `if` statement: what happens to gradients happens in a statement.

So do `scheduler and optimizer.step()` and `loss.backward() if train else None`.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.wrappers.suites import Suites

EVENTS = re.compile(r"\b(?:backward|step|zero_grad|unscale_|clip_grad_\w+)\(")
CALLED = re.compile(r"backward|step|zero_grad|unscale_|clip_grad_\w+")
Choice = tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression | None]  # the test, and either side


def ternary(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such statements, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or not EVENTS.search(module.source):
            continue
        found = {id(s.node) for scope in module.scope.walk() for s in scope.body.walk() if _chooses(s)}
        if found:
            plain[module.name] = _Writer(module, found).plain()
    return plain


def _chooses(stmt: Stmt) -> bool:
    """One side of what a statement chooses between does something to gradients."""
    if stmt.off or not any(CALLED.fullmatch(_last(c)) for c in stmt.calls) or "#" in code(stmt.node):
        return False
    choice = _choice(stmt.node)
    sides = [side for side in choice[1:] if side is not None] if choice is not None else []
    nodes = [n for side in sides for n in descend(side)]
    return any(isinstance(n, cst.Call) and CALLED.fullmatch(_last(n)) for n in nodes)


def _choice(node: cst.CSTNode) -> Choice | None:
    """The test of a statement that is all one choice, and what it evaluates then, or else."""
    value = node.value if isinstance(node, (cst.Assign, cst.Expr)) else None
    if isinstance(node, cst.Assign) and len(node.targets) != 1:
        return None
    if isinstance(value, cst.IfExp):
        silent = isinstance(node, cst.Expr) and dotted(value.orelse) == "None"
        return value.test, value.body, None if silent else value.orelse
    if isinstance(node, cst.Expr) and isinstance(value, cst.BooleanOperation):
        test = value.left if isinstance(value.operator, cst.And) else _not(value.left)
        return test, value.right, None
    return None


def _not(test: cst.BaseExpression) -> cst.BaseExpression:
    inner = test if isinstance(test, (cst.Name, cst.Attribute, cst.Call)) or test.lpar else _enclosed(test)
    return cst.UnaryOperation(cst.Not(), inner)


def _enclosed(test: cst.BaseExpression) -> cst.BaseExpression:
    return test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _last(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)


class _Writer(Suites):
    """One module, with `if` statements for such choices."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        choice = _choice(node) if id(node) in self.found else None
        if choice is None:
            return super().small(node)
        test, body, orelse = choice
        otherwise = cst.Else(self.block(node, orelse)) if orelse is not None else None
        return [cst.If(test, self.block(node, body), orelse=otherwise)]

    def block(self, node: cst.BaseSmallStatement, value: cst.BaseExpression) -> cst.IndentedBlock:
        """The statement with one of the values."""
        made = node.deep_clone().with_changes(value=value, semicolon=cst.MaybeSentinel.DEFAULT)
        self.number(made, node)
        return cst.IndentedBlock([cst.SimpleStatementLine([made])])
