"""Iterators over batches that are asked once more when they have ended: prefetchers, which are one batch ahead.

torch's raise StopIteration again; MindSpore's fail then with an error of their own, a generator does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.rewrite.writer import Writer

LOADERS = re.compile(r"\bDataLoader\b")
WHY = "MindSpore's iterators fail where they are asked once more after the last batch, generators stop again"


def asked_again(node: cst.Assign, writer: Writer) -> list[cst.BaseStatement] | None:
    """`self.batches = iter(loader)` becomes a generator, where nothing begins anew at the end."""
    call, name = node.value, dotted(node.targets[0].target).rpartition(".")[2]
    if type(call) is not cst.Call or len(call.args) != 1 or name not in _ended(writer.module):
        return None
    given = writer.module.value(call.args[0].value)
    if given.kind != "loader" and not (given.kind == "unknown" and writer.project.says(LOADERS)):
        return None
    writer.tell("T2M601", "iter of a loader", WHY)
    return writer.text("{0} = (batch for batch in {1})", node.targets[0].target, call.args[0].value)


@once
def _ended(module: ModuleInfo) -> frozenset[str]:
    """The names of iterators that a `try` asks, and that go on being asked when StopIteration was raised."""
    found: set[str] = set()
    for block in module.of_kind(cst.Try):
        handlers = [h for h in block.handlers if h.type is not None and "StopIteration" in _names(h.type)]
        if handlers:
            begun = {dotted(t.target) for h in handlers for t in descend(h.body) if isinstance(t, cst.AssignTarget)}
            left = any(isinstance(n, cst.Break) for h in handlers for n in descend(h.body))
            found |= set() if left else {name.rpartition(".")[2] for name in _asked(block.body) if name not in begun}
    return frozenset(found - {""})


def _names(node: cst.CSTNode) -> set[str]:
    return {n.value for n in descend(node) if isinstance(n, cst.Name)}


def _asked(body: cst.BaseSuite) -> Iterator[str]:
    """`next(self.batches)`"""
    for node in descend(body):
        if isinstance(node, cst.Call) and dotted(node.func) == "next" and len(node.args) == 1:
            yield dotted(node.args[0].value)
