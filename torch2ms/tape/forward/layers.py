"""Losses that layers keep while the model runs: `model(image)`, then `loss += layer.loss` for each of them."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.forward.unseen import leading_to
from torch2ms.tape.model import Event


def through_layers(event: Event, scope: Scope, module: ModuleInfo, project: Project) -> tuple[set[int], str]:
    """The statements of such a forward, and what layers fill; nothing where the loss is made otherwise."""
    chain = leading_to(event, scope)
    kept = _kept(project)
    reads = [
        (s, n)
        for s in chain
        if not s.blocks and not isinstance(s.node, (cst.ClassDef, cst.FunctionDef))
        for n in s.nodes
        if isinstance(n, cst.Attribute) and n.attr.value in kept and module.value(n.value).kind in ("unknown", "module")
    ]
    runs = [s for s in event.stmt.block.stmts if s.number < event.stmt.number and _runs(s, module)]
    if not reads or not runs or any(s.number < runs[0].number for s, _ in reads):
        return set(), ""
    holders = {_holder(n.value) for _, n in reads}
    if "" in holders:
        return set(), ""
    for stmt in chain:
        if isinstance(stmt.node, cst.For) and stmt.defs & holders:
            holders |= {root(u) for u in stmt.uses}
        for node in () if stmt.blocks else stmt.nodes:
            if isinstance(node, cst.CompFor) and {dotted(n) for n in descend(node.target)} & holders:
                holders |= {root(dotted(n)) for n in descend(node.iter) if isinstance(n, (cst.Name, cst.Attribute))}
    for stmt in runs:
        stmt.muts |= holders
    active = {id(s) for s in [*runs, *chain] if s.number >= runs[0].number}
    return active, reads[0][1].attr.value


def _kept(project: Project) -> set[str]:
    """The attributes that forward methods of the project's modules write."""
    found: set[str] = set()
    for info in (i for m in project.modules.values() for i in m.functions.values()):
        if info.name == "forward" and info.cls is not None and info.cls.kind == "module":
            found |= {d[5:] for s in info.scope.body.walk() for d in s.defs if d.startswith("self.")}
    return found


def _holder(node: cst.BaseExpression) -> str:
    """The name that an expression begins with, "" if it begins with none: `taps[k]`."""
    while isinstance(node, (cst.Attribute, cst.Subscript)):
        node = node.value
    return dotted(node)


def _runs(stmt: Stmt, module: ModuleInfo) -> bool:
    """A model is called for what it leaves behind."""
    node = stmt.node
    unused = isinstance(node, cst.Assign) and len(node.targets) == 1 and dotted(node.targets[0].target) == "_"
    return (
        (isinstance(node, cst.Expr) or isinstance(node, cst.Assign) and unused)
        and isinstance(node.value, cst.Call)
        and module.value(node.value.func).kind == "module"
    )
