"""What names of the scope around mean in a function: what they hold where it is called, not in the end."""

from __future__ import annotations

import re
from collections import Counter
from functools import cached_property, reduce

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.values import Value, join

UNSEEN = ("unknown", "none")
DECLARED = re.compile(r"\b(?:global|nonlocal)\s")


class Around:
    """A scope that was run, as the functions inside of it find it: collected once for all of them."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    @cached_property
    def changing(self) -> dict[str, list[Stmt]]:
        """The statements that bind each name whose kind they change."""
        bindings: dict[str, list[Stmt]] = {}
        for stmt in self.scope.body.walk():
            for name in stmt.defs & stmt.out.keys():
                bindings.setdefault(name, []).append(stmt)
        return {n: all for n, all in bindings.items() if len({s.out[n].kind for s in all} - set(UNSEEN)) > 1}

    @cached_property
    def users(self) -> dict[str, list[Stmt]]:
        """The statements that read each name."""
        found: dict[str, list[Stmt]] = {}
        for stmt in self.scope.body.walk():
            for name in stmt.uses:
                found.setdefault(name, []).append(stmt)
        return found


def settled(scope: Scope, above: frozenset[str], module: ModuleInfo) -> frozenset[str]:
    """The names that functions in a scope find bound once, by an assignment that happens once."""
    if module.reshapes or module.says(DECLARED):
        return frozenset()
    stmts = scope.body.walk()
    times = Counter(name for stmt in stmts for name in stmt.defs)
    once = {name for stmt in stmts if type(stmt.node) is cst.Assign for name in stmt.defs if times[name] == 1}
    turning = {name for stmt in stmts if stmt.is_loop for inner in stmt.walk() for name in inner.defs}
    return frozenset(once - turning) | above - scope.locals


def captured(scope: Scope, around: Around) -> dict[str, Value]:
    """The names that a function reads and that hold another kind of value where it is called than in the end."""
    parent, changing = around.scope, around.changing
    if not changing or not scope.is_function or not (parent.is_function or parent.is_module):
        return {}
    read = {use.partition(".")[0] for s in scope.body.walk() for use in s.uses}
    found: dict[str, Value] = {}
    for name in sorted(read & changing.keys() - scope.locals - set(scope.params)):
        calls = [s for s in around.users.get(scope.name, ()) if s.node is not scope.node]
        values = [b.out[name] for c in calls for b in _reaching(c, changing[name]) if name in b.out]
        if any(value.kind != changing[name][-1].out[name].kind for value in values):
            found[name] = reduce(join, values)
    return found


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
