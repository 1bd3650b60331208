"""Which statements may run when some do: those themselves, and the functions of the project they may call."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt


def reached(stmts: Iterable[Stmt], module: ModuleInfo, project: Project) -> Iterator[tuple[Stmt, ModuleInfo]]:
    """Every such statement with its module. Functions are found by their bare names: rather too many than too few."""
    named: dict[str, list[FunctionInfo]] = defaultdict(list)
    for each in project.modules.values():
        for info in each.functions.values():
            named[_name(info)].append(info)
    waiting = [(stmt, module) for stmt in stmts]
    seen: set[int] = set()
    while waiting:
        outer, home = waiting.pop()
        for stmt in outer.walk():
            yield stmt, home
            for call in stmt.calls:
                for info in (i for name in _names(call, home) for i in named[name]):
                    if id(info) not in seen:
                        seen.add(id(info))
                        waiting += [(s, info.module) for s in info.scope.body.stmts]


def reaching(wanted: Callable[[cst.Call], bool], project: Project) -> set[int]:
    """The ids of the functions from which a call that is wanted is reached so; asked for many, they are all found at
    once."""
    callers: dict[str, list[FunctionInfo]] = defaultdict(list)
    waiting: list[FunctionInfo] = []
    for module in project.modules.values():
        for info in module.functions.values():
            calls = [call for outer in info.scope.body.stmts for stmt in outer.walk() for call in stmt.calls]
            if any(map(wanted, calls)):
                waiting.append(info)
            for name in {name for call in calls for name in _names(call, module)}:
                callers[name].append(info)
    found: set[int] = set()
    while waiting:
        info = waiting.pop()
        if id(info) not in found:
            found.add(id(info))
            waiting += callers.pop(_name(info), ())
    return found


def _name(info: FunctionInfo) -> str:
    """The bare name under which a function is called."""
    return info.cls.scope.name if info.cls is not None and info.name == "__init__" else info.name


def _names(call: cst.Call, module: ModuleInfo) -> list[str]:
    """The bare names of the functions a call may run."""
    func = call.func
    own = func.attr.value if isinstance(func, cst.Attribute) else func.value if isinstance(func, cst.Name) else ""
    calls_object = module.value(func).kind in ("module", "unknown", "object")
    return [own, "forward", "__call__"] if calls_object else [own]
