"""`[opt.step() for opt in optimizers]`, of which nobody takes the list, written as the loop that it is.

What happens to gradients happens in statements, so `return self.optimizer.zero_grad()` is one, with a return behind it.
`self.mean = torch.add(a, b, out=self.mean)` is written for its effect as well: the attribute stays what it is.
`if p.grad is not None: return` leaves the loop that a function ends with: then it can stand where it is called.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

EVENTS = re.compile(
    r"\[\s*\w[\w.\[\]]{0,200}\.(?:backward|step|zero_grad|unscale_)\(|\breturn [\w.]+\.(?:step|zero_grad)\("
    r"|\bout\s{0,3}=\s{0,3}[\w\[]{1,200}[.\[]"
    r"|\.grad is not None:\s{1,100}return\b"
)
METHODS = {"backward", "step", "zero_grad", "unscale_"}


@each_module
def as_loops(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such statements."""
    if not module.says(EVENTS):
        return None
    stmts = ((s, scope) for scope in module.scope.walk() for s in scope.body.walk())
    found = {id(s.node) for s, scope in stmts 
             if _runs(s, scope) or _returns(s, module) or _keeps(s)
             or type(s.node) is cst.Return and _leaves(s, scope)}  # fmt: skip
    return _Writer(module, found).plain() if found else None


def _runs(stmt: Stmt, scope: Scope) -> bool:
    """The statement is a list of what a method of each item gives, for its effect; no other variable is hidden."""
    made = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    if stmt.off or not isinstance(made, cst.ListComp) or "#" in code(stmt.node):
        return False
    call = made.elt.func if isinstance(made.elt, cst.Call) else None
    if not isinstance(call, cst.Attribute) or call.attr.value not in METHODS:
        return False
    names = {n.value for f in _fors(made) for n in descend(f.target) if isinstance(n, cst.Name)}
    loops = [s for s in scope.body.walk() if isinstance(s.node, cst.For)]
    bound = {d for s in scope.body.walk() if s not in loops for d in s.defs} | set(scope.params)
    return not names & bound and all(f.asynchronous is None for f in _fors(made))


def _returns(stmt: Stmt, module: ModuleInfo) -> bool:
    """What an optimizer returns, which is None, is returned."""
    call = stmt.node.value if isinstance(stmt.node, cst.Return) else None
    func = call.func if isinstance(call, cst.Call) else None
    if stmt.off or not isinstance(func, cst.Attribute) or module.value(func.value).kind != "optimizer":
        return False
    assert isinstance(call, cst.Call)
    return func.attr.value == "zero_grad" or func.attr.value == "step" and not call.args


def _leaves(stmt: Stmt, scope: Scope) -> bool:
    """The function ends where its last statement, a loop, is left because a gradient is there."""
    if type(stmt.node) is not cst.Return or stmt.node.value is not None or stmt.off or not scope.is_function:
        return False
    around = [*stmt.ancestors()]
    test, loop = around if len(around) == 2 else (None, None)
    if test is None or loop is None or not isinstance(test.node, cst.If) or not isinstance(loop.node, cst.For):
        return False
    told = code(test.node.test).strip("()").endswith(".grad is not None")
    return told and loop is scope.body.stmts[-1] and loop.node.orelse is None


def _keeps(stmt: Stmt) -> bool:
    """An attribute, or an item, takes back what a function wrote into it."""
    node = stmt.node
    if stmt.off or not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
        return False
    target = node.targets[0].target
    out = next((a.value for a in node.value.args if a.keyword is not None and a.keyword.value == "out"), None)
    plain = isinstance(target, (cst.Attribute, cst.Subscript)) and bool(dotted(target) or dotted(target.value))
    return out is not None and plain and code(out) == code(target)


def _fors(made: cst.ListComp) -> list[cst.CompFor]:
    found: list[cst.CompFor] = []
    inner: cst.CompFor | None = made.for_in
    while inner is not None:
        found.append(inner)
        inner = inner.inner_for_in
    return found


class _Writer(Suites):
    """One module with these statements as loops."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found
        self.last = {id(scope.body.stmts[-1].node) for scope in module.scope.walk() if scope.body.stmts}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.found and isinstance(node, cst.Return) and node.value is None:
            left = cst.Break()
            self.number(left, node)
            return [left]
        if id(node) in self.found and isinstance(node, cst.Return) and node.value is not None:
            call, rest = cst.Expr(node.value), cst.Return(cst.Name("None"))
            self.number(call, node)
            self.number(rest, node)
            return [call] if id(node) in self.last else [call, rest]
        if id(node) in self.found and isinstance(node, cst.Assign):
            call = cst.Expr(node.value)
            self.number(call, node)
            return [call]
        if id(node) not in self.found or not isinstance(node, cst.Expr) or not isinstance(node.value, cst.ListComp):
            return [self.rewrite(node)]
        inner: cst.BaseSmallStatement | cst.BaseCompoundStatement = cst.Expr(node.value.elt)
        self.number(inner, node)
        for turn in reversed(_fors(node.value)):
            for test in reversed(turn.ifs):
                inner = cst.If(test.test, _block(inner))
                self.number(inner, node)
            inner = cst.For(turn.target, turn.iter, _block(inner))
            self.number(inner, node)
        return [inner]


def _block(node: cst.BaseSmallStatement | cst.BaseCompoundStatement) -> cst.IndentedBlock:
    line = node if isinstance(node, cst.BaseCompoundStatement) else cst.SimpleStatementLine([node])
    return cst.IndentedBlock([line])
