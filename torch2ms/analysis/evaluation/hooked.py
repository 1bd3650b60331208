"""Forward hooks that keep what layers give: `feats[name] = output` happens where the network is called.

Such a call names neither the container nor the hook, and yet what is in the container afterwards carries its graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import UNKNOWN, Value, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator
    from torch2ms.analysis.program.project import ModuleInfo

CUT = ("detach", "data", "item", "numpy", "cpu", "tolist", "shape")
ADDING = ("append", "extend", "insert", "appendleft", "update", "__setitem__", "setdefault")
Callers = dict[str, list[Stmt]]  # the statements that call each network
KEEPING = {"__setitem__", "update", "setdefault"}  # each call of the network replaces what the one before left


@dataclass(eq=False)
class Kept:
    """A place that hooks write to, and the scope or class it belongs to; `adds`: next to what is there."""

    place: str
    home: int
    adds: bool
    module: ModuleInfo
    callers: dict[tuple[int, str], Callers] = field(default_factory=dict)  # by scope, and what it is called there


def kept_by_hooks(module: ModuleInfo) -> list[Kept]:
    """The places that functions with the parameters of forward hooks store outputs in."""
    if "register_forward_hook" not in module.source:
        return []
    found: dict[tuple[str, int], Kept] = {}
    for info in module.functions.values():
        own = info.scope.params[1:] if info.cls is not None and not info.static else info.scope.params
        if len(own) != 3:
            continue
        for stmt in info.scope.body.walk():
            for place, adds in _stored(stmt.node, own[2], info.scope):
                if home := _home(root(place), info.scope):
                    found.setdefault((place, home), Kept(place, home, adds, module)).adds |= adds
    for scope in module.scope.walk():
        for call in (c for s in scope.body.walk() for c in s.calls if _registers(c)):
            for node in (a.value for a in call.args if isinstance(a.value, cst.Lambda)):
                params = [p.name.value for p in node.params.params]
                for place, adds in _called(node.body, params[2], set(params)) if len(params) == 3 else ():
                    if home := _home(root(place), scope):
                        found.setdefault((place, home), Kept(place, home, adds, module)).adds |= adds
    return list(found.values())


def _registers(call: cst.Call) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == "register_forward_hook"


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


def _home(name: str, scope: Scope) -> int:
    """The id of the scope that binds a name around a function; of the class for `self`."""
    inner: Scope | None = scope
    while inner is not None:
        if name == "self" and inner.cls is not None and "self" in inner.params:
            return id(inner.cls)
        if name != "self" and inner.is_function and name in inner.locals:
            return id(inner)
        if inner.is_module:
            return id(inner)
        inner = inner.parent
    return 0


def fill(stmt: Stmt, scope: Scope | None, ev: Evaluator) -> None:
    """Write what the hooks of the networks that a statement calls leave behind."""
    for call in stmt.calls if not stmt.blocks else ():
        func, result = ev.memo.get(id(call.func), UNKNOWN), ev.memo.get(id(call), UNKNOWN)
        if func.kind != "module" or func.name.startswith("torch.nn.") and func.items is None and not func.each:
            continue
        for kept in ev.project.kept:
            for place in _seen(kept, scope or ev.module.scope, ev):
                ev.exchange.whole = False
                callers = kept.callers.setdefault((id(scope), place), {})
                _leave(callers, kept.adds, place, stmt, dotted(call.func), result, ev)


def _seen(kept: Kept, scope: Scope, ev: Evaluator) -> Iterator[str]:
    """What the place is called in a scope; an attribute, of each object there."""
    own, dot, attr = kept.place.partition(".")
    around: list[Scope] = [scope]
    while around[-1].parent is not None:
        around.append(around[-1].parent)
    if own != "self":
        yield from [kept.place] if any(id(s) == kept.home for s in around) else []
        return
    if ev.cls is not None and id(ev.cls.scope) == kept.home:
        yield kept.place
    cls = next((c for c in kept.module.classes.values() if id(c.scope) == kept.home), None)
    if cls is None or not dot:
        return
    made_here = cls.scope.name in ev.module.source
    for name in sorted({n for s in around for n in s.locals}):
        held = ev.env.get(name)
        if held is not None and held.kind == "object" and held.name == f"{cls.module.name}.{cls.scope.name}":
            yield f"{name}.{attr}"
        elif made_here and held is not None and held.kind in ("list", "tuple", "dict", "unknown"):
            made = (s for each in around for s in each.body.walk() if name in s.defs | s.muts)
            if any(dotted(c.func).rpartition(".")[2] == cls.scope.name for s in made for c in s.calls):
                yield name  # a container of such objects


def _leave(callers: Callers, adds: bool, place: str, stmt: Stmt, callee: str, result: Value, ev: Evaluator) -> None:
    marked = callers.setdefault(callee, [])
    if stmt not in marked:
        marked.append(stmt)
    every = sorted((s for stmts in callers.values() for s in stmts), key=lambda s: s.number)
    together = len({id(s.block) for s in every}) == 1  # each fills its own part in each turn
    for each in every:
        each.muts.add(place)
        if not adds and (len(callers) == 1 or together and each is every[0]):
            each.refills.add(place)
        else:
            each.refills.discard(place)
            each.uses.add(place)
    held, deps = ev.env.get(place), result.deps
    if held is not None and place not in stmt.refills:
        deps |= held.deps
    if held is not None and held.kind in ("dict", "list", "tuple"):
        ev.env[place] = replace(held, deps=deps, items=None, keys=None, each=None)
    else:
        ev.env[place] = Value("tensor" if deps else "unknown", deps=deps)
