"""Functions that do a part of a training step for their callers: clear, go backward, clip, step.

`optim_wrapper.update_params(loss)` goes backward, counts, clips and steps in methods of its own; `task.train_step(...)`
goes backward and leaves the step to others. Such programs are translated with the functions as they stand where that
is possible. Where it is not, the functions are written out where they are called, up to the one that has both the
forward and the step: it is then a training step like any other.
"""

from __future__ import annotations

import re

from torch2ms.analysis.program.project import FunctionInfo, Plain, Project
from torch2ms.analysis.program.sites import Site, calls_of, overriding
from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.analysis.values import any_overlap
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import fits, movable, plain, unasked
from torch2ms.inlining.handed_on import mentioned
from torch2ms.inlining.importing import Importing
from torch2ms.inlining.meanings import free_names
from torch2ms.tape.ledger.events import find
from torch2ms.tape.model import Event

MOST = 60  # statements that all the calls together become
STEPS = ("step", "scaler_step")
TOUCHING = re.compile(r"\.backward\(|\.step\(|\.zero_grad\(|\.grad\b|clip_grad")


def parts(project: Project) -> dict[int, Candidate]:
    """By id of the call: the functions of this kind whose calls can all give way to their bodies, innermost first."""
    sites = _sites(project)
    partial = {key: made for key, (info, own) in sites.items() if (made := _candidate(info, own)) is not None}
    calls = {id(s.call): id(info.scope) for info, own in sites.values() for s in own}
    found: dict[int, Candidate] = {}
    for made in partial.values():
        inner = {calls.get(id(c)) for s in made.info.scope.body.walk() for c in s.calls}
        if inner & partial.keys() or len(made.sites) * len(made.body) > MOST:
            continue  # the first in a later round
        if all(fits(made, site) for site in made.sites):
            made.goes = mentioned(made, project) == len(made.sites) and unasked(made, project)
            made.shared = len(project.modules) > 1
            found |= {id(site.call): made for site in made.sites}
    return found


def brought(project: Project) -> dict[str, Plain]:
    """The modules of callers with what the bodies import from other packages, by name."""
    wanted: dict[str, dict[str, str]] = {}
    for info, sites in _sites(project).values():
        if _candidate(info, sites) is None:
            continue
        table = info.module.imports.table
        names = {name: table[name] for name in free_names(info) if is_foreign(table.get(name, ""))}
        for module in {id(s.module): s.module for s in sites}.values():
            taken = module.imports.table.keys() | set().union(*(s.locals for s in module.scope.walk()))
            if more := {name: full for name, full in names.items() if name not in taken}:
                wanted.setdefault(module.name, {}).update(more)
    return {name: Importing(project.modules[name], more).plain() for name, more in wanted.items()}


def _sites(project: Project) -> dict[int, tuple[FunctionInfo, list[Site]]]:
    """The functions that may touch gradients, and all their calls, by id of the scope."""
    calls = calls_of(project, project.modules.values())
    return {key: (info, sites) for key, (info, sites) in calls.items() if info.module.says(TOUCHING)}


def _candidate(info: FunctionInfo, sites: list[Site]) -> Candidate | None:
    """The function, if it is one of these."""
    kind = info.cls.kind if info.cls is not None else "object"
    if kind not in ("object", "module") or overriding(info) or info.name in ("__init__", "forward"):
        return None
    events = find(info.scope, info.module)
    if not events or _whole(info, events) or not movable(info) or any(s.scope is info.scope for s in sites):
        return None
    return plain(info, sites, events[0].lineno, ends=True, guarded=True)


def _whole(info: FunctionInfo, events: list[Event]) -> bool:
    """It has the forward, all of it, goes backward and steps."""
    backward = [e for e in events if e.kind == "backward"]
    steps = [e for e in events if e.kind in STEPS]
    made_here = any(not _by_caller(e, info) for e in backward)
    return made_here and bool(steps) and not any(_begun_by_caller(e, info, steps) for e in backward)


def _begun_by_caller(event: Event, info: FunctionInfo, steps: list[Event]) -> bool:
    """`update_actor(x, action)` with `action = self.policy(x)`: it is given a part of the forward."""
    deps = frozenset().union(*(info.module.value(node).deps for node in event.roots))
    given = [info.args[n].deps for n in info.scope.params if f"@{n}" in deps and n in info.args]
    real = frozenset(d for each in given for d in each if not d.startswith(("@", "^")))
    names = {"self", *info.scope.params, *info.scope.locals}  # other weights are named where the optimizer is made
    known = [frozenset(o for o in s.value.owns or () if o.partition(".")[0] in names) for s in steps]
    return any(any_overlap(real, owns) if owns else bool(real) for owns in known)


def _by_caller(event: Event, info: FunctionInfo) -> bool:
    """What is differentiated is varied with what the function is given, and with nothing beside it."""
    deps = frozenset().union(*(info.module.value(node).deps for node in event.roots))
    given = [name for name in info.scope.params if f"@{name}" in deps and name not in ("self", "cls")]
    passed = frozenset().union(*(info.args[name].deps for name in given if name in info.args))
    return bool(given) and all(d.startswith(("^", "@")) or d in passed for d in deps)


__all__ = ["brought", "parts"]
