"""`store_grad(net.parameters, grads)`, where the function calls what it is given: it is given the parameters.

Whose gradients such a function uses is then seen like those of any list of parameters that is handed on.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import Site, bound_arguments, calls_of
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import named

MENTIONS = re.compile(r"\.(?:named_)?parameters *[,)]")
METHODS = ("parameters", "named_parameters")


def parameters_given(project: Project) -> dict[str, Plain]:
    """What becomes of the modules in which functions are given methods that give parameters, by name."""
    modules = [m for m in project.modules.values() if not m.uses_mindspore and not m.directives.off]
    if not any(m.says(MENTIONS) for m in modules):
        return {}
    calls: set[int] = set()  # ids of the calls in functions
    given: dict[int, bool] = {}  # by id of the argument: a list, that can be gone through again
    for info, own in calls_of(project, modules).values():
        for name in info.scope.params:
            found = _given(name, own, info)
            asked = _calls(name, info) if found else []
            if found and asked and named(Candidate(info, [], own), project) == len(own):
                calls |= {id(call) for call in asked}
                given |= {id(arg): len(asked) > 1 or _in_loop(asked[0], info) for arg in found}
    if not given:
        return {}
    return {m.name: writer.plain() for m in modules if (writer := _Writer(m, calls, given)).concerned()}


def _given(name: str, sites: list[Site], info: FunctionInfo) -> list[cst.Arg]:
    """The arguments of all calls for a parameter, if each is such a method of a network."""
    found: list[cst.Arg] = []
    for site in sites:
        if any(arg.star for arg in site.call.args):
            return []
        arg = bound_arguments(info, site.call).get(name)
        method = arg.value if arg is not None else None
        if arg is None or not isinstance(method, cst.Attribute) or method.attr.value not in METHODS:
            return []
        if site.module.value(method.value).kind != "module":
            return []
        found.append(arg)
    return found


def _calls(name: str, info: FunctionInfo) -> list[cst.Call]:
    """The calls of a parameter, if the function does nothing else with it."""
    node = info.scope.node
    if not isinstance(node, cst.FunctionDef) or info.scope.children:
        return []
    names = [n for n in descend(node.body) if isinstance(n, cst.Name) and n.value == name]
    calls = [n for n in descend(node.body) if isinstance(n, cst.Call) and n.func in names and not n.args]
    return calls if len(calls) == len(names) else []


def _in_loop(call: cst.Call, info: FunctionInfo) -> bool:
    """It is asked again in each turn of a loop."""
    for stmt in info.scope.body.walk():
        if call in stmt.calls:
            head = isinstance(stmt.node, cst.For)
            return (
                any(a.is_loop for a in stmt.ancestors())
                or not head
                and any(isinstance(n, cst.BaseComp) for n in stmt.nodes)
            )
    return True


class _Writer(Suites):
    """One module, with the parameters in place of the method."""

    def __init__(self, module: ModuleInfo, calls: set[int], given: dict[int, bool]) -> None:
        super().__init__(module)
        self.calls, self.given = calls, given

    def concerned(self) -> bool:
        return any(id(n) in self.given or id(n) in self.calls for n in self.module.nodes)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return updated.func if id(original) in self.calls else updated

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        again = self.given.get(id(original))
        if again is None:
            return updated
        made = cst.Call(updated.value)
        return updated.with_changes(value=cst.Call(cst.Name("list"), [cst.Arg(made)]) if again else made)
