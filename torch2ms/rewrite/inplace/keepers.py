"""Who keeps a tensor that a later activation changes in place: `feats.append(x)`, then `x = self.relu(x)`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.evaluation import activations
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.liveness import definite, read_after
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import shares
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.rewrite.writer import Writer

DISPLAYS = (cst.Tuple, cst.List, cst.Dict, cst.Set)


class Kept(NamedTuple):
    place: str  # an expression that is the tensor at the call; "" where there is none
    turn: bool  # kept in one turn of a loop, changed in the next
    whole: bool  # the tensor itself, and no view of it


def keepers(name: str, call: Stmt, writer: Writer) -> Iterator[Kept]:
    """The places that have the tensor of the name when the statement changes it, as far as somebody looks there."""
    scope = call.block.scope
    again = {s for s in scope.body.walk() if scope.is_function and name in s.defs and _same(name, s, writer)}
    loops = [owner for owner in call.ancestors() if owner.is_loop]
    for stmt in scope.body.walk() if scope.is_function else ():
        uses = stmt is not call and not stmt.blocks and any(root(use) == name for use in stmt.uses)
        if not uses or type(stmt.node) is cst.Return or not shares(stmt, name):
            continue
        before = stmt.number < call.number and not stmt.excludes(call) and not _bound(name, stmt, call, again)
        around = next((loop for loop in loops if loop in stmt.ancestors()), None)
        turn = not before and around is not None and not _turned(name, stmt, call, around)
        target = _target(stmt) if before or turn else None
        if target is not None and _looked_at(target, call):
            place = code(target) if before and _steady(target, stmt, call) else ""
            yield Kept(place, turn, any(dotted(value) == name for value in _given(stmt)))


def _given(stmt: Stmt) -> list[cst.BaseExpression]:
    """What the statement assigns, or hands a method."""
    node = stmt.node
    if isinstance(node, cst.Assign):
        return [node.value]
    called = node.value if isinstance(node, cst.Expr) else None
    return [arg.value for arg in called.args] if isinstance(called, cst.Call) else []


def _same(name: str, stmt: Stmt, writer: Writer) -> bool:
    """`x = self.relu(x)`: what is bound is the tensor itself, changed in place."""
    value = stmt.node.value if isinstance(stmt.node, cst.Assign) else None
    if not isinstance(value, cst.Call):
        return False
    subjects = activations.subjects(value, writer.module, writer.project)
    layer = writer.module.value(value.func)
    known = layer.kind == "api" or layer.name.startswith("torch.nn.") and layer.items is None
    return known and any(dotted(arg.value) == name and activations.at_once(acts) for arg, acts in subjects)


def _bound(name: str, start: Stmt, call: Stmt, again: set[Stmt]) -> bool:
    """Between the two the name is sure to become another tensor's."""
    around = [block for one in (start, call) for block in (one.block, *(owner.block for owner in one.ancestors()))]
    between = (s for block in around for s in block.stmts if start.number < s.number < call.number)
    return any(name in definite(s) and s not in again for s in between)


def _turned(name: str, stmt: Stmt, call: Stmt, loop: Stmt) -> bool:
    """The name is another tensor's when the next turn of the loop comes to the call."""
    if stmt.number < call.number and name in call.defs:
        return True
    around = [block for s in (stmt, call) for block in (s.block, *(o.block for o in s.ancestors()))]
    inside = {id(s): s for block in around for s in block.stmts if loop in s.ancestors()}.values()
    binding = [s for s in inside if s is not call and s is not stmt and not s.blocks and name in definite(s)]
    return any(s.number > stmt.number or s.number < call.number for s in binding)


def _target(stmt: Stmt) -> cst.BaseExpression | None:
    """What the tensor is reached by from then on; None for a second name of it (see activated.other_names)."""
    node = stmt.node
    if isinstance(node, cst.Assign) and len(node.targets) == 1:
        target = node.targets[0].target
        return None if isinstance(target, cst.Name) and dotted(node.value) else target  # `first = x[0]` is a view
    called = node.value if isinstance(node, cst.Expr) else None
    if isinstance(called, cst.Call) and isinstance(called.func, cst.Attribute):
        last = cst.parse_expression(f"{code(called.func.value)}[-1]")
        return last if called.func.attr.value == "append" else called.func.value
    return node.target if isinstance(node, (cst.AugAssign, cst.AnnAssign)) else cst.Tuple([])


def _home(target: cst.BaseExpression) -> str:
    return root(dotted(target.value if isinstance(target, cst.Subscript) else target))


def _looked_at(target: cst.BaseExpression, call: Stmt) -> bool:
    """Somebody may read it afterwards: a local container that nobody reads keeps for nobody."""
    home, scope = _home(target), call.block.scope
    local = home in scope.locals and home not in scope.params
    return not local or home in read_after(call.block, [call], call.block.stmts.index(call))


def _steady(target: cst.BaseExpression, stmt: Stmt, call: Stmt) -> bool:
    """It is the tensor itself, and means the same at the call as where the tensor was put there."""
    whole = not isinstance(stmt.node, cst.Assign) or not isinstance(stmt.node.value, DISPLAYS)
    if stmt.block is not call.block or not whole or isinstance(target, (cst.Tuple, cst.List)):
        return False
    names = {n.value for n in descend(target) if isinstance(n, cst.Name)} | {dotted(target)}
    held = dotted(target.value) if isinstance(target, cst.Subscript) else ""
    between = [s for s in stmt.block.stmts if stmt.number < s.number < call.number]
    return not any(s.blocks or names & s.defs or held in {*s.defs, *s.uses, *s.muts} for s in between)
