"""What an assignment binds, the target of a loop included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.arrays import PLACES
from torch2ms.analysis.evaluation import guess, keeping
from torch2ms.analysis.evaluation.containers import ELEMENTS, LEARNERS, element, housed, picked
from torch2ms.analysis.evaluation.exchange import HERE, Exchange
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.evaluation.typed import lasting
from torch2ms.analysis.evaluation.usage import a_dict, used
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import (
    AROUND,
    EITHER,
    FORMER,
    NOT_RUN,
    PART,
    UNKNOWN,
    UNPACKED,
    UNPLACED,
    Value,
    is_row,
    join,
    joined_deps,
    overlaps,
    replace,
)

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator
    from torch2ms.analysis.program.project import ClassInfo

CONTAINERS = ("list", "tuple", "dict")
LIVING = {"module", "optimizer", "scheduler", "scaler", "object", "loader", "lossfn"}  # known by where they are kept


def bind(target: cst.CSTNode, value: Value, ev: Evaluator) -> None:
    """Give a target its value: a name, an attribute, or each of several from the parts of the value."""
    if type(target) is cst.Tuple or type(target) is cst.List:
        if value.name == UNPACKED:
            value = replace(value, kind="tuple", name="")
        value = _named(value, [dotted(part.value) for part in target.elements])
        for i, part in enumerate(target.elements):
            one = part_of(value, i, len(target.elements))
            bind(part.value, one if type(part) is not cst.StarredElement else _rest(value, one), ev)
        return
    place = dotted(target)
    if not place:
        ev.ev(target)
        return
    _rename_former(place, value, target, ev)
    ev.env.forget_below(place)
    if value.place.startswith(UNPLACED):
        ev.env.rebase(value.place, place)
        if ev.cls is not None and place.startswith("self."):  # it may come out of a dict that the object keeps
            ev.exchange.tell(_rebase_attributes, ev.cls, value.place, place)
        value = rebase(value, value.place, place)
    if type(target) is cst.Attribute:
        if target.attr.value == "grad":
            ev.memo[id(target)] = Value("tensor", name="grad")
            ev.ev(target.value)
            return
        owner = ev.ev(target.value)
        if target.attr.value == "data" and owner.kind not in ("object", "module", "class", "modulefile"):
            ev.memo[id(target)] = Value("tensor")
            return
        value = _moved_in(value, place, ev)
    value = _placed(value, place)
    if value.kind == "unknown" and place not in ev.uses and not a_dict(place, ev.uses):
        value = _guessed(value, place)  # it knows what an optimizer was made of
    value = used(value, place, ev.uses)
    ev.env[place] = value
    ev.memo[id(target)] = value
    remember(place, value, ev, target)
    if type(target) is cst.Attribute and (grown := keeping.grow(place, value, ev)):
        remember(grown, ev.env[grown], ev, target.value)


def _rename_former(place: str, value: Value, target: cst.CSTNode, ev: Evaluator) -> None:
    """A local name is bound to another network: what was built from the former one is not built from this one."""
    former = ev.env.peek(place)
    if value.kind == "module" or former is not None and former.kind == "module":
        ev.env.read_before(place)
    if former is None or type(target) is not cst.Name or former.kind != "module" or former.likely:
        return
    if former.place != place or value.place == place or any(overlaps(place, o) for o in value.own | value.deps):
        return
    seen = ev.former.setdefault(place, {})
    mark = seen.setdefault(id(target), f"{place}{FORMER}{len(seen)}")
    ev.env.rebase(place, mark)
    if ev.cls is not None:
        ev.exchange.tell(_rebase_attributes, ev.cls, place, mark)


def _moved_in(value: Value, place: str, ev: Evaluator) -> Value:
    """`self.net = net`: what a constructor made under a local name lives in the object, where other methods find it.

    So does an object that it was given: its networks are known to other methods as parts of the attribute.
    """
    function, cls = ev.function, ev.cls
    if function is None or cls is None or function.name != "__init__" or place.count(".") != 1:
        return value
    if not place.startswith("self.") or value.kind not in ("module", "object"):
        return value
    params = set(function.scope.params)
    if value.kind == "module" and not value.place and value.owns and all(root(o) in params for o in value.owns):
        value = replace(value, owns=None)  # it came in a dict
    own = params if value.kind == "object" else set(function.scope.locals) - params
    for local, home in _homes(value, place).items():
        if local in own:
            value = rebase(value, local, home)
            ev.env.rebase(local, home)
            ev.exchange.tell(_rebase_attributes, cls, local, home)
    return value


def _rebase_attributes(cls: ClassInfo, old: str, new: str) -> None:
    """What objects of a class keep was made of something that has another name by now."""
    for bound in cls.bound.values():
        bound.update({source: rebase(held, old, new) for source, held in bound.items()})
    cls.attrs.update({name: rebase(held, old, new) for name, held in cls.attrs.items()})


def _homes(value: Value, place: str) -> dict[str, str]:
    """The names under which a module and its parts were made, each with its place in the object."""
    if value.place and value.place != place:
        return {value.place: place}
    parts = value.items or () if value.kind == "module" else ()
    return {part.place: f"{place}.{i}" for i, part in enumerate(parts) if part.kind == "module" and part.place}


def remember(place: str, value: Value, ev: Evaluator, source: cst.CSTNode) -> None:
    """Attributes of `self` are seen by every method; what is known better now takes the place of a first guess."""
    if "." in place:
        keeping.keep(place, value, ev)
    if ev.cls is None or not place.startswith("self.") or place.count(".") != 1:
        return
    attr = place[5:]
    if value.kind == "optimizer" and value.owns and all(o.startswith("^") for o in value.owns):
        value = replace(value, owns=None)  # places of one caller: other methods know nothing of them
    if value.name.startswith("param_group") and ev.function is not None and value.place in ev.function.scope.params:
        value = replace(value, place=_kept_as(value.place, ev))
    value = replace(value, deps=keeping.marked(value, ev)) if value.deps else value
    value = value if value.kind == "tensor" else shapes.forgotten(value)
    ev.exchange.tell(_bind_attribute, HERE, ev.cls, attr, id(source), value)


def remember_above(place: str, value: Value, ev: Evaluator, source: cst.CSTNode) -> None:
    """What a method does to an attribute that a class above binds: the methods there see it as well."""
    for cls in ev.cls.lineage()[1:] if ev.cls is not None else ():
        if place[5:] in cls.bound:
            ev.exchange.tell(_bind_attribute, HERE, cls, place[5:], id(source), value)


def _kept_as(param: str, ev: Evaluator) -> str:
    """The attribute in which a method keeps what it is given under a name, which other methods do not know."""
    assert ev.function is not None
    for stmt in ev.function.scope.body.walk():
        if isinstance(stmt.node, cst.Assign) and dotted(stmt.node.value) == param:
            return next((place for place in sorted(stmt.defs) if place.startswith("self.")), "")
    return ""


def _bind_attribute(exchange: Exchange, cls: ClassInfo, attr: str, source: int, value: Value) -> None:
    """One of the targets that bind an attribute gives it this."""
    bound = cls.bound.setdefault(attr, {})
    bound[source] = value
    held: Value | None = None
    for one in bound.values():
        unseen = held is not None and held.kind == "unknown" and not held.deps and held.name != EITHER
        nothing = held is None or held.name == NOT_RUN or unseen
        held = one if nothing or held is None else join(held, one)
    assert held is not None
    cls.attrs[attr] = lasting(attr, held, bound.values(), cls, exchange.project)


def iteration(node: cst.BaseExpression, iterated: Value, ev: Evaluator, named: bool = True) -> Value:
    """What one turn of `for ... in node` binds; not `named`: the names are those of a comprehension alone."""
    if type(node) is cst.Call:
        name = dotted(node.func)
        args = [ev.memo.get(id(a.value), UNKNOWN) for a in node.args]
        if name == "enumerate" and args:
            return Value("tuple", items=(Value("int"), iteration(node.args[0].value, args[0], ev, named)))
        if name == "zip" and len(args) == 1 and args[0].name == PLACES:  # `zip(*np.where(mask))`: one place each
            return Value("tuple", PLACES, each=Value("numpy", rank=0))
        if name == "zip":
            parts = zip(node.args, args, strict=False)
            return Value("tuple", items=tuple(iteration(a.value, v, ev, named) for a, v in parts))
        if name == "range":
            return Value("int")
        if name in ("reversed", "sorted", "list", "tqdm", "tqdm.tqdm", "iter", "trange") and args:
            return iteration(node.args[0].value, args[0], ev, named)
    if named and iterated.name == LEARNERS and iterated.each is not None:
        return iterated.each
    one = element(iterated)
    if one.leaf:  # a leaf reached through a list: changed in place, it is a parameter
        return Value("param", deps=one.deps)
    return housed(one, node)


def _rest(value: Value, one: Value) -> Value:
    """What a starred target gets, of a value of which the others get one each."""
    if is_row(value):
        return picked(value, "rest")
    return Value("list", f"of {one.kind}" if one.kind in ELEMENTS else "", value.deps)


def part_of(value: Value, index: int, count: int) -> Value:
    """What one of several targets gets."""
    if value.items is not None and len(value.items) == count:
        return value.items[index]
    if value.kind == "size":
        return Value("int")
    if value.kind == "tuple" and value.name == "tensors":
        return Value("tensor", deps=value.deps)
    if value.kind in ("list", "params", "module", "numpy", "tensor") or value.name in ("of tensor", PLACES):
        return element(value)
    return Value("unknown", deps=value.deps)


def _named(value: Value, names: list[str]) -> Value:
    """A returned tuple whose parts get names: the objects made by the function live there from now on."""
    if value.kind in ("tuple", "list") and value.items is not None and len(value.items) == len(names):
        for item, name in zip(value.items, names, strict=True):
            if item.place.startswith(UNPLACED) and name:
                value = rebase(value, item.place, name)
    return value


def _placed(value: Value, place: str) -> Value:
    if value.leaf and not value.place:
        return replace(value, place=place, deps=frozenset({place}))
    if value.name == "parameter list" and not value.place:
        return replace(value, place=place, deps=frozenset({place}))
    if value.kind in CONTAINERS:
        return _owning(value, place)
    return replace(value, place=place) if value.kind in LIVING and not value.place else value


def _owning(value: Value, place: str) -> Value:
    """A container with leaves that have no other name: they live in it; optimizers that a function made have none."""
    if any(item.kind == "optimizer" and item.place.startswith(UNPLACED) for item in value.items or ()):
        bare = (replace(i, place="") if i.kind == "optimizer" else i for i in value.items or ())
        value = replace(value, items=tuple(bare))
    own = frozenset({place})
    if value.each is not None and value.each.leaf and not value.each.place:
        return replace(value, deps=own, each=replace(value.each, deps=own, place=f"{place}{PART}>"))
    items = value.items or ()
    if not any(i.leaf and not i.place for i in items):
        return value
    held = (replace(v, deps=own, place=f"{place}{PART}{i}>") if v.leaf and not v.place else v
            for i, v in enumerate(items))  # fmt: skip
    items = tuple(held)
    return replace(value, deps=joined_deps(items), items=items)


def _guessed(value: Value, place: str) -> Value:
    """An unknown value as the name of its place has it."""
    if value.name == AROUND:
        return value
    guessed = guess.by_name(place.rpartition(".")[2])
    if guessed.kind == "optimizer":  # made by a class in a variable, from the parameters it was given
        owns = frozenset(d for d in value.deps if not d.startswith("@"))
        owns = owns - {"self"} or owns  # a method that is not seen was asked for it, and given the parameters
        return replace(guessed, place=place, owns=owns or None, name=value.name if value.name == NOT_RUN else "")
    if guessed.kind in ("scheduler", "device") or (not value.deps and guessed.kind in ("module", "lossfn")):
        return replace(guessed, place=place)
    return value
