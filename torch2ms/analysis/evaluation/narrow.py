"""What a condition says about the object it asks for: `isinstance(m, nn.Conv2d)`, `'BatchNorm' in type(m).__name__`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation import lookup
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

CLASS_NAME = "class_name"  # the name of a string that holds the name of an object's class
CLASS = "class_of"  # the name of what holds the class itself
NORMS = re.compile(r"(Batch|Layer|Group|Instance|SyncBatch)Norm(\d?d)?$")
BY_NAME = {"BatchNorm": "BatchNorm2d", "InstanceNorm": "InstanceNorm2d", "Norm": "BatchNorm2d", "Conv": "Conv2d"}
BASES = {
    "torch.nn._BatchNorm": "torch.nn.BatchNorm2d",
    "torch.nn.modules.batchnorm._BatchNorm": "torch.nn.BatchNorm2d",
    "torch.nn._ConvNd": "torch.nn.Conv2d",
    "torch.nn.modules.conv._ConvNd": "torch.nn.Conv2d",
}  # what several layers are, for which one of them stands
CONTAINERS = ("list", "tuple", "dict")  # what a function that calls itself for every item is given as well
LAYER_BY_LAYER = ("modules", "children")
KINDS = {
    "torch.Tensor": "tensor",
    "torch.nn.Module": "module",
    "numpy.ndarray": "numpy",
    "torch.optim.Optimizer": "optimizer",
}


def narrowed(test: cst.BaseExpression, ev: Evaluator) -> dict[str, Value]:
    """Places that are known better where the condition holds."""
    if type(test) is cst.BooleanOperation and type(test.operator) is cst.And:
        return narrowed(test.left, ev) | narrowed(test.right, ev)
    place, classes = _asked(test, ev)
    if not place or not classes or any(not c for c in classes):
        return {}
    held = ev.env.get(place, UNKNOWN)
    layer = classes[0].startswith("torch.nn.")
    if len({family(c) for c in classes}) > 1 or len(classes) > 1 and not (layer or classes[0] in KINDS):
        return {}
    kind = KINDS.get(classes[0]) or ("module" if layer or _is_network(classes[0], ev) else "")
    if kind == "tensor" and held.kind == "module":  # `reset(net)`, which calls itself for the weights of the network
        return {place: Value("param", deps=held.deps, place=held.place or place, leaf=True)}
    if held.kind not in ("unknown", *CONTAINERS, kind) or not kind or (held.kind == kind and held.name):
        return {}
    name = classes[0] if kind == "module" and classes[0] not in KINDS else ""
    found = {place: Value(kind, name, deps=held.deps, place=held.place or place, likely=False)}
    for other in _beside(place, ev) if name else ():
        known = ev.env.get(other, UNKNOWN)
        if known.kind == "unknown" or known.kind == "module" and not known.name:
            found[other] = Value(kind, name, deps=known.deps, place=known.place or other, likely=True)
    return found


def _beside(place: str, ev: Evaluator) -> list[str]:
    """What stands for the same layer of a network built alike: `for m0, m1 in zip(net.modules(), new.modules())`."""
    scope = ev.function.scope if ev.function is not None else ev.module.scope
    for node in (s.node for s in scope.body.walk() if type(s.node) is cst.For and place in s.defs):
        call, target = node.iter, node.target
        if type(call) is not cst.Call or dotted(call.func) != "zip" or not isinstance(target, (cst.Tuple, cst.List)):
            continue
        methods = [a.value.func for a in call.args if type(a.value) is cst.Call]
        alike = all(type(m) is cst.Attribute and m.attr.value in LAYER_BY_LAYER for m in methods)
        if alike and len(methods) == len(call.args):
            return [name for e in target.elements if (name := dotted(e.value)) and name != place]
    return []


def itself(node: cst.BaseExpression) -> str | None:
    """The place of `x` in `type(x)` and `x.__class__`, None for other expressions."""
    if type(node) is cst.Attribute and node.attr.value == "__class__":
        return dotted(node.value)
    if type(node) is cst.Call and dotted(node.func) == "type" and len(node.args) == 1:
        return dotted(node.args[0].value)
    return None


def family(name: str) -> str:
    """How the parameters of a class of torch are called in MindSpore."""
    last = name.rpartition(".")[2]
    if NORMS.match(last):
        return "norm"
    return last if last == "Embedding" or name in KINDS else "plain"


def _asked(test: cst.BaseExpression, ev: Evaluator) -> tuple[str, list[str]]:
    if type(test) is cst.Call and dotted(test.func) == "isinstance" and len(test.args) == 2:
        return dotted(test.args[0].value), _classes(test.args[1].value, ev)
    if type(test) is cst.Call and type(test.func) is cst.Attribute and test.func.attr.value == "startswith":
        return _named(ev.memo.get(id(test.func.value), UNKNOWN), constant(test.args[0].value) if test.args else None)
    if type(test) is cst.BooleanOperation:  # `or` of names: all must agree
        one, other = _asked(test.left, ev), _asked(test.right, ev)
        return (one[0], one[1] + other[1]) if one[0] == other[0] else ("", [])
    if type(test) is not cst.Comparison or len(test.comparisons) != 1:
        return "", []
    left, right = test.left, test.comparisons[0].comparator
    held = ev.memo.get(id(left), UNKNOWN)
    if (place := itself(left) or (held.place if held.name == CLASS else "")) and held.kind != "str":
        alike = isinstance(test.comparisons[0].operator, (cst.Is, cst.Equal, cst.In))
        return (place, _classes(right, ev)) if alike else ("", [])
    if type(left) is cst.Call and type(left.func) is cst.Attribute and left.func.attr.value == "find" and left.args:
        asked = ev.memo.get(id(left.func.value), UNKNOWN)
        return _named(asked, constant(left.args[0].value)) if _found(test.comparisons[0]) else ("", [])
    if type(test.comparisons[0].operator) is cst.In:
        return _named(ev.memo.get(id(right), UNKNOWN), constant(left))
    if type(test.comparisons[0].operator) is cst.Equal:
        return _named(ev.memo.get(id(left), UNKNOWN), constant(right))
    return "", []


def _found(compared: cst.ComparisonTarget) -> bool:
    """A text that was asked with `find` has the part: `!= -1`, `> -1`, `>= 0`, and `== 0` for its start."""
    number = constant(compared.comparator)
    if isinstance(compared.operator, cst.NotEqual):
        return number == -1
    if isinstance(compared.operator, cst.Equal):
        return number == 0
    return isinstance(compared.operator, (cst.GreaterThan, cst.GreaterThanEqual))


def _classes(given: cst.BaseExpression, ev: Evaluator) -> list[str]:
    """The classes that an object may be of, "" for each that is not seen."""
    nodes = [e.value for e in given.elements] if isinstance(given, (cst.Tuple, cst.List, cst.Set)) else [given]
    values = [ev.memo.get(id(n), UNKNOWN) for n in nodes]
    return [BASES.get(v.name, v.name) if v.kind in ("api", "class") else "" for v in values]


def _is_network(name: str, ev: Evaluator) -> bool:
    """A class of the project is that of a network, or derived from a layer."""
    cls = lookup.class_of(Value("module", name=name), ev.module, ev.project)
    return cls is not None and cls.kind == "module"


def _named(value: Value, text: object) -> tuple[str, list[str]]:
    if value.name != CLASS_NAME or not isinstance(text, str):
        return "", []
    last = BY_NAME.get(text, text)
    return value.place, [f"torch.nn.{last}"]
