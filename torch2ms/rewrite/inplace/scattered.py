"""Writes by masks and lists of places, while a view of the tensor is held: `row = x[0]`, `x[x < 0] = 0`.

MindSpore stores the result in another memory, and the view shows the old one, or the tensor does where the write goes
through the view; a write of the whole reaches both.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import is_data, keeps_part
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.inplace import seen, views
from torch2ms.rewrite.inplace.callers import give_weights
from torch2ms.rewrite.inplace.inputs import was_input
from torch2ms.rewrite.inplace.nothing_picked import asked_first, places
from torch2ms.rewrite.naming import unused
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.tensors.subscripts import WHOLE
from torch2ms.rewrite.writer import Writer

ITSELF = {"data", "requires_grad_"}  # no tensor of its own in MindSpore
SHOWN = "other names show its elements: written into a copy, and that into the memory of all"
INPUT = "a gradient function may have been given it: written into a copy, and that into the memory it has"


def scattered(
    stmt: Stmt, target: cst.BaseAssignTargetExpression, given: cst.BaseExpression, writer: Writer, symbol: str = "="
) -> list[cst.BaseStatement] | None:
    """The lines of such a write, None where it is none."""
    if not isinstance(target, cst.Subscript):
        return None
    lines, index = _stored(stmt, target, given, writer, symbol), places(target, stmt, writer.module)
    if index is None:
        return lines
    return asked_first(target, index, lines, f"{symbol} {code(writer.expression(given))}", writer)


def _stored(
    stmt: Stmt, target: cst.Subscript, given: cst.BaseExpression, writer: Writer, symbol: str
) -> list[cst.BaseStatement] | None:
    if (weight := _weight(target, writer)) is not None:
        return _assigned(target, given, weight, writer, symbol)
    if writer.differentiated:
        return None
    if _anew_of_input(target, stmt, writer.module) and was_input(target.value, stmt, writer):
        return _in_a_copy(target, given, writer, symbol, INPUT)
    if not isinstance(target.value, cst.Name):
        return _through(target, given, writer, symbol)
    if writer.module.value(target.value).kind != "tensor" or not _elsewhere(target, writer.module):
        return None
    shown = views.memory(target.value, stmt, writer.scope, writer.module)
    held = seen.by_others(stmt, target.value, writer, same=True) or _held_by_callers(target.value.value, writer)
    held = held or any(keeps_part(s, target.value.value) for s in writer.scope.body.walk())
    if shown not in (views.VIEW, views.LOST) and not held and not _of_another(target.value, stmt, writer):
        return None
    return _in_a_copy(target, given, writer, symbol, SHOWN)


def _weight(target: cst.Subscript, writer: Writer) -> cst.BaseExpression | None:
    """A weight that is written by a mask or in several places: it is another memory afterwards, and the updates of
    optimizers, which are compiled, go on to write into the one that they have seen."""
    whole: cst.BaseExpression = target.value
    while is_data(whole, writer.module):
        whole = whole.value  # type: ignore[attr-defined]
    value = writer.module.value(whole)
    item = isinstance(whole, cst.Subscript) and value.kind == "param"  # `dict(net.named_parameters())[name]`
    if not item and not isinstance(whole, cst.Name | cst.Attribute) or value.name == "buffer":
        return None
    given = isinstance(whole, cst.Name) and (
        give_weights(whole.value, writer.scope, writer.project, writer.plan) or _named_weight(whole.value, writer)
    )
    if not given and not is_parameter(whole, value, writer.module, writer.plan):
        return None
    return whole if _anew(target, writer.module) else None


def _named_weight(name: str, writer: Writer) -> bool:
    """`w = layer.weight.data`: a name for a weight, which that is in MindSpore, too."""
    made = [s.node for s in writer.scope.body.walk() if name in s.defs]
    shown = [node.value if isinstance(node, cst.Assign) and dotted(node.targets[0].target) == name else None
             for node in made]  # fmt: skip
    for at, node in enumerate(shown):
        while node is not None and is_data(node, writer.module):
            node = node.value  # type: ignore[attr-defined]
        shown[at] = node
    return bool(shown) and all(
        isinstance(node, cst.Attribute)
        and writer.module.value(node).name != "buffer"
        and is_parameter(node, writer.module.value(node), writer.module, writer.plan)
        for node in shown
    )


def _anew(target: cst.Subscript, module: ModuleInfo) -> bool:
    """Measured: integers, slices, and a list or tensor of integers alone write into the memory that is there. Of one
    that is written as a whole, by `[:]`, the index makes a view, to which nothing can be assigned."""
    parts = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    if len(target.slice) == 1 and parts:
        alone = module.value(parts[0])
        if alone.kind == "list" or alone.dtype.startswith("int"):
            return False
    if not parts and _all(target):
        return True
    return _elsewhere(target, module) or any(isinstance(part, cst.Comparison) for part in parts)


def _all(target: cst.Subscript) -> bool:
    """`w[:]`, `w[:, :]`, `w[...]`: all of it."""
    for element in target.slice:
        part = element.slice
        if isinstance(part, cst.Slice):
            if not part.lower is part.upper is part.step is None:
                return False
        elif not isinstance(part, cst.Index) or not isinstance(part.value, cst.Ellipsis):
            return False
    return True


def _assigned(
    target: cst.Subscript, given: cst.BaseExpression, weight: cst.BaseExpression, writer: Writer, symbol: str
) -> list[cst.BaseStatement] | None:
    """`layer.weight[mask] = 0`: what was changed in a copy is assigned to the weight."""
    place, name = writer.expression(target), unused("changed", writer.module, writer.plan)
    if not isinstance(place, cst.Subscript):
        return None
    writer.needs.add("ops")
    why = "an index would give the weight other memory, which no optimizer updates: what changed in a copy is assigned"
    writer.tell("T2M611", "weight stored under an index", why)
    held, stored = code(writer.expression(weight)), code(writer.expression(given))
    if symbol != "=" and _all(target):
        stored = stored if atomic(given) else f"({stored})"
        text = f"{writer.alias('ops')}.assign({held}, {held} {symbol.removesuffix('=')} {stored})"
        return list(writer.translated(text))
    lines = (
        f"{name} = {held}.copy()",
        f"{code(place.with_changes(value=cst.Name(name)))} {symbol} {stored}",
        f"{writer.alias('ops')}.assign({held}, {name})",
    )
    return [line for text in lines for line in writer.translated(text)]


def _in_a_copy(
    target: cst.Subscript, given: cst.BaseExpression, writer: Writer, symbol: str, why: str, named: str = ""
) -> list[cst.BaseStatement] | None:
    """The lines that write into a copy, and that into the memory of all; a view without a name gets one."""
    place, stored = writer.expression(target), writer.expression(given)
    if not isinstance(place, cst.Subscript):
        return None
    name = unused("changed", writer.module, writer.plan)
    writer.tell("T2M611", "tensor stored under an index", why)
    whole = named or code(place.value)
    lines = (
        *([f"{named} = {code(place.value)}"] if named else ()),
        f"{name} = {whole}.copy()",
        f"{code(place.with_changes(value=cst.Name(name)))} {symbol} {code(stored)}",
        f"{whole}[{WHOLE}] = {name}",
    )
    return [line for text in lines for line in writer.translated(text)]


def _through(
    target: cst.Subscript, given: cst.BaseExpression, writer: Writer, symbol: str
) -> list[cst.BaseStatement] | None:
    """`x.view(-1)[mask] = 0`, `x.t()[mask] = 0`: nothing of it would reach `x`."""
    shown = target.value
    if not _elsewhere(target, writer.module) or not isinstance(shown, cst.Call | cst.Attribute):
        return None
    base = views.turned(shown, writer.module) or _detached(shown)
    whole = views.peeled(shown)
    if base is None or not isinstance(whole, cst.Name | cst.Attribute | cst.Subscript):
        return None
    if is_parameter(whole, writer.module.value(whole), writer.module, writer.plan):
        return _into_weight(target, given, whole, writer, symbol)
    if writer.module.value(base).kind != "tensor" or views.peeled(base) is not base:
        return None
    return _in_a_copy(target, given, writer, symbol, SHOWN, unused("shown", writer.module, writer.plan))


def _into_weight(
    target: cst.Subscript, given: cst.BaseExpression, weight: cst.BaseExpression, writer: Writer, symbol: str
) -> list[cst.BaseStatement] | None:
    """`layer.weight.data.view(-1)[places] = 0`: what was changed is assigned to the weight."""
    if not views.in_order(target.value) or symbol != "=":
        why = "MindSpore writes into a copy of what is shown under such an index"
        writer.refuse("T2M611", "tensor stored in a view", why, "write into the tensor")
        return None
    place, name = writer.expression(target), unused("changed", writer.module, writer.plan)
    if not isinstance(place, cst.Subscript):
        return None
    writer.needs.add("ops")
    writer.tell("T2M611", "tensor stored in a view", "written into a copy, which the weight is assigned")
    held = code(writer.expression(weight))
    lines = (
        f"{name} = {code(place.value)}.copy()",
        f"{code(place.with_changes(value=cst.Name(name)))} = {code(writer.expression(given))}",
        f"ops.assign({held}, {name}.view({held}.shape))",
    )
    return [line for text in lines for line in writer.translated(text)]


def _detached(node: cst.Call | cst.Attribute) -> cst.BaseExpression | None:
    func = node.func if isinstance(node, cst.Call) else None
    return func.value if isinstance(func, cst.Attribute) and func.attr.value == "detach" else None


def _of_another(name: cst.Name, stmt: Stmt, writer: Writer) -> bool:
    """`flat = x.view(-1)`: all elements of a tensor that is read again, here or by whoever gave or keeps it."""
    scope = writer.scope
    if not views.through(name, stmt, scope) - ITSELF:
        return False
    made = [s for s in scope.body.walk() if name.value in s.defs and s.number < stmt.number]
    shown = set[str]().union(*(views.sources(name.value, s, writer.module, same=True) for s in made))
    return any("." in one or one in scope.params or views.read_again(one, stmt) for one in shown)


def _anew_of_input(target: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> bool:
    """A tensor written by a mask, places or `...`; where nothing is known of it, the index says that it is one."""
    kind = module.value(target.value).kind
    parts = [e.slice.value for e in target.slice if isinstance(e.slice, cst.Index)]
    sure = any(_places(part, stmt, module) for part in parts)
    everything = len(parts) == 1 and isinstance(parts[0], cst.Ellipsis)
    return (sure or everything and kind == "tensor") and kind in ("tensor", "unknown")


def _places(part: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    if isinstance(part, (cst.Comparison, cst.List)) or module.value(part).kind in ("tensor", "list"):
        return True
    made = [s.node for s in stmt.block.scope.body.walk() if s.number < stmt.number and dotted(part) in s.defs]
    return bool(made) and isinstance(made[-1], cst.Assign) and isinstance(made[-1].value, cst.Comparison)


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
