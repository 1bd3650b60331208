"""What an attribute of a value is."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.evaluation import guess, lookup, narrow, usage
from torch2ms.analysis.evaluation.containers import housed, named_layer
from torch2ms.analysis.evaluation.keeping import seen
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.known import starts, torchapi
from torch2ms.analysis.known.paths import ALONG, PATH, is_path
from torch2ms.analysis.program.lazy import made_when_asked
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import AROUND, NO_DEPS, PART, UNKNOWN, Value, choices, entries, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

SAME_ELEMENTS = ("T", "data", "mT", "H", "mH", "real", "imag")
FORM = ("shape", "ndim", "dtype", "device")
STEPPING = ("optimizer", "scaler", "scheduler")
KEPT = (*STEPPING, "object", "module")  # what a place is the name of
PARAMETERS = ("weight", "bias", "running_mean", "running_var", "in_proj_weight", "embedding")
RECURRENT = ("weight_ih", "weight_hh", "weight_hr", "bias_ih", "bias_hh")  # and the number of the layer


def attribute(node: cst.Attribute, place: str, ev: Evaluator) -> Value:
    """The value of `base.attr`, which is `place` where the base is one."""
    base = ev.ev(node.value)
    attr = node.attr.value
    if attr == "__name__" and (asked := narrow.itself(node.value)) is not None:
        return Value("str", name=narrow.CLASS_NAME, place=asked)
    if attr == "__class__" and (asked := dotted(node.value)):
        return Value("unknown", name=narrow.CLASS, place=asked)
    if place and (held := ev.env.get(place)) is not None:
        return held
    if base.kind == "api":
        return lookup.api(f"{base.name}.{attr}")
    if is_path(base):
        return PATH if attr in ALONG else UNKNOWN
    if base.kind == "modulefile":
        any_of_them = [lookup.member(one.name, attr, ev) for one in choices(base)]
        return reduce(ev.project.joined, any_of_them) if any_of_them else UNKNOWN
    if base.kind in ("object", "module", "class") or base.kind == "tuple" and base.keys is not None:
        cls = lookup.class_of(base, ev.module, ev.project)
        if cls is not None:
            return _of_class(cls, base, attr, place, ev)
    if base.kind == "dict" and (item := entries(base).get(attr)) is not None:
        return housed(item, node.value, attr)
    how = _BY_KIND.get(base.kind, _of_other)
    found = how(base, attr, place)
    return found if found.name != "module_param" or place else _of_layer(node.value, found, base, attr)


def _of_layer(node: cst.BaseExpression, found: Value, base: Value, attr: str) -> Value:
    """A parameter of a layer that is taken out of its network by number: `net[0].weight`."""
    if type(node) is not cst.Subscript or base.place != dotted(node.value) or len(node.slice) != 1 or not found.deps:
        return found
    index = node.slice[0].slice
    number = constant(index.value) if type(index) is cst.Index else ...
    return found.with_deps(frozenset({f"{base.place}{PART}{number}>.{attr}"})) if type(number) is int else found


def _of_class(cls: ClassInfo, base: Value, attr: str, place: str, ev: Evaluator) -> Value:
    """An attribute of an instance of a class of the project, or of the class."""
    if cls.kind == "optimizer" and attr == "param_groups":
        return Value("list", name="param_groups", place=base.place or place.rpartition(".")[0])
    held = entries(base).get(attr)
    if held is not None and (held.kind in ("tensor", "unknown", "object") and held.deps or held.place):
        return held
    if held is not None and held.kind == "module" and not held.place:  # one network in one object, another in the next
        return replace(held, likely=True)
    if held is not None and held.owns:  # made in the call that made the object
        return replace(held, place=place)
    found = ev.exchange.attribute(cls, attr)
    if found is not None and found.kind in ("optimizer", "scaler", "object") and not found.place.startswith("self."):
        found = replace(found, place=f"self.{attr}")  # a parameter of the method that kept it, or of the class body
    if found is not None and found.kind in ("unknown", "none"):
        found = _meant(found, attr, place, ev.uses)
    if found is not None:
        there = _by_own_names(rebase(found, "self", base.place or place.rpartition(".")[0]), base, cls)
        if there.kind in STEPPING and place and base.place and ev.env.get(base.place.partition(".")[0]) is None:
            there = replace(there, place=place)  # its object has another name where it came from: `self.alg = alg`
        if there.deps and base.place != "self":
            there = seen(there, base, cls)
        if base.kind == "object" and base.owns and there.kind == "params" and found.place and "." not in found.place:
            there = replace(there, place=f"{base.place}.{attr}", deps=base.owns)  # what its constructor was given
        elif base.place == "self" and there.kind == "params" and "." not in (there.place or "."):
            there = replace(there, place=place)  # likewise, seen from inside: what they are a list of has no name here
        of_record = base.keys is not None and there.kind in ("tensor", "unknown")  # one of its fields
        return there.with_deps(there.deps | base.deps) if of_record else there
    method = cls.method(attr)
    if method is not None:
        if method.getter:
            returned = ev.exchange.returned(method) or UNKNOWN
            if returned.kind == "unknown" and (held := ev.exchange.ask(_over_groups, method)) is not None:
                returned = held
            given = seen(rebase(returned, "self", base.place), base, cls)
            if given.kind in KEPT and given.place and id(method.scope) in made_when_asked(method.module):
                return replace(given, place=place)  # nobody knows whether it is there already
            of_record = base.keys is not None and given.kind in ("tensor", "unknown")
            return given.with_deps(given.deps | _read_by(method, base)) if of_record else given
        return Value("method", name=attr, place=base.place)
    if cls.kind == "module":
        inner = torchapi.LAYERS_OF.get(cls.torch_base, {}).get(attr)
        return Value("module", name=inner, place=place) if inner is not None else _of_module(base, attr, place)
    if cls.kind == "autograd" and attr == "apply":
        return Value("autograd", name=cls.qualified)
    guessed = guess.of_attribute(place, attr)
    if guessed.kind != "unknown":
        return replace(guessed, place=place)
    return Value("unknown", place=place, deps=base.deps if base.keys is not None else NO_DEPS)


def _read_by(getter: FunctionInfo, base: Value) -> frozenset[str]:
    """What a property of a record is varied with: the fields that it reads; one that calls methods is not seen."""
    uses = {use.partition(".")[2].partition(".")[0] for s in getter.scope.body.walk() for use in s.uses
            if use.partition(".")[0] == "self"}  # fmt: skip
    fields = entries(base)
    return NO_DEPS.union(*(fields[use].deps for use in uses)) if uses <= fields.keys() else NO_DEPS


def _by_own_names(value: Value, base: Value, cls: ClassInfo) -> Value:
    """What is made of a network that the object was given, by the place where that is."""
    for key, item in entries(base).items() if base.kind == "object" and base.place and base.place != "self" else ():
        within = cls.attr(key) if item.kind == "module" and item.place else None
        if within is not None and within.place and "." not in within.place:
            value = rebase(value, within.place, item.place)
    return value


def _meant(found: Value, attr: str, place: str, uses: frozenset[str]) -> Value:
    """An optimizer, or something that acts as one; and what a place that is None in all of its class gets."""
    if found.name == AROUND:
        return found
    kind = "optimizer" if usage.steps(place, uses) else "module" if place in uses else guess.by_name(attr).kind
    if kind == "optimizer" or kind == "module" and found.kind == "none":
        return Value(kind, place=f"self.{attr}", likely=True)
    return found


def _over_groups(method: FunctionInfo) -> Value | None:
    """The parameters of an optimizer, where a generator gives those of all groups one by one."""
    loops = [s.node.iter for s in method.scope.body.walk() if isinstance(s.node, cst.For)]
    values = [method.module.value(given) for given in loops]
    if not values or values[0].name != "param_groups":
        return None
    asked = [n for s in method.scope.body.walk() if isinstance(s.node, cst.Expr) for n in [s.node.value]]
    plain = all(isinstance(n, (cst.Yield, cst.SimpleString)) for n in asked)
    return Value("params", name="param_group_params", place=values[0].place) if asked and plain else None


def _of_tensor(base: Value, attr: str, place: str) -> Value:
    if attr in torchapi.TENSOR_ATTRS:
        return Value(torchapi.TENSOR_ATTRS[attr])
    if attr == "grad":
        return Value("tensor", name="grad")
    if attr in SAME_ELEMENTS:
        data = attr == "data"
        made = Value("tensor", deps=NO_DEPS if data else base.deps, place=base.place if data else "")
        parts = {"complex64": "float32", "complex128": "float64"}
        dtype = parts.get(base.dtype, base.dtype) if attr in ("real", "imag") else base.dtype
        return made if base.likely else shapes.shaped(made, (dtype, base.rank))
    guessed = guess.by_name(attr) if base.likely else UNKNOWN
    if guessed.kind in ("optimizer", "scheduler", "module"):  # no tensor has one: the guess was wrong
        return replace(guessed, place=place or attr)
    return Value("method", name=attr, deps=base.deps)


def _of_module(base: Value, attr: str, place: str) -> Value:
    if attr in PARAMETERS or attr.startswith(RECURRENT) and base.name.startswith("torch.nn."):
        own = place or base.place
        known = f"{base.place}.{attr}" if base.place and place and not place.startswith(f"{base.place}.") else own
        deps = frozenset({known}) if own and not attr.startswith("running") else NO_DEPS
        if base.owns is not None and not attr.startswith("running"):  # one of several layers, whatever its name is
            deps = frozenset(f"{layer}.{attr}" for layer in base.owns)
        return Value("tensor", name="module_param", place=own, deps=deps, likely=base.likely)
    if (layer := named_layer(base, attr)) is not None:
        return layer
    if (inner := torchapi.LAYERS_OF.get(base.name, {}).get(attr)) is not None:
        return Value("module", name=inner, place=place)
    if attr == "training":
        return Value("bool")
    if attr == "forward":
        return Value("method", name=attr, place=place, deps=base.own)
    if attr == "_modules":
        return Value("dict", name="of module", place=base.place, starts=starts.within(base))
    if attr == "module" and base.place:
        return replace(base, name="")
    guessed = guess.by_name(attr)
    if guessed.kind in ("optimizer", "scheduler", "lossfn"):
        return replace(guessed, place=place or attr)
    return Value("unknown", place=f"{base.place}.{attr}" if base.place and place else place)


def _of_optimizer(base: Value, attr: str, place: str) -> Value:
    if attr == "param_groups":
        return Value("list", name="param_groups", place=base.place)
    return _of_other(base, attr, place)


def _of_context(base: Value, attr: str, place: str) -> Value:
    return Value("tuple", name="tensors") if attr in ("saved_tensors", "saved_variables") else UNKNOWN


def _of_unknown(base: Value, attr: str, place: str) -> Value:
    if attr in ("grad", "requires_grad"):
        return Value("tensor" if attr == "grad" else "bool", name=attr, likely=True)
    return _of_object(base, attr, place)


_OF_DISTRIBUTIONS = set(
    "mean variance stddev mode loc scale probs logits rate concentration concentration1 concentration0 low high df "
    "covariance_matrix precision_matrix scale_tril".split()
)  # what distributions answer, and what they were given as tensors


def _of_tuple(base: Value, attr: str, place: str) -> Value:
    """A field of one of torch's own tuples."""
    at = torchapi.FIELDS.get(attr, -1) if base.name == "return_types" else -1
    if base.items is not None and 0 <= at < len(base.items) and base.items[at].kind == "tensor":
        return base.items[at]
    return _of_object(base, attr, place)


def _of_object(base: Value, attr: str, place: str) -> Value:
    if (held := entries(base).get(attr)) is not None:
        return held
    if attr in ("batch_shape", "event_shape") and base.name.startswith("torch.distributions."):
        return Value("size")
    if attr in _OF_DISTRIBUTIONS and base.name.startswith("torch.distributions."):
        return Value("tensor", deps=base.deps)
    guessed = guess.of_attribute(place, attr)
    return replace(guessed, place=place or attr) if guessed.kind != "unknown" else _of_other(base, attr, place)


def _of_other(base: Value, attr: str, place: str) -> Value:
    if attr == "param_groups" and base.kind in ("unknown", "object"):  # only optimizers have them
        return _of_optimizer(base, attr, place)
    bare = attr in FORM or guess.of_settings(place)  # numbers and names: they bring no graph along
    deps = NO_DEPS if bare else base.deps
    return Value("unknown", deps=deps, place=place)


_BY_KIND: dict[str, Callable[[Value, str, str], Value]] = {
    "tensor": _of_tensor,
    "param": _of_tensor,
    "module": _of_module,
    "optimizer": _of_optimizer,
    "ctx": _of_context,
    "unknown": _of_unknown,
    "object": _of_object,
    "tuple": _of_tuple,
}
