"""Functions that only other code calls and that may be part of its forward: a block without gradients in them cuts.

`def loss(self, emb)` of a library is called by training code that is not here. What it returns depends on what it is
given, so a gradient may be taken of it; what a `no_grad` block in it leaves behind must not bring one along.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.modes import off
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.syntax.names import dotted

TRAINS = frozenset({"backward", "step", "zero_grad"})


def left_to_others(project: Project) -> list[FunctionInfo]:
    """Functions with such a block that no code of the project calls, but through functions that nothing calls."""
    infos = [info for module in project.modules.values() for info in module.functions.values()]
    return [info for info in infos if _cuts(info) and _left(info, infos, project, set())]


def _cuts(info: FunctionInfo) -> bool:
    """Some of its statements stand in a block without gradients."""
    modes = {id(mode): mode for stmt in info.scope.body.walk() for mode in stmt.modes}
    return any(off(item.item, info.module) for mode in modes.values() for item in mode.items)


def _left(info: FunctionInfo, infos: list[FunctionInfo], project: Project, seen: set[int]) -> bool:
    if id(info) in seen or not _gives_graph(info):
        return False
    seen.add(id(info))
    called = re.compile(rf"(?<!def )\b{re.escape(info.name)}\(")
    if not any(called.search(module.source) for module in project.modules.values()):
        return True
    return any(_left(caller, infos, project, seen) for caller in infos if info.name in _called(caller))


def _gives_graph(info: FunctionInfo) -> bool:
    """It trains nothing itself, and returns a tensor that depends on what it is given."""
    if TRAINS & set(_called(info)):
        return False
    for stmt in info.scope.body.walk():
        if isinstance(stmt.node, cst.Return) and stmt.node.value is not None and not stmt.modes:
            value = info.module.value(stmt.node.value)
            if any(v.kind == "tensor" and v.deps for v in (value, *(value.items or ()))):
                return True
    return False


def _called(info: FunctionInfo) -> Iterator[str]:
    return (dotted(c.func).rpartition(".")[2] for s in info.scope.body.walk() for c in s.calls)
