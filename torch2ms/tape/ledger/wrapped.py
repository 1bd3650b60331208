"""Optimizers by their use alone, which a function of the project may have put into an object around them.

`model, optimizer = accelerator.prepare(model, optimizer)`: the `step` of what comes back may run now and then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, Project
from torch2ms.analysis.program.sites import resolved
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.model import Event

AROUND = "`{}` may be an object of `{}`, whose step is another one"
DEPTH = 3  # functions that call functions
_OWN_STEP = re.compile(r"\bdef step\b")


def refuse_wrapped(events: list[Event], scope: Scope, project: Project) -> None:
    """Mark the steps of a name, or of an attribute, that a function gave which makes such objects."""
    if not project.says(_OWN_STEP):
        return
    likely = {e.place for e in events if e.kind == "step" and e.value.kind == "optimizer" and e.value.likely}
    kept = scope.cls is not None and any(place.startswith("self.") for place in likely)
    scopes = [scope, *(scope.cls.walk() if kept and scope.cls is not None else ())] if likely else []
    for stmt in (stmt for each in scopes for stmt in each.body.walk()):
        bound = likely & stmt.all_defs if type(stmt.node) is cst.Assign else frozenset[str]()
        info = resolved(project).get(id(stmt.node.value)) if bound else None  # type: ignore[union-attr]
        cls = next(_wrappers(info, project, DEPTH), None) if info is not None else None
        if cls is None:
            continue
        for event in events:
            if event.kind in ("step", "clear") and event.place in bound:
                event.problem = event.problem or AROUND.format(event.place, cls.qualified.rpartition(".")[2])


def _wrappers(info: FunctionInfo, project: Project, depth: int) -> Iterator[ClassInfo]:
    """The classes of which a function makes objects whose step runs the step of something that they keep."""
    for call in (call for stmt in info.scope.body.walk() for call in stmt.calls):
        made = info.module.value(call.func)
        cls = project.find(made.name, info.module) if made.kind == "class" and made.name else None
        if isinstance(cls, ClassInfo) and (step := cls.method("step")) is not None:
            called = (dotted(c.func) for s in step.scope.body.walk() for c in s.calls)
            if any(name.startswith("self.") and name.endswith(".step") for name in called):
                yield cls
        called_info = resolved(project).get(id(call)) if depth else None
        if called_info is not None and called_info is not info:
            yield from _wrappers(called_info, project, depth - 1)
