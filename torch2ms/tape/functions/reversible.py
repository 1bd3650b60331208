"""Reversible layers: the backward of a custom function goes backward once more, through networks of its own.

torch leaves the gradients of their weights in them then. MindSpore asks for a gradient of each weight where the
custom function is called, and gets nothing from there.
"""

from __future__ import annotations

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import name_called
from torch2ms.tape.ledger.event import Event
from torch2ms.tape.ledger.records import Records


def weights_beside(event: Event, scope: Scope, records: Records, project: Project) -> str:
    """A network whose weights get gradients from a backward call that a custom function runs, "" if there is none."""
    if scope.name not in _run_by_backward(project):
        return ""
    leaves = {o.place for o in records.owners if o.kind == "leaf"}
    beside = records.root_deps(event) - leaves
    return min(beside, key=lambda place: (not place.startswith("self."), place), default="")


@once
def _run_by_backward(project: Project) -> frozenset[str]:
    """The names of the functions that the backward of a custom function calls, and of those that these call."""
    functions = [i for m in project.modules.values() for i in m.functions.values()]
    called = {id(i): {name_called(c) for s in i.scope.body.walk() for c in s.calls} for i in functions}
    begun = [i for i in functions if i.name == "backward" and i.cls is not None and i.cls.kind == "autograd"]
    names = set().union(*(called[id(i)] for i in begun))
    before = -1
    while len(names) != before:
        before = len(names)
        names |= set().union(*(called[id(i)] for i in functions if i.name in names)) if names else set()
    return frozenset(names) - {"forward"}
