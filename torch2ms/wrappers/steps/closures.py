"""`def step(self, closure=None): self.inner.step(closure)`, to which nobody in the project gives a closure."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.syntax.names import dotted
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier

WHY = "a step without a closure: no caller of the project gives one"


def without_closures(project: Project) -> dict[str, Plain]:
    """What becomes of the modules with such functions, by name."""
    found: dict[str, set[int]] = {}
    given: set[int] | None = None
    for module in project.modules.values():
        if module.uses_mindspore or not module.has(".step(closure"):
            continue
        for info in module.functions.values():
            if calls := _steps(info):
                given = _given(project) if given is None else given
                if id(info.scope) not in given:
                    found.setdefault(module.name, set()).update(calls)
    return {name: Steps(project.modules[name], calls).plain() for name, calls in found.items()}


def _steps(info: FunctionInfo) -> set[int]:
    """Calls of `step`, by id, that hand on a parameter which is None unless somebody gives it, and only they use it."""
    node = info.scope.node
    assert isinstance(node, cst.FunctionDef)
    if info.cls is not None and info.cls.kind == "optimizer":
        return set()  # torch's own interface
    stmts = list(info.scope.body.walk())
    calls = [c for s in stmts for c in s.calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "step"]
    for param in [*node.params.params, *node.params.kwonly_params]:
        name = param.name.value
        mine = [c for c in calls if [dotted(a.value) for a in c.args] == [name]]
        named = sum(name in s.uses for s in stmts) + sum(name in s.defs for s in stmts)
        if mine and param.default is not None and dotted(param.default) == "None" and named == len(mine):
            return {id(c) for c in mine}
    return set()


def _given(project: Project) -> set[int]:
    """Functions, by id of the scope, that somebody calls with an argument."""
    return {
        id(info.scope)
        for module in project.modules.values() for scope in module.scope.walk() for stmt in scope.body.walk()
        for call in stmt.calls
        if call.args and (info := resolve(call, scope, module, project)) is not None
    }  # fmt: skip


class Steps(Suites):
    """One module whose steps have no closure."""

    def __init__(self, module: ModuleInfo, calls: set[int]) -> None:
        super().__init__(module)
        self.calls = calls

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if id(original) not in self.calls:
            return updated
        self.findings.append(Finding("T2M535", Tier.ASSUMED, "step(closure)", WHY, line=self.line))
        return updated.with_changes(args=[])
