"""Statements that put something into containers, or take it out: `active.remove(k)`, `plan["b"] = 1`, `del on[0]`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted

CHANGING = frozenset({"append", "add", "insert", "extend", "update", "setdefault", "appendleft",
                      "remove", "discard", "pop", "popitem", "popleft", "clear"})  # fmt: skip


def filled(stmt: Stmt) -> Iterator[str]:
    """The places of the containers."""
    node = stmt.node
    targets: list[cst.BaseExpression] = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    if isinstance(node, cst.Del):
        targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
    yield from (place for t in targets if isinstance(t, cst.Subscript) and (place := dotted(t.value)))
    for call in stmt.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in CHANGING:
            if place := dotted(call.func.value):
                yield place
