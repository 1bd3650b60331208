"""What calls and assignments do to places they do not bind: leaves, and containers that take values in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation import hooked, masked, twins
from torch2ms.analysis.evaluation.assign import part_of, remember, remember_above
from torch2ms.analysis.evaluation.containers import LEARNERS, chosen, in_loop, picked, same_layer
from torch2ms.analysis.evaluation.keeping import grow, keep
from torch2ms.analysis.evaluation.lookup import class_of, made_here, of_data
from torch2ms.analysis.known import starts
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import (
    CHOSEN,
    FILLING,
    MASKED,
    MIXED,
    NO_DEPS,
    PART,
    UNKNOWN,
    Value,
    choices,
    entries,
    every,
    is_row,
    joined_deps,
    joined_keys,
    of_tensors,
    replace,
)  # fmt: skip

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator
    from torch2ms.analysis.program.project import Project

ADD = "add_param_group"
TRAINING = {"module", "optimizer", "scheduler", "lossfn", "scaler"}
REORDERING = {"pop", "popitem", "clear", "setdefault"}
SHUFFLING = {"sort", "reverse", "remove", "pop"}  # of a list of parameters: not in the order of their module
ELEMENTS = {"tensor", "int", "float", "param", "module", "numpy"}  # kinds a list is known to hold


OWN = ("object", "module")


def effects(stmt: Stmt, ev: Evaluator) -> None:
    """Write what a statement does beside what it binds."""
    if ev.project.kept:
        hooked.fill(stmt, ev.function.scope if ev.function is not None else None, ev)
    for call in stmt.calls:
        if type(call.func) is cst.Attribute:
            place = dotted(call.func.value)
            if type(call.func.value) is cst.Subscript and call.func.attr.value in FILLING:
                _filled_part(call.func.value, call, ev)
            if place and ev.memo.get(id(call.func.value), UNKNOWN).kind != "api":
                _called(call, stmt, place, call.func.attr.value, ev)
            elif call.func.attr.value == "shuffle" and len(call.args) == 1:  # `random.shuffle(params)`
                _called(call, stmt, dotted(call.args[0].value), "sort", ev)
        if len(call.args) == 3 and dotted(call.func).rpartition(".")[2] in ("setattr", "__setattr__"):
            name = constant(call.args[1].value)
            place = f"{dotted(call.args[0].value)}.{name if isinstance(name, str) else ''}"
            _grown(place, ev.memo.get(id(call.args[2].value), UNKNOWN), ev, call)
        if call.args and type(call.args[0].value) is cst.List and ev.memo.get(id(call), UNKNOWN).kind == "optimizer":
            _trained(call.args[0].value, ev)
        if call.args and (func := ev.memo.get(id(call.func), UNKNOWN)).kind == "function":
            twins.handed(call, func, ev)
        if ev.project.adds_groups and call.args:
            _handed_to_add(call, ev)
    if type(stmt.node) is cst.Del and type(stmt.node.target) is cst.Subscript:
        place = dotted(stmt.node.target.value)
        if (held := ev.env.get(place)) is not None and is_row(held):
            ev.env[place] = picked(held, "left")
    if type(stmt.node) is cst.Assign:
        for target in stmt.node.targets:
            part = target.target
            if type(part) is cst.Attribute and part.attr.value == "requires_grad":
                _attribute(part.value, stmt, ev)
                _leaf(dotted(part.value), dotted(stmt.node.value) != "False", ev)
                _asked_for(part.value, stmt, ev)
            elif type(part) is cst.Tuple or type(part) is cst.List:
                held = ev.memo.get(id(stmt.node.value), UNKNOWN)
                for i, one in enumerate(part.elements):
                    if type(one.value) is cst.Subscript:
                        stored(one.value, part_of(held, i, len(part.elements)), ev)
            elif type(part) is cst.Subscript:
                _grown(f"{dotted(part.value)}.", ev.memo.get(id(stmt.node.value), UNKNOWN), ev, part)
                stored(part, ev.memo.get(id(stmt.node.value), UNKNOWN), ev)
                if masked.infinite(stmt.node.value, ev.memo.get(id(stmt.node.value), UNKNOWN)):
                    _masked(dotted(part.value), ev)


def _grown(place: str, value: Value, ev: Evaluator, source: cst.CSTNode) -> None:
    """An object takes a value in, under a name or a key."""
    if not place.startswith(".") and (grown := grow(place, value, ev)):
        remember(grown, ev.env[grown], ev, source)


def _asked_for(node: cst.BaseExpression, stmt: Stmt, ev: Evaluator) -> None:
    """`images.requires_grad = True` of a plain name: parameters are set in loops over them, so it is a tensor."""
    held = ev.memo.get(id(node), UNKNOWN)
    looped = any(dotted(node) in s.defs for s in stmt.ancestors() if type(s.node) is cst.For)
    if type(node) is cst.Name and held.kind == "unknown" and not looped and (now := ev.env.get(node.value)) is not None:
        ev.memo[id(node)] = replace(now, likely=True)


def _trained(given: cst.List, ev: Evaluator) -> None:
    """`Adam([self.patch])` of attributes that are not seen: leaves, or torch would not take them."""
    for node in (element.value for element in given.elements):
        place, known = dotted(node), ev.memo.get(id(node), UNKNOWN)
        if place.startswith("self.") and place not in ev.env and known.kind == "unknown" and not known.name:
            ev.env[place] = replace(known, kind="tensor", leaf=True, deps=frozenset({place}), place=place, likely=True)


def _trains_more(place: str, optimizer: Value, call: cst.Call, ev: Evaluator) -> None:
    """`optimizer.add_param_group({"params": net.head.parameters()})`: what it moves from then on."""
    group = ev.memo.get(id(call.args[0].value), UNKNOWN) if len(call.args) == 1 else UNKNOWN
    added = entries(group)
    params = added.get("params")
    owns = optimizer.owns | params.deps if params is not None and params.deps and optimizer.owns is not None else None
    if owns is not None and place.startswith("self.") and ev.function is not None:
        named = set(ev.function.scope.locals) - set(ev.function.scope.params)
        if any(root(dep) in named for dep in params.deps):  # type: ignore[union-attr]
            owns = optimizer.owns  # other methods know nothing of the name
    decays = "decays" if optimizer.dtype == "decays" or "weight_decay" in added else ""
    dtype = optimizer.dtype if added and added.keys() <= {"params", "lr"} else decays
    ev.env[place] = replace(optimizer, owns=owns, dtype=dtype, ordered=False)
    remember(place, ev.env[place], ev, call)


def _handed_to_add(call: cst.Call, ev: Evaluator) -> None:
    """A function is handed an optimizer and adds a group to it: what that moves from then on is not seen here."""
    for arg in call.args if name_called(call) in _adding(ev.project) else ():
        place, held = dotted(arg.value), ev.memo.get(id(arg.value), UNKNOWN)
        if place and held.kind == "optimizer":
            ev.env[place] = replace(held, owns=None, dtype="decays", ordered=False)
            remember(place, ev.env[place], ev, call)


@once
def _adding(project: Project) -> frozenset[str]:
    """The names of functions that add groups to an optimizer, or call one that does."""
    calls = {
        (id(scope), scope.name): {name_called(c) for stmt in scope.body.walk() for c in stmt.calls}
        for module in project.modules.values() for scope in module.scope.walk() if scope.is_function
    }  # fmt: skip
    found: set[str] = set()
    while more := {name for (_, name), called in calls.items() if called & {ADD, *found}} - found:
        found |= more
    return frozenset(found)


def _attribute(node: cst.BaseExpression, stmt: Stmt, ev: Evaluator) -> None:
    """`self.patch.requires_grad_()` of a tensor that other methods made, and that an optimizer of this one trains."""
    place, known = dotted(node), ev.memo.get(id(node), UNKNOWN)
    if place in ev.env or not place.startswith("self.") or known.kind not in ("tensor", "unknown") or known.name:
        return
    lists = (a.value for s in stmt.block.scope.body.walk() for c in s.calls for a in c.args[:1])
    if any(dotted(e.value) == place for given in lists if type(given) is cst.List for e in given.elements):
        ev.env[place] = replace(known, kind="tensor", place=place)
        leaf = replace(known, kind="tensor", deps=frozenset({place}))
        remember(place, leaf, ev, node)
        remember_above(place, leaf, ev, node)


def _called(call: cst.Call, stmt: Stmt, place: str, method: str, ev: Evaluator) -> None:
    """What calling a method does to the place it is called on."""
    if method == "register_buffer" and place == "self":
        _registered(call, ev)
    held = ev.env.get(place)
    known = held or ev.memo.get(id(call.func.value), UNKNOWN)  # type: ignore[attr-defined]
    if known.kind in OWN and known.name and not known.name.startswith("torch."):
        cls = class_of(known, ev.module, ev.project) if method in FILLING else None
        if cls is not None and cls.known(method) is None:  # that of a dict or a list
            values = [ev.memo.get(id(a.value), UNKNOWN) for a in call.args]
            _grown(f"{place}.", Value(deps=joined_deps(values)), ev, call)
        return  # a method of a class of the project: what it does stands there
    if method == "requires_grad_" and held is None:
        _attribute(call.func.value, stmt, ev)  # type: ignore[attr-defined]
        held = ev.env.get(place)
    if method == ADD and known.kind == "optimizer":
        _trains_more(place, known, call, ev)
    elif method in FILLING and call.args:
        _filled(place, known if held or known.kind == "module" else Value("list"), method, call, stmt, ev)
    elif held is None:
        return
    elif method == "requires_grad_" and held.kind in ("tensor", "unknown"):
        _leaf(place, not call.args or dotted(call.args[0].value) != "False", ev)
    elif method == "retain_grad" and held.kind in ("tensor", "unknown"):
        # what follows is varied with it, and with what it was made of
        ev.env[place] = replace(held, kind="tensor", leaf=True, deps=held.deps | {place}, place=place)
    elif method == "clear" and held.kind in ("list", "dict"):
        ev.env[place] = Value(held.kind, items=(), keys=() if held.kind == "dict" else None)
    elif method in ("pop", "remove") and is_row(held):
        ev.env[place] = picked(held, "left")
    elif held.kind == "params" and method in SHUFFLING:
        ev.env[place] = replace(held, odd=MIXED)
    elif method in REORDERING and held.keys is not None:
        ev.env[place] = replace(held, keys=None)
    elif method.endswith("_") and not method.endswith("__") and held.kind == "tensor":
        given_deps = NO_DEPS if ev.cut else joined_deps([ev.memo.get(id(a.value), UNKNOWN) for a in call.args])
        deps = held.deps | given_deps
        ev.env[place] = replace(held, deps=deps if method != "detach_" else NO_DEPS)
        given = ((a.value, ev.memo.get(id(a.value), UNKNOWN)) for a in call.args)
        if method in masked.FILLING and any(masked.infinite(node, value) for node, value in given):
            _masked(place, ev)


def taken_in(place: str, value: Value, ev: Evaluator, source: cst.CSTNode) -> None:
    """A container took a value in: other methods see it, and whoever handed the container over."""
    remember(place, ev.env[place], ev, source)
    if "." not in place:
        keep(place, value, ev)


def enter(place: str, deps: frozenset[str], receiver: Value | None, call: cst.Call, ev: Evaluator) -> None:
    """A function that is called puts something with a graph into a container or an object of its caller."""
    held = receiver if receiver is not None and receiver.place == place else ev.env.get(place)
    if held is None and place.startswith("self.") and ev.cls is not None:
        held = ev.exchange.attribute(ev.cls, place[5:])
    held = ev.env.get(place, held or UNKNOWN)
    if ev.cut or held.kind not in ("list", "dict", "unknown", "object") or is_row(held):
        return
    ev.entered = (*ev.entered, place)
    known = replace(held, deps=held.deps | deps)
    if held.kind != "object":
        known = replace(known, items=None, keys=None, each=None)
    elif held.keys is None and "." not in place:  # an attribute of any name may be what has the graph
        known = replace(known, items=(), keys=())
    ev.env[place] = known
    remember(place, ev.env[place], ev, call)


def _registered(call: cst.Call, ev: Evaluator) -> None:
    """`self.register_buffer("mean", torch.zeros(3))` gives the module a tensor."""
    given = [a.value for a in call.args[:2] if a.keyword is None]
    name = constant(given[0]) if len(given) == 2 else None
    made = ev.memo.get(id(given[1]), UNKNOWN) if isinstance(name, str) else UNKNOWN
    if made.kind == "tensor" and not made.likely:
        value = replace(made, deps=NO_DEPS, leaf=False, place="", name="")
        ev.env[f"self.{name}"] = value
        remember(f"self.{name}", value, ev, call)


def _masked(place: str, ev: Evaluator) -> None:
    """Some elements of a tensor become infinite."""
    held = ev.env.get(place)
    if held is not None and held.kind == "tensor" and not held.name:
        ev.env[place] = replace(held, name=MASKED)


def _leaf(place: str, on: bool, ev: Evaluator) -> None:
    """A tensor begins to accumulate a gradient, or ends to."""
    held = ev.env.get(place)
    if held is not None and held.kind in ("tensor", "unknown"):
        ev.env[place] = replace(held, kind="tensor", leaf=on, deps=frozenset({place} if on else ()), place=place)


def _filled(place: str, base: Value, method: str, call: cst.Call, stmt: Stmt, ev: Evaluator) -> None:
    """A container takes a value in."""
    value = ev.memo.get(id(call.args[-1].value), UNKNOWN)
    listed = method == "append" and value.kind in ELEMENTS and base.name != "torch.nn.ModuleList"
    name = f"of {value.kind}" if listed else base.name
    if base.kind == "list" and method == "append" and _mixed(base, value):
        name = "of unknown"
    keys = base.keys
    if base.kind == "dict":
        both = base.keys is not None and value.keys is not None and method == "update"
        keys = joined_keys(base.keys or (), value.keys or ()) if both else None
    acts = starts.begins(value) if base.items == () else base.starts
    each = None
    if value.leaf and not value.place:  # it has no other name
        value = replace(value, deps=frozenset({place}), place=f"{place}{PART}>")
    row = value.kind == "tuple" and value.items and not value.deps
    if base.kind == "list" and method == "append" and (row or value.leaf or of_data(value, ev)):
        each = value if base.items == () or base.each == value else every(base, value)
    if base.name == "torch.nn.ModuleList" and method == "append" and (base.items == () or base.each is not None):
        each = same_layer(value, base.each)
    if base.kind == "list" and method == "append" and made_here(call.args[-1].value, value, ev):
        learner = replace(value, several=True)
        alike = base.items == () or base.each == learner
        name, each = (LEARNERS, learner) if alike and each is None else (name, each)
    if method == "append" or method == "extend" and in_loop(stmt):
        value = chosen(value, stmt, place)
    deps = base.deps | value.deps
    ev.env[place] = replace(base, deps=deps, items=None, name=name, starts=acts, keys=keys, each=each)
    taken_in(place, value, ev, call)


def _mixed(base: Value, value: Value) -> bool:
    """A list gets something of another kind than what it holds: layers, then their optimizer."""
    held = {base.name[3:]} if base.name.startswith("of ") else {item.kind for item in base.items or ()}
    return bool(held) and value.kind not in held and bool({value.kind, *held} & TRAINING or "unknown" in held)


def _filled_part(part: cst.Subscript, call: cst.Call, ev: Evaluator) -> None:
    """`place[key].append(value)`: what is in the container takes a value in."""
    place = dotted(part.value)
    held = ev.env.get(place) or ev.memo.get(id(part.value))  # an attribute that another method bound
    deps = joined_deps([ev.memo.get(id(a.value), UNKNOWN) for a in call.args])
    if held is not None and held.kind in ("dict", "list", "tuple", "unknown") and deps - held.deps:
        ev.env[place] = replace(held, deps=held.deps | deps, items=None, keys=None, each=None)
        taken_in(place, ev.env[place], ev, call)


def stored(target: cst.Subscript, value: Value, ev: Evaluator) -> None:
    """`place[key] = value`"""
    place = dotted(target.value)
    held = ev.env.get(place) or ev.memo.get(id(target.value))  # an attribute that another method bound
    if held is None or not place or held.name == "param_group":  # a group of an optimizer stays one
        return
    if held.kind == "list" and value.kind == "module" and _is_first(target):
        held = ev.env[place] = replace(held, starts=starts.begins(value))
    if held.kind == "dict":
        ev.env[place] = _entered(held, target, value)
        taken_in(place, value, ev, target)
    elif held.kind == "list" and held.items and value.kind in TRAINING and (at := _number(target, held)) is not None:
        items = (*held.items[:at], value, *held.items[at + 1 :])
        ev.env[place] = replace(held, deps=held.deps | value.deps, items=items)
        taken_in(place, value, ev, target)
    elif held.name == "torch.nn.ModuleDict" and value.kind == "module":
        each = same_layer(value, held.each) if held.items == () or held.each is not None else None
        ev.env[place] = replace(held, deps=held.deps | value.deps, items=None, keys=None, each=each)
        remember(place, ev.env[place], ev, target)
    elif value.deps - held.deps and held.kind != "tensor" or held.each is not None and held.each != value:
        numbers = held.name in ("of int", "of float") and value.kind not in ("int", "float")
        name = "" if numbers else held.name  # `losses = [0 for _ in range(k)]`, which then get tensors
        ev.env[place] = replace(held, deps=held.deps | value.deps, name=name, items=None, each=None)
        taken_in(place, value, ev, target)
    elif value.deps - held.deps and place in ev.env and not ev.cut:
        ev.env[place] = replace(held, deps=held.deps | value.deps, items=None)


def _is_first(target: cst.Subscript) -> bool:
    """`layers[0]`, whatever the list holds."""
    part = target.slice[0].slice
    return len(target.slice) == 1 and isinstance(part, cst.Index) and constant(part.value) == 0


def _number(target: cst.Subscript, held: Value) -> int | None:
    """The place in a list that a subscript names."""
    part = target.slice[0].slice
    at = constant(part.value) if len(target.slice) == 1 and isinstance(part, cst.Index) else None
    count = len(held.items or ())
    return at % count if type(at) is int and -count <= at < count else None


def _entered(held: Value, target: cst.Subscript, value: Value) -> Value:
    """A dict after `held[key] = value`."""
    part = target.slice[0].slice
    key = constant(part.value) if isinstance(part, cst.Index) else ...
    deps = held.deps | value.deps
    if held.keys is None or not isinstance(key, str):
        chosen = held.items and value.kind in CHOSEN and all(i.kind in CHOSEN for i in held.items)
        items = (*(held.items or ()), *choices(value)) if chosen else None
        name = f"of {value.kind}" if value.kind in ("tensor", "numpy", "module") else ""
        alike = held.keys == () or held.name == name or value.kind == "tensor" and of_tensors(held)
        return replace(held, deps=deps, keys=None, items=items, name=name if alike else "")
    keys = joined_keys(held.keys, ((key, True),))
    known = entries(held) | {key: value}
    items = tuple(known[k] for k, _ in keys) if len(known) == len(keys) else None
    return replace(held, deps=deps, keys=keys, items=items)
