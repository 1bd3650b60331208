"""Loops over the layers of a network that use gradients of each: `for m in net.modules(): ... m.weight.grad ...`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value
from torch2ms.tape.ledger.clears import clears, grads_of
from torch2ms.tape.ledger.pairs import kept_under


def over_layers(stmt: Stmt, module: ModuleInfo) -> tuple[Value, list[tuple[Stmt, cst.Attribute]]] | None:
    """The parameters of the network whose layers the loop runs over, and the gradients that it uses of them.

    Which parameter each of these is, the loop looks up. Loops that drop gradients are others.
    """
    assert isinstance(stmt.node, cst.For)
    found: list[tuple[Stmt, cst.Attribute]] = []
    for inner in (s for b in stmt.blocks for s in b.walk()):
        for grad in grads_of(inner):
            if isinstance(grad.value, cst.Attribute) and dotted(grad.value):
                found.append((inner, grad))
    if not found:
        return None
    layers = {name.value: module.value(name) for name in _names(stmt.node.target)}
    own = [(s, g) for s, g in found if root(dotted(g.value)) in layers]
    (value, *others) = [layers[name] for name in {root(dotted(g.value)) for _, g in own}] or [Value("unknown")]
    places = frozenset({value.place} - {""}) if value.owns is None else value.owns
    if others or value.kind != "module" or not places or any(clears(s, g) for s, g in own):
        return None
    held = "" if value.place.startswith("self.") else kept_under(_given(stmt.node))
    return Value("params", deps=places, place=held or value.place), own


def _given(loop: cst.For) -> cst.BaseExpression:
    """What gives the layers: `self.net.modules()`, also where they are counted."""
    given = loop.iter
    counted = isinstance(given, cst.Call) and dotted(given.func) == "enumerate" and given.args
    return given.args[0].value if isinstance(given, cst.Call) and counted else given


def _names(target: cst.BaseExpression) -> Iterator[cst.Name]:
    if isinstance(target, cst.Name):
        yield target
    elif isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _names(element.value)
