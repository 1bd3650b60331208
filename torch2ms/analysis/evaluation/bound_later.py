"""Functions that get a layer where nobody calls them by name: `net.apply(init)`, `types.MethodType(forward, layer)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.lookup import function_of
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.arguments import Given
    from torch2ms.analysis.evaluation.evaluate import Evaluator


def bound_later(given: Given, ev: Evaluator) -> None:
    """Tell the function which layer its first parameter is, where the call shows it."""
    args, method = given.args, dotted(given.node.func).rpartition(".")[2]
    if method == "apply" and len(args) == 1 and _of_layers(given.node.func, ev):
        function, layer = args[0], Value("module", likely=True)
    elif method == "MethodType" and len(args) == 2 and args[1].kind == "module":
        function, layer = args[0], Value("module", name=args[1].name, likely=args[1].likely)
    else:
        return
    info = function_of(function, ev)
    if info is None or info.cls is not None:
        return
    fn = info.scope.node
    assert type(fn) is cst.FunctionDef
    if first := [*fn.params.posonly_params, *fn.params.params][:1]:
        ev.exchange.hand(info, first[0].name.value, layer, id(given.node))


def _of_layers(func: cst.BaseExpression, ev: Evaluator) -> bool:
    """The `apply` of a network, or of what may be one: tables of pandas have another."""
    held = ev.memo.get(id(func.value), UNKNOWN) if isinstance(func, cst.Attribute) else UNKNOWN
    return held.kind == "module" or held.kind == "unknown" and not ev.module.has("pandas")
