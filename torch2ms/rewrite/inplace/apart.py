"""Writes into tensors with graphs that torch does not record: `h.data.mul_(2)`, `h.detach()[0] = 1`, under no_grad.

torch plays back as if nothing had been written, with the new numbers where an operation kept the tensor itself. In
MindSpore the tensor without its graph shows the same memory, and `copy_` into that does the same.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.chains import base
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import is_data
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.operands import atomic
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import UNKNOWN
from torch2ms.rewrite.gradmodes import has_graph, unrecorded
from torch2ms.rewrite.inplace import views
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.parameters.shown import SAME, SHOWING, shows
from torch2ms.rewrite.tensors.arrays import SHIFTS
from torch2ms.rewrite.writer import Writer

WHY = "written into the memory alone: the gradient stays that of the tensor as it was made"


def peeled(node: cst.BaseExpression, writer: Writer) -> cst.BaseExpression:
    """The tensor itself: `h` for `h.data` and `h.detach()`."""
    while True:
        if is_data(node, writer.module):
            node = node.value  # type: ignore[attr-defined]
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "detach":
            if writer.module.value(node.func.value).kind not in ("tensor", "param"):
                return node
            node = node.func.value
        else:
            return node


def tensor(target: cst.BaseExpression, stmt: Stmt, writer: Writer, cut: bool = False) -> cst.BaseExpression | None:
    """The tensor whose memory alone a write into the target changes, None where the write is like any other.

    `cut`: it goes through `.data` of a part of the target.
    """
    if not writer.differentiated or not isinstance(target, (cst.Name, cst.Attribute, cst.Call)):
        return None
    whole = peeled(target, writer)
    cut = cut or whole is not target
    if not isinstance(whole, (cst.Name, cst.Attribute)) or not dotted(whole):
        return None
    if writer.module.value(whole).kind != "tensor" or is_parameter(
        whole, writer.module.value(whole), writer.module, writer.plan
    ):
        return None
    handed = isinstance(whole, cst.Name) and whole.value in writer.scope.params
    graph = has_graph(whole, writer.module) or cut and handed
    return whole if graph and (cut or unrecorded(stmt, writer)) else None


def shown(target: cst.BaseExpression, stmt: Stmt, writer: Writer, cut: bool = False) -> cst.BaseExpression | None:
    """The tensor of which a write changes a part of the memory alone: `h` of `h[0].data`, `cut` for
    `cut = h.detach()`."""
    node = target
    while True:
        if isinstance(node, cst.Subscript):
            node = node.value
        elif isinstance(inner := peeled(node, writer), cst.Subscript):
            node, cut = inner, True
        else:
            break
    if writer.differentiated and isinstance(node, cst.Name) and stmt.muts - {node.value}:
        if views.through(node, stmt, writer.scope) & views.CUT:
            return node
    return tensor(node, stmt, writer, cut)


def whole(held: cst.BaseExpression, text: str, stmt: Stmt, writer: Writer) -> list[cst.BaseStatement] | None:
    """The lines that give the tensor new numbers."""
    if views.memory(held, stmt, writer.scope, writer.module) != views.WHOLE:
        why, todo = "a part of a tensor, written into where gradients are off", "write into the tensor by index"
        writer.refuse("T2M611", "write without gradient", why, todo)
        return None
    writer.tell("T2M611", "write without gradient", WHY)
    stop = f"{writer.alias('ops')}.stop_gradient"
    writer.needs.add("ops")
    made = cst.parse_expression(text)
    new = text if isinstance(made, cst.Call) and code(made.func) == stop else f"{stop}({text})"
    lines = writer.translated(f"{stop}({code(writer.expression(held))}).copy_({new})")
    return [*_in_order(held, stmt, writer), *lines]


def of_callers(target: cst.CSTNode, writer: Writer) -> bool:
    """Refuse `outputs[0].data.masked_fill_(mask, 0)` of what a function is handed: MindSpore's `.data` of a tensor that
    is turned is a copy, and layers before may have kept the tensor for their gradients."""
    item = target.value if isinstance(target, cst.Attribute) and target.attr.value == "data" else None
    if not writer.differentiated or not isinstance(item, cst.Subscript):
        return False
    if dotted(item.value) not in writer.scope.params:
        return False
    todo = "go on with what torch.where or masked_fill gives"
    writer.refuse("T2M610", "in-place tensor method", "it reaches no tensor of the caller that is transposed", todo)
    return True


def _in_order(held: cst.BaseExpression, stmt: Stmt, writer: Writer) -> list[cst.BaseStatement]:
    """The line after which a tensor has its elements in order: what shows those of one that is turned is a copy."""
    if not isinstance(held, cst.Name) or held.value not in writer.scope.locals:
        return []
    own = held.value not in {*writer.captured, *writer.scope.params}
    if not own or views.through(held, stmt, writer.scope) & views.CUT or _new(held.value, stmt, writer):
        return []
    place = code(writer.expression(held))
    return writer.translated(f"{place} = {place}.contiguous()")


def _new(name: str, stmt: Stmt, writer: Writer) -> bool:
    """All that gives the tensor its name before the statement makes a new one, no view."""
    made = [s.node for s in stmt.block.scope.body.walk() if name in s.defs and s.number < stmt.number]
    values = [node.value if isinstance(node, cst.Assign) else None for node in made]
    return bool(values) and all(value is not None and _computed(value, writer) for value in values)


def _computed(value: cst.BaseExpression, writer: Writer) -> bool:
    if isinstance(value, (cst.BinaryOperation, cst.UnaryOperation)):
        return True
    if not isinstance(value, cst.Call) or name_called(value).rpartition(".")[2] in views.VIEWING:
        return False
    func = writer.module.value(value.func)
    owner = writer.module.value(value.func.value) if isinstance(value.func, cst.Attribute) else UNKNOWN
    return func.kind == "api" or owner.kind == "tensor" or func.kind == "module" and func.name.startswith("torch.")


def part(
    target: cst.Subscript, text: str, stmt: Stmt, writer: Writer, symbol: str = "=", cut: bool = False
) -> list[cst.BaseStatement] | None:
    """The lines that write a part of the tensor, which MindSpore would not do through another tensor."""
    indices: list[cst.Subscript] = []
    node: cst.BaseExpression = target
    while isinstance(node, cst.Subscript):
        indices.insert(0, node)
        inner = peeled(node.value, writer)
        node = inner if isinstance(inner, cst.Subscript) else node.value
    held = shown(target, stmt, writer, cut)
    if held is None:
        return None
    taken = writer.scope.locals | set(writer.scope.params)
    name = f"{code(held).rpartition('.')[2]}_data"
    while name in taken:
        name += "_"
    index: cst.BaseExpression = cst.Name(name)
    for each in indices:
        made = writer.expression(each)
        index = each.with_changes(value=index, slice=made.slice if isinstance(made, cst.Subscript) else each.slice)
    lines = [
        *writer.translated(f"{name} = {code(writer.expression(held))}.copy()"),
        *writer.translated(f"{code(index)} {symbol} {text}"),
    ]
    written = whole(held, name, stmt, writer)
    return [*lines, *written] if written is not None else None


def stored(
    stmt: Stmt, target: cst.BaseExpression, value: cst.BaseExpression, writer: Writer
) -> list[cst.BaseStatement] | None:
    """The lines for `h.data = value` and `h.data[0] = value`, None where it is neither."""
    if type(target) is cst.Subscript:
        if shown(target, stmt, writer) is None:
            return None
        return part(target, code(writer.expression(value)), stmt, writer)
    if not is_data(target, writer.module) or (held := tensor(target, stmt, writer)) is None:
        return None
    place, new = code(writer.expression(held)), code(writer.expression(value))
    if isinstance(held, cst.Name) and held.value in writer.scope.params and not _bound_before(held.value, stmt):
        return whole(held, new, stmt, writer)  # that of the caller
    writer.needs.add("ops")
    writer.tell("T2M611", "write of .data", "the tensor gets the new numbers; its gradient passes as before")
    return writer.translated(f"{place} = {place} + {writer.alias('ops')}.stop_gradient({new} - {place})")


def _bound_before(name: str, stmt: Stmt) -> bool:
    return any(name in s.defs for s in stmt.block.scope.body.walk() if s.number < stmt.number)


def changed(stmt: Stmt, node: cst.AugAssign, writer: Writer) -> list[cst.BaseStatement] | None:
    """The lines for `h.data += value`, `h.data[0] *= value`; None where it is neither."""
    symbol = code(node.operator).strip()
    target = peeled(node.target, writer)
    if isinstance(target, cst.Subscript):
        cut = target is not node.target
        if shown(target, stmt, writer, cut) is None:
            return None
        return part(target, code(writer.expression(node.value)), stmt, writer, symbol, cut)
    held = tensor(node.target, stmt, writer)
    if held is None or SHIFTS.get(type(node.operator)):
        return None
    place, right = code(writer.expression(held)), code(writer.expression(node.value))
    right = right if atomic(node.value) else f"({right})"
    return whole(held, f"{place} {symbol.removesuffix('=')} {right}", stmt, writer)


def shown_by_array(stmt: Stmt, writer: Writer) -> str:
    """What shares the memory that a statement writes into, an array and a tensor, and is read afterwards; or ""."""
    kind = writer.module.value(_target(stmt)).kind
    if kind not in ("tensor", "param", "numpy"):
        return ""
    if kind == "numpy":  # of which MindSpore makes a copy
        arrays = {m for m in stmt.muts if _copied(m, stmt, writer)}
    else:
        arrays = {m for m in stmt.muts if stmt.out.get(m, UNKNOWN).kind == "numpy"}
    later = [s for s in writer.scope.body.walk() if s.number > stmt.number]
    loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    read = {use for s in (*later, *loops) if s is not stmt for use in s.uses}
    return next(iter(sorted(arrays & read)), "")


def array_of(stmt: Stmt, writer: Writer) -> str:
    """`a = x.t().numpy()`, `a[0] = 1`: the tensor that the array shows in torch, where it is read again; or "".

    The array of a tensor that has its own memory shows that in MindSpore, too; one of a view is a copy.
    """
    target = _target(stmt)
    if not isinstance(target, (cst.Name, cst.Call)) or writer.module.value(target).kind != "numpy":
        return ""
    name, body = dotted(target), list(writer.scope.body.walk())
    made = [s.node for s in body if name in s.defs and s.number < stmt.number and s.node is not stmt.node]
    source = (
        target
        if isinstance(target, cst.Call)
        else made[-1].value
        if made and isinstance(made[-1], cst.Assign)
        else None
    )
    shown = _shown_by(source) if source is not None else ""
    if not shown or not shows(source.func.value, stmt, 3):  # type: ignore[union-attr]
        return ""
    turns = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    if any(shown in s.defs for s in turns):
        turns = []
    for later in [*(s for s in body if s.number > stmt.number), *turns]:
        if shown in later.uses and later is not stmt and name not in later.defs:
            return shown
        if shown in later.defs:
            break
    return ""


def _shown_by(node: cst.BaseExpression) -> str:
    """The name of the tensor in `x.detach().cpu().numpy()`."""
    if not isinstance(node, cst.Call) or not isinstance(node.func, cst.Attribute) or node.func.attr.value != "numpy":
        return ""
    inner = node.func.value
    while isinstance(inner, (cst.Call, cst.Attribute, cst.Subscript)):
        if isinstance(inner, cst.Subscript):
            inner = inner.value
            continue
        link = inner.func if isinstance(inner, cst.Call) else inner
        if not isinstance(link, cst.Attribute) or link.attr.value not in SHOWING | SAME:
            return ""
        inner = link.value
    return inner.value if isinstance(inner, cst.Name) and not node.args else ""


def _copied(name: str, stmt: Stmt, writer: Writer) -> bool:
    """`t = torch.as_tensor(array)` gave the name to the memory of an array."""
    makers = [s.node for s in writer.scope.body.walk() if name in s.defs and s.number < stmt.number]
    value = makers[-1].value if makers and isinstance(makers[-1], cst.Assign) else None
    if not isinstance(value, cst.Call) or len(value.args) != 1:
        return False
    return qualified(value.func, writer.module.imports) in ("torch.as_tensor", "torch.asarray")


def _target(stmt: Stmt) -> cst.CSTNode:
    """What a statement writes into: `t` in `t[0] = 1`, `t += 1` and `t.mul_(2)`."""
    node: cst.CSTNode = stmt.node
    if isinstance(node, cst.Expr):
        node = base(node.value)
    elif isinstance(node, (cst.Assign, cst.AugAssign)):
        node = node.target if isinstance(node, cst.AugAssign) else node.targets[0].target
    while type(node) is cst.Subscript:
        node = node.value
    return node
