"""Steps in a function that something around it has parameters frozen for: a trainer freezes, a method of it steps.

`engine.train` opens the last layer alone for an epoch and calls `engine.forward_backward` for every batch: in there,
nothing speaks of flags. What stands in front of a call in its callers decides, and in theirs.
"""

from __future__ import annotations

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.values import overlaps
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.model import Owner
from torch2ms.tape.project import called_as
from torch2ms.tape.uses.call_graph import call_graph
from torch2ms.tape.uses.late_thaws import Order, may_run, order_of
from torch2ms.tape.uses.toggles import NOBODY_KNOWS, Toggle, left_by, put_back

Owns = frozenset[str] | None  # the places of what an optimizer moves; None: not seen


def frozen_outside(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Parameters of an optimizer may be frozen, since it was made, where a function that steps with it is called."""
    if not project.freezes_trained or not scope.is_function:
        return False
    steps = [e.stmt for e in records.events if e.kind in STEPS and e.place == owner.place]
    own = _flagged(order_of(project), scope, module, owner.owns)
    if not any(_standing(stmt, own)[1] for stmt in steps):  # it sets them itself before
        return False
    leading = _leading(project)
    if id(scope) not in leading:
        leading[id(scope)] = call_graph(project).leading({id(scope)}, seen=True)
    return _at_calls(scope, module, owner.place, owner.owns, project, leading[id(scope)], set())


@once
def _leading(project: Project) -> dict[int, set[int]]:
    """What leads to a function, of those that were asked for, by the ids of scopes."""
    return {}


def _at_calls(
    scope: Scope, home: ModuleInfo, place: str, owns: Owns, project: Project, leading: set[int], asked: set[int]
) -> bool:
    """Something in front of a call of the function leaves parameters frozen.

    `home`: its module; `leading`: the names of what leads to the step; what is frozen or thawed in there is asked for
    by itself.
    """
    asked.add(id(scope))
    order = order_of(project)
    for caller, module, stmt in order.calling.get(called_as(scope), ()):
        if id(caller) in asked and not order.switches(caller, module):
            continue  # one of its calls is as good as another
        if not any(may_run(call, scope, home, caller, module) for call in stmt.calls):
            continue
        theirs = _as_given(scope, place, owns, caller, module, stmt)
        made = min(_makes(project).get(id(caller), ()), default=-1)
        found = _flagged(order, caller, module, theirs)
        found = {
            key: t for key, t in found.items() if t.stmt.number > made and not _leads(t.stmt, leading, module, project)
        }
        flags, passes = _standing(stmt, found)
        if False in flags:
            return True
        if passes and made < 0 and caller.is_function and id(caller) not in asked:
            if _at_calls(caller, module, place, theirs, project, leading, asked):
                return True
    return False


def _leads(stmt: Stmt, leading: set[int], module: ModuleInfo, project: Project) -> bool:
    graph, scope = call_graph(project), stmt.block.scope
    calls = (call for inner in stmt.walk() for call in inner.calls)
    return any(id(info.scope) in leading for call in calls for info in graph.meant(call, scope, module))


def _as_given(scope: Scope, place: str, owns: Owns, caller: Scope, module: ModuleInfo, stmt: Stmt) -> Owns:
    """What the optimizer moves, in the places of the caller."""
    if place.startswith("self."):
        return owns if caller.cls is scope.cls else None
    handed = [module.value(arg.value) for call in stmt.calls if name_called(call) == scope.name for arg in call.args]
    moved = [value.owns for value in handed if value.kind == "optimizer"]
    return moved[0] if len(moved) == 1 else None


def _flagged(order: Order, scope: Scope, module: ModuleInfo, owns: Owns) -> dict[int, Toggle]:
    """What sets flags of these parameters in a function, by the ids of the statements; each says what it may leave."""
    every = order.switches(scope, module)
    found: dict[int, Toggle] = {}
    for toggle in every:
        if owns is not None and toggle.place != NOBODY_KNOWS and not any(overlaps(toggle.place, o) for o in owns):
            continue
        other = found.get(id(toggle.stmt))
        same = other is None or other.flag is toggle.flag
        found[id(toggle.stmt)] = toggle if same else Toggle(toggle.stmt, NOBODY_KNOWS, None)
    around = (scope, module, order.project)
    return {key: t for key, t in found.items() if t.flag is not False or not put_back(t, every, *around)}


def _standing(stmt: Stmt, found: dict[int, Toggle]) -> tuple[frozenset[bool], bool]:
    """The flags that are set when a statement begins, and whether those from before the function may still be there."""
    flags: frozenset[bool] = frozenset()
    if not found:
        return flags, True
    inner: Stmt | None = stmt
    while inner is not None:
        stmts, around = inner.block.stmts, inner.block.owner
        left, passes = left_by(stmts[: stmts.index(inner)], found)
        flags |= left
        if not passes:
            return flags, False
        if around is not None and around.is_loop:
            flags |= left_by(stmts, found)[0]
        inner = around
    return flags, True


@once
def _makes(project: Project) -> dict[int, list[int]]:
    """The statements in which optimizers come into being, by their numbers; by the id of the function they are in."""
    order = order_of(project)
    found: dict[int, list[int]] = {}
    waiting = [make for scope, module in order.scopes for make in order.makes(scope, module)]
    while waiting:
        make = waiting.pop()
        numbers = found.setdefault(id(make.scope), [])
        if make.stmt.number not in numbers:
            numbers.append(make.stmt.number)
            waiting += order.calls(make) if make.scope.is_function else ()
    return found
