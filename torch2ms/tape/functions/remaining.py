"""Functions that train a network in which something else has left gradients before they are called.

`loss.backward()` to look at some gradients, or a first phase that clears before each step; then `fit(net)`, which makes
an optimizer and clears behind its step: in torch the first step takes along what was left. An optimizer that callers
hand over is another question (see `lifting`).
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.functions.spills import Callees, Spills, reached
from torch2ms.tape.ledger.events import Event
from torch2ms.tape.ledger.records import STEPS


def remaining(project: Project, callee: Callees, events: dict[int, list[Event]], spills: Spills) -> dict[int, str]:
    """By the id of the function's scope, what leaves gradients in its networks."""
    infos = {id(i.scope): i for m in project.modules.values() for i in m.functions.values()}
    takers = {key for key, info in infos.items() if _takes_over(info, events[key])}
    if not takers:
        return {}
    leaving = {key for key in infos if _leaves(events[key])} | spills.scopes
    found: dict[int, str] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            own = events[id(scope)]
            calls = [(s, c, i) for s in scope.body.walk() for c in s.calls if (i := callee.get(id(c))) is not None]
            taking = [(s, c, i) for s, c, i in calls if id(i.scope) in takers]
            for stmt, call, info in taking:
                networks = reached(call, module)
                for before, places, name in _sources(own, calls, leaving, module):
                    if before.number < stmt.number and any_overlap(places, networks) and not _exclude(before, stmt):
                        if not _cleared(places, before, stmt, scope, own):
                            found[id(info.scope)] = name
    return found


def _takes_over(info: FunctionInfo, events: list[Event]) -> bool:
    """It steps with an optimizer of its own before it clears anything."""
    first = next((e for e in events if e.kind == "backward"), None)
    own = info.scope.locals - set(info.scope.params)
    steps = any(e.kind in STEPS and root(e.place) in own for e in events)
    return steps and first is not None and not any(_clears(e) and e.stmt.number < first.stmt.number for e in events)


def _leaves(events: list[Event]) -> bool:
    """It goes backward, and clears nothing behind that."""
    last = max((e.stmt.number for e in events if e.kind == "backward" and e.inputs is None), default=-1)
    return last >= 0 and not any(_clears(e) and e.stmt.number > last for e in events)


def _sources(
    own: list[Event], calls: list[tuple[Stmt, cst.Call, FunctionInfo]], leaving: set[int], module: ModuleInfo
) -> Iterator[tuple[Stmt, frozenset[str], str]]:
    """Where a scope, or what it calls, leaves gradients; in what, and how that is told."""
    for event in own:
        if event.kind == "backward" and event.inputs is None:
            yield event.stmt, event.value.deps, "a backward call before it is called"
    for stmt, call, info in calls:
        if id(info.scope) in leaving:
            yield stmt, reached(call, module), f"`{dotted(call.func)}`, which is called before it,"


def _cleared(places: frozenset[str], before: Stmt, after: Stmt, scope: Scope, own: list[Event]) -> bool:
    """Between two statements the gradients are dropped, or the networks are others."""
    between = [s for s in scope.body.walk() if before.number < s.number < after.number]
    if any(root(place) in stmt.defs for stmt in between for place in places):
        return True
    return any(_clears(e) and before.number < e.stmt.number < after.number for e in own)


def _clears(event: Event) -> bool:
    return event.kind == "clear" and not event.value.leaf


def _exclude(one: Stmt, other: Stmt) -> bool:
    """Two statements of which at most one runs: they are in different branches of a condition."""
    branches = [{id(a): id(b.block) for b, a in _upwards(stmt) if type(a.node) is cst.If} for stmt in (one, other)]
    return any(branches[1].get(key, block) != block for key, block in branches[0].items())


def _upwards(stmt: Stmt) -> Iterator[tuple[Stmt, Stmt]]:
    """A statement and the one around it, from the inside out."""
    around = list(stmt.ancestors())
    yield from zip([stmt, *around], around, strict=False)


__all__ = ["remaining"]
