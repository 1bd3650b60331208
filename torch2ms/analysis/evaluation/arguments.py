"""The arguments of a call: the expressions, their values, and the parameters they reach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation import masked
from torch2ms.analysis.evaluation.containers import element, housed
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.syntax.names import qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import NO_DEPS, UNKNOWN, Value, entries, holds_networks, joined_deps

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator


@dataclass(frozen=True)
class Given:
    """What a call is given."""

    node: cst.Call
    args: list[Value]
    deps: frozenset[str]  # of all arguments together

    @property
    def first(self) -> Value:
        return self.args[0] if self.args else UNKNOWN

    def keyword(self, name: str) -> Value | None:
        """The value of a keyword argument."""
        for arg, value in zip(self.node.args, self.args, strict=False):
            if arg.keyword is not None and arg.keyword.value == name:
                return value
        return None

    def on(self, keyword: str) -> bool:
        """Whether a flag is given and not False."""
        return any(
            a.keyword is not None and a.keyword.value == keyword and constant(a.value) is not False
            for a in self.node.args
        )


def bind_arguments(info: FunctionInfo, node: cst.Call, args: list[Value], skip_self: bool) -> dict[str, Value]:
    """The values of a call by the names of the parameters they reach."""
    fn = info.scope.node
    assert type(fn) is cst.FunctionDef
    params = [*fn.params.posonly_params, *fn.params.params]
    if skip_self and params:
        params = params[1:]
    args = [masked.number(a.value, v) for a, v in zip(node.args, args, strict=False)]
    named = {a.keyword.value: v for a, v in zip(node.args, args, strict=False) if a.keyword is not None}
    positional: list[Value] = []
    spread: list[Value] = []  # dicts of which it is not seen what they hold under which name
    for arg, value in zip(node.args, args, strict=False):
        if arg.star == "*":
            needed = [p for p in params[len(positional) :] if p.default is None and p.name.value not in named]
            counted = value.kind in ("tuple", "list") and value.items is not None
            items = value.items or () if counted else [element(value)] * len(needed)
            positional += [housed(item, arg.value) for item in items]
        elif arg.star == "**":
            if value.keys is not None and len(held := entries(value)) == len(value.keys):
                named |= held
            else:
                spread.append(value)
        elif arg.keyword is None:
            positional.append(value)
    names = [p.name.value for p in params]
    taken = [*names, *(p.name.value for p in fn.params.kwonly_params)]
    bound = dict(zip(names, positional, strict=False)) | {k: v for k, v in named.items() if k in taken}
    some = joined_deps([_with_parts(value) for value in spread])
    if some:
        bound = {name: Value("unknown", deps=some) for name in taken} | bound
    if type(fn.params.star_arg) is cst.Param:
        bound[fn.params.star_arg.name.value] = _gathered("tuple", positional[len(names) :])
    if fn.params.star_kwarg is not None:
        others = [v for k, v in named.items() if k not in taken]
        bound[fn.params.star_kwarg.name.value] = _gathered("dict", others, spread)
    return bound


def left_to_functions(info: FunctionInfo, node: cst.Call, bound: dict[str, Value], project: Project) -> set[str]:
    """Parameters that a call leaves to defaults which are functions of the project: those bring no weights along."""
    fn = info.scope.node
    assert type(fn) is cst.FunctionDef
    if any(arg.star for arg in node.args):
        return set()
    params = [*fn.params.posonly_params, *fn.params.params, *fn.params.kwonly_params]
    left = {p.name.value: p.default for p in params if p.default is not None and p.name.value not in bound}
    names = ((name, qualified(default, info.module.imports)) for name, default in left.items())
    return {name for name, full in names if isinstance(project.find(full, info.module), FunctionInfo)}


def _gathered(kind: str, values: list[Value], spread: Sequence[Value] = ()) -> Value:
    """What `*args` or `**options` takes in. Layers that come by name are known by it; handed on, they come along."""
    kinds = {v.kind if v.kind != "module" or v.own else "unknown" for v in values} if not spread else set()
    each = f"of {kinds.pop()}" if kinds in ({"tensor"}, {"module"}) else ""
    layers = frozenset().union(*(v.own for v in values if v.kind == "module"))
    deps = joined_deps([*values, *map(_with_parts, spread)])
    return Value(kind, each, deps, owns=layers or None)


def leading(bound: dict[str, Value], given: Given) -> dict[str, frozenset[str]]:
    """The places of the caller that what is made of each argument depends on; of a network in a dict also its own."""
    found = {name: _leading_to(value) if value.kind in _LEADING else value.deps for name, value in bound.items()}
    for name, value in bound.items():
        if value.kind == "dict" and value.items and holds_networks(value):
            home = next((a.value for a, v in zip(given.node.args, given.args, strict=False) if v is value), None)
            for key, item in entries(value).items():
                found[f"{name}.{key}"] = (item if home is None else housed(item, home, key)).own
    return found


_LEADING = {"module", "object", "dict", "tuple", "list"}


def _leading_to(value: Value) -> frozenset[str]:
    """The places of the caller that what is made of an argument depends on: networks in a list among them."""
    if value.kind in ("dict", "tuple"):
        return value.deps | (value.owns or NO_DEPS)
    if value.kind == "list":
        return value.deps | {item.place for item in value.items or () if item.kind == "module" and item.place}
    return value.deps | {value.place} if value.place else value.deps


def _with_parts(value: Value) -> Value:
    """A value that is varied with the layers it is or holds: what it is handed to may call them."""
    parts = [value, *(value.items or () if value.kind in ("dict", "list", "tuple") else ())]
    layers = [part.own for part in parts if part.kind == "module" and part.place or part.kind == "dict" and part.owns]
    return value.with_deps(value.deps.union(*layers))


def held_there(receiver: Value, info: FunctionInfo, bound: dict[str, Value], ev: Evaluator) -> dict[str, str]:
    """What optimizers move that a method is given, as the object knows it whose method it is: it holds it as well.

    `trainer.optimize(self.opt)` where both were made of one model.
    """
    if info.cls is None:
        return {}
    moved = {o for v in bound.values() if v.kind == "optimizer" for o in v.owns or ()}
    held = {v.place: key for key, v in entries(receiver).items() if v.kind == "module"}
    held |= {o: o for o in moved if receiver.place == "self" and "." not in o}
    names = {}
    for place in moved & held.keys():
        own = ev.exchange.attribute(info.cls, held[place])
        if own is not None and own.kind == "module" and own.place and root(own.place) not in info.scope.params:
            names[place] = own.place
    return names


def seen_by_both(handed: Value, ev: Evaluator) -> dict[str, str]:
    """The networks in an object that a method hands to another of its own object, which has names for them, too."""
    nets = [v.place for v in entries(handed).values() if v.kind == "module" and v.place]
    kept = {p for p in nets if ev.cls is not None and (own := ev.exchange.attribute(ev.cls, p)) and own.place == p}
    return {place: place for place in nets if place in kept or place.startswith("self.")}
