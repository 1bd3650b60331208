"""`reduce_op = torch.mean if averaged else lambda *args, **kwargs: 0.5 * torch.sum(*args, **kwargs)`, as it's called.

`reduce_op(x, dim=-1)` is `torch.mean(x, dim=-1) if averaged else 0.5 * torch.sum(x, dim=-1)`: of a function under a
name nobody sees what it is given, and a lambda that hands everything on hides it altogether. So does one that picks
as it is called: `Variable = lambda *args, **kwargs: autograd.Variable(*args, **kwargs).cuda() if USE_CUDA else ...`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.boxes import closes_over
from torch2ms.wrappers.passes import each_module

HANDING_ON = re.compile(r"\blambda\s*\*\w+\s*,\s*\*\*\w+\s*:")


@each_module
def chosen_functions(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that calls what hands everything on."""
    if module.directives.off or not module.says(HANDING_ON):
        return None
    others = [other for other in project.modules.values() if other is not module]
    found = [
        (stmt, value, calls)
        for scope in module.scope.walk()
        if scope.is_function or scope is module.scope
        for stmt, value, calls in _chosen(scope)
        if scope.is_function or not any(other.has(dotted(calls[0].func)) for other in others)
    ]
    return _Chosen(module, found).plain() if found else None


Found = tuple[Stmt, cst.BaseExpression, list[cst.Call]]


def _chosen(scope: Scope) -> Iterator[Found]:
    """The names of such functions that are bound once and only called, with what they stand for and their calls."""
    for stmt in scope.body.walk():
        node = stmt.node
        if type(node) is not cst.Assign or len(node.targets) != 1 or stmt.off:
            continue
        target, value = node.targets[0].target, node.value
        if type(target) is not cst.Name or not _stands_for_calls(value, scope):
            continue
        name = target.value
        if sum(name in s.all_defs for s in scope.body.walk() if not s.blocks) != 1 or stmt.block is not scope.body:
            continue
        used = {name, *_names(value)}.difference(*(_own(n) for n in descend(value) if type(n) is cst.Lambda))
        calls = [
            call
            for inner in scope.walk()
            if inner is scope or all(closes_over(inner, scope, each) for each in used)
            for s in inner.body.walk()
            for call in s.calls
            if dotted(call.func) == name and not any(a.star for a in call.args)
        ]
        if calls and _names(scope.node).count(name) == 1 + len(calls):
            yield stmt, value, calls


def _stands_for_calls(value: cst.BaseExpression, scope: Scope) -> bool:
    """Functions by their names and lambdas that hand on, of which what the caller gave picks one."""
    if type(value) is cst.IfExp:
        fixed = all(n in scope.params and not any(n in s.all_defs for s in scope.body.walk()) for n in _tests(value))
        named = type(value.test) is cst.Name
        return fixed and named and all(_stands_for_calls(part, scope) for part in (value.body, value.orelse))
    if type(value) is not cst.Lambda:
        return scope.is_function and bool(dotted(value))
    parts = _parts(value.body)
    handed = sum(name in _own(value) for name in _names(value.body))
    return handed == 2 * len(parts) and all(_inner(part, value.params) is not None for part in parts)


def _tests(value: cst.BaseExpression) -> set[str]:
    return {n.test.value for n in descend(value) if type(n) is cst.IfExp and type(n.test) is cst.Name}


def _own(function: cst.Lambda) -> set[str]:
    """What a lambda calls its arguments."""
    return {n.name.value for n in descend(function.params) if type(n) is cst.Param}


def _names(node: cst.CSTNode) -> list[str]:
    """The names that are read or bound in a node; those of attributes and arguments are none."""
    nodes = list(descend(node))
    others = {id(n.attr) for n in nodes if type(n) is cst.Attribute}
    others |= {id(n.keyword) for n in nodes if type(n) is cst.Arg}
    return [n.value for n in nodes if type(n) is cst.Name and id(n) not in others]


def _parts(body: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What a lambda gives, in one case or another."""
    if type(body) is not cst.IfExp:
        return [body]
    return [*_parts(body.body), *_parts(body.orelse)]


def _inner(body: cst.BaseExpression, params: cst.Parameters) -> cst.Call | None:
    """The call in what a lambda gives that is given all of its arguments, where nothing else is."""
    if params.params or params.kwonly_params or params.posonly_params:
        return None
    if not isinstance(params.star_arg, cst.Param) or params.star_kwarg is None:
        return None
    handed = [("*", params.star_arg.name.value), ("**", params.star_kwarg.name.value)]
    mentioned = sum(name in (handed[0][1], handed[1][1]) for name in _names(body))
    for call in descend(body):
        if type(call) is cst.Call and [(a.star, dotted(a.value)) for a in call.args] == handed and mentioned == 2:
            return call
    return None


class _Chosen(Suites):
    """One module with the functions themselves called."""

    def __init__(self, module: ModuleInfo, found: list[Found]) -> None:
        super().__init__(module)
        self.gone = {id(stmt.node) for stmt, _, _ in found}
        self.values = {id(call): value for _, value, calls in found for call in calls}
        self.alone = {id(node.value) for node in module.of_kind(cst.Assign)}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else super().small(node)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        value = self.values.get(id(original))
        if value is None:
            return updated
        made = _called(value, updated)
        return made if id(original) in self.alone else parenthesised(made)


def _called(value: cst.BaseExpression, call: cst.Call) -> cst.BaseExpression:
    """What the call of one of them is."""
    if type(value) is cst.IfExp:
        return value.with_changes(body=_called(value.body, call), orelse=_called(value.orelse, call.deep_clone()))
    if type(value) is not cst.Lambda:
        return call.with_changes(func=value)
    return _given(value.body, value.params, call)


def _given(body: cst.BaseExpression, params: cst.Parameters, call: cst.Call) -> cst.BaseExpression:
    """What a lambda gives for the arguments of a call."""
    if type(body) is cst.IfExp:
        picked = _given(body.body, params, call)
        return body.with_changes(body=picked, orelse=_given(body.orelse, params, call.deep_clone()))
    inner = _inner(body, params)
    assert inner is not None
    made = body.deep_replace(inner, inner.with_changes(args=call.args))
    assert isinstance(made, cst.BaseExpression)
    return made
