"""In-place methods inside larger expressions: `out.append(x.mul_(2))`, `return x.clamp_(0, 1)`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import base, is_change, is_temporary, of_dict
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import fresh
from torch2ms.analysis.syntax.tree import children, code
from torch2ms.rewrite.inplace.evaluated import LATE, evaluated_first
from torch2ms.rewrite.inplace.stores import InPlace


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
