"""What names of the scope around mean in a function: what they hold where it is called, not in the end."""

from __future__ import annotations

from functools import reduce

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.values import Value, join

UNSEEN = ("unknown", "none")


def captured(scope: Scope) -> dict[str, Value]:
    """The names that a function reads and that hold another kind of value where it is called than in the end."""
    parent = scope.parent
    if parent is None or not scope.is_function or not (parent.is_function or parent.is_module):
        return {}
    changing = _changing(parent)
    read = {use.partition(".")[0] for s in scope.body.walk() for use in s.uses} if changing else set()
    found: dict[str, Value] = {}
    for name in sorted(read & changing.keys() - scope.locals - set(scope.params)):
        calls = [s for s in parent.body.walk() if scope.name in s.uses and s.node is not scope.node]
        values = [b.out[name] for c in calls for b in _reaching(c, changing[name]) if name in b.out]
        if any(value.kind != changing[name][-1].out[name].kind for value in values):
            found[name] = reduce(join, values)
    return found


def _changing(scope: Scope) -> dict[str, list[Stmt]]:
    """The statements that bind each name whose kind they change."""
    bindings: dict[str, list[Stmt]] = {}
    for stmt in scope.body.walk():
        for name in stmt.defs & stmt.out.keys():
            bindings.setdefault(name, []).append(stmt)
    return {n: all for n, all in bindings.items() if len({s.out[n].kind for s in all} - set(UNSEEN)) > 1}


def _reaching(call: Stmt, bindings: list[Stmt]) -> list[Stmt]:
    """The bindings of a name that may hold where a function is called."""
    around = list(call.ancestors())
    blocks = {id(call.block), *(id(a.block) for a in around)}
    loops = [a for a in around if a.is_loop]
    found: list[Stmt] = []
    for binding in bindings:
        if binding.number < call.number:
            found = [*(found if id(binding.block) not in blocks else []), binding]
        elif any(a in loops for a in binding.ancestors()):
            found.append(binding)
    return found
