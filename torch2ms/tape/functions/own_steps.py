"""Steps of optimizers that the program defines: their callers call the optimizer with the gradients."""

from __future__ import annotations

from dataclasses import replace

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.values import Value
from torch2ms.tape.ledger.ledger import Ledger
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Event, Owner, State


def own_step(scope: Scope, module: ModuleInfo) -> bool:
    """Such a step: it is given gradients, or stays as it is."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None and scope.name == "step" else None
    return cls is not None and cls.kind == "optimizer"


def around_torchs(scope: Scope, module: ModuleInfo) -> bool:
    """... of a class that has one of torch's optimizers above it: `class Noisy(torch.optim.SGD)`."""
    if not own_step(scope, module) or scope.cls is None:
        return False
    return module.classes[scope.cls.name].torch_base.rpartition(".")[2] != "Optimizer"


def used_after(records: Records, project: Project) -> str:
    """The class whose step changes gradients that this scope uses once more, or adds to; "" where there is none.

    torch leaves them changed, MindSpore's optimizer has a copy.
    """
    steps = [e for e in records.events if e.kind in ("step", "scaler_step") and not e.through and project.changing]
    for step in steps:
        name = _changing(step, records, project)
        for owner in records.owners if name else ():
            if concerns(step, owner, records.owners) and _used(step, owner, records):
                return name.rpartition(".")[2]
    return ""


def _changing(step: Event, records: Records, project: Project) -> str:
    """The class with such a step that the optimizer is, or may be where its class is not seen."""
    name = step.value.name
    cls = project.find(name, records.module)
    if isinstance(cls, ClassInfo):
        return cls.qualified if project.changing & {c.qualified for c in cls.lineage()} else ""
    return "" if name.startswith("torch.") else min(project.changing)


def _used(step: Event, owner: Owner, records: Records) -> bool:
    """What the step leaves is there when gradients are used or added to: a ledger tells that has it in its records."""
    deps = owner.owns or frozenset({owner.place})
    left = Event("spill", step.stmt, step.node, value=Value("tensor", deps=deps), lifted=True)
    number = records.number[id(step)] + 1
    rest = [replace(e, effects={}) if e.stmt is step.stmt else e for e in records.events[number:]]  # its own are none
    events = [*records.events[:number], left, *rest]
    followed = replace(owner, before={})
    Ledger(records.scope, events, [followed], records.outside)
    if owner.stored and any(n == number for n, _ in followed.exit.held):
        return True  # other functions may use them
    return any(
        n == number
        for at, event in enumerate(events)
        if event.kind == "backward" or event.kind in LOADS and concerns(event, owner, records.owners)
        for n, _ in followed.before.get(at, State()).held
    )
