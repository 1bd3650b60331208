"""Values on their way between a caller and a function, or between an object and its attributes."""

from __future__ import annotations

from dataclasses import replace

from torch2ms.analysis import shapes
from torch2ms.analysis.values import NO_DEPS, UNPLACED, Value

OBJECTS = ("module", "optimizer", "object", "scheduler")


def into(value: Value, name: str, places: dict[str, str], same_self: bool) -> Value:
    """A caller's value in the callee's places; what the callee has no name for keeps a caret."""
    known = ("^", "@", "self.") if same_self else ("^", "@")

    def move(place: str) -> str:
        if any(place == outer or place.startswith(outer + ".") for outer in places):
            return moved(place, places)
        return place if place.startswith(known) else "^" + place

    owns = frozenset(move(o) for o in value.owns) if value.owns is not None else None
    leaves = _leaves(value) if value.kind == "dict" else NO_DEPS  # inputs that have graphs of their own
    deps = frozenset(move(d) for d in value.deps - leaves if not d.startswith("@"))
    return shapes.forgotten(replace(value, place=name, deps=deps, owns=owns, items=None))


def outward(
    value: Value, params: dict[str, frozenset[str]], receiver: str, made: dict[str, str] | None = None
) -> Value:
    """What a function returns in the places of its caller, `params` telling what its parameters depend on there.

    `made` gives the places of objects in a container that it made (see `unplaced`).
    """
    made = made or {}
    deps: frozenset[str] = NO_DEPS
    for dep in value.deps:
        plain = dep.lstrip("@^")
        head, _, rest = plain.partition(".")
        if head in params:
            deps |= params[head]
        elif head == "self" and receiver:
            deps |= {receiver + ("." + rest if rest else "")}
        elif not dep.startswith(("@", "^")):
            deps |= {moved(dep, made)}
    owns = None if value.owns is None else outward(Value(deps=value.owns), params, receiver, made).deps
    items = tuple(outward(i, params, receiver, made) for i in value.items) if value.items is not None else None
    place = value.place
    if value.kind in OBJECTS and not place.startswith("self."):
        place = made.get(place, "")  # made inside: it lives where the caller puts it
    elif place.startswith("self.") and receiver:
        place = receiver + place[4:]
    return replace(value, deps=deps, items=items, place=place, owns=owns, leaf=False)


def unplaced(returned: Value, local: frozenset[str] | set[str], call: int) -> dict[str, str]:
    """Objects in a container that a function made and returns: their places there, and those they have until bound."""
    if returned.items is None or returned.kind not in ("tuple", "list", "dict"):
        return {}
    found: dict[str, str] = {}
    for item in returned.items:
        if item.kind in OBJECTS and item.place.partition(".")[0] in local:
            found[item.place] = f"{UNPLACED}{call:x}>{item.place}"
        found |= unplaced(item, local, call)
    return found


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
