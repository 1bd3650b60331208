"""`step(closure)` of an optimizer that the program defines, written so that its closure is a call like any other.

Most such steps run the closure first: `loss = optimizer.step(closure)` is `loss = closure()` and then
`optimizer.step()`. Sharpness-aware ones take a step before it and one after it: their definition loses the gradient
modes around the calls, which change nothing there, and `inlining.ascents` writes it out where it is called.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve, resolved
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites, line_of
from torch2ms.findings import Finding, Tier

ENABLE = "torch.enable_grad"
DECORATORS = ("torch.no_grad", ENABLE)
FIRST = "the step of this optimizer calls its closure first: the closure, then the step"
MODES = "the gradient modes of the step say nothing that its closure and the methods it calls do not say themselves"


def own_steps(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such steps or calls of them, by name."""
    steps = [i for m in project.modules.values() if not m.uses_mindspore for i in m.functions.values() if _closure(i)]
    if not steps:
        return {}
    first = {id(i.scope) for i in steps if _calls_first(i)}
    around = {id(i.scope.node) for i in steps if ascends(i)}
    found = {}
    for module in project.modules.values():
        if not module.uses_mindspore:
            calls = _calls(module, project, first) if first else {}
            if calls or any(id(i.scope.node) in around for i in module.functions.values()):
                found[module.name] = OwnSteps(module, calls, around).plain()
    return found


def _closure(info: FunctionInfo) -> str:
    """The parameter of an optimizer's step that is called, "" where there is none."""
    node = info.scope.node
    if info.name != "step" or info.cls is None or info.cls.kind != "optimizer" or not isinstance(node, cst.FunctionDef):
        return ""
    params = [p.name.value for p in node.params.params[1:2]]
    called = {dotted(c.func) for s in info.scope.body.walk() for c in s.calls}
    return next((p for p in params if p in called), "")


def _calls_first(info: FunctionInfo) -> bool:
    """`if closure is not None: loss = closure()` stands before everything else, and the loss is returned."""
    name = _closure(info)
    loss = ""
    for stmt in info.scope.body.stmts:
        node = stmt.node
        if isinstance(node, cst.If) and _is_given(node.test, name) and node.orelse is None:
            inner = [s for s in stmt.walk() if s is not stmt and type(s.node) is not cst.With]
            if len(inner) != 1 or not _calls_it(inner[0], name):
                return False
            loss = next(iter(inner[0].defs), "")
            break
        if stmt.calls or stmt.blocks or type(node) not in (cst.Assign, cst.Expr):
            return False
    mentions = sum(name in s.uses for s in info.scope.body.walk())
    called = sum(dotted(c.func) == name for s in info.scope.body.walk() for c in s.calls)
    returns = [s.node for s in info.scope.body.walk() if isinstance(s.node, cst.Return)]
    kept = all(r.value is not None and dotted(r.value) == loss for r in returns)
    bound = sum(loss in s.defs for s in info.scope.body.walk())
    return bool(loss) and bool(returns) and kept and called == 1 and mentions <= 2 and bound <= 2


def _is_given(test: cst.BaseExpression, name: str) -> bool:
    """`closure is not None`, `closure`."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        return isinstance(only.operator, cst.IsNot) and dotted(only.comparator) == "None" and dotted(test.left) == name
    return dotted(test) == name


def _calls_it(stmt: Stmt, name: str) -> bool:
    value = stmt.node.value if isinstance(stmt.node, (cst.Assign, cst.Expr)) else None
    return isinstance(value, cst.Call) and dotted(value.func) == name and not value.args


def ascends(info: FunctionInfo) -> bool:
    """The step calls methods of its own, the closure between them, and does nothing else."""
    name = _closure(info)
    if not name:
        return False
    calls = 0
    for stmt in info.scope.body.walk():
        node = stmt.node
        value = node.value if isinstance(node, (cst.Assign, cst.Expr)) else None
        if _checks(stmt, name) or _enables(stmt, name, info.module) or isinstance(value, cst.BaseString):
            continue
        if isinstance(node, cst.With) and all(_is_mode(i.item, info.module) for i in node.items):
            continue
        if isinstance(node, cst.Return) and (node.value is None or dotted(node.value)):
            continue
        own = isinstance(value, cst.Call) and root(dotted(value.func)) == "self" and not isinstance(node, cst.Assign)
        if not own and not _calls_it(stmt, name):
            return False
        calls += own
    return calls > 1


def _checks(stmt: Stmt, name: str) -> bool:
    """`assert closure is not None`."""
    return isinstance(stmt.node, cst.Assert) and _is_given(stmt.node.test, name)


def _enables(stmt: Stmt, name: str, module: ModuleInfo) -> bool:
    """`closure = torch.enable_grad()(closure)`."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or dotted(node.targets[0].target) != name:
        return False
    call = node.value
    given = isinstance(call, cst.Call) and [dotted(a.value) for a in call.args] == [name]
    return given and _is_mode(call.func, module)  # type: ignore[attr-defined]


def _is_mode(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    return isinstance(node, cst.Call) and not node.args and module.value(node.func).name == ENABLE


def _calls(module: ModuleInfo, project: Project, steps: set[int]) -> dict[int, cst.Call]:
    """Statements, by id, that are a call of one of the steps with a closure."""
    found: dict[int, cst.Call] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            value = node.value if isinstance(node, (cst.Assign, cst.Expr)) else None
            if not isinstance(value, cst.Call) or len(value.args) != 1 or not dotted(value.args[0].value):
                continue
            info = resolve(value, scope, module, project)
            if info is not None and id(info.scope) in steps and value.args[0].star == "":
                found[id(node)] = value
    return found


class OwnSteps(Suites):
    """One module: closures called apart from the step, and steps around a closure without gradient modes."""

    def __init__(self, module: ModuleInfo, calls: dict[int, cst.Call], around: set[int]) -> None:
        super().__init__(module)
        self.calls = calls
        self.around = around
        self.name = ""  # of the closure, in a step around it

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) in self.calls:
            return self.apart(node, self.calls[id(node)])
        if self.name and isinstance(node, cst.Assign) and dotted(node.targets[0].target) == self.name:
            self.findings.append(Finding("T2M301", Tier.EXACT, "gradient mode of a closure", MODES, line=self.line))
            return []
        return super().small(node)

    def apart(self, node: cst.BaseSmallStatement, call: cst.Call) -> list[cst.CSTNode]:
        """The closure, then the step."""
        self.findings.append(Finding("T2M106", Tier.EXACT, "step with a closure", FIRST, line=self.line))
        first = node.with_changes(value=cst.Call(call.args[0].value))
        then = cst.Expr(call.with_changes(args=[]))
        for made in (first, then):
            self.number(made, node)
        return [first, then]

    def statement(self, stmt: cst.CSTNode) -> Made:
        outer = self.name
        if isinstance(stmt, cst.FunctionDef):
            self.name = stmt.params.params[1].name.value if id(stmt) in self.around else ""
        made = super().statement(stmt)
        self.name = outer
        return made

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if isinstance(updated, cst.FunctionDef) and id(original) in self.around:
            self.findings.append(Finding("T2M301", Tier.EXACT, "gradient modes of a step", MODES, line=self.line))
            kept = [d for d in updated.decorators if self.module.value(_called(d.decorator)).name not in DECORATORS]
            bare = updated.with_changes(decorators=kept)
            self.number(bare, original)
            return [bare], ()
        if self.name and isinstance(updated, cst.With):
            return self.opened(updated)
        return super().compound(original, updated)


WITHOUT = "nobody in the project calls it with a closure: callers take the gradients, and hand them to {}"


def around_closures(project: Project) -> dict[str, Plain]:
    """Modules with steps around a closure that no call reaches, once all the others are written out."""
    steps = [i for m in project.modules.values() if not m.uses_mindspore for i in m.functions.values() if ascends(i)]
    if not steps:
        return {}
    reached = {id(info.scope) for info in resolved(project).values()}
    left = {id(i.scope.node): i for i in steps if id(i.scope) not in reached}
    return {i.module.name: Uncalled(i.module, left).plain() for i in left.values()}


class Uncalled(Suites):
    """One module whose steps around a closure say that they have no form."""

    def __init__(self, module: ModuleInfo, left: dict[int, FunctionInfo]) -> None:
        super().__init__(module)
        self.left = left

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if (info := self.left.get(id(original))) is None or not isinstance(updated, cst.FunctionDef):
            return super().compound(original, updated)
        calls = [c for s in info.scope.body.walk() for c in s.calls if root(dotted(c.func)) == "self"]
        names = " and ".join(f"`{dotted(c.func).removeprefix('self.')}`" for c in calls)
        self.findings.append(Finding("T2M535", Tier.ASSUMED, "step(closure)", WITHOUT.format(names), line=self.line))
        assert isinstance(updated.body, cst.IndentedBlock)
        lines = [line for line in updated.body.body if isinstance(line, cst.SimpleStatementLine)]
        said = [line for line in lines if is_docstring(line.body[0])]
        told = line_of(f'raise NotImplementedError("call {names.replace(chr(96), "")} with the gradients")')
        self.number(told.body[0], original)
        comments = [line for part in updated.body.body if part not in said for line in layout.inner_comments(part)]
        told = told.with_changes(leading_lines=[*comments, *layout.comments_only(updated.body.footer)])
        body = updated.body.with_changes(body=[*said, told], footer=[])
        made = updated.with_changes(body=body)
        self.number(made, original)
        return [made], ()


def _called(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node
