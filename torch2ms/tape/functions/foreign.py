"""Attributes that a function writes on the objects of others: `strategy.loss = strategy.loss + penalty` in a plugin.

The object finds its own attribute changed by a call that does not name it. Such calls define the attribute: they go
where the forward goes that makes it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace

from torch2ms.analysis.flow import root
from torch2ms.analysis.program import Scope, Stmt
from torch2ms.analysis.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.values import UNKNOWN
from torch2ms.tape.functions.reach import Known, Reach, family, used_as_values

OF_TENSORS = {
    "grad",
    "grads",
    "data",
    "requires_grad",
    "training",
    "param_groups",
    "__dict__",
}  # no objects of the project's


def spread_foreign(known: Known) -> None:
    """Add to the calls that may run such a function what it writes there."""
    written = _written(known.project)
    asked = {attr: places for attr in written if (places := _asked(attr, known.project))}
    if not asked:
        return
    valued = used_as_values(known.project)
    for attr, places in asked.items():
        reach = Reach(known, valued, set(written[attr]))
        for scope, module in reach.every:
            here = places.get(id(scope))
            if here is None:
                continue
            for stmt, _ in reach.calls(scope, module):
                for place in sorted(here):
                    _write(stmt, place, scope)


def _write(stmt: Stmt, place: str, scope: Scope) -> None:
    """The statement may leave something else in the place."""
    if place in stmt.defs:
        return
    before = [s.out[place] for s in scope.body.walk() if place in s.out]
    stmt.defs.add(place)
    stmt.muts.add(place)
    stmt.uses.add(place)
    deps = frozenset().union(*(v.deps for v in before))
    stmt.out[place] = replace(before[-1], items=None, keys=None, deps=deps) if before else UNKNOWN


def _written(project: Project) -> dict[str, list[int]]:
    """By attribute: the ids of the scopes of the functions that write it on what is not their own."""
    found: dict[str, list[int]] = defaultdict(list)
    for module in project.modules.values():
        for info in module.functions.values():
            for place in _foreign_places(info):
                attr = place.rpartition(".")[2]
                if attr not in OF_TENSORS:
                    found[attr].append(id(info.scope))
    return found


def _foreign_places(info: FunctionInfo) -> Iterator[str]:
    own = {info.scope.params[0]} if info.cls is not None and not info.static and info.scope.params else set()
    imported = info.module.imports.table.keys() - info.scope.locals  # `torch.nn.utils` is no object
    for stmt in info.scope.body.walk():
        for place in stmt.defs | stmt.muts:
            if "." in place and root(place) not in imported and not (root(place) in own and place.count(".") == 1):
                yield place


def _asked(attr: str, project: Project) -> dict[int, set[str]]:
    """By id of a scope: the places of that attribute which the scope, or a class that it is a method of, knows."""
    found: dict[int, set[str]] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            places = {u for s in scope.body.walk() for u in s.uses | s.defs if u.endswith(f".{attr}")}
            if _kept(attr, scope, module, project):
                places.add(f"self.{attr}")
            if places:
                found[id(scope)] = places
    return found


def _kept(attr: str, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    cls: ClassInfo | None = module.classes.get(scope.cls.name) if scope.cls is not None and scope.is_function else None
    return cls is not None and any(attr in each.attrs for each in family(cls, project))
