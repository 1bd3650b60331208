"""Methods that use gradients of their callers, and that subclasses override: `def correct(self): pass` of a base class.

Which of them a call reaches is known as the program runs, so the gradients become a parameter of all of them, or of
none. One that has no use for them hands them back as they are.
"""

from __future__ import annotations

from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import Unseen
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.functions.taking import taken_of, taking_at, usable
from torch2ms.tape.model import Event, Taken, Taking


def take_in_versions(
    lifting: Lifting, methods: list[list[FunctionInfo]], events: dict[int, list[Event]], unseen: Unseen
) -> None:
    """Enter all versions of such methods, with the calls that reach them."""
    for versions in methods:
        if not any(events[id(v.scope)] for v in versions) or any(unseen.reached(v.scope) for v in versions):
            continue
        made = _made(versions, events)
        takings = _takings(made, lifting) if made else None
        if takings:
            keys = {id(taken.info.scope) for taken in made}
            lifting.taken |= {id(taken.info.scope): taken for taken in made}
            lifting.takings |= takings
            lifting.together |= {key: keys for key in keys}


def _made(versions: list[FunctionInfo], events: dict[int, list[Event]]) -> list[Taken]:
    """What each version does with the gradients; nothing where they do not fit together."""
    names = {n for v in versions for n in (*v.scope.locals, *v.module.imports.table)}
    users = [v for v in versions if events[id(v.scope)]]
    found = [taken_of(v, events[id(v.scope)], names) for v in users]
    made = [taken for taken in found if taken is not None]
    if len(made) < len(users) or any(t.clears or t.clears_if for t in made):
        return []
    first = made[0]
    if any(t.variables != first.variables or t.gives != first.gives for t in made):
        return []
    if any(v.scope.params != first.info.scope.params or v.static or v.of_class for v in versions):
        return []
    idle = [v for v in versions if v not in users]
    if any(isinstance(s.node, cst.Return) for v in idle for s in v.scope.body.walk()) and first.gives:
        return []
    loads = [load for taken in made for load in taken.loads]
    shown = {"asks": any(t.asks for t in made), "clips": all(t.clips for t in made), "loads": loads}
    return [*made, *(replace(first, info=v, returns=[], **shown) for v in idle)]  # type: ignore[arg-type]


def _takings(made: list[Taken], lifting: Lifting) -> dict[int, Taking] | None:
    """What the calls of all versions bring, by id of the call; None where one of them does not fit."""
    own = {id(taken.info.scope) for taken in made}
    found: dict[int, Taking] = {}
    for taken in made:
        for site in lifting.sites.get(id(taken.info.scope), []):
            taking = taking_at(taken, site.call, site.module, site.scope)
            if taking is None or not usable(taking, site.stmt) or id(site.scope) in own:
                return None  # `super().correct()` would bring them itself
            found[id(site.call)] = taking
    return found
