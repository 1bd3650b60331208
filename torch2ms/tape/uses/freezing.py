"""Parameters that are frozen and thawed while a program trains: whether a gradient reaches them where it counts."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Block, Scope, Stmt
from torch2ms.analysis.project import ModuleInfo
from torch2ms.analysis.tree import constant
from torch2ms.analysis.values import overlaps
from torch2ms.tape.ledger.ledger import ENTRY, Owner
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.project import switched

NOBODY_KNOWS = ""  # the place of parameters that are not told apart


@dataclass(frozen=True)
class Toggle:
    """A statement that sets `requires_grad` of all parameters of a place."""

    stmt: Stmt
    place: str
    flag: bool | None


def thaws(owner: Owner, scope: Scope, module: ModuleInfo, records: Records) -> bool:
    """Parameters of an optimizer are frozen or thawed in the loop that trains, and may be frozen where it matters."""
    found = [t for t in toggles(scope, module) if t.place == NOBODY_KNOWS or _concerns(t, owner)]
    if all(not _in_loop(t, module) for t in found):
        return False
    places = {t.place for t in found}
    if NOBODY_KNOWS in places or owner.owns is None and len(places) > 1:
        return True
    for event in records.events:
        if event.kind in STEPS and event.place == owner.place:
            played = [records.events[n] for n, _ in records.held(event, owner) if n != ENTRY]
            for place in places:
                mine = [t for t in found if overlaps(t.place, place)]
                if not all(flag_at(e.stmt, mine) for e in (event, *played)):
                    return True
    return False


def toggles(scope: Scope, module: ModuleInfo) -> list[Toggle]:
    """The statements of a scope that freeze or thaw, outermost first."""
    return list(_toggles(scope.body, module))


def _toggles(block: Block, module: ModuleInfo) -> list[Toggle]:
    found = []
    for stmt in block.stmts:
        if (toggle := _toggle(stmt, module)) is not None:
            found.append(toggle)
        elif switched(stmt, module):
            found.append(Toggle(stmt, NOBODY_KNOWS, None))
        else:
            found += [t for inner in stmt.blocks for t in _toggles(inner, module)]
    return found


def _toggle(stmt: Stmt, module: ModuleInfo) -> Toggle | None:
    """`for p in net.parameters(): p.requires_grad = flag`, or `net.requires_grad_(flag)`."""
    if isinstance(stmt.node, cst.For) and stmt.blocks and stmt.blocks[0].stmts:
        taken = module.value(stmt.node.iter)
        body = [s for b in stmt.blocks for s in b.stmts]
        if taken.kind in ("params", "named_params") and len(taken.deps) == 1 and all(switched(s, module) for s in body):
            flags = {_flag(s) for s in body}
            return Toggle(stmt, next(iter(taken.deps)), flags.pop() if len(flags) == 1 else None)
        return None
    for call in stmt.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "requires_grad_":
            receiver = module.value(call.func.value)
            bound = dotted(stmt.node.targets[0].target) if isinstance(stmt.node, cst.Assign) else ""
            if receiver.kind == "module" and (place := bound or receiver.place):
                return Toggle(stmt, place, _flag(stmt))
    return None


def _flag(stmt: Stmt) -> bool | None:
    """What a statement sets `requires_grad` to, None where it is not written there."""
    given: cst.BaseExpression = cst.Name("True")
    called = [c for c in stmt.calls if _named(c) == "requires_grad_"]
    if called and called[0].args:
        given = called[0].args[0].value
    elif not called and isinstance(stmt.node, cst.Assign):
        given = stmt.node.value
    flag = constant(given)
    return flag if isinstance(flag, bool) else None


def _named(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _concerns(toggle: Toggle, owner: Owner) -> bool:
    return owner.owns is None or any(overlaps(toggle.place, o) for o in owner.owns)


def _in_loop(toggle: Toggle, module: ModuleInfo) -> bool:
    """A loop other than one over the parameters themselves stands around it."""
    around = [a for a in toggle.stmt.ancestors() if a.is_loop]
    return any(not _over_parameters(a, module) for a in around)


def _over_parameters(loop: Stmt, module: ModuleInfo) -> bool:
    return isinstance(loop.node, cst.For) and module.value(loop.node.iter).kind in ("params", "named_params")


def flag_at(stmt: Stmt, found: list[Toggle]) -> bool:
    """True where every way to a statement leaves the parameters thawed."""
    return _before(stmt, {id(t.stmt): t for t in found}) is True


def _before(stmt: Stmt, found: dict[int, Toggle]) -> bool | None:
    """The flag when a statement begins; None where that depends."""
    earlier = stmt.block.stmts[: stmt.block.stmts.index(stmt)]
    if (state := _last(earlier, found)) != "":
        return state  # type: ignore[return-value]
    around = stmt.block.owner
    if around is None:
        return True
    before = _before(around, found)
    if around.is_loop and (again := _last(stmt.block.stmts, found)) != "":
        return before if again == before else None
    return before


def _last(stmts: list[Stmt], found: dict[int, Toggle]) -> bool | str | None:
    """What the last of these statements that touches the flag leaves, "" where none does."""
    for stmt in reversed(stmts):
        if id(stmt) in found:
            return found[id(stmt)].flag
        if any(id(s) in found for s in stmt.walk()):
            return None
    return ""
