"""Reversible layers: the backward of a custom function goes backward once more, through networks of its own.

torch leaves the gradients of their weights in them then. MindSpore asks for a gradient of each weight where the
custom function is called, and gets nothing from there.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import resolved
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import name_called, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event

ENABLING = ("enable_grad", "set_grad_enabled")


def weights_beside(event: Event, scope: Scope, records: Records, project: Project) -> str:
    """A network whose weights get gradients from a backward call that a custom function runs, "" if there is none."""
    if scope.name == "forward" or scope not in _run_by_backward(project):
        return ""
    leaves = {o.place for o in records.owners if o.kind == "leaf"}
    beside = records.root_deps(event) - leaves
    return min(beside, key=lambda place: (not place.startswith("self."), place), default="")


@once
def _run_by_backward(project: Project) -> set[Scope]:
    """The functions that the backward of a custom function calls, and those that these call."""
    functions = [i for m in project.modules.values() for i in m.functions.values()]
    begun = [i for i in functions if i.name == "backward" and i.cls is not None and i.cls.kind == "autograd"]
    named: dict[str, list[FunctionInfo]] = {}
    for info in functions:
        named.setdefault(info.name, []).append(info)
    recording = [info for info in (*begun, *_from(begun, named, project)) if _records(info)]
    return {info.scope for info in (*recording, *_from(recording, named, project))} if recording else set()


def _from(begun: list[FunctionInfo], named: dict[str, list[FunctionInfo]], project: Project) -> list[FunctionInfo]:
    """The functions that some functions call, and those that these call."""
    found: dict[Scope, FunctionInfo] = {}
    waiting = list(begun)
    while waiting:
        caller = waiting.pop()
        for call in (c for s in caller.scope.body.walk() for c in s.calls):
            for info in _reached(call, caller.module, named, project):
                if info.scope not in found:
                    found[info.scope] = info
                    waiting.append(info)
    return list(found.values())


def _records(info: FunctionInfo) -> bool:
    """It turns gradients on, which are off where a custom function goes backward: nothing goes backward there."""
    return any(isinstance(node, cst.Name) and node.value in ENABLING for node in descend(info.scope.node))


def _reached(
    call: cst.Call, module: ModuleInfo, named: dict[str, list[FunctionInfo]], project: Project
) -> list[FunctionInfo]:
    """The functions of the project that a call may be of: the one that it is seen to reach, or all of its name.

    Neither `torch.sum(x)` nor `grad.sum()` is one of them, whatever they are called.
    """
    known = resolved(project).get(id(call))
    if known is not None:
        return [known]
    others = qualified(call.func, module.imports).startswith(("torch.", "numpy.", "math."))
    if others or type(call.func) is cst.Attribute and module.value(call.func.value).kind == "tensor":
        return []
    return named.get(name_called(call), [])
