"""What methods do to attributes of their object, as places of whoever calls them."""

from __future__ import annotations

from collections.abc import Mapping

import libcst as cst

from torch2ms.analysis.evaluation.arguments import bind_arguments
from torch2ms.analysis.evaluation.keeping import built_from
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.program.shown import containers
from torch2ms.analysis.program.sites import Site, receiver, receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import GIVEN, NO_DEPS, Value, overlaps, replace
from torch2ms.tape.forward.carried import reads_itself

HOLDING = ("list", "dict", "object", "unknown")
DEEP = 6  # names in a place that is reached through calls of methods


def narrow(info: FunctionInfo, site: Site) -> None:
    """A call of a known method reads what the method reads, not the whole object."""
    if base := receiving(info, site.call):
        bare = any(isinstance(a.value, cst.Name) and a.value.value == base for a in site.call.args)
        if not bare:
            site.stmt.uses -= {base, dotted(site.call.func)}


def _whole(stmt: Stmt, info: FunctionInfo, callee: Mapping[int, FunctionInfo]) -> bool:
    """The statement uses the object itself: passed on, or in a call of a method that is not seen."""
    for call in stmt.calls:
        if any(type(a.value) is cst.Name and a.value.value == "self" for a in call.args):
            return True
        if type(call.func) is cst.Attribute and dotted(call.func.value) == "self" and id(call) not in callee:
            if info.module.value(call.func).kind not in ("module", "lossfn", "tensor", "function", "class"):
                return True
    return (
        not stmt.calls
        and not any(u.startswith("self.") for u in stmt.uses)
        and not any(d.startswith("self.") for d in stmt.defs)
    )


def spread(info: FunctionInfo, site: Site, callee: Mapping[int, FunctionInfo]) -> bool:
    """What the callee does to attributes of its object, as places of the caller; whether a list has the object."""
    base, more = receiving(info, site.call), False
    if not base:
        return False
    for stmt in info.scope.body.walk():
        whole = "self" in stmt.uses and _whole(stmt, info, callee)
        for place in sorted(stmt.defs):  # the site itself may be among the statements
            if place.startswith("self."):
                moved = _below(base, place)
                if moved != base + place[4:]:
                    site.stmt.muts.add(moved)
                    continue
                site.stmt.defs.add(moved)
                if place in stmt.uses and _sums(place, stmt, info.scope):
                    site.stmt.sums.add(moved)
                value = stmt.out.get(place, Value())
                site.stmt.out[moved] = value = replace(value, deps=_varied_with(place, stmt, info, site))
                more |= _held(root(base), value, site.stmt)
        site.stmt.uses |= {_below(base, p) for p in stmt.uses if p.startswith("self.") or p == "self" and whole}
        for place in sorted(stmt.muts):
            if place.startswith("self."):
                moved, kept = _below(base, place), stmt.out.get(place)
                site.stmt.muts.add(moved)
                if kept is not None and kept.kind in HOLDING:  # it may have put tensors into a container
                    site.stmt.out[moved] = replace(kept, deps=_varied_with(place, stmt, info, site), items=None)
    return more


def keeps_for_list(call: cst.Call, stmt: Stmt, module: ModuleInfo) -> None:
    """An object out of a list, one of several kinds, may keep what it is given with its graph."""
    func = call.func
    if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
        return
    name, kind = func.value.value, module.value(func.value).kind
    if kind in ("object", "unknown") and (deps := NO_DEPS.union(*(module.value(a.value).deps for a in call.args))):
        _held(name, Value(deps=deps), stmt)


def _held(name: str, value: Value, stmt: Stmt) -> bool:
    """What a call puts into an object is in the list that a loop takes the object out of, too; whether that is new."""
    more = False
    for holder in containers(name, stmt) if value.deps else ():
        more |= holder not in stmt.muts
        stmt.muts.add(holder)
        known = stmt.out.get(holder, Value("list"))
        stmt.out[holder] = replace(known, deps=known.deps | value.deps, items=None)
    return more


def _varied_with(place: str, stmt: Stmt, info: FunctionInfo, site: Site) -> frozenset[str]:
    """What an attribute that the callee changes is varied with, as places of the caller."""
    deps = stmt.out[place].deps if place in stmt.out else NO_DEPS
    if not deps:
        return deps
    base, seen = receiving(info, site.call), site.module.value
    holder = receiver(info, site.call)
    held = seen(holder) if holder is not None else Value()
    inside = built_from(info.cls, held) if info.cls is not None else {}
    # the parameters of what a constructor was given are known by the name that it had there
    bases = (base, held.place) if held.place and held.place != base else (base,)
    own = NO_DEPS.union(*[inside.get(root(d), {_move(d, b) for b in bases}) for d in deps if d[:1] != "@"])
    if GIVEN in deps and _from_elsewhere(place, stmt, info):
        own |= {GIVEN} if base == "self" else held.deps
    if not (given := {d[1:] for d in deps if d[:1] == "@" and d != GIVEN}):
        return own
    values = [seen(arg.value) for arg in site.call.args]
    bound = bind_arguments(info, site.call, values, skip_self=info.cls is not None and not info.static)
    return own.union(*[bound[name].deps for name in given if name in bound])


def _from_elsewhere(place: str, stmt: Stmt, info: FunctionInfo) -> bool:
    """What a statement puts into an attribute comes out of another one, where callers may have left a graph."""
    nodes = (n for n in stmt.nodes if type(n) is cst.Name or type(n) is cst.Attribute)
    return any(GIVEN in info.module.value(n).deps and not overlaps(dotted(n), place) for n in nodes)


def _sums(place: str, stmt: Stmt, scope: Scope) -> bool:
    """A statement of a method makes an attribute of what it was when the method was called."""
    if place != reads_itself(stmt) and place not in stmt.sums:
        return False
    earlier = [s for s in scope.body.stmts if s.number < stmt.number and place in s.defs]
    return all(place == reads_itself(s) or place in s.sums for s in earlier)


def _below(base: str, place: str) -> str:
    """A place of the object as one of the caller; of objects in objects of their own kind, the first few speak."""
    moved = base + place[4:]
    return moved if moved.count(".") < DEEP else ".".join(moved.split(".")[: max(DEEP, base.count(".") + 1)])


def _move(place: str, base: str) -> str:
    return base + place[4:] if place.startswith("self.") else place
