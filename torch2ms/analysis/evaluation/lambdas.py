"""What the parameters of a lambda hold: what the calls in its own scope pass."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.values import UNKNOWN, Value, join, replace

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.arguments import Given
    from torch2ms.analysis.evaluation.evaluate import Evaluator

PREFIX = "a lambda "  # the name of the value begins so, the id of the node follows
PLAIN = ("tensor", "numpy", "int", "float", "complex", "str", "bool", "dtype", "size", "none")


def called(target: Value, given: Given, ev: Evaluator) -> Value | None:
    """Evaluate the body again with what the call passes beside earlier ones; None where the lambda is elsewhere."""
    node, passed = ev.lambdas.get(target.name, (None, {}))
    if node is None or (bound := _bound(node, given)) is None:
        return None
    typed = not isinstance(given.node.func, cst.Name) or only_called(given.node.func.value, ev.module.source)
    for name, value in bound.items():
        held = Value(value.kind, dtype=value.dtype, rank=value.rank, likely=value.likely, odd=value.odd)
        held = held if value.kind in PLAIN else UNKNOWN
        held = held if typed else shapes.forgotten(held)
        passed[name] = join(passed[name], held) if name in passed else held
    body = run(node, passed, ev)
    deps = given.deps | target.deps | body.deps
    return replace(body, deps=deps, place="", leaf=False) if body.kind in PLAIN else Value("unknown", deps=deps)


def run(node: cst.Lambda, passed: dict[str, Value], ev: Evaluator) -> Value:
    """The value of the body, with what is passed."""
    ev.env.push()
    for param in parameters(node):
        ev.env[param.name.value] = passed.get(param.name.value, UNKNOWN)
    body = ev.ev(node.body)
    ev.env.pop()
    return body


def parameters(node: cst.Lambda) -> list[cst.Param]:
    return [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]


def names(node: cst.Lambda) -> list[str]:
    """The names of its parameters."""
    return [param.name.value for param in parameters(node)]


def _bound(node: cst.Lambda, given: Given) -> dict[str, Value] | None:
    """The values of a call by parameter; None where a star hides some."""
    params = node.params
    if any(a.star for a in given.node.args) or isinstance(params.star_arg, cst.Param) or params.star_kwarg is not None:
        return None
    by_place = [p.name.value for p in (*params.posonly_params, *params.params)]
    pairs = list(zip(given.node.args, given.args, strict=False))
    placed = [value for arg, value in pairs if arg.keyword is None]
    bound = dict(zip(by_place, placed, strict=False))
    return bound | {arg.keyword.value: value for arg, value in pairs if arg.keyword is not None}


def only_called(name: str, source: str) -> bool:
    """A name that is bound once, and called or asked for attributes wherever else it stands."""
    if len(re.findall(rf"(?<![\w.]){name}\s*=(?!=)", source)) != 1:
        return False
    return re.search(rf"\b{name}\b(?!\s*[(.=])|\.{name}\b", source) is None
