"""`x.view(-1)[::2] = value` where gradients are recorded: MindSpore writes into the view, not into what it shows."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.inplace import views
from torch2ms.rewrite.inplace.sharing import fresh
from torch2ms.rewrite.writer import Writer

WHY = "the tensor is bound to what was written into"


def into_view(
    stmt: Stmt, target: cst.Subscript, stored: cst.BaseExpression, writer: Writer
) -> list[cst.BaseStatement] | None:
    """The lines for a store through a view, None where it is no such store, or is refused."""
    parts = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    if any(isinstance(constant(part), str) for part in parts):
        return None  # a dict, whatever its name was taken for: no tensor has text for an index
    if isinstance(target.value, cst.Name):
        return _named(stmt, target, stored, writer)
    seen = target.value
    if not isinstance(seen, cst.Call) or not isinstance(seen.func, cst.Attribute):
        return None
    base = seen.func.value
    if seen.func.attr.value not in views.RESHAPED | views.TURNED or writer.module.value(base).kind != "tensor":
        return None
    own = fresh(base, writer.scope, but=stmt)
    if seen.func.attr.value in views.TURNED or not isinstance(base, cst.Name) or not own:
        _refuse(writer)
        return None
    taken = writer.scope.locals | set(writer.scope.params)
    name = f"{base.value}_view"
    while name in taken:
        name += "_"
    index = code(cst.Subscript(cst.Name(name), target.slice))
    writer.tell("T2M611", "tensor stored in a view", WHY)
    return [
        *writer.text(f"{name} = {{0}}", seen),
        *writer.text(f"{index} = {{0}}", stored),
        *writer.text(f"{{0}} = {name}.view({{0}}.shape)", base),
    ]


def _named(
    stmt: Stmt, target: cst.Subscript, stored: cst.BaseExpression, writer: Writer
) -> list[cst.BaseStatement] | None:
    """`flat = x.view(-1)`, `flat[0] = value`, and `x` is read again."""
    assert isinstance(target.value, cst.Name)
    name, scope, module = target.value.value, writer.scope, writer.module
    made = [s for s in scope.body.walk() if name in s.defs and s.number < stmt.number]
    node = made[-1].node if made else None
    if not isinstance(node, cst.Assign) or not isinstance(node.targets[0].target, cst.Name):
        return None
    source = next(iter(views.sources(name, made[-1], module)), "")
    if not source or module.value(target.value).kind != "tensor":
        return None
    loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    later = [s for s in scope.body.walk() if s.number > stmt.number]
    if not any(source in s.uses for s in (*later, *loops)):
        return None
    back = _back(node.value, source, name)
    if not back or source not in scope.locals:
        _refuse(writer)
        return None
    writer.tell("T2M611", "tensor stored in a view", WHY)
    return [*writer.text("{0} = {1}", target, stored), *writer.text(back)]


def _back(view: cst.BaseExpression, source: str, name: str) -> str:
    """The line that gives a tensor what was written into a view of it, "" if there is none."""
    if isinstance(view, cst.Subscript) and isinstance(view.value, cst.Name):
        parts = [p for e in view.slice for p in e.slice.children if isinstance(p, cst.BaseExpression)]
        return f"{code(view)} = {name}" if all(constant(p) is not ... for p in parts) else ""
    called = isinstance(view, cst.Call) and isinstance(view.func, cst.Attribute)
    if called and view.func.attr.value in views.RESHAPED and isinstance(view.func.value, cst.Name):  # type: ignore[attr-defined]
        return f"{source} = {name}.view({source}.shape)"
    return ""


def _refuse(writer: Writer) -> None:
    why, todo = "where gradients are recorded, MindSpore writes into the view alone", "write into the tensor"
    writer.refuse("T2M611", "tensor stored in a view", why, todo)
