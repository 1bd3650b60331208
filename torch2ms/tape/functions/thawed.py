"""Networks that a function freezes and thaws in turn, and that have all their gradients where it uses them.

`toggle_grad(D, True)`, the backward calls of D, `ortho(D)`, `toggle_grad(D, False)`: `ortho` finds nothing frozen.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import overlaps
from torch2ms.tape.uses.toggles import NOBODY_KNOWS, Toggle, toggles


def thawed(stmt: Stmt, place: str, module: ModuleInfo, project: Project) -> bool:
    """The parameters of a place are not frozen where a statement runs: its function is the one that freezes them.

    What it does under a condition, it does under the same one throughout.
    """
    scope = stmt.block.scope
    found = toggles(scope, module, project)
    mine = [t for t in found if t.place != NOBODY_KNOWS and overlaps(t.place, place)]
    before = [t for t in mine if t.stmt.number < stmt.number]
    whole = bool(before) and f"{place}.".startswith(f"{before[-1].place}.")
    if not whole or before[-1].flag is not True or any(t.place == NOBODY_KNOWS or t.flag is None for t in found):
        return False
    guards = {_guard(t, scope) for t in mine}
    return (
        len(guards) == 1
        and guards != {None}
        and not any(_freezes_others(s, m, project) for s, m in _others(scope, project))
    )


def _guard(toggle: Toggle, scope: Scope) -> str | None:
    """The condition that the statement stands under, "" for none; None where that may be another one each time."""
    around = list(toggle.stmt.ancestors())
    if not around:
        return ""
    node = around[0].node
    if len(around) > 1 or not isinstance(node, cst.If) or toggle.stmt.block is not around[0].blocks[0]:
        return None
    names = {root(u) for u in expression_uses(node.test, around[0])}
    bound = {root(d) for s in scope.body.walk() for d in s.defs | s.muts}
    return code(node.test) if not names & bound else None


def _others(scope: Scope, project: Project) -> list[tuple[Scope, ModuleInfo]]:
    return [(s, m) for m in project.modules.values() for s in m.scope.walk() if s is not scope]


def _freezes_others(scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """It freezes or thaws something else than what callers give it."""
    return any(root(t.place) not in scope.params or root(t.place) == "self" for t in toggles(scope, module, project))
