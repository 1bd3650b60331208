"""Forward hooks of layers whose output torch's next layer changes in place: what the hook keeps is the activation."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation import activations
from torch2ms.analysis.known import starts
from torch2ms.analysis.program.hooks import keeps_output
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.findings import Tier
from torch2ms.rewrite.writer import Writer

WALKING = ("modules", "named_modules", "children", "named_children")


def hooked(writer: Writer, call: cst.Call, stmt: Stmt) -> None:
    """The hook gets what the layer gives, and may keep it; torch's next layer may change that in place."""
    if not writer.project.says(activations.MADE):
        return
    module, what = writer.module, code(call.func)
    acts, among = _next(call, module), _next_of_any(stmt, module) if keeps_output(module) else frozenset[str]()
    if _changes(acts - {starts.UNSEEN}, writer) or starts.UNSEEN in acts and _changes(among, writer):
        why = "the layer behind changes the output, which the hook gets, in place"
        writer.refuse("T2M614", what, why, "say inplace=False, or give the hook to the activation")
    elif starts.UNSEEN in acts:
        why = "assumed: no activation in place changes the output, which the hook gets"
        writer.tell("T2M614", what, why, Tier.ASSUMED)


def _changes(acts: frozenset[str], writer: Writer) -> bool:
    return bool(activations.seen(acts, writer.project, writer.module, activations.DEPTH))


def _next(call: cst.Call, module: ModuleInfo) -> frozenset[str]:
    """What is done in place to the output of `net[0]`, which a hook gets: by the next layer of the container."""
    layer = call.func.value if isinstance(call.func, cst.Attribute) else None
    if not isinstance(layer, cst.Subscript) or len(layer.slice) != 1 or not isinstance(layer.slice[0].slice, cst.Index):
        return frozenset({starts.UNSEEN})
    index, items = constant(layer.slice[0].slice.value), module.value(layer.value).items
    if not isinstance(index, int) or not items or not -len(items) <= index < len(items):
        return frozenset({starts.UNSEEN})
    following = items[index % len(items) + 1 :]
    return starts.begins(following[0]) if following else frozenset({starts.UNSEEN})


def _next_of_any(stmt: Stmt, module: ModuleInfo) -> frozenset[str]:
    """The same for the layers that a loop around the statement gives hooks: `for name, m in net.named_modules()`."""
    asked: set[str] = set()  # the classes that it looks for
    for owner in stmt.ancestors():
        node = owner.node
        if isinstance(node, cst.If):
            tests = [n for n in descend(node.test) if isinstance(n, cst.Call) and name_called(n) == "isinstance"]
            asked |= {dotted(n).rpartition(".")[2] for test in tests for n in descend(test.args[1].value)}
        if isinstance(node, cst.For):
            walks = (n for n in descend(node.iter) if isinstance(n, cst.Call) and name_called(n) in WALKING)
            held = [module.value(n.func.value) for n in walks if isinstance(n.func, cst.Attribute)]
            pairs = (pair for network in held for pair in _neighbours(network))
            found = [starts.begins(b) for a, b in pairs if not asked - {""} or a.name.rpartition(".")[2] in asked]
            return frozenset().union(*found)
    return frozenset()


def _neighbours(network: Value) -> Iterator[tuple[Value, Value]]:
    """The layers of a container, and those behind them."""
    items = network.items or ()
    yield from zip(items, items[1:], strict=False)
    for item in items:
        yield from _neighbours(item)
