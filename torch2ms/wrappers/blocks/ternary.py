"""`norm = clip_grad_norm_(ps, c) if c else 0.0` as an `if` statement: what happens to gradients happens in a statement.

So does `grad.lerp_(momentum, beta) if nesterov else momentum`, which changes a tensor, returned or bound. So do
`scheduler and optimizer.step()`, `loss.backward() if train else None` and, where it is called, what
`backwards = lambda loss: loss.backward()` does.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

EVENTS = re.compile(
    r"\b(?:backward|step|zero_grad|unscale_|clip_grad_\w+)\(|[a-z]_\([^\n]*\) if\b| if [^\n]* else [^\n]*[a-z]_\("
)
LAMBDA = re.compile(r"\w = lambda\b[^\n]*\.(?:backward|zero_grad)\(")
CALLED = re.compile(r"backward|step|zero_grad|clip_grad_\w+|(?!\w*(?:lu|threshold)_)[a-z]\w*[a-z]_")
WHY = "written out where it is called"
Choice = tuple[cst.BaseExpression, cst.BaseExpression, cst.BaseExpression | None]  # the test, and either side


@each_module
def ternary(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such statements."""
    if not module.says(EVENTS):
        return None
    stmts = [s for scope in module.scope.walk() for s in scope.body.walk()]
    found = {id(s.node) for s in stmts if _chooses(s)}
    named = _lambdas(stmts, module) if module.says(LAMBDA) else {}
    return _Writer(module, found, named).plain() if found or named else None


def _chooses(stmt: Stmt) -> bool:
    """One side of what a statement chooses between does something to gradients."""
    choice = _choice(stmt.node) if stmt.calls and not stmt.off else None
    if choice is None or not any(CALLED.fullmatch(name_called(c)) for c in stmt.calls) or "#" in code(stmt.node):
        return False
    sides = [side for side in choice[1:] if side is not None]
    nodes = [n for side in sides for n in descend(side)]
    return any(isinstance(n, cst.Call) and CALLED.fullmatch(name_called(n)) for n in nodes)


def _lambdas(stmts: list[Stmt], module: ModuleInfo) -> dict[str, cst.Assign]:
    """Names of functions like `lambda loss: loss.backward()` that are only called, in statements of their own."""
    found: dict[str, cst.Assign] = {}
    for stmt in stmts:
        node = stmt.node
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or stmt.off:
            continue
        body = node.value.body if isinstance(node.value, cst.Lambda) else None
        if isinstance(body, cst.Call) and name_called(body) in ("backward", "zero_grad") and "#" not in code(node):
            found[dotted(node.targets[0].target)] = node
    calls = [s.node.value for s in stmts if isinstance(s.node, cst.Expr) and isinstance(s.node.value, cst.Call)]
    taken = {id(c.func) for c in calls if (n := dotted(c.func)) in found and _given(found[n].value, c) is not None}
    others = (n for n in module.nodes if isinstance(n, (cst.Name, cst.Attribute)) and id(n) not in taken)
    more = [name for name in map(dotted, others) if name in found]
    return {name: node for name, node in found.items() if "." not in name and more.count(name) == 1}


def _given(function: cst.BaseExpression, call: cst.Call) -> dict[str, cst.BaseExpression] | None:
    """What a call gives a lambda, by the names of its parameters; None where that is not plain."""
    params = function.params if isinstance(function, cst.Lambda) else None
    if params is None or len(params.params) != len(call.args) or any(a.keyword or a.star for a in call.args):
        return None
    given = {p.name.value: a.value for p, a in zip(params.params, call.args, strict=True)}
    used = [n.value for n in descend(function.body) if isinstance(n, cst.Name)]  # type: ignore[attr-defined]
    return given if all(used.count(name) == 1 or dotted(value) for name, value in given.items()) else None


def _choice(node: cst.CSTNode) -> Choice | None:
    """The test of a statement that is all one choice, and what it evaluates then, or else."""
    value = node.value if isinstance(node, (cst.Assign, cst.Expr, cst.Return)) else None
    if type(node) is cst.Assign and len(node.targets) != 1:
        return None
    if type(value) is cst.IfExp:
        silent = isinstance(node, cst.Expr) and dotted(value.orelse) == "None"
        return value.test, value.body, None if silent else value.orelse
    if type(node) is cst.Expr and type(value) is cst.BooleanOperation:
        test = value.left if isinstance(value.operator, cst.And) else _not(value.left)
        return test, value.right, None
    return None


def _not(test: cst.BaseExpression) -> cst.BaseExpression:
    inner = test if isinstance(test, (cst.Name, cst.Attribute, cst.Call)) or test.lpar else _enclosed(test)
    return cst.UnaryOperation(cst.Not(), inner)


def _enclosed(test: cst.BaseExpression) -> cst.BaseExpression:
    return test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _applied(function: cst.BaseExpression, call: cst.Call) -> cst.BaseExpression:
    """The body of a lambda with what a call gives it."""
    assert isinstance(function, cst.Lambda)
    given = {name: parenthesised(value) for name, value in (_given(function, call) or {}).items()}
    return function.body.deep_clone().visit(_Filled(given))  # type: ignore[return-value]


class _Filled(cst.CSTTransformer):
    """An expression with others for some names; attributes and keywords are none."""

    def __init__(self, given: dict[str, cst.BaseExpression]) -> None:
        self.given = given
        self.kept: list[cst.CSTNode | None] = []

    def visit_Attribute(self, node: cst.Attribute) -> None:
        self.kept.append(node.attr)

    def visit_Arg(self, node: cst.Arg) -> None:
        self.kept.append(node.keyword)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        if any(original is node for node in self.kept) or original.value not in self.given:
            return updated
        return self.given[original.value].deep_clone()


class _Writer(Suites):
    """One module, with `if` statements for such choices."""

    def __init__(self, module: ModuleInfo, found: set[int], named: dict[str, cst.Assign]) -> None:
        super().__init__(module)
        self.found, self.named = found, named
        self.dead = {id(node) for node in named.values()}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.dead:
            self.findings.append(Finding("T2M203", Tier.EXACT, "function that goes backward", WHY, line=self.line))
            return []
        call = node.value if isinstance(node, cst.Expr) else None
        if isinstance(call, cst.Call) and (made := self.named.get(dotted(call.func))) is not None:
            return [cst.Expr(_applied(made.value, call))]
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
