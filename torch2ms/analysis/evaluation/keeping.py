"""What functions put into their object, or into a container that they are given: their callers have it too.

`meter.update(net(x).mean())` leaves a graph in `meter` that no method of its class knows of. What its attributes then
depend on beside what the class itself brings is named by one mark, which callers replace by what their object was
given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.transfer import outward
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import GIVEN, NO_DEPS, Value, bounded, entries, is_row, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

HELD = ("tensor", "unknown", "list", "tuple", "dict", "object")  # kinds of what has a graph, or is made of such


def keep(place: str, value: Value, ev: Evaluator) -> None:
    """A function puts a value, or what is varied with it, into a place that its callers may have."""
    info = ev.function
    if info is None or not value.deps or value.kind not in HELD or value.leaf or is_row(value):
        return
    if place[:5] == "self.":
        if info.cls is None or info.cls.kind != "object" or not from_callers(value):
            return
    elif root(place) not in info.scope.params:
        return
    ev.exchange.keep(info, place, value.deps)


def grow(place: str, value: Value, ev: Evaluator) -> str:
    """An attribute with a graph of an object that the function made, or keeps: whoever gets the object has it.

    The place that knows more now, "" for none.
    """
    holder, _, attr = place.rpartition(".")
    head, local = root(holder), ev.function.scope if ev.function is not None else None
    mine = local is None or head in local.locals and head not in local.params or holder.startswith("self.")
    if not holder or not mine or value.leaf or not value.deps or value.kind not in HELD:
        return ""
    held = ev.env.get(holder)
    if held is None and holder.count(".") > holder.startswith("self."):
        return grow(f"{holder.rpartition('.')[0]}.", value, ev)
    if held is None or held.kind != "object" and (held.kind != "unknown" or not attr):
        return ""
    deps = held.deps | value.deps
    if held.kind == "object" and held.name:
        fields = entries(held) | ({attr: value} if attr else {})
        keys = tuple((key, True) for key in fields)
        made = replace(held, deps=deps, items=bounded(tuple(fields.values())), keys=keys)
    else:
        made = held.with_deps(deps)
    ev.env[holder] = made
    return grow(holder, made, ev) or holder


def from_callers(value: Value) -> bool:
    """It is varied with an argument, and some caller gives one that has a graph."""
    first = {d[:1] for d in value.deps}
    return "^" in first and "@" in first


def seen(value: Value, base: Value, cls: ClassInfo) -> Value:
    """An attribute of an object, or what a property gives, by the words of someone who has the object."""
    if base.place == "self" or not value.deps:
        return value
    inside = built_from(cls, base)
    words = {GIVEN: base.deps} | {d: inside[root(d)] for d in value.deps if root(d) in inside}
    return _worded(value, words) if value.kind in HELD else value


def _worded(value: Value, words: dict[str, frozenset[str]]) -> Value:
    items = tuple(_worded(item, words) for item in value.items) if value.items is not None else None
    return replace(value, deps=NO_DEPS.union(*(words.get(d, {d}) for d in value.deps)), items=items)


def built_from(cls: ClassInfo, receiver: Value | None) -> dict[str, frozenset[str]]:
    """What an object keeps under the names of its constructor's parameters: `self.net = net` of `Wrapper(model)`."""
    init = cls.method("__init__")
    if init is None or receiver is None or not receiver.place or receiver.place.partition(".")[0] == "self":
        return {}
    inside = receiver.own if receiver.kind == "module" else frozenset(p.place for p in receiver.parts if p.place)
    return {param: inside | {param} for param in init.scope.params[1:]} if inside else {}  # optimizers go by both


def follow(
    info: FunctionInfo, call: cst.Call, receiver: Value | None, depends: dict[str, frozenset[str]]
) -> list[tuple[str, frozenset[str]]]:
    """The places of a caller into which a call puts something, and what that is varied with."""
    found: list[tuple[str, frozenset[str]]] = []
    for place in sorted(info.kept):
        owner = receiver.place if receiver is not None else ""
        deps = outward(Value(deps=info.kept[place]), depends, owner).deps
        head, _, rest = place.partition(".")
        if head != "self":
            target = _argument(info, call, head, receiver is not None and info.cls is not None and not info.static)
        else:
            target = f"self.{rest.partition('.')[0]}" if owner == "self" else owner
        if deps and target:
            found.append((target, deps))
    return found


def _argument(info: FunctionInfo, call: cst.Call, parameter: str, method: bool) -> str:
    """The place that a call gives as a parameter, or whose item it gives, "" for what is none."""
    names = info.scope.params[1:] if method else info.scope.params
    plain = [arg for arg in call.args if arg.keyword is None]
    at = names.index(parameter) if parameter in names else len(plain)
    by_name = [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == parameter]
    some = by_name or ([plain[at]] if at < len(plain) and not any(arg.star for arg in plain[: at + 1]) else [])
    node = some[0].value if some else None
    return dotted(node.value if type(node) is cst.Subscript else node) if node is not None else ""


def marked(value: Value, ev: Evaluator) -> frozenset[str]:
    """What an attribute is varied with, by the words of its class."""
    own = {d for d in value.deps if d[:1] != "@"}
    if len(own) < len(value.deps) and ev.cls is not None and ev.cls.kind == "object":
        if GIVEN in value.deps or from_callers(value):
            own.add(GIVEN)
    return frozenset(own)
