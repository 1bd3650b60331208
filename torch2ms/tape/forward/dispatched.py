"""Functions of which the type of what they are given picks one: `functools.singledispatch`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.syntax.names import dotted

SINGLE = "singledispatch"


def dispatched(info: FunctionInfo) -> list[FunctionInfo]:
    """The function, or the ones that are registered under it: `@loss.register`, `@loss.register(Pair)`."""
    if not info.module.has(SINGLE) or not any(d.endswith(SINGLE) for d in _decorators(info)):
        return [info]
    register = f"{info.name}.register"
    found = [f for f in info.module.functions.values() if register in _decorators(f)]
    return [info, *found] if not found or _runs(info) else found


def _decorators(info: FunctionInfo) -> list[str]:
    node = info.scope.node
    every = [d.decorator for d in node.decorators] if isinstance(node, cst.FunctionDef) else []
    return [dotted(d.func if isinstance(d, cst.Call) else d) for d in every]


def _runs(info: FunctionInfo) -> bool:
    """It is not only there to say that nothing is registered for a type."""
    return not any(isinstance(s.node, cst.Raise) for s in info.scope.body.stmts)
