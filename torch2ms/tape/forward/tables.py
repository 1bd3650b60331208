"""Functions that a loop goes through, each of which runs networks of its own: `for loss_of in (cls_loss, reg_loss)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.forward.given import Given
from torch2ms.tape.forward.left import Skipped


def in_turn(call: cst.Call, stmt: Stmt, given: Given, module: ModuleInfo, project: Project) -> Iterator[Skipped]:
    """The networks that some of the functions run which a call may mean, where it means another one at each step."""
    value = module.value(call.func)
    if value.name or not value.items:
        return
    infos = [project.find(v.name, module) for v in value.items if v.kind == "function"]
    ran = [_networks(info) for info in infos if isinstance(info, FunctionInfo)]
    for place in sorted(set[str]().union(*(ran[0] ^ other for other in ran[1:]))):
        yield Skipped(place, code(call.func), given.moves(call.func, stmt), place if place.isidentifier() else "")


def _networks(info: FunctionInfo) -> set[str]:
    called = (info.module.value(c.func) for s in info.scope.body.walk() for c in s.calls)
    return {v.place for v in called if v.kind == "module" and v.place}
