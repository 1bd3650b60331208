"""What functions of Python itself return."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.evaluation.arguments import Given
from torch2ms.analysis.evaluation.containers import STORED, element, picked
from torch2ms.analysis.evaluation.lookup import PURE_BUILTINS
from torch2ms.analysis.evaluation.narrow import CLASS, itself
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import MIXED, OPTIMIZERS, Value, bounded, is_weight, joined_deps, replace

PLAIN_TENSOR = "torch.FloatTensor"  # what torch.Tensor makes, whatever the type of the one that is there


def _type_of_tensors(one: Value) -> Value | None:
    """What is handed on of the class of a tensor: `sample(logits.shape, tens_type=type(logits.data))`."""
    return Value("api", name=PLAIN_TENSOR) if one.kind == "tensor" and not is_weight(one) else None


def builtin(name: str, given: Given) -> Value:
    """A function of Python itself."""
    first, deps = given.first, given.deps
    if name == "getattr" and first.kind == "api" and first.name == "torch.optim":
        return Value("unknown", name=OPTIMIZERS)
    if (asked := itself(given.node)) is not None:
        return Value("unknown", name=CLASS, place=asked, each=_type_of_tensors(first) if name == "type" else None)
    if name in PURE_BUILTINS:
        return Value(PURE_BUILTINS[name], name="range" if name == "range" else "")
    if name == "dict" and first.kind == "named_params":
        return Value("dict", name="of param", deps=deps)
    if name == "filter" and len(given.args) == 2 and given.args[1].kind == "params":
        by = given.node.args[0].value
        some = picked(given.args[1], code(by.body if isinstance(by, cst.Lambda) else by))
        return Value("list" if some.deps != deps else "unknown", deps=some.deps)
    if name == "dict" and not any(a.star or not a.keyword for a in given.node.args):
        keys = tuple((a.keyword.value, True) for a in given.node.args if a.keyword)
        return Value("dict", deps=joined_deps(given.args), items=bounded(tuple(given.args)), keys=keys)
    if name == "super":
        return Value("builtin_super", place="self")
    if name == "float":
        return Value("float")
    if name in ("list", "tuple", "sorted", "reversed", "iter", "set"):
        kind = "tuple" if name == "tuple" else "list"
        held = "of numpy" if first.kind == "numpy" else first.name
        known = first.each is not None and (first.each.kind == "tuple" and name != "set" or first.each == STORED)
        layers = first.name == "of module" and first.kind == "list"
        each = first.each if known or layers else None
        if first.kind == "params":
            return first if name in ("list", "tuple", "iter") else replace(first, odd=MIXED)
        return Value(kind, deps=deps, items=first.items, name=held, each=each, place=first.place if layers else "")
    if name == "map" and first.kind == "function" and first.each is not None and first.each.kind != "tensor":
        return Value("list", name=f"of {first.each.kind}")
    if name == "zip" and (parts := tuple(element(a) for a in given.args)) and any(p.kind == "param" for p in parts):
        return Value("list", deps=deps, each=Value("tuple", items=parts))
    if name in ("max", "min") and first.kind == "numpy" and len(given.args) == 1:  # one of its numbers
        return Value("numpy", rank=0, dtype=first.dtype)
    if name in ("sum", "max", "min"):
        one = element(first) if first.kind in ("list", "tuple") else first
        if one.kind == "tensor" or (deps and one.kind == "unknown"):
            return Value("tensor", deps=deps, likely=True)
        return Value(one.kind if one.kind in ("int", "float") else "unknown", deps=deps)
    if name == "abs" and first.kind in ("tensor", "param"):  # another tensor than the one it was given, and no leaf
        return shapes.shaped(Value("tensor", deps=deps), shapes.called("abs", given.node, given.args))
    if name == "abs":
        return first
    return element(first) if name == "next" else Value("unknown", deps=deps)
