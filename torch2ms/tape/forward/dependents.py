"""The statements whose results depend on given names."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.flow import root
from torch2ms.analysis.program import Scope, Stmt
from torch2ms.analysis.project import ModuleInfo, qualified
from torch2ms.tape.ledger.events import Event


def silenced(stmt: Stmt, module: ModuleInfo) -> bool:
    """The innermost gradient mode around the statement is no_grad."""
    for mode in reversed(stmt.modes):
        for item in mode.items:
            name = qualified(
                item.item.func if isinstance(item.item, cst.Call) else item.item, module.imports
            ).rpartition(".")[2]
            if name in ("no_grad", "inference_mode", "enable_grad"):
                return name != "enable_grad"
    return False


def dependents(inputs: list[str], event: Event, scope: Scope, module: ModuleInfo, entry: bool = False) -> set[int]:
    """The statements, up to the call, whose results depend on the inputs as they are last bound, or at `entry`."""
    start = -1
    for stmt in () if entry else scope.body.walk():
        if stmt.number < event.stmt.number and {d for d in stmt.defs} & set(inputs):
            start = stmt.number
    tainted = set(inputs)
    found: set[int] = set()
    for stmt in scope.body.walk():
        if (
            start < stmt.number < event.stmt.number
            and {p for u in stmt.uses for p in (u, root(u))} & tainted
            and not silenced(stmt, module)
        ):
            written = {root(d) for d in stmt.defs | stmt.muts}
            if entry or written - set(inputs):
                tainted |= written
                found.add(id(stmt))
    return found
