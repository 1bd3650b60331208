"""`net(x)` of a network that takes its own weights where it is given none, with these weights written down.

`def forward(self, x, vars=None)` begins with `if vars is None: vars = self.vars` where a program has weights of its own
as well: those that an inner step made. The step differentiates with respect to what the network runs with, and
MindSpore differentiates a compiled function twice with respect to what it is given alone.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.classes import ClassInfo, FunctionInfo
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import argument, is_on, unless_none
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

_TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))


@each_module
def own_weights(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with inner steps whose gradients have a graph."""
    if not module.has("create_graph") or not module.has("is None") or module.directives.off:
        return None
    given: dict[int, tuple[str, int, str]] = {}
    listed: dict[int, str] = {}
    for scope in module.scope.walk():
        inner = list(_inner_steps(scope, module))
        for stmt in scope.body.walk() if inner else ():
            for call in stmt.calls:
                if (found := _without(call, module, project)) is not None:
                    given[id(call)] = found
        lists = [given_list for step in inner if (given_list := _inputs(step)) is not None]
        listed |= {id(each): place for each in lists if (place := _held(each, module, project))}
    return _Writer(module, given, listed).plain() if given else None


def _inner_steps(scope: Scope, module: ModuleInfo) -> Iterator[cst.Call]:
    """The gradients of a scope that have a graph."""
    for stmt in scope.body.walk():
        for call in stmt.calls:
            if module.value(call.func).name == "torch.autograd.grad":
                if is_on(next((a.value for a in call.args if a.keyword and a.keyword.value == "create_graph"), None)):
                    yield call


def _inputs(step: cst.Call) -> cst.Call | None:
    node = argument(step, 1, "inputs")
    return node if isinstance(node, cst.Call) and not node.args else None


def _held(call: cst.Call, module: ModuleInfo, project: Project) -> str:
    """The attribute that `net.parameters()` gives, where the class of the network says so itself."""
    func = call.func
    place = dotted(func.value) if isinstance(func, cst.Attribute) and func.attr.value == "parameters" else ""
    cls = _class(func.value, module, project) if place and isinstance(func, cst.Attribute) else None
    info = cls.methods.get("parameters") if cls is not None else None
    stmts = info.scope.body.stmts if info is not None else []
    node = stmts[0].node if len(stmts) == 1 else None
    kept = dotted(node.value) if isinstance(node, cst.Return) and node.value is not None else ""
    return f"{place}.{kept[5:]}" if kept.startswith("self.") and kept.count(".") == 1 else ""


def _class(node: cst.BaseExpression, module: ModuleInfo, project: Project) -> ClassInfo | None:
    value = module.value(node)
    found = project.find(value.name, module) if value.kind == "module" and value.name else None
    return found if isinstance(found, ClassInfo) and not found.below() else None


def _without(call: cst.Call, module: ModuleInfo, project: Project) -> tuple[str, int, str] | None:
    """The parameter for which a call of a network gives no weights, its position, and what the network takes then."""
    cls = _class(call.func, module, project) if dotted(call.func) else None
    info = cls.methods.get("forward") if cls is not None else None
    if info is None or any(a.star for a in call.args):
        return None
    name, attribute = _taken(info)
    params = info.scope.params[1:]
    if not name or name not in params:
        return None
    place = params.index(name)
    return (name, place, f"{dotted(call.func)}.{attribute}") if unless_none(call, place, name) is None else None


def _taken(info: FunctionInfo) -> tuple[str, str]:
    """`if vars is None: vars = self.vars` at the beginning of a forward: the parameter and the attribute."""
    for stmt in info.scope.body.stmts[:3]:
        node = stmt.node
        if not isinstance(node, cst.If) or node.orelse is not None or len(stmt.blocks[0].stmts) != 1:
            continue
        bound = stmt.blocks[0].stmts[0].node
        if isinstance(bound, cst.Assign) and len(bound.targets) == 1:
            name, kept = dotted(bound.targets[0].target), dotted(bound.value)
            if name and code(node.test) == f"{name} is None" and kept.startswith("self.") and kept.count(".") == 1:
                return name, kept[5:]
    return "", ""


class _Writer(Suites):
    """One module with the weights written down."""

    def __init__(self, module: ModuleInfo, given: dict[int, tuple[str, int, str]], listed: dict[int, str]) -> None:
        super().__init__(module)
        self.given, self.listed = given, listed

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if id(original) in self.listed:
            return cst.parse_expression(self.listed[id(original)])
        if id(original) not in self.given:
            return updated
        name, place, held = self.given[id(original)]
        value = cst.parse_expression(held)
        args = list(updated.args)
        for n, arg in enumerate(args):
            if arg.keyword is not None and arg.keyword.value == name or arg.keyword is None and n == place:
                args[n] = arg.with_changes(value=value)
                return updated.with_changes(args=args)
        if args:
            args[-1] = args[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        return updated.with_changes(args=[*args, cst.Arg(value, cst.Name(name), equal=_TIGHT)])
