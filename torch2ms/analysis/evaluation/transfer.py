"""Values on their way between a caller and a function, or between an object and its attributes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.known import starts
from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import (
    FILLING,
    NO_DEPS,
    PART,
    PICKED,
    UNPLACED,
    Value,
    entries,
    holds_networks,
    is_row,
    overlaps,
    replace,
)

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import FunctionInfo

DEEP = 6  # names in a place; what calls itself through its parts would have ever more
MANY = 300  # places that a value may depend on by themselves
OBJECTS = ("module", "optimizer", "object", "scheduler")


def into(value: Value, name: str, places: dict[str, str], same_self: bool, typed: bool = False) -> Value:
    """A caller's value in the callee's places; what the callee has no name for keeps a caret.

    `typed`: a tensor of a type of its own keeps it, and its dimensions, as every call of the callee is seen.
    """
    known = ("^", "@", "self.") if same_self else ("^", "@")
    if value.kind == "object":  # the callee knows what it was given by its own names, other things by the object's
        places = {item.place: f"{name}.{key}" for key, item in entries(value).items() if item.place} | places

    def move(place: str) -> str:
        around = place
        while around:  # it, or what it is inside of
            if around in places:
                return moved(place, places)
            around = around.rpartition(".")[0]
        return place if place.startswith(known) else "^" + place

    def owned(place: str) -> str:
        own = place.removeprefix("@")  # a parameter of the caller is none of the callee's
        return move(place) if own == place else "@" * (own in places) + move(own)

    owns = frozenset(map(owned, value.owns)) if value.owns is not None else None
    leaves = _leaves(value) if value.kind == "dict" else NO_DEPS  # inputs that have graphs of their own
    deps = widened(frozenset(move(d) for d in value.deps - leaves if not d.startswith("@")))
    if value.kind == "module" and owns is None:  # the modules that it was built around are trained with it
        built = {move(i.place) for i in value.items or () if i.kind == "module" and i.place}
        owns = frozenset({name, *built}) if built else None
    items = None
    if value.kind == "object" and value.keys is not None:  # models that it was given
        items = tuple(_renamed(i, move) for i in value.items or ())
    elif value.kind == "dict" and holds_networks(value):
        items = tuple(_entry(item, f"{name}.{key}") for key, item in entries(value).items())
    each = value.each
    if value.kind == "module" and each is None and value.items and (acts := starts.of_any(value.items)):
        each = Value("module", starts=acts)
    made = replace(value, place=name, deps=deps, owns=owns, items=items, each=each)
    return made if typed else shapes.forgotten(made)


def _entry(value: Value, place: str) -> Value:
    """A network in a dict that a function is given: its weights are those of the entry, which is no name of its own."""
    return replace(value, place="", deps=NO_DEPS, owns=frozenset({place}))


def _renamed(value: Value, move: Callable[[str], str]) -> Value:
    """A module or an optimizer by its other name."""
    owns = frozenset(map(move, value.owns)) if value.owns is not None else None
    return replace(value, place=move(value.place) if value.place else "", owns=owns)


def outward(
    value: Value,
    params: dict[str, frozenset[str]],
    receiver: str,
    made: dict[str, str] | None = None,
    fresh: frozenset[str] = NO_DEPS,
) -> Value:
    """What a function returns in the places of its caller, `params` telling what its parameters depend on there.

    `made` gives the places of objects in a container that it made (see `unplaced`); `fresh` are its names of leaves
    that nobody else sees (see `sole`): those live where the caller puts them.
    """
    made = made or {}
    if value.leaf and value.deps <= fresh:
        return replace(value, deps=NO_DEPS, place="")

    def there(deps: frozenset[str], row: bool) -> frozenset[str]:
        found: set[str] = set()
        for dep in deps:
            plain = dep.lstrip("@^")
            head, _, rest = plain.partition(".")
            entry, _, inner = rest.partition(".")
            if (named := f"{head}.{entry}") in params:  # a network in a dict
                found |= {_below(p, inner) for p in params[named]}
            elif head in params:
                precise = rest.startswith(PICKED[1:]) or rest and dep[0] not in "@^" and row
                found |= {_below(p, rest) for p in params[head]} if precise else params[head]
            elif head == "self" and receiver and dep[0] != "^":  # else it is another object's self: see the parameter
                found.add(_below(receiver, rest))
            elif not dep.startswith(("@", "^")):
                found.add(moved(dep, made))
        return frozenset(found)

    deps = widened(there(value.deps - fresh, is_row(value)))
    owns = None if value.owns is None else there(value.owns, False)
    if owns is not None:  # a module that the caller was handed has a place
        owns = frozenset(o for o in owns if not o.startswith("@") or o[1:] not in owns)
    items = value.items
    if items is not None:
        items = tuple(outward(i, params, receiver, made, fresh) for i in items)
    each = value.each if value.each is None else outward(value.each, params, receiver, made, fresh)
    place = value.place
    if value.kind in OBJECTS and not place.startswith("self."):
        home = moved(place, made)  # made inside: it lives where the caller puts it
        place = home if home != place else ""
    elif place.startswith("self.") and receiver:
        place = receiver + place[4:]
    return replace(value, deps=deps, items=items, each=each, place=place, owns=owns, leaf=False)


def returned(value: Value, params: Container[str]) -> Value:
    """What a function returns as its callers may see it: without what only some other caller has a name for.

    `outward` leaves that out in any case; here it would make every caller look again whenever one more is seen. The
    same holds for a parameter itself, beside what callers vary it with: both mean what is passed.
    """
    items, each = value.items, value.each
    if items:
        items = tuple([returned(item, params) for item in items])
        items = value.items if items == value.items else items
    if each is not None:
        each = returned(each, params)
    deps = value.deps
    foreign = [d for d in deps if d[0] == "^" and d.lstrip("@^").partition(".")[0] not in params]
    foreign += [d for d in deps if d in params and f"@{d}" in deps]
    if not foreign and items is value.items and each is value.each:
        return value
    return replace(value, deps=deps.difference(foreign), items=items, each=each)


def widened(deps: frozenset[str]) -> frozenset[str]:
    """What a value depends on, by the layers that hold it where it is more than any network has by itself.

    Layers that hand each other what they were handed (`self.attention.spikes.spikes.bias`) have places without end.
    """
    for parts in range(4, 0, -1) if len(deps) > MANY else ():
        deps = frozenset(".".join(dep.split(".")[:parts]) for dep in deps)
        if len(deps) <= MANY:
            break
    return deps


def _below(receiver: str, rest: str) -> str:
    """A place inside an object; for what is far inside of objects in objects, a part on the way there speaks."""
    if PICKED in receiver and rest.startswith(PICKED[1:]):
        return receiver  # one parameter was picked: nothing more is to be picked from it
    place = receiver + ("." + rest if rest else "")
    return place if place.count(".") < DEEP else ".".join(place.split(".")[: max(DEEP, receiver.count(".") + 1)])


def unplaced(returned: Value, local: frozenset[str] | set[str], call: int) -> dict[str, str]:
    """Objects in a container that a function made and returns: their places there, and those they have until bound."""
    if returned.items is None or returned.kind not in ("tuple", "list", "dict"):
        return {}
    found: dict[str, str] = {}
    for item in returned.items:
        if item.kind in OBJECTS and (item.place.startswith(UNPLACED) or item.place.partition(".")[0] in local):
            found[item.place] = f"{UNPLACED}{call:x}>{item.place}"
        found |= unplaced(item, local, call)
    return found


def entries_placed(returned: Value, call: str) -> Value:
    """A dict that a function returns, whose networks have a place each until they are bound; `call` tells it apart."""
    if returned.kind == "tuple" and returned.items and returned.keys is None:
        items = tuple(entries_placed(item, f"{call}.{i}") for i, item in enumerate(returned.items))
        return replace(returned, items=items) if items != returned.items else returned
    if not holds_networks(returned):
        return returned
    placed = (
        replace(item, place=f"{UNPLACED}{call}>.{key}")
        if not item.place and item.owns is None and not item.deps
        else item
        for key, item in entries(returned).items()
    )
    return replace(returned, items=tuple(placed))


def kept_inside(
    returned: Value, local: frozenset[str] | set[str], bound: dict[str, Value], call: int
) -> dict[str, str]:
    """Where networks are for the caller that a returned object keeps, and that have names of the function that made it.

    Those made there live in the object, whose place comes first and is one until it is bound; others the caller gave.
    """
    found: dict[str, str] = {}
    if returned.place.partition(".")[0] in bound:
        return found
    for attr, item in entries(returned).items():
        head = item.place.partition(".")[0]
        if item.kind not in OBJECTS or item.place in found:
            continue
        if head in bound and bound[head].place:
            found[item.place] = moved(item.place, {head: bound[head].place})
        elif head in local or head in bound:
            found[item.place] = f"{UNPLACED}{call:x}>.{attr}"
    return {returned.place or UNPLACED: f"{UNPLACED}{call:x}>"} | found if found else {}


def sole(returned: Value, scope: Scope, params: Iterable[str]) -> frozenset[str]:
    """Names of leaves, and of containers with some, that a function made and nobody but its caller has."""
    found = {p.place.partition(PART)[0] for p in (returned, *returned.parts) if p.leaf and p.place}
    if not found:
        return NO_DEPS
    inner = {root(use) for child in scope.children for use in free_uses(child)}
    own = found & set(scope.locals) - set(params) - inner
    return frozenset(name for name in own if not any(_keeps(stmt, name, scope) for stmt in scope.body.walk()))


def only_passed(owns: frozenset[str], info: FunctionInfo, bound: Iterable[str]) -> frozenset[str]:
    """Of what an optimizer that a function makes may own: what other callers passed, and the function never names."""
    passed = {name: info.args[name].deps for name in bound if f"@{name}" in owns and name in info.args}
    came = frozenset().union(*passed.values()) - passed.keys() if passed else NO_DEPS
    if not came & owns:
        return NO_DEPS
    stmts = list(info.scope.body.walk())
    if any(root(dotted(call.func)) == "self" for stmt in stmts for call in stmt.calls):
        return NO_DEPS  # a method of the object may have given it more
    named = {use for stmt in stmts for use in stmt.all_uses}
    return frozenset(place for place in came & owns if not any(overlaps(place, use) for use in named if use != "self"))


def _keeps(stmt: Stmt, name: str, scope: Scope) -> bool:
    """Whether a statement puts what the name holds where it outlives the call."""
    node = stmt.node
    if isinstance(node, cst.Assign) and not all(isinstance(t.target, (cst.Name, cst.Tuple)) for t in node.targets):
        parts = node.value.elements if isinstance(node.value, (cst.List, cst.Tuple)) else ()
        return name in {dotted(node.value), *(dotted(part.value) for part in parts)}
    return any(
        isinstance(call.func, cst.Attribute) and call.func.attr.value in FILLING
        and root(dotted(call.func.value)) not in scope.locals and name in {dotted(a.value) for a in call.args}
        for call in stmt.calls
    )  # fmt: skip


def _leaves(value: Value) -> frozenset[str]:
    """The leaves in a container, where nothing else in it has a graph."""
    items = value.items or ()
    found = frozenset(i.place for i in items if i.leaf).union(
        *(_leaves(i) for i in items if i.kind in ("tuple", "list"))
    )
    return found if value.deps <= found else NO_DEPS


def moved(place: str, places: dict[str, str]) -> str:
    """A place, or one inside it, by its new name."""
    for old, new in places.items():
        if place == old or place.startswith(old + "."):
            return new + place[len(old) :]
    return place


def rebase(value: Value, old: str, new: str) -> Value:
    """The same value seen from another place: `self.net` of `trainer` is `trainer.net`."""
    if old == new or not new:
        return value

    def move(place: str) -> str:
        return moved(place, {old: new})

    items = tuple(rebase(i, old, new) for i in value.items) if value.items is not None else None
    owns = frozenset(move(o) for o in value.owns) if value.owns is not None else None
    deps = frozenset(move(d) for d in value.deps)
    return replace(value, place=move(value.place), deps=deps, owns=owns, items=items)


def spread(value: Value, deps: frozenset[str]) -> Value:
    """The output of a module: every tensor in it is varied with its parameters."""
    items = tuple(spread(i, deps) for i in value.items) if value.items is not None else None
    if value.kind in ("int", "float", "str", "bool", "none", "numpy"):
        return value
    return replace(value, deps=value.deps | deps, items=items, leaf=False)
