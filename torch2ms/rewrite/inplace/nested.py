"""In-place methods inside larger expressions: `out.append(x.mul_(2))`, `return x.clamp_(0, 1)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, code, constant
from torch2ms.analysis.values import Value
from torch2ms.api.promotion import promoted
from torch2ms.rewrite.inplace.chains import base, is_change, is_temporary
from torch2ms.rewrite.inplace.sharing import fresh

if TYPE_CHECKING:
    from torch2ms.rewrite.inplace.stores import InPlace
    from torch2ms.tape.plan import Plan

TYPED = {"eq_", "ne_", "gt_", "ge_", "lt_", "le_", "greater_", "less_", "not_equal_", "greater_equal_", "less_equal_",
         "logical_not_", "logical_and_", "logical_or_", "logical_xor_"}  # fmt: skip
LATE = frozenset({
    cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp, cst.IfExp, cst.BooleanOperation
})  # fmt: skip
QUIET = frozenset({cst.Name, cst.Integer, cst.Float, cst.SimpleString})


def widens(call: cst.Call, value: Value, module: ModuleInfo) -> bool:
    """`x.add_(y)` where `y` is of a wider element type: the tensor keeps its own, the method's result does not."""
    if not value.dtype or value.likely or value.kind != "tensor":
        return False
    given = [module.value(arg.value) for arg in call.args]
    types = {one.dtype for one in given if one.kind == "tensor" and one.dtype and not one.likely and one.rank != 0}
    return bool(types) and promoted({value.dtype, *types}) not in ("", value.dtype)


def of_dict(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`state["h"]`: what a dict holds under a key that is written there."""
    if not isinstance(node, cst.Subscript) or len(node.slice) != 1 or not dotted(node.value):
        return False
    index = node.slice[0].slice
    return module.value(node.value).kind == "dict" and isinstance(index, cst.Index) and constant(index.value) is not ...


def raise_changes(in_place: InPlace, stmt: Stmt) -> list[cst.BaseStatement]:
    """The changes as statements of their own, to stand above; one whose tensor is not read again stays, as a value."""
    if not any(map(is_change, stmt.calls)):
        return []
    writer = in_place.writer
    above: list[cst.BaseStatement] = []
    first = True
    whole = stmt.node.value if isinstance(stmt.node, cst.Expr) else None  # it stays, what it is given is looked at
    for call in _given(whole) if whole is not None and is_change(whole) else _changes(stmt.node):
        target = base(call)
        receiver = in_place.module.value(target)
        if id(call) in writer.plan.expressions or isinstance(target, cst.Attribute) and is_temporary(target):
            continue
        named = isinstance(target, (cst.Name, cst.Attribute)) or of_dict(target, in_place.module)
        if receiver.kind not in ("tensor", "param") or not named:
            return above
        uses = [n for n in stmt.nodes if isinstance(n, cst.Name) and code(n) == code(target)]
        unshared = fresh(target, writer.scope)
        block = stmt.block
        local = writer.scope.is_function  # names of a module are read from outside
        alone = local and len(uses) == 1 and fresh(target, writer.scope, but=stmt)
        if alone and code(target) not in liveness.read_after(block, [stmt], block.stmts.index(stmt)):
            chain: cst.CSTNode = call
            while is_change(chain):
                writer.plan.temporaries.add(id(chain))
                chain = chain.func.value  # type: ignore[attr-defined]
        elif first and (unshared and len(uses) == 1 or call in evaluated_first(stmt, in_place.module, writer.plan)):
            made = in_place.in_place(stmt, call)
            if made is None:
                writer.plan.refused.add(id(call))
                return above
            above += made
            writer.plan.expressions[id(call)] = code(target)
        first = False
    return above


def evaluated_first(stmt: Stmt, module: ModuleInfo, plan: Plan) -> Iterator[cst.CSTNode]:
    """The expressions of a statement of which nothing else is evaluated before, each behind what it is a part of.

    Names, constants and what is looked up under them do not count, nor do changes that stand above it already.
    """
    yield from _evaluated(getattr(stmt.node, "value", None), module, plan)


def _evaluated(node: cst.CSTNode | None, module: ModuleInfo, plan: Plan) -> Iterator[cst.CSTNode]:
    if node is None or id(node) in plan.expressions:
        return
    yield node
    for part in _parts(node, module):
        yield from _evaluated(part, module, plan)
        if type(part) not in QUIET and not _looked_up(part, module) and id(part) not in plan.expressions:
            return


def _parts(node: cst.CSTNode, module: ModuleInfo) -> list[cst.BaseExpression]:
    """What is evaluated whenever a node is, in order."""
    if type(node) is cst.Call:
        args = [arg.value for arg in node.args]
        if type(node.func) is cst.Attribute and module.value(node.func).kind != "api":
            return [node.func.value, *args]
        return args
    if type(node) is cst.BinaryOperation:
        return [node.left, node.right]
    if type(node) is cst.Comparison or type(node) is cst.BooleanOperation:
        return [node.left]
    if type(node) is cst.Attribute or type(node) is cst.Subscript:
        return [node.value]
    if type(node) is cst.UnaryOperation:
        return [node.expression]
    return [element.value for element in node.elements] if type(node) is cst.Tuple or type(node) is cst.List else []


def _looked_up(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`self.kept`, `state[name]`: a reference, which no change in place makes another.

    Rows of a tensor are, where their number is written; those that other tensors pick are a copy of their own.
    """
    if type(node) is not cst.Subscript:
        return bool(dotted(node))
    places = [part.slice.value for part in node.slice if type(part.slice) is cst.Index]
    written = len(places) == len(node.slice) and all(constant(place) is not ... for place in places)
    held = module.value(node.value).kind in ("dict", "list", "tuple") and all(dotted(place) for place in places)
    return (written or held) and _looked_up(node.value, module)


def _given(chain: cst.CSTNode) -> Iterator[cst.Call]:
    """The changes in the arguments of a chain of them: `p.add_(update.sign_(), alpha=-lr)`."""
    if is_change(chain):
        yield from _given(chain.func.value)  # type: ignore[attr-defined]
        for arg in chain.args:  # type: ignore[attr-defined]
            yield from _changes(arg)


def _changes(node: cst.CSTNode) -> Iterator[cst.Call]:
    """Outermost in-place chains that are evaluated whenever the statement is, in order; what a chain changes may be
    made by others: `(v.add_(eps).sqrt() / c).add_(eps)`."""
    for child in children(node):
        if type(child) in LATE:
            continue
        if is_change(child):
            assert isinstance(child, cst.Call)
            changed = base(child)
            if isinstance(changed, (cst.BinaryOperation, cst.UnaryOperation, cst.Call)):
                yield from _changes(changed)
            else:
                yield child
        else:
            yield from _changes(child)
