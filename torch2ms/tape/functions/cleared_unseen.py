"""Gradients that a function clears which nothing is seen to call, `__next__` of a loader or an entry of a table.

Where another function adds to what is left, the optimizer keeps the gradients, so that both mean the same.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.tape.functions.reach import Known
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.model import Owner


def cleared_unseen(scope: Scope, known: Known, records: dict[int, Records]) -> set[str]:
    """The places of the optimizers that such a function clears, and does no more to."""
    if not runs_unseen(scope, known, records) or not any(map(adds, records.values())):
        return set()
    return {e.place for e in records[id(scope)].events if e.kind == "clear" and e.value.kind == "optimizer"}


def left_unseen(
    scopes: list[tuple[Scope, ModuleInfo]], known: Known, records: dict[int, Records], owners: dict[int, list[Owner]]
) -> set[str]:
    """The names of such functions that clear optimizers which do not keep their gradients."""
    cleared = {id(s): (s.name, places) for s, _ in scopes if (places := cleared_unseen(s, known, records))}
    return {name for key, (name, places) in cleared.items() if not places <= {o.place for o in owners.get(key, ())}}


def runs_unseen(scope: Scope, known: Known, records: dict[int, Records]) -> bool:
    """It is such a function."""
    own = records.get(id(scope))
    if own is None or not scope.is_function or scope not in known.unseen and id(scope) in known.sites:
        return False
    return not any(e.kind == "backward" or e.kind in LOADS for e in own.events)


def adds(records: Records) -> bool:
    """A backward call adds to gradients that may be left from an earlier turn."""
    stores = [e for e in records.events if e.kind == "backward"]
    return any(o.kind != "leaf" and records.accumulates(e, o) for e in stores for o in records.takers(e))
