"""Functions that run while networks are made, and not afterwards: `self.model = parse_model(cfg)` in a constructor."""

from __future__ import annotations

from collections import Counter, defaultdict

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.syntax.tree import descend

IMPORTS = (cst.Import, cst.ImportFrom)


@once
def in_constructors(project: Project) -> frozenset[str]:
    """Names of functions that are only called, and only by constructors, by each other, or by a module as it is read.

    A name counts for all that bear it; one that is handed on may be called by anybody.
    """
    callers: dict[str, list[Scope]] = defaultdict(list)
    defined: Counter[str] = Counter()
    mentioned: Counter[str] = Counter()
    for module in project.modules.values():
        defined.update(info.name for info in module.functions.values())
        mentioned.update(node.value for node in module.of_kind(cst.Name))
        for kind in IMPORTS:
            mentioned.subtract(n.value for node in module.of_kind(kind) for n in descend(node) if type(n) is cst.Name)
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                turns = scope.is_module and any(a.is_loop for a in (stmt, *stmt.ancestors()))
                for call in () if turns else stmt.calls:
                    callers[name_called(call)].append(scope)
    found = {n for n, count in defined.items() if callers[n] and mentioned[n] == count + len(callers[n])}
    homes = {id(cls.scope) for m in project.modules.values() for cls in m.classes.values() if cls.kind == "module"}
    while late := {n for n in found if not all(_begins(scope, found, homes) for scope in callers[n])}:
        found -= late
    return frozenset(found)


def _begins(scope: Scope, found: set[str], homes: set[int]) -> bool:
    """The constructor of a network, something in one, a function among those found, or the body of a module; objects of
    other classes may be made at every step."""
    around: Scope | None = scope
    while around is not None and not around.is_module:
        own = around.name == "__init__" and around.cls is not None and id(around.cls) in homes
        if around.is_function and (own or around.name in found):
            return True
        around = around.parent
    return scope.is_module
