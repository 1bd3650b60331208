"""Attributes that a method of the own object binds anew: `self.loss = 0; self.add_terms()`, and the loss is no zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch2ms.analysis.evaluation.keeping import HELD
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator


def rebound(info: FunctionInfo, ev: Evaluator) -> None:
    """What the called method may have put into attributes that this scope has bound: it brings a graph along."""
    mine = ev.env.parts.get("self")
    if not mine or ev.cls is None or info.cls is None:
        return
    for place in sorted(mine & binds(info, ev.cls)):
        held, known = ev.env.get(place), ev.exchange.attribute(ev.cls, place[5:])
        if held is not None and known is not None and known.kind in HELD and known.deps - held.deps:
            ev.env[place] = known.with_deps(known.deps | held.deps)
            ev.entered = (*ev.entered, place)


def binds(info: FunctionInfo, cls: ClassInfo) -> frozenset[str]:
    """The attributes that a method binds, or one that it calls on the same object."""
    if info.binds is None:
        info.binds = frozenset()  # while it is found out: it may call itself
        stmts = list(info.scope.body.walk())
        found = {d for s in stmts for d in s.defs if d[:5] == "self." and "." not in d[5:]}
        called = {dotted(c.func) for s in stmts for c in s.calls}
        for name in sorted(n[5:] for n in called if n[:5] == "self." and "." not in n[5:]):
            method = cls.method(name)
            for each in [method, *cls.overriding(name)] if method is not None else ():
                found |= binds(each, cls)
        info.binds = frozenset(found)
    return info.binds
