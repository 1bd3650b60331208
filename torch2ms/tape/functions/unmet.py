"""Backward calls whose gradients nobody finds: every function that uses gradients clears or makes them first, and no
hook waits for them on their way.

CUT goes backward once to let its networks be initialised, in a method that has no step; what that fills is cleared
before the first step.
"""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import any_overlap
from torch2ms.tape.functions.reach import Known, Reach
from torch2ms.tape.functions.within import by_attribute, reachable
from torch2ms.tape.ledger.hooks import has_hooks
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import LOADS, STEPS, Records
from torch2ms.tape.model import ENTRY, Event, Owner

USES = (*LOADS, "handed", "gradcall", "step_closure", "fill", "spill")


def unmet(records: Mapping[int, Records], known: Known) -> set[int]:
    """The ids of such calls, among the events of all scopes of a project."""
    project = known.project
    idle = [r for r in records.values() if r.scope.is_function and not any(f.kind in USES for f in r.events)]
    lost = [(e, r) for r in idle for e in r.events if e.kind == "backward" and not r.takers(e)]
    if not lost or any(has_hooks(m) for m in project.modules.values()) or any(_meets(r) for r in records.values()):
        return set()
    unseen = {id(r.scope) for e, r in lost if not _known(r.root_deps(e), r, project, records)}
    lost = [(e, r) for e, r in lost if id(r.scope) not in unseen]
    met = {s for s in {id(r.scope) for _, r in lost} if _called_before_use(Reach(known, {s}), records)}
    return {id(e.node) for e, r in lost if id(r.scope) not in met}


def _called_before_use(reach: Reach, records: Mapping[int, Records]) -> bool:
    """A scope calls one of these functions, and uses gradients before it clears them again."""
    for found in records.values():
        uses = [e.stmt for e in found.events if e.kind in LOADS]
        clears = [e.stmt for e in found.events if e.kind == "clear"]
        for stmt, _ in reach.calls(found.scope, found.module) if uses else ():
            if any(_meets_call(stmt, use, clears) for use in uses):
                return True
    return False


def _meets_call(call: Stmt, use: Stmt, clears: list[Stmt]) -> bool:
    """What the call leaves is there where it is used, as nothing surely clears it on the way."""
    around = [use, *use.ancestors()]
    sure = [c for c in clears if any(c.block is a.block for a in around)]
    if call.number <= use.number:
        return not any(call.number < c.number < use.number for c in sure)
    loops = [a for a in around[1:] if a.is_loop and a in call.ancestors()]
    inside = [c for c in sure if loops and loops[-1] in c.ancestors()]
    return bool(loops) and not any(c.number < use.number or c.number > call.number for c in inside)


def _meets(records: Records) -> bool:
    """A scope may find gradients that it has not filled itself, or it is not seen which."""
    for event in records.events:
        owners = [o for o in records.owners if concerns(event, o, records.owners)] if event.kind in USES else []
        if event.problem or event.kind in USES and not owners:
            return True
        for owner in owners:
            entered = any(held == ENTRY for held, _ in records.held(event, owner))
            if entered and not any(_cleared_likewise(e, event, owner, records) for e in records.events):
                return True
    return False


def _cleared_likewise(clear: Event, load: Event, owner: Owner, records: Records) -> bool:
    """`if flag: opt.zero_grad()` before `if flag: opt.step()`."""
    if clear.kind != "clear" or not owner.cleared_by(clear, False) or clear.stmt.number > load.stmt.number:
        return False
    test, other = _test(clear), _test(load)
    if test is None or other is None or code(test) != code(other) or any(type(n) is cst.Call for n in descend(test)):
        return False
    asked = expression_uses(test, clear.stmt)
    between = [s for s in records.scope.body.walk() if clear.stmt.number < s.number < load.stmt.number]
    return not any(asked & (s.defs | s.muts) for s in between)


def _test(event: Event) -> cst.BaseExpression | None:
    """The condition under which an event happens."""
    around = event.stmt.block.owner
    node = around.node if around is not None and event.stmt.block is around.blocks[0] else None
    return node.test if isinstance(node, cst.If) else None


def _known(deps: frozenset[str], lost: Records, project: Project, records: Mapping[int, Records]) -> bool:
    """The object of the scope has the optimizers of what a loss depends on, and steps with each of them itself."""
    scope, module = lost.scope, lost.module
    if not deps or scope.cls is None or any(d.startswith(("@", "^")) for d in deps):
        return False
    found = {p: v.owns for p, v in reachable(scope, module, project).items() if v.owns is not None}
    mine = {p for p, own in found.items() if any_overlap(deps, own | by_attribute(own, scope, module, project))}
    family = [f.scope for c in module.classes.values() if c.scope is scope.cls for f in (*c.lineage(), *c.below())]
    steps = {e.place for r in records.values() if r.scope.cls in family for e in r.events if e.kind in STEPS}
    return bool(mine) and mine <= steps
