"""What forward hooks leave behind: `feats[name] = output` happens where the network is called.

Such a call names neither the container nor the hook, and yet what is in the container afterwards carries its graph.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from torch2ms.analysis.evaluation import lookup
from torch2ms.analysis.program.hooks import Callers, Kept
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

WITHOUT_LAYERS = {"tensor", "int", "float", "str", "bool", "none"}


def fill(stmt: Stmt, scope: Scope | None, ev: Evaluator) -> None:
    """Write what the hooks of the networks that a statement calls leave behind; no scope is that of the module."""
    scope = scope or ev.module.scope
    for call in stmt.calls if not stmt.blocks else ():
        func, result = ev.memo.get(id(call.func), UNKNOWN), ev.memo.get(id(call), UNKNOWN)
        if func.kind != "module" or func.name.startswith("torch.nn.") and func.items is None and not func.each:
            continue
        if ev.project.kept and _has_no_layers(func, dotted(call.func), ev):
            continue
        for kept in ev.project.kept:
            for place, begun in _seen(kept, scope, ev):
                ev.exchange.whole = False
                callers = kept.callers.setdefault((id(scope), place), {})
                _leave(callers, kept.adds, place, begun, stmt, dotted(call.func), result, ev)


def _has_no_layers(network: Value, callee: str, ev: Evaluator) -> bool:
    """A module of the project that computes by itself, and that has no hook: a loss, a Gram matrix."""
    cls = lookup.class_of(network, ev.module, ev.project)
    if cls is None or ev.module.has(f"{callee}.register_forward_hook"):
        return False
    return not ev.exchange.ask(lookup.kinds, cls) - WITHOUT_LAYERS


def _seen(kept: Kept, scope: Scope, ev: Evaluator) -> Iterator[tuple[str, Value | None]]:
    """What the place is called in a scope; an attribute, of each object there, and what the class puts into it."""
    own, dot, attr = kept.place.partition(".")
    around: list[Scope] = [scope]
    while around[-1].parent is not None:
        around.append(around[-1].parent)
    if own != "self":
        yield from [(kept.place, None)] if any(s is kept.home for s in around) else []
        return
    if ev.cls is not None and ev.cls.scope is kept.home:
        yield kept.place, None
    cls = next((c for c in kept.module.classes.values() if c.scope is kept.home), None)
    if cls is None or not dot:
        return
    made_here = ev.module.has(cls.scope.name)
    for name in scope.mentioned:
        held = ev.env.get(name)
        if held is not None and held.kind == "object" and held.name == f"{cls.module.name}.{cls.scope.name}":
            yield f"{name}.{attr}", cls.attr(attr)
        elif made_here and held is not None and held.kind in ("list", "tuple", "dict", "unknown"):
            made = (s for each in around for s in each.body.walk() if name in s.defs | s.muts)
            if any(dotted(c.func).rpartition(".")[2] == cls.scope.name for s in made for c in s.calls):
                yield name, None  # a container of such objects


def _leave(
    callers: Callers, adds: bool, place: str, begun: Value | None, stmt: Stmt, callee: str, result: Value, ev: Evaluator
) -> None:
    """The call fills the place, which its object may have `begun` as a container."""
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
        tensor = deps and (begun is None or begun.kind not in ("dict", "list", "tuple"))
        ev.env[place] = Value("tensor" if tensor else "unknown", deps=deps)
