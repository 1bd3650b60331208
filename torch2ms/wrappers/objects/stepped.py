"""`print(opt.step(closure).item())`, `total += self.training_step(batch)`: the loss gets a name first.

So does what a function of the project gives that is handed a network, goes backward and leaves the step to its callers:
which optimizer it serves is known where it is called, and the gradient call there is a statement.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children
from torch2ms.editing.suites import Suites

STEP = re.compile(r"\.step\(\s*(?:closure\s*=\s*)?\w+[\w.]*\s*\)\s*[.)\]},]")
NAMES = ("loss", "step_loss", "closure_loss")
ATTRIBUTES = (cst.Attribute, cst.Subscript)
LATE = (cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation)


def stepped(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such statements, by name."""
    plain: dict[str, Plain] = {}
    leaving = _leaving(project)
    names = {scope.name for scope in leaving.values()}
    for module in project.modules.values():
        if module.uses_mindspore or module.directives.off:
            continue
        if not module.says(STEP) and not any(module.has(f"{name}(") for name in names):
            continue
        found: dict[int, tuple[cst.Call, str]] = {}
        for scope in module.scope.walk():
            steps = bool(leaving) and "step" in _methods(scope)
            for stmt in scope.body.walk():
                if stmt.line is None or not stmt.calls:
                    continue
                call = _within(stmt, module) or (_of_caller(stmt, scope, module, project, leaving) if steps else None)
                if call is not None:
                    if name := _free(scope):
                        found[id(stmt.node)] = call, name
        if found:
            plain[module.name] = _Writer(module, found).plain()
    return plain


def _free(scope: Scope) -> str:
    """A name that nothing in the scope has, nor in those in it."""
    used = {u.partition(".")[0] for inner in scope.walk() for s in inner.body.walk() for u in s.uses | s.defs}
    return next((n for n in NAMES if n not in used), "")


def _leaving(project: Project) -> dict[int, Scope]:
    """The functions that go backward, and leave the step to those that call them."""
    found: dict[int, Scope] = {}
    for module in project.modules.values():
        if module.uses_mindspore or not module.has(".backward("):
            continue
        for info in module.functions.values():
            called = _methods(info.scope)
            reads = any(place.endswith(".grad") for s in info.scope.body.walk() for place in s.uses | s.muts)
            if "backward" in called and "step" not in called and not reads and info.name != "backward":
                found[id(info.scope)] = info.scope
    return found


def _methods(scope: Scope) -> set[str]:
    """The names of the methods that a scope calls."""
    calls = (c for s in scope.body.walk() for c in s.calls)
    return {c.func.attr.value for c in calls if type(c.func) is cst.Attribute}


def _of_caller(
    stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project, leaving: dict[int, Scope]
) -> cst.Call | None:
    """The call of such a function within an expression, before which nothing is read that it may write."""
    whole = getattr(stmt.node, "value", None)
    if type(stmt.node) is not cst.AugAssign and (len(stmt.calls) == 1 and whole is stmt.calls[0]):
        return None
    names = {each.name for each in leaving.values()}
    for call in stmt.calls:
        if dotted(call.func).rpartition(".")[2] not in names or call is whole and type(stmt.node) is not cst.AugAssign:
            continue
        info = resolve(call, scope, module, project)
        given = any(module.value(arg.value).kind == "module" for arg in call.args)
        if info is not None and id(info.scope) in leaving and given and _first(stmt, call, ATTRIBUTES):
            return call if type(stmt.node) is not cst.AugAssign or _apart(stmt.node.target, info, project) else None
    return None


def _apart(target: cst.BaseExpression, info: FunctionInfo, project: Project) -> bool:
    """What is added to is not written by what is called: it may be read behind the call as well."""
    if type(target) is cst.Name:
        return not any(type(s.node) is cst.Nonlocal or type(s.node) is cst.Global for s in info.scope.body.walk())
    name = "." + dotted(target).rpartition(".")[2]
    written = (place for s, _ in reached(info.scope.body.stmts, info.module, project) for place in s.defs | s.muts)
    return type(target) is cst.Attribute and not any(place.endswith(name) for place in written)


def _within(stmt: Stmt, module: ModuleInfo) -> cst.Call | None:
    """The step of a statement that does more than take its loss; nothing is called before it."""
    whole = getattr(stmt.node, "value", None)
    steps = [c for c in stmt.calls if _steps(c, module)]
    return steps[0] if len(steps) == 1 and whole is not steps[0] and _first(stmt, steps[0]) else None


def _first(stmt: Stmt, call: cst.Call, besides: tuple[type, ...] = ()) -> bool:
    """A call is evaluated in any case, and before all others of its statement, and before such nodes."""
    if not isinstance(stmt.node, (cst.Expr, cst.Assign, cst.Return, cst.AugAssign)):
        return False
    path = _path(stmt.node, call)
    if any(isinstance(node, LATE) for node in path):
        return False
    for node, below in zip(path, path[1:], strict=False):
        for child in children(node):
            if child is below:
                break
            if type(node) is cst.Assign or type(node) is cst.AugAssign and besides:  # the target, see `_apart`
                continue
            method = type(node) is cst.Call and child is node.func
            if _has(child, (cst.Call,) if method else (cst.Call, *besides)):
                return False
    return True


def _steps(call: cst.Call, module: ModuleInfo) -> bool:
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "step" or len(call.args) != 1:
        return False
    return module.value(func.value).kind == "optimizer"


def _path(node: cst.CSTNode, wanted: cst.CSTNode) -> list[cst.CSTNode]:
    """The nodes from one down to another."""
    if node is wanted:
        return [node]
    for child in children(node):
        if below := _path(child, wanted):
            return [node, *below]
    return []


def _has(node: cst.CSTNode, kinds: tuple[type, ...]) -> bool:
    return isinstance(node, kinds) or any(_has(child, kinds) for child in children(node))


class _Writer(Suites):
    """One module with names for these losses."""

    def __init__(self, module: ModuleInfo, found: dict[int, tuple[cst.Call, str]]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.found:
            return [self.rewrite(node)]
        call, name = self.found[id(node)]
        made = cst.Assign([cst.AssignTarget(cst.Name(name))], call)
        return [made, node.deep_replace(call, cst.Name(name))]
