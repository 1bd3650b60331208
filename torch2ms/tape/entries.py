"""Functions that only other code calls and that may be part of its forward: a block without gradients in them cuts.

`def loss(self, emb)` of a library is called by training code that is not here. What it returns depends on what it is
given, so a gradient may be taken of it; what a `no_grad` block in it leaves behind must not bring one along.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping

import libcst as cst

from torch2ms.analysis.evaluation.modes import off
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.syntax.names import dotted

CALLED = re.compile(r"(?<!def )\b(\w+)\(")
TRAINS = frozenset({"backward", "step", "zero_grad"})


def left_to_others(project: Project) -> list[FunctionInfo]:
    """Functions with such a block that no code of the project calls, but through functions that nothing calls."""
    infos = [info for module in project.modules.values() for info in module.functions.values()]
    cutting = [info for info in infos if _cuts(info)]
    if not cutting:
        return []
    named = {name for module in project.modules.values() for name in CALLED.findall(module.source)}
    callers: dict[str, dict[int, FunctionInfo]] = defaultdict(dict)
    for info in infos:
        for name in called_by(info):
            callers[name][id(info)] = info
    return [info for info in cutting if _left(info, callers, named, set())]


def _cuts(info: FunctionInfo) -> bool:
    """Some of its statements stand in a block without gradients."""
    modes = {id(mode): mode for stmt in info.scope.body.walk() for mode in stmt.modes}
    return any(off(item.item, info.module) for mode in modes.values() for item in mode.items)


def _left(info: FunctionInfo, callers: Mapping[str, dict[int, FunctionInfo]], named: set[str], seen: set[int]) -> bool:
    if id(info) in seen or not _gives_graph(info):
        return False
    seen.add(id(info))
    if info.name not in named:
        return True
    return any(_left(caller, callers, named, seen) for caller in callers.get(info.name, {}).values())


def _gives_graph(info: FunctionInfo) -> bool:
    """It trains nothing itself, and returns a tensor that depends on what it is given."""
    if TRAINS & set(called_by(info)):
        return False
    for stmt in info.scope.body.walk():
        if type(stmt.node) is cst.Return and stmt.node.value is not None and not stmt.modes:
            value = info.module.value(stmt.node.value)
            if any(v.kind == "tensor" and v.deps for v in (value, *(value.items or ()))):
                return True
    return False


def called_by(info: FunctionInfo) -> Iterator[str]:
    return (dotted(c.func).rpartition(".")[2] for s in info.scope.body.walk() for c in s.calls)
