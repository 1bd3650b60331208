"""Forward hooks that keep what layers give: the places that they store outputs in."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ModuleInfo

CUT = ("detach", "data", "item", "numpy", "cpu", "tolist", "shape")
SHOWN = ("detach", "data", "cpu", "to", "view", "flatten", "squeeze")
PARTLY = re.compile(r"\bpartial\(\s*([\w.]+)")
ADDING = ("append", "extend", "insert", "appendleft", "update", "__setitem__", "setdefault")
Callers = dict[str, list[Stmt]]  # the statements that call each network
KEEPING = {"__setitem__", "update", "setdefault"}  # each call of the network replaces what the one before left


@dataclass(eq=False)
class Kept:
    """A place that hooks write to, and the scope or class it belongs to; `adds`: next to what is there."""

    place: str
    home: Scope
    adds: bool
    module: ModuleInfo
    callers: dict[tuple[int, str], Callers] = field(default_factory=dict)  # by scope, and what it is called there

    @property
    def named(self) -> tuple[str, ...]:
        """What it is by names alone: the same in a module that was read again."""
        around: list[str] = []
        scope: Scope | None = self.home
        while scope is not None:
            around.append(scope.name)
            scope = scope.parent
        return (self.place, "adds" if self.adds else "", self.module.name, *around)


def kept_by_hooks(module: ModuleInfo) -> list[Kept]:
    """The places that functions with the parameters of forward hooks store outputs in."""
    if not module.has("register_forward_hook"):
        return []
    found: dict[tuple[str, int], Kept] = {}

    def note(scope: Scope, stored: Iterable[tuple[str, bool]]) -> None:
        for place, adds in stored:
            if (home := _home(root(place), scope)) is not None:
                found.setdefault((place, id(home)), Kept(place, home, adds, module)).adds |= adds

    with_more = module.has("with_kwargs")
    partly = {name for text in PARTLY.findall(module.source) for name in text.split(".")}
    for info in module.functions.values():
        assert isinstance(info.scope.node, cst.FunctionDef)
        own = info.cls is not None and not info.static
        if output := _output(info.scope.node.params, with_more or info.name in partly, own):
            for stmt in info.scope.body.walk():
                note(info.scope, _stored(stmt.node, output, info.scope))
    for scope in module.scope.walk():
        for node in (n for s in scope.body.walk() if s.is_small for n in s.nodes):
            if type(node) is cst.Lambda and (output := _output(node.params, with_more)):
                note(scope, _called(node.body, output, {p.name.value for p in node.params.params}))
    return list(found.values())


def keeps_output(module: ModuleInfo) -> bool:
    """Some hook keeps the tensor itself that a layer gives, with its graph or without."""
    nodes = [(n.params, n.body) for n in module.of_kind(cst.Lambda)]
    for params, body in (*nodes, *((n.params, n.body) for n in module.of_kind(cst.FunctionDef))):
        output = _output(params, True)
        if output and any(output in map(_itself, _put(n)) for n in descend(body)):
            return True
    return False


def _put(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What a statement or a call puts into a container or an attribute."""
    if isinstance(node, cst.Assign) and not isinstance(node.targets[0].target, cst.Name):
        yield node.value
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in ADDING:
        yield from (arg.value for arg in node.args)


def _itself(node: cst.BaseExpression) -> str:
    """`output` for `output.detach().cpu()`: the memory is the same on a CPU."""
    while isinstance(node, cst.Call) or isinstance(node, cst.Attribute) and node.attr.value in SHOWN:
        node = node.func if isinstance(node, cst.Call) else node.value
    return dotted(node)


def _output(params: cst.Parameters, given: bool, method: bool = False) -> str:
    """The parameter of a hook that gets what the layer gives: the third, those left out that have a value already.

    `given`: some may have one.
    """
    asked = [p.name.value for p in params.params if p.default is None][method:]
    return asked[-1] if len(asked) == 3 or len(asked) > 3 and given else ""


def _stored(node: cst.CSTNode, output: str, scope: Scope) -> Iterator[tuple[str, bool]]:
    """The places of others that a statement of a hook puts the output in, and whether next to what is there."""
    local = scope.locals - {"self"}
    if isinstance(node, cst.Assign) and _graph(node.value, output, local):
        for target in (t.target for t in node.targets):
            part = target.value if isinstance(target, cst.Subscript) else target
            if (place := dotted(part)) and (root(place) == "self" or root(place) not in local):
                yield place, False
    if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        yield from _called(node.value, output, local)


def _called(node: cst.BaseExpression, output: str, local: set[str]) -> Iterator[tuple[str, bool]]:
    func = node.func if isinstance(node, cst.Call) else None
    if isinstance(func, cst.Attribute) and func.attr.value in ADDING and _graph(node, output, local):
        place = dotted(func.value)
        if place and (root(place) == "self" or root(place) not in local):
            yield place, func.attr.value not in KEEPING


def _graph(value: cst.CSTNode, output: str, local: set[str]) -> bool:
    """The expression has the output in it, or something made of it, with its graph."""
    nodes = list(descend(value))
    if any(isinstance(n, cst.Attribute) and n.attr.value in CUT for n in nodes):
        return False
    return any(isinstance(n, cst.Name) and (n.value == output or n.value in local) for n in nodes)


def _home(name: str, scope: Scope) -> Scope | None:
    """The scope that binds a name around a function; the class for `self`."""
    inner: Scope | None = scope
    while inner is not None:
        if name == "self" and inner.cls is not None and "self" in inner.params:
            return inner.cls
        if name != "self" and inner.is_function and name in inner.locals:
            return inner
        if inner.is_module:
            return inner
        inner = inner.parent
    return None
