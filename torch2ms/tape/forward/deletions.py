"""`del loss, outputs` where they are names of the forward function now."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.plan import Plan, Text


def forget(gone: set[str], inside: list[Stmt], scope: Scope, plan: Plan) -> None:
    """Nothing deletes the names that only the statements `inside` a new function bind."""
    held = {id(i) for s in inside for i in s.walk()}
    for stmt in scope.body.walk():
        if type(stmt.node) is not cst.Del or id(stmt) in held or not stmt.defs & gone:
            continue
        target = stmt.node.target
        nodes: list[cst.CSTNode] = [target]
        if isinstance(target, (cst.Tuple, cst.List)):
            nodes = [e.value for e in target.elements]
        earlier = plan.replaced.get(id(stmt))
        if earlier is not None:
            nodes = [node for item in earlier if isinstance(item, Text) for node in item.nodes]
        left = [node for node in nodes if dotted(node) not in gone]
        text = f"del {', '.join(f'{{{i}}}' for i in range(len(left)))}"
        plan.replaced[id(stmt)] = [Text(text, left)] if left else []
