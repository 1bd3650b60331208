"""`x.view(-1)[::2] = value` where gradients are recorded: MindSpore writes into the view, not into what it shows."""

from __future__ import annotations

from collections.abc import Callable

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import fresh, shared
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.gradmodes import unrecorded
from torch2ms.rewrite.inplace import views
from torch2ms.rewrite.inplace.callers import Given
from torch2ms.rewrite.writer import Writer

WHY = "the tensor is bound to what was written into"
STALE = "where gradients are recorded, MindSpore's views keep the elements from before"


def into_view(
    stmt: Stmt, target: cst.Subscript, stored: cst.BaseExpression, writer: Writer, symbol: str = "="
) -> list[cst.BaseStatement] | None:
    """The lines for a store through a view, None where it is no such store, or is refused."""
    parts = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    if any(isinstance(constant(part), str) for part in parts):
        return None  # a dict, whatever its name was taken for: no tensor has text for an index
    if not isinstance(target.value, (cst.Name, cst.Call, cst.Attribute)):
        return None
    return into(stmt, target, lambda: code(writer.expression(stored)), writer, symbol)


def into(
    stmt: Stmt, target: cst.Subscript, stored: Callable[[], str], writer: Writer, symbol: str = "="
) -> list[cst.BaseStatement] | None:
    """The lines for a store of a translated value through a view."""
    if isinstance(target.value, cst.Name):
        if writer.module.value(target.value).kind == "tensor" and by_others(stmt, target.value, writer):
            writer.refuse("T2M611", "tensor stored in part", STALE, "take the view again after the change")
            return None
        return _named(stmt, target, stored, writer, symbol)
    seen = target.value
    if isinstance(seen, cst.Attribute) and seen.attr.value in views.TURNED | views.COPIED:
        if writer.module.value(seen.value).kind == "tensor":
            _refuse(writer)
        return None
    if not isinstance(seen, cst.Call) or not isinstance(seen.func, cst.Attribute):
        return None
    base = seen.func.value
    if (
        seen.func.attr.value not in views.RESHAPED | views.TURNED | views.COPIED
        or writer.module.value(base).kind != "tensor"
    ):
        return None
    own = fresh(base, writer.scope, but=stmt)
    if seen.func.attr.value in views.TURNED | views.COPIED or not isinstance(base, cst.Name) or not own:
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
        *writer.translated(f"{index} {symbol} {stored()}"),
        *writer.text(f"{{0}} = {name}.view({{0}}.shape)", base),
    ]


def whole(stmt: Stmt, target: cst.CSTNode, text: str, writer: Writer) -> list[cst.BaseStatement] | None:
    """The lines for `flat = x.view(-1)`, `flat.mul_(2)`: both names are bound to the new value; None if refused."""
    shown = _shown(stmt, target, writer) if isinstance(target, cst.Name) else None
    if shown is not None and isinstance(target, cst.Name):
        made, source = shown
        mine = source in writer.scope.locals and fresh(cst.Name(source), writer.scope, but=made)
        again = views.read_again(source, stmt)
        back = _back(made, source, target.value, writer.module) if again else ""
        if mine and not shared(target.value, writer.scope) and bool(back) == again:
            writer.tell("T2M611", "tensor stored in a view", WHY)
            return [*writer.translated(f"{target.value} = {text}"), *(writer.text(back) if back else ())]
    _refuse(writer)
    return None


def by_others(stmt: Stmt, target: cst.CSTNode, writer: Writer, same: bool = False) -> bool:
    """A name for a view of the tensor, taken before the statement, is read behind it; or for the `same` memory."""
    if not isinstance(target, cst.Name):
        return False
    scope, name = writer.scope, target.value
    before = [s for s in scope.body.walk() if s.number < stmt.number]
    bound = max((s.number for s in before if name in s.defs and isinstance(s.node, cst.Assign)), default=-1)
    return any(
        name in views.sources(other, made, writer.module, same) and views.read_again(other, stmt)
        for made in before if made.number > bound
        for other in made.defs
    )  # fmt: skip


def of_buffer(target: cst.CSTNode, writer: Writer) -> bool:
    """A name for a view of a registered buffer: a parameter that nothing trains in MindSpore."""
    for made in writer.scope.body.walk():
        if isinstance(target, cst.Name) and target.value in made.defs and isinstance(made.node, cst.Assign):
            held = made.node.value
            while isinstance(held, cst.Call) and isinstance(held.func, cst.Attribute):
                held = held.func.value
            return isinstance(held, cst.Attribute) and held.attr.value in writer.project.buffers
    return False


def _named(
    stmt: Stmt, target: cst.Subscript, stored: Callable[[], str], writer: Writer, symbol: str
) -> list[cst.BaseStatement] | None:
    """`flat = x.view(-1)`, `flat[0] = value`, and `x` is read again."""
    assert isinstance(target.value, cst.Name)
    shown = _shown(stmt, target.value, writer)
    if shown is None or writer.module.value(target.value).kind != "tensor":
        return None
    made, source = shown
    if "." in source:
        return _kept(stmt, target, made, source, stored, writer, symbol)
    if not views.read_again(source, stmt):
        if source in writer.scope.params and source != target.value.value and _read_by_callers(source, writer):
            _refuse(writer)
        return None
    back = _back(made, source, target.value.value, writer.module)
    if not back or source not in writer.scope.locals:
        _refuse(writer)
        return None
    writer.tell("T2M611", "tensor stored in a view", WHY)
    lines = writer.translated(f"{code(writer.expression(target))} {symbol} {stored()}")
    return [*lines, *writer.text(back)]


def _read_by_callers(parameter: str, writer: Writer) -> bool:
    """Whoever gave the function the tensor looks at it afterwards."""
    scope, project = writer.scope, writer.project
    modules = [m for m in project.modules.values() if scope.name in m.called or scope.name == "forward"]
    given = Given(parameter)
    return any(given.read_again(scope, home, m, project, True) for m in modules for home in m.scope.walk())


def _kept(
    stmt: Stmt,
    target: cst.Subscript,
    made: Stmt,
    source: str,
    stored: Callable[[], str],
    writer: Writer,
    symbol: str,
) -> list[cst.BaseStatement] | None:
    """`flat = self.memory.view(-1)`, `flat[0] = value`: an object keeps the tensor, whoever reads it again."""
    view = made.node.value if isinstance(made.node, cst.Assign) else None
    if isinstance(view, cst.Subscript):
        return None  # a row or a slice shows the tensor in MindSpore, too
    if not views.reshaped(view, source, writer.module) or not unrecorded(stmt, writer):
        _refuse(writer)
        return None
    writer.tell("T2M611", "tensor stored in a view", WHY)
    writer.needs.add("ops")
    lines = writer.translated(f"{code(writer.expression(target))} {symbol} {stored()}")
    back = f"{{0}}.copy_({writer.alias('ops')}.stop_gradient({dotted(target.value)}.view({{0}}.shape)))"
    return [*lines, *writer.text(back, cst.parse_expression(source))]


def _shown(stmt: Stmt, target: cst.Name, writer: Writer) -> tuple[Stmt, str] | None:
    """The statement that made a name a view, and the name of the tensor that it shows."""
    made = [s for s in writer.scope.body.walk() if target.value in s.defs and s.number < stmt.number]
    node = made[-1].node if made else None
    if not isinstance(node, cst.Assign) or not isinstance(node.targets[0].target, cst.Name):
        return None
    source = next(iter(views.sources(target.value, made[-1], writer.module)), "")
    return (made[-1], source) if source else None


def _back(made: Stmt, source: str, name: str, module: ModuleInfo) -> str:
    """The line that gives a tensor what was written into a view of it, "" if there is none."""
    view = made.node.value if isinstance(made.node, cst.Assign) else None
    if isinstance(view, cst.Subscript) and isinstance(view.value, cst.Name):
        parts = [p for e in view.slice for p in e.slice.children if isinstance(p, cst.BaseExpression)]
        return f"{code(view)} = {name}" if all(constant(p) is not ... for p in parts) else ""
    return f"{source} = {name}.view({source}.shape)" if views.reshaped(view, source, module) else ""


def _refuse(writer: Writer) -> None:
    why, todo = "where gradients are recorded, MindSpore writes into the view alone", "write into the tensor"
    writer.refuse("T2M611", "tensor stored in a view", why, todo)
