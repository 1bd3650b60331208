"""Writes by masks and lists of places, while a view of the tensor is held: `row = x[0]`, `x[x < 0] = 0`.

MindSpore stores the result in another memory, and the view shows the old one, or the tensor does where the write goes
through the view; a write of the whole reaches both.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.inplace import seen, views
from torch2ms.rewrite.naming import unused
from torch2ms.rewrite.tensors.subscripts import WHOLE
from torch2ms.rewrite.writer import Writer


def scattered(
    stmt: Stmt, target: cst.BaseAssignTargetExpression, given: cst.BaseExpression, writer: Writer, symbol: str = "="
) -> list[cst.BaseStatement] | None:
    """The lines of such a write, None where it is none."""
    if writer.differentiated or not isinstance(target, cst.Subscript) or not isinstance(target.value, cst.Name):
        return None
    if writer.module.value(target.value).kind != "tensor" or not _elsewhere(target, writer.module):
        return None
    shown = views.memory(target.value, stmt, writer.scope, writer.module)
    held = seen.by_others(stmt, target.value, writer, same=True) or _held_by_callers(target.value.value, writer)
    if shown not in (views.VIEW, views.LOST) and not held:
        return None
    place, stored = writer.expression(target), writer.expression(given)
    if not isinstance(place, cst.Subscript):
        return None
    name = unused("changed", writer.module, writer.plan)
    why = "other names show its elements: written into a copy, and that into the memory of all"
    writer.tell("T2M611", "tensor stored under an index", why)
    whole = code(place.value)
    lines = (
        f"{name} = {whole}.copy()",
        f"{code(place.with_changes(value=cst.Name(name)))} {symbol} {code(stored)}",
        f"{whole}[{WHOLE}] = {name}",
    )
    return [line for text in lines for line in writer.translated(text)]


def _held_by_callers(name: str, writer: Writer) -> bool:
    """Whoever calls the function has a view of the tensor that it hands over."""
    return any(
        isinstance(node, cst.Name) and node.value in views.sources(other, made, writer.module, same=True)
        for node, stmt, home in views.handed(name, writer.scope, writer.module)
        for made in home.body.walk() if made.number < stmt.number
        for other in made.defs
    )  # fmt: skip


def _elsewhere(target: cst.Subscript, module: ModuleInfo) -> bool:
    """An index that MindSpore writes under by making the tensor anew."""
    parts = [e.slice.value if isinstance(e.slice, cst.Index) else None for e in target.slice]
    if len(parts) == 1 and isinstance(parts[0], cst.Ellipsis):
        return True
    for part in parts:
        if part is None or isinstance(part, cst.Ellipsis):
            continue
        value = constant(part)
        if value is None or isinstance(value, bool) or module.value(part).kind in ("tensor", "list", "numpy"):
            return True
    return False
