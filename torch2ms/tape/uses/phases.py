"""Phases of a training: the steps are taken in another function than the one that freezes."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.values import Value, overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.events import marked
from torch2ms.tape.plan import Plan
from torch2ms.tape.uses.toggles import (
    Toggle,
    left_by,
    put_back,
    taken,
    toggles,
)

HARMLESS = ("zero_grad", "state_dict", "load_state_dict", "param_groups")  # of an optimizer: nothing moves


def refuse_phases(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
    """Mark what freezes parameters that an optimizer has already, or thaws some that it did not get."""
    why = "torch leaves frozen parameters alone, MindSpore's optimizer moves all that were trainable at first"
    todo = "make a new optimizer for every phase, of the parameters that it trains"
    for toggle, optimizer in phases(scope, module, project) if not module.skips else ():
        what = f"parameters of `{optimizer.place}` frozen or thawed"
        stmt = next(s for s in toggle.stmt.walk() if not s.blocks)
        plan.refuse(stmt, Finding("T2M308", Tier.REFUSED, what, why, todo, stmt.lineno))


def phases(scope: Scope, module: ModuleInfo, project: Project) -> Iterator[tuple[Toggle, Value]]:
    """What freezes parameters that an optimizer has already, or thaws some that it did not get, and the optimizer."""
    if not project.freezes or module.uses_mindspore:  # there, freezing means what MindSpore makes of it
        return
    found = toggles(scope, module, project)
    for toggle in found:
        if marked(toggle.stmt):
            continue
        for made, optimizer in taken(toggle, scope, module):
            frozen_first = any(t.flag is False and overlaps(t.place, toggle.place) and _early(t, made) for t in found)
            matters = frozen_first if toggle.flag else optimizer.dtype != "plain"
            matters = matters and not put_back(toggle, found, scope, module, project)
            matters = (
                matters and not _steps(scope, module, optimizer.place) and _goes_on(toggle, scope, optimizer.place)
            )
            if matters and not _thawed_for_steps(optimizer.place, toggle.place, scope, project):
                yield toggle, optimizer
                break


def _early(toggle: Toggle, made: Stmt | None) -> bool:
    return made is None or toggle.stmt.number < made.number


def _steps(scope: Scope, module: ModuleInfo, place: str) -> bool:
    """The scope lets the optimizer step itself: `thaws` follows the flags there."""
    for func in (c.func for s in scope.body.walk() for c in s.calls):
        stepped = func.value if isinstance(func, cst.Attribute) and func.attr.value == "step" else func
        value = module.value(stepped)
        if value.place == place and (stepped is not func or value.kind == "optimizer"):  # or is called with gradients
            return True
    return False


def _thawed_for_steps(place: str, frozen: str, scope: Scope, project: Project) -> bool:
    """Whoever lets the optimizer of an object step, or hands it on, thaws what it holds first: `d_step`, `g_step`."""
    if scope.cls is None or not place.startswith("self."):
        return False
    for other in project.modules.values():
        for inner in other.scope.walk() if other.has(f".{place[5:]}") else ():
            own, stmts = inner.cls is scope.cls, [s for s in inner.body.walk() if not s.blocks]
            moved = [s for s in stmts if _mentions(place, s)]
            if not moved or own and inner.name == "__init__":
                continue
            found = {id(t.stmt): t for t in toggles(inner, other, project) if own and overlaps(t.place, frozen)}
            before = [s for s in stmts if s.number < moved[-1].number and id(s) not in found and _mentions(frozen, s)]
            if not all(_thawed_above(s, found) for s in (*moved, *before)):
                return False
    return True


def _mentions(place: str, stmt: Stmt) -> bool:
    """A statement has what an attribute holds, for more than the state of an optimizer."""
    if isinstance(stmt.node, (cst.ClassDef, cst.FunctionDef)):
        return False
    named = [n for n in stmt.nodes if isinstance(n, cst.Attribute)]
    idle = {id(n.value) for n in named if n.attr.value in HARMLESS}
    return any(n.attr.value == place.rpartition(".")[2] and id(n) not in idle for n in named)


def _thawed_above(stmt: Stmt, found: dict[int, Toggle]) -> bool:
    """On every way to a statement the last of these thaws, and there is one."""
    flags, passes = left_by(stmt.block.stmts[: stmt.block.stmts.index(stmt)], found)
    if flags - {True}:
        return False
    return not passes or stmt.block.owner is not None and _thawed_above(stmt.block.owner, found)


def _goes_on(toggle: Toggle, scope: Scope, place: str) -> bool:
    """The optimizer is used after the statement before another takes its name."""
    if "." in place or any(a.is_loop for a in toggle.stmt.ancestors()):
        return True
    later = [s for s in scope.body.walk() if s.number > toggle.stmt.number and not s.blocks]
    first = next((s for s in later if place in s.defs | s.uses), None)
    return first is not None and place in first.uses or _seen_by_functions(scope, place)


def _seen_by_functions(scope: Scope, place: str) -> bool:
    return any(root(use) == place for child in scope.children for use in free_uses(child))
