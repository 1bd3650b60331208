"""Calls that leave gradients in networks which they do not train: an attack goes backward to its input alone.

`adv = fgsm(model, x, y)` between `optimizer.zero_grad()` and `optimizer.step()`: in torch its `loss.backward()` fills
the weights too, and the step takes that along. MindSpore's gradient of the input fills nothing.
"""

from __future__ import annotations

from copy import copy

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value, joined_deps
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.model import Event

KIND = "spill"
NETWORKS = ("module", "object", "lossfn")
Callees = dict[int, FunctionInfo]


class Spills:
    """The functions that do so, themselves or in what they call."""

    def __init__(self, project: Project, callee: Callees, events: dict[int, list[Event]]) -> None:
        self.project = project
        self.callee = callee
        self.events = events
        infos = [i for m in project.modules.values() for i in m.functions.values()]
        self.scopes = {id(i.scope) for i in infos if _spills(i, events[id(i.scope)])}
        more = bool(self.scopes)
        while more:
            new = {id(i.scope) for i in infos if id(i.scope) not in self.scopes and self.hands_on(i)}
            self.scopes |= new
            more = bool(new)

    def hands_on(self, info: FunctionInfo) -> bool:
        """The function calls one of them, and clears nothing afterwards."""
        own = self.events[id(info.scope)]
        if any(e.kind in STEPS for e in own):
            return False  # what is left of its own steps is another question
        cleared = max((e.stmt.number for e in own if e.kind == "clear" and not e.value.leaf), default=-1)
        return any(e.stmt.number > cleared for e in self.calls(info.scope, info.module))

    def added(self, events: list[Event], scope: Scope, module: ModuleInfo) -> list[Event]:
        """The events of a scope, with the calls whose gradients get to a step of it."""
        if not self.scopes or not any(e.kind in STEPS for e in events):
            return events
        more = [copy(e) for e in events]
        every = sorted([*more, *self.calls(scope, module)], key=lambda e: e.stmt.number)
        records = Records(scope, module, every)
        met = {n for e in every if e.kind in STEPS for o in records.owners for n, _ in records.held(e, o)
               if e.place == o.place or e.handing is not None}  # fmt: skip
        found = [e for n, e in enumerate(every) if e.kind == KIND and n in met]
        return sorted([*events, *found], key=lambda e: e.stmt.number) if found else events

    def calls(self, scope: Scope, module: ModuleInfo) -> list[Event]:
        return [
            Event(KIND, stmt, call, place=dotted(call.func), value=Value("tensor", deps=reached(call, module)))
            for stmt in scope.body.walk() for call in stmt.calls if self.spilled(call, module)
        ]  # fmt: skip

    def spilled(self, call: cst.Call, module: ModuleInfo) -> bool:
        info = self.callee.get(id(call))
        if info is None:
            value = module.value(call.func)
            found = self.project.find(value.name, module) if value.kind in NETWORKS and value.name else None
            info = found.method("forward") if isinstance(found, ClassInfo) else None
        return info is not None and id(info.scope) in self.scopes


def _spills(info: FunctionInfo, events: list[Event]) -> bool:
    """It goes backward through a network for the gradient of a leaf, and does not clear the network."""
    kinds = {e.kind for e in events}
    if not {"backward", "leaf_grad"} <= kinds or kinds & {*STEPS}:
        return False
    backwards = [e for e in events if e.kind == "backward" and e.inputs is None]
    if any(
        "requires_grad" in c.func.attr.value
        for s in info.scope.body.walk()
        for c in s.calls
        if type(c.func) is cst.Attribute and info.module.value(c.func.value).kind in ("module", "params", "param")
    ):
        return False  # its weights take no gradients meanwhile
    records = Records(info.scope, info.module, events)
    leaves = {o.place for o in records.owners if o.kind == "leaf"}
    for event in backwards:
        takers = records.takers(event)
        if not takers or any(o.kind != "leaf" for o in takers):
            continue
        others = {d for d in records.root_deps(event) if d not in leaves}
        cleared = any(e.kind == "clear" and e.place not in leaves and e.stmt.number > event.stmt.number for e in events)
        if others and not cleared:
            return True
    return False


def reached(call: cst.Call, module: ModuleInfo) -> frozenset[str]:
    """What the networks that a call is given, or that it is a method of, are made of; none where that is not seen."""
    given = [module.value(a.value) for a in call.args]
    given += [module.value(call.func), module.value(call.func.value) if type(call.func) is cst.Attribute else UNKNOWN]
    networks = [v for v in given if v.kind in NETWORKS]
    return joined_deps(networks) | frozenset().union(*(v.own for v in networks if v.kind == "module"))
