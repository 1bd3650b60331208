"""`optimizer = adjust(optimizer, epoch)`, where the function gives back what it is given: `adjust(optimizer, epoch)`.

The name stands for the same optimizer or network in all turns of a loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import overriding, resolve
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import choices
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.boxes import LIVING
from torch2ms.wrappers.passes import each_module

AGAIN = re.compile(r"^[ \t]*(?:[\w.]+, *)*([\w.]+)(?:, *[\w.]+)* *= *[\w.]+\((?:[^\n]*\W)?\1\b", re.MULTILINE)

METHODS = ("step", "zero_grad", "train", "parameters")


@each_module
def given_back(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that binds names to what they stand for."""
    names = set(AGAIN.findall(module.source)) if not module.directives.off else ()
    if not any(f"{name}.{method}(" in module.source for name in names for method in METHODS):  # none of them lives
        return None
    found = {
        id(stmt.node)
        for scope in module.scope.walk()
        if scope.is_function or scope.is_module  # in that of a class it binds an attribute
        for stmt in scope.body.walk()
        if not stmt.off and not stmt.blocks and any(s.is_loop for s in stmt.ancestors())
        if _the_same(stmt.node, scope, module, project)
    }
    return _Called(module, found).plain() if found else None


def _the_same(node: cst.CSTNode, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """An assignment of a call that gives back the optimizers and networks it is given, under their names."""
    if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.value) is not cst.Call:
        return False
    target, call = node.targets[0].target, node.value
    bound = [e.value for e in target.elements] if type(target) is cst.Tuple else [target]
    places = [dotted(each) for each in bound]
    given = {dotted(arg.value) for arg in call.args}
    if not all(place and place in given for place in places):
        return False
    living = all(module.value(arg.value).kind in LIVING for arg in call.args if dotted(arg.value) in places)
    functions = list(_functions(call, scope, module, project)) if living else []
    return bool(functions) and all(info is not None and _gives(info, call) == places for info in functions)


def _functions(call: cst.Call, scope: Scope, module: ModuleInfo, project: Project) -> Iterator[FunctionInfo | None]:
    """The functions one of which is called; None for what is not seen."""
    value = module.value(call.func)
    several = choices(value)
    if value.kind != "function" or len(several) < 2:
        info = resolve(call, scope, module, project)
        yield info if info is None or info.cls is None or not overriding(info) else None
        return
    for each in several:
        found = project.find(each.name, module)
        yield found if isinstance(found, FunctionInfo) else None


def _gives(info: FunctionInfo, call: cst.Call) -> list[str]:
    """What the caller calls what the function returns, wherever it returns; empty if that is not seen."""
    node = info.scope.node
    if type(node) is not cst.FunctionDef or node.decorators or node.asynchronous is not None:
        return []
    stmts = list(info.scope.body.walk())
    returned = [s.node for s in stmts if type(s.node) is cst.Return]
    ends = info.scope.body.stmts[-1].node
    if not returned or ends is not returned[-1] or any(type(n) in (cst.Yield, cst.Nonlocal) for n in descend(node)):
        return []
    args = _by_name(info, call)
    bound = {name for s in stmts for name in s.all_defs}
    given = {tuple(args.get(name, "") if name not in bound else "" for name in _names(r.value)) for r in returned}
    return list(given.pop()) if len(given) == 1 and not any("" in each for each in given) else []


def _names(value: cst.BaseExpression | None) -> list[str]:
    parts = [e.value for e in value.elements] if type(value) is cst.Tuple else [value]
    return [part.value if type(part) is cst.Name else "" for part in parts]


def _by_name(info: FunctionInfo, call: cst.Call) -> dict[str, str]:
    """The places that a call gives as parameters."""
    params = info.scope.params[1:] if info.cls is not None and not info.static else info.scope.params
    first = next((n for n, a in enumerate(call.args) if a.star or a.keyword is not None), len(call.args))
    args = {name: dotted(a.value) for name, a in zip(params, call.args[:first], strict=False)}
    return args | {a.keyword.value: dotted(a.value) for a in call.args if a.keyword is not None}


class _Called(Suites):
    """One module with the calls alone."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.found:
            return super().small(node)
        assert isinstance(node, cst.Assign)
        return [cst.Expr(node.value)]
