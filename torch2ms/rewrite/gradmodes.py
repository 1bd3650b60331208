"""Gradient modes: the blocks of `with torch.no_grad()` and the like dissolve into what surrounds them."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.program.project import qualified
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import layout
from torch2ms.rewrite.writer import Writer


def opened(mode: cst.With, stmt: Stmt, writer: Writer) -> layout.Lines:
    lines = tuple(mode.leading_lines)
    header = mode.body.header if isinstance(mode.body, cst.IndentedBlock) else None
    writer.findings.append(Finding("T2M301", Tier.EXACT, "gradient mode block",
                                 "MindSpore records only inside gradient functions: dissolved",
                                 line=stmt.block.scope.transparent.get(id(mode), stmt.lineno)))  # fmt: skip
    return lines + layout.trailing_comment(header)


def closed(mode: cst.With, stmts: list[Stmt], writer: Writer) -> tuple[list[cst.BaseStatement], layout.Lines]:
    footer = mode.body.footer if isinstance(mode.body, cst.IndentedBlock) else ()
    nodes: list[cst.BaseStatement] = []
    if writer.differentiated and cuts(mode, writer):
        names: dict[str, None] = {}
        for stmt in stmts:
            for inner in stmt.walk():
                for place in sorted(d for d in inner.defs if d.strip("_")):  # nobody reads `_`
                    if inner.out.get(place) is not None and inner.out[place].kind in (
                        "tensor",
                        "unknown",
                        "tuple",
                        "list",
                        "dict",
                    ):
                        names.setdefault(place)
                gone = inner.defs if isinstance(inner.node, cst.Del) else _cut(inner)
                names = {n: None for n in names if n not in gone}
        for name in names:
            nodes += writer.text(f"{name} = ops.stop_gradient({name})")
            writer.needs.add("ops")
    return nodes, layout.comments_only(footer)


def cuts(mode: cst.With, writer: Writer) -> bool:
    for item in mode.items:
        name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, writer.module.imports)
        if name.rpartition(".")[2] in ("no_grad", "inference_mode"):
            return True
    return False


def unrecorded(stmt: Stmt, writer: Writer) -> bool:
    """The statement runs inside of a gradient function, in a block or a function that torch does not record."""
    if not writer.differentiated:
        return False
    home = stmt.block.scope.node
    decorators = home.decorators if isinstance(home, cst.FunctionDef) else ()
    return any(cuts(mode, writer) for mode in stmt.modes) or any(
        is_no_grad(each.decorator, writer.module) for each in decorators
    )


def _cut(stmt: Stmt) -> set[str]:
    """What a statement itself cuts from the graph: `x.detach_()`, `x = y.detach()`."""
    node = stmt.node
    value = node.value if isinstance(node, (cst.Expr, cst.Assign)) else None
    if not isinstance(value, cst.Call) or not isinstance(value.func, cst.Attribute):
        return set()
    if isinstance(node, cst.Expr) and value.func.attr.value == "detach_":
        return {dotted(value.func.value)}
    return stmt.defs if value.func.attr.value in ("detach", "detach_") else set()
