"""Methods that go backward from a loss of their callers, and that subclasses override with the same parameters.

`def optimize(self, loss)` of a trainer, and of one that clips: which of them a call reaches is known as the program
runs, so the playback becomes a parameter of all of them, or of none.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import Unseen, overriding
from torch2ms.tape.functions.handing import handed_of, handing_at
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.model import Event, Handed, Handing


def overridden(infos: list[FunctionInfo]) -> list[list[FunctionInfo]]:
    """All versions of the methods that subclasses override, each list from that of the class above the others."""
    found = []
    for info in infos:
        if info.cls is not None and info.cls.children and (others := overriding(info)):
            if not any(info.name in c.methods for c in info.cls.lineage()[1:]):
                found.append([info, *others])
    return found


def hand_on_versions(
    lifting: Lifting, methods: list[list[FunctionInfo]], events: dict[int, list[Event]], unseen: Unseen
) -> None:
    """Enter all versions of such methods, with the calls that reach them."""
    for versions in methods:
        if not all(any(e.kind == "backward" for e in events[id(v.scope)]) for v in versions):
            continue
        if any(unseen.reached(v.scope) or id(v.scope) in lifting.exports for v in versions):
            continue
        found = [handed_of(v, events[id(v.scope)], _names(versions)) for v in versions]
        made = [handed for handed in found if handed is not None]
        calls = _calls(made, lifting) if len(made) == len(versions) and _alike(made) else None
        if calls:
            lifting.handed |= {id(handed.info.scope): handed for handed in made}
            lifting.handings |= calls


def _names(versions: list[FunctionInfo]) -> set[str]:
    return {n for v in versions for n in (*v.scope.locals, *v.module.imports.table)}


def _alike(made: list[Handed]) -> bool:
    """They take the same, clear what was there, and step with the same optimizers."""
    first = made[0]
    places = {o.place for o in first.owners}
    return all(
        h.clears and h.leaves == first.leaves and h.root == first.root
        and h.info.scope.params == first.info.scope.params and {o.place for o in h.owners} == places
        for h in made
    )  # fmt: skip


def _calls(made: list[Handed], lifting: Lifting) -> dict[int, Handing] | None:
    """What the calls of all versions hand on, by id of the call; None where one of them does not fit."""
    own = {id(handed.info.scope) for handed in made}
    found: dict[int, Handing] = {}
    for handed in made:
        for site in lifting.sites.get(id(handed.info.scope), []):
            handing = handing_at(handed, site.call, site.module, site.scope)
            if handing is None or id(site.scope) in own:  # `super().optimize(loss)` hands it on itself
                return None
            found[id(site.call)] = handing
    return found
