"""Writes under places that may be none at all: `flip = idx[wrong]`, `labels[flip] = 1`. MindSpore raises on them.

On a tuple with an empty list for each axis it does not.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import is_on
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code
from torch2ms.rewrite.naming import unused
from torch2ms.rewrite.writer import Writer

WHY = "MindSpore writes under no empty list of places: asked first"
CHAINED = frozenset({"squeeze", "view", "reshape", "flatten", "to", "long", "cpu", "cuda", "t", "detach"})


def places(target: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> cst.BaseExpression | None:
    """The index of a write, where it is a list of places that a mask has picked."""
    first = target.slice[0].slice
    if len(target.slice) != 1 or type(first) is not cst.Index or module.value(target.value).kind in ("dict", "list"):
        return None
    return first.value if _picked(first.value, stmt, module) else None


def asked_first(
    target: cst.Subscript, index: cst.BaseExpression, lines: list[cst.BaseStatement] | None, written: str,
    writer: Writer,
) -> list[cst.BaseStatement]:  # fmt: skip
    """The lines of the write, `written` where it has none of its own, under the question whether there is a place."""
    writer.tell("T2M611", "tensor stored under an index", WHY)
    head, name, place = [], dotted(index), writer.expression(target)
    if not name:
        name = unused("places", writer.module, writer.plan)
        taken = place.slice[0].slice if isinstance(place, cst.Subscript) else cst.Index(index)
        head = writer.translated(f"{name} = {code(taken)}")
        lines = writer.translated(f"{code(writer.expression(target.value))}[{name}] {written}")
    elif lines is None:
        lines = writer.translated(f"{code(place)} {written}")
    return [*head, cst.If(cst.parse_expression(f"{name}.size"), cst.IndentedBlock(lines))]


def _picked(node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """`idx[mask]`, `mask.nonzero().squeeze(1)`, `torch.where(mask)[0]`, or a name for one."""
    if type(node) is cst.Name:
        made = [s for s in stmt.block.scope.body.walk() if node.value in s.defs and s.number < stmt.number]
        value = made[-1].node.value if made and isinstance(made[-1].node, cst.Assign) else None
        plain = value is not None and dotted(made[-1].node.targets[0].target) == node.value  # type: ignore[union-attr]
        return plain and type(value) is not cst.Name and _picked(value, made[-1], module)  # type: ignore[arg-type]
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in CHAINED:
        node = node.func.value
    if type(node) is cst.Call:
        return name_called(node) == "nonzero" and not _of_each(node, module)
    if type(node) is not cst.Subscript or type(node.slice[0].slice) is not cst.Index:
        return False
    if type(node.value) is cst.Call and name_called(node.value) in ("where", "nonzero"):
        return len(node.value.args) < 3
    index = node.slice[0].slice.value
    known = module.value(index)
    return known.kind == "tensor" and known.dtype == "bool" or _mask(index, stmt)


def _of_each(call: cst.Call, module: ModuleInfo) -> bool:
    """A list for each axis: `np.nonzero(mask)`, `mask.nonzero(as_tuple=True)`."""
    asked = next((a.value for a in call.args if a.keyword is not None and a.keyword.value == "as_tuple"), None)
    return is_on(asked) or module.value(call).kind == "tuple"


def _mask(node: cst.BaseExpression, stmt: Stmt) -> bool:
    """Comparisons joined by `&` and `|`, what `~` turns around, or a name for them; `-1` is a number."""
    if type(node) is cst.BinaryOperation and isinstance(node.operator, (cst.BitAnd, cst.BitOr)):
        return _mask(node.left, stmt) or _mask(node.right, stmt)
    if type(node) is cst.Name:
        made = [s.node for s in stmt.block.scope.body.walk() if node.value in s.defs and s.number < stmt.number]
        value = made[-1].value if made and isinstance(made[-1], cst.Assign) else None
        return value is not None and type(value) is not cst.Name and _mask(value, stmt)
    inverted = type(node) is cst.UnaryOperation and isinstance(node.operator, cst.BitInvert)
    return inverted or type(node) is cst.Comparison
