"""What a method returns by the kind of what it is called on, or by its name alone."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import arrays, oddities, shapes
from torch2ms.analysis.evaluation import masked
from torch2ms.analysis.evaluation.arguments import Given
from torch2ms.analysis.evaluation.containers import entered, picked_out
from torch2ms.analysis.evaluation.dispatch import dispatched
from torch2ms.analysis.evaluation.guess import of_settings
from torch2ms.analysis.evaluation.methods import (
    MODULE_METHODS,
    NAMED_PARAMETERS,
    PARAMETERS,
    RETURNING_SELF,
    learn,
    module_method,
    of_text,
    some_of,
    tensor_method,
)
from torch2ms.analysis.evaluation.only_tensors import ASKED, only_of_tensors
from torch2ms.analysis.known import torchapi
from torch2ms.analysis.known.paths import ALONG, PATH, is_path
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import EITHER, NO_DEPS, UNKNOWN, Value, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator
    from torch2ms.analysis.program.classes import FunctionInfo

SETTINGS = re.compile(r"(?:cfg|conf|config|args|options?)$", re.IGNORECASE)  # these have a clone() of their own
REPLAY = re.compile(r"replay|buffer|memory", re.IGNORECASE)
DRAWING = re.compile(r"rand|choice|permutation|shuffle|multinomial|sample")
MOVED = torchapi.MODULES_TOO | {"to", "cpu"}  # what such a method gives is what it was, a network or a tensor
DICT_METHODS = {"keys", "values", "items", "get", "pop"}
DENSITIES = {"log_prob", "entropy", "rsample", "cdf", "icdf"}  # methods of distributions through which gradients flow
HOST_KINDS = {"loader", "dataset", "scheduler", "str", "dict", "list", "int", "float"}


def of_kind(name: str, receiver: Value, given: Given, ev: Evaluator) -> Value | None:
    """A method of something torch or Python made; None where the kind of the receiver does not tell."""
    kind, deps = receiver.kind, given.deps
    if kind == "object" and receiver.name in FAMILIES:
        return Value("unknown", deps=deps)
    if is_path(receiver):
        return PATH if name in ALONG else UNKNOWN
    if kind == "object" and receiver.name == "torch.Generator" and name == "manual_seed":
        return receiver
    if kind == "object" and receiver.name.startswith("torch.distributions.") and name == "expand":
        return replace(receiver, deps=receiver.deps | deps)
    if kind == "object" and receiver.name.startswith("torch.distributions.") and name in ("sample", *DENSITIES):
        own = frozenset({receiver.place}) if receiver.place else NO_DEPS
        return Value("tensor", deps=NO_DEPS if name == "sample" else deps | receiver.deps | own)
    if kind == "object" and receiver.name.startswith("torch.distributions.constraints.") and name == "check":
        return Value("tensor")
    if kind == "tensor" and receiver.likely and name in DICT_METHODS:
        return None
    if kind in ("tensor", "param"):
        value = tensor_method(name, receiver, deps, given.args)
        value = shapes.shaped(value, shapes.called(name, given.node, given.args, receiver))
        if value.kind == "tensor" and (odd := oddities.called(name, given.node, given.args, receiver)):
            value = replace(value, odd=odd)
        return masked.called(name, given.node, value, receiver, given.args)
    if kind == "module" and receiver.name == "torch.nn.ModuleDict" and name in ("items", "values"):
        return entered(receiver, name)
    if kind == "module":
        if not receiver.name and name not in MODULE_METHODS:
            dispatched(given, ev, network=True)
        made = module_method(name, receiver, deps)
        part = given.node.func.value if isinstance(given.node.func, cst.Attribute) else None
        if type(part) is not cst.Subscript or made.kind not in ("params", "named_params"):
            return made
        if ev.memo.get(id(part.value), UNKNOWN).kind == "tuple":  # `pair[1]`, of a name and a layer
            return made
        return some_of(made, receiver, ", ".join(code(element) for element in part.slice))
    if kind == "optimizer":
        return Value("dict", name="state of an optimizer") if name == "state_dict" else Value("none")
    if kind == "scaler":
        return Value("tensor", deps=deps, name="scaled") if name == "scale" else Value("unknown")
    if kind == "numpy":
        if name in arrays.NONE_OF_NUMPY:  # the guess was wrong: a mask, for example
            return tensor_method(name, Value("tensor", likely=True), deps, given.args)
        return arrays.numpy_made(name, given.node, given.args, method=True)
    if kind == "dict" and name in ("items", "values") and (held := entered(receiver, name)) is not None:
        return held
    if kind == "dict" and name in ("get", "pop", "setdefault") and (held := picked_out(receiver)) is not None:
        return held
    if kind == "size":
        return Value("int" if name in ("numel", "count", "index") else "unknown")
    if kind in ("tuple", "list") and name in ("size", "dim") and receiver.keys is None and not receiver.name:
        tensor = ev.memo[id(given.node.func.value)] = Value("tensor", deps=receiver.deps, likely=True)  # type: ignore[attr-defined]
        return tensor_method(name, tensor, deps, given.args)  # no sequence has it: other callers give a tensor
    if kind in HOST_KINDS:
        return Value("unknown", deps=receiver.deps if kind in ("dict", "list") else NO_DEPS)
    return None


def replayed(name: str, place: str, method: FunctionInfo | None = None) -> bool:
    """`self.memory.sample(n)`: what was seen before, to learn from again and again; a graph would be spent by then.

    `method`: what is called, if that is seen. One that draws nothing may give what is there for once, with its graph.
    """
    if name != "sample" or not REPLAY.search(place):
        return False
    if method is None:
        return True
    every = [i for i in (method, *(method.cls.overriding(name) if method.cls is not None else ())) if not _raises(i)]
    return bool(every) and all(
        any(DRAWING.search(name_called(c)) for s in info.scope.body.walk() for c in s.calls) for info in every
    )


def _raises(info: FunctionInfo) -> bool:
    """An abstract method."""
    return any(type(s.node) is cst.Raise for s in info.scope.body.stmts)


def of_unknown(func: cst.Attribute, receiver: Value, target: Value, given: Given, ev: Evaluator) -> Value:
    """A method of something unknown, which the method's name may say more about."""
    name, place = func.attr.value, dotted(func.value)
    unknown = receiver.kind == "unknown"
    if unknown and (said := of_text(name, given.node)) is not None:
        return said
    if unknown:
        dispatched(given, ev)
    if receiver.kind == "tensor" and name in DICT_METHODS:  # the guess was wrong: what the model returned is a dict
        ev.memo[id(func.value)] = Value("dict", deps=receiver.deps, likely=True)
        return Value("unknown" if name in ("get", "pop") else "list", deps=receiver.deps | given.deps)
    if name in MODULE_METHODS and (unknown or receiver.kind == "object" and place):
        module = Value("module", place=receiver.place or place, likely=True)
        if unknown and name in {"buffers", *PARAMETERS, *NAMED_PARAMETERS}:
            ev.memo[id(func.value)] = module
        return module_method(name, module, given.deps)
    if name in RETURNING_SELF and receiver.kind == "object" and receiver.name:  # the class above it, unseen, has it
        return receiver
    sized = name == "new" and unknown and any(a.star == "*" for a in given.node.args)  # `images[0].new(*shape)`
    copied = name == "clone" and not given.args and unknown and not SETTINGS.search(place)
    words = copied or any(a.keyword is not None and a.keyword.value in ("dim", "keepdim") for a in given.node.args)
    swapped = sized or name == "transpose" and len(given.args) == 2 or name == "type" and not given.args
    if name in ASKED and (unknown or receiver.kind == "bool"):  # `(x > 0).nonzero(as_tuple=True)`
        swapped = swapped or only_of_tensors(name, given.node, ev)
    if (
        name in torchapi.MODULES_TOO and unknown and type(func.value) is cst.Call
    ):  # `build(cfg).cuda()`: what it is used as
        return replace(receiver, deps=receiver.deps | given.deps)
    settings = of_settings(f"{place}.")  # `hparams.log_softmax(x)`, a layer that the settings have
    if name in torchapi.TENSOR_METHODS and not settings or words or swapped or (name in ("size", "dim") and unknown):
        ev.memo[id(func.value)] = replace(receiver, kind="tensor", likely=True)
        learn(func.value, ev)
        return tensor_method(name, replace(receiver, kind="tensor"), given.deps, given.args)
    if receiver.name == EITHER and not hasattr(0.0, name) and name not in torchapi.HOST:  # no number has such a method
        ev.memo[id(func.value)] = tensor = replace(receiver, kind="tensor", name="", likely=True)
        return tensor_method(name, tensor, given.deps, given.args)
    if name in ("item", "tolist", "numpy"):  # numbers, whatever it is: a graph ends there
        return Value(torchapi.HOST[name])
    if unknown and replayed(name, place):
        return Value("unknown")
    if unknown and (name in MOVED or not receiver.place and not receiver.deps):
        return Value("unknown", deps=given.deps | receiver.deps)
    extra = receiver.deps
    if target.kind == "module":  # an attribute of the object, not the whole of it
        extra |= target.own or {place}
    elif receiver.place and (receiver.kind in ("object", "unknown") or name in ev.project.giving):
        extra |= {receiver.place}
    return Value("unknown", deps=given.deps | extra)
