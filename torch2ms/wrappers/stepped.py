"""`print(opt.step(closure).item())`: the loss that a step gives back gets a name first."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import children
from torch2ms.wrappers.suites import Suites

STEP = re.compile(r"\.step\(\s*(?:closure\s*=\s*)?\w+[\w.]*\s*\)\s*[.)\]},]")
NAMES = ("loss", "step_loss", "closure_loss")
LATE = (cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation)


def stepped(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such statements, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or module.directives.off or not module.says(STEP):
            continue
        found: dict[int, tuple[cst.Call, str]] = {}
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if stmt.line is not None and (call := _within(stmt, module)) is not None:
                    if name := _free(scope):
                        found[id(stmt.node)] = call, name
        if found:
            plain[module.name] = _Writer(module, found).plain()
    return plain


def _free(scope: Scope) -> str:
    """A name that nothing in the scope has, nor in those in it."""
    used = {u.partition(".")[0] for inner in scope.walk() for s in inner.body.walk() for u in s.uses | s.defs}
    return next((n for n in NAMES if n not in used), "")


def _within(stmt: Stmt, module: ModuleInfo) -> cst.Call | None:
    """The step of a statement that does more than take its loss; nothing is called before it."""
    whole = getattr(stmt.node, "value", None)
    steps = [c for c in stmt.calls if _steps(c, module)]
    if (
        len(steps) != 1
        or whole is steps[0]
        or not isinstance(stmt.node, (cst.Expr, cst.Assign, cst.Return, cst.AugAssign))
    ):
        return None
    path = _path(stmt.node, steps[0])
    if any(isinstance(node, LATE) for node in path):
        return None
    for node, below in zip(path, path[1:], strict=False):
        for child in children(node):
            if child is below:
                break
            if _calls(child):
                return None
    return steps[0]


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


def _calls(node: cst.CSTNode) -> bool:
    return isinstance(node, cst.Call) or any(map(_calls, children(node)))


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
