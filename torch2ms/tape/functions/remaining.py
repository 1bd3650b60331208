"""Functions that train a network in which something else has left gradients before they are called.

`loss.backward()` to look at some gradients, or a first phase that clears before each step; then `fit(net)`, which has
another optimizer and clears behind its step: in torch the first step takes along what was left. What one optimizer
holds from one function to the next is another question (see `stores`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import bound_arguments
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.functions.spills import Callees, Spills, reached
from torch2ms.tape.ledger.records import LOADS, STEPS
from torch2ms.tape.model import Event


def remaining(project: Project, callee: Callees, events: dict[int, list[Event]], spills: Spills) -> dict[int, str]:
    """By the id of the function's scope, what leaves gradients in its networks."""
    infos = [i for m in project.modules.values() for i in m.functions.values()]
    if not any(_takes_over(found, ()) for found in events.values()):
        return {}
    clears = {id(s): _clears(s, callee, events) for m in project.modules.values() for s in m.scope.walk()}
    takers = {id(i.scope) for i in infos if _takes_over(events[id(i.scope)], clears[id(i.scope)])}
    leaving = {id(i.scope) for i in infos if _leaves(events[id(i.scope)], clears[id(i.scope)])} | spills.scopes
    found: dict[int, str] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            calls = [Call(s, c, i) for s in scope.body.walk() for c in s.calls if (i := callee.get(id(c))) is not None]
            taking = [call for call in calls if id(call.info.scope) in takers]
            own = events[id(scope)]
            sources = list(_sources(own, calls, leaving, events, module)) if taking else []
            for call in taking:
                networks, steps = call.networks(events, module), call.optimizers(events)
                met = [s for s in sources if any_overlap(s.places, networks) and not steps & s.optimizers]
                still = [s for s in met if "" not in steps and s.lasts(call.stmt, scope, clears[id(scope)])]
                found |= {id(call.info.scope): source.name for source in still}
            if _takes_over(own, clears[id(scope)]):
                called = _sources([], calls, leaving, events, module)
                found |= {id(scope): s.name for s in called if s.reaches(own, scope, clears[id(scope)])}
    return found


def left_in_leaves(
    project: Project, callee: Callees, events: dict[int, list[Event]]
) -> dict[int, list[tuple[Stmt, frozenset[str], str]]]:
    """By the id of a scope that looks at the gradient of a tensor: the calls that leave one, where, and their names."""
    found: dict[int, list[tuple[Stmt, frozenset[str], str]]] = {}
    if not project.leaving:
        return found
    for module in project.modules.values():
        for scope in module.scope.walk():
            if not any(e.kind == "leaf_grad" and not e.writes for e in events[id(scope)]):
                continue
            calls = [Call(s, c, i) for s in scope.body.walk() for c in s.calls if (i := callee.get(id(c))) is not None]
            found[id(scope)] = [
                (c.stmt, c.networks(events, module), dotted(c.node.func))
                for c in calls if id(c.info.scope) in project.leaving
            ]  # fmt: skip
    return found


@dataclass(frozen=True)
class Call:
    """A call of a function of the project."""

    stmt: Stmt
    node: cst.Call
    info: FunctionInfo

    def optimizers(self, events: dict[int, list[Event]]) -> frozenset[str]:
        """The optimizers that step in the function, as the caller knows them; "" is one of whom that is not seen."""
        return frozenset(self._outside(e.place) for e in events[id(self.info.scope)] if e.kind in STEPS)

    def networks(self, events: dict[int, list[Event]], module: ModuleInfo) -> frozenset[str]:
        """What its backward calls fill, as the caller knows it: what it is given, and attributes of its object."""
        if _moves_its_own(self.info, events[id(self.info.scope)]):
            return frozenset()
        own = (d for e in events[id(self.info.scope)] if e.kind == "backward" for d in e.value.deps)
        held = {self._outside(d) for d in own if not d.startswith(("@", "^"))}
        return reached(self.node, module) | held

    def _outside(self, place: str) -> str:
        head, dot, rest = place.partition(".")
        if head == "self" and isinstance(self.node.func, cst.Attribute):
            return f"{dotted(self.node.func.value)}.{rest}"
        if head in self.info.scope.params:
            given = bound_arguments(self.info, self.node).get(head)
            known = dotted(given.value) if given is not None else ""
            made = given is not None and isinstance(given.value, cst.Call)
            return f"{known}{dot}{rest}" if known else f"made {id(given)}" if made else ""
        return f"own {id(self.info.scope)} {place}" if head in self.info.scope.locals else place


def _moves_its_own(info: FunctionInfo, events: list[Event]) -> bool:
    """All that its optimizers step are networks which it makes itself, of nothing that it is given."""
    owns = [e.value.owns for e in events if e.kind in STEPS]
    made: set[str] = set()
    for stmt in info.scope.body.walk():
        node = stmt.node.value if isinstance(stmt.node, cst.Assign) else None
        if isinstance(node, cst.Call) and info.module.value(node.func).kind == "class":
            value = info.module.value(node)
            made |= stmt.defs if value.kind == "module" and not value.items else set()
    return bool(owns) and all(own is not None and {root(o) for o in own} <= made for own in owns)


@dataclass(frozen=True)
class Source:
    """Where gradients are left: in what, by whom, and by the steps of which optimizers."""

    stmt: Stmt
    places: frozenset[str]
    name: str
    optimizers: frozenset[str]

    def lasts(self, until: Stmt, scope: Scope, clears: Collection[int]) -> bool:
        """They are there at a statement behind: not dropped meanwhile, and the networks are not others."""
        first, last = self.stmt.number, until.number
        between = [s for s in scope.body.walk() if first < s.number < last]
        renewed = any(root(place) in stmt.defs for stmt in between for place in self.places)
        cleared = any(first < number < last for number in clears)
        return first < last and not renewed and not cleared and not self.stmt.excludes(until)

    def reaches(self, own: list[Event], scope: Scope, clears: Collection[int]) -> bool:
        """A backward call of this very scope, for another optimizer, adds to what is left."""
        between = [s for s in scope.body.walk() if self.stmt.number < s.number]
        same = {e.place for e in own if e.kind in STEPS} & self.optimizers
        if any(not any(place in s.defs for s in between) for place in same):
            return False
        backwards = (e for e in own if e.kind == "backward" and any_overlap(self.places, e.value.deps))
        return any(self.lasts(e.stmt, scope, clears) for e in backwards)


def _clears(scope: Scope, callee: Callees, events: dict[int, list[Event]]) -> list[int]:
    """The numbers of the statements that clear gradients of networks, or call what clears and does no more."""
    own = [e.stmt.number for e in events[id(scope)] if e.kind == "clear" and not e.value.leaf]
    calls = [(s, i) for s in scope.body.walk() for c in s.calls if (i := callee.get(id(c))) is not None]
    kinds = [(s.number, {e.kind for e in events[id(i.scope)]}) for s, i in calls]
    return [*own, *(number for number, found in kinds if "clear" in found and "backward" not in found)]


def _takes_over(events: list[Event], clears: Collection[int]) -> bool:
    """It goes backward and steps, and clears nothing before."""
    first = next((e for e in events if e.kind == "backward"), None)
    if first is None or not any(e.kind in STEPS for e in events):
        return False
    return not any(number < first.stmt.number for number in clears)


def _leaves(events: list[Event], clears: Collection[int]) -> bool:
    """It goes backward for an optimizer, or for somebody who looks, and clears nothing behind that."""
    last = max((e.stmt.number for e in events if e.kind == "backward" and e.inputs is None), default=-1)
    used = any(e.kind in LOADS or e.kind in STEPS for e in events)
    return last >= 0 and used and not any(number > last for number in clears)


def _sources(
    own: list[Event], calls: list[Call], leaving: set[int], events: dict[int, list[Event]], module: ModuleInfo
) -> Iterator[Source]:
    """Where a scope, or what it calls, leaves gradients."""
    stepped = frozenset(e.place for e in own if e.kind in STEPS)
    looked = any(e.kind in LOADS for e in own)  # else nobody here takes them: the function called is meant to
    for event in own if looked else ():
        if event.kind == "backward" and event.inputs is None:
            yield Source(event.stmt, event.value.deps, "a backward call before it is called", stepped)
    for call in calls:
        if id(call.info.scope) in leaving:
            name = f"`{dotted(call.node.func)}`, which is called before it,"
            yield Source(call.stmt, call.networks(events, module), name, call.optimizers(events))


__all__ = ["left_in_leaves", "remaining"]
