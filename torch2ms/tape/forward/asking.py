"""What conditions ask: what they are computed from, but for shapes and kinds, which stay as they are in training."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import descend
from torch2ms.tape.forward.choices import asked_there, but_for_shapes, of_shape, own

FINDING = frozenset("nonzero argwhere flatnonzero masked_select unique".split())  # as many as the values let be found


def asked_by(
    test: cst.BaseExpression, stmt: Stmt, asked: set[str] | None = None, there: bool = True
) -> tuple[list[cst.CSTNode], set[str]]:
    """The expressions that a condition of a statement is computed by, itself first, and all that they read.

    Of its names only those that are `asked`: what loops and comprehensions count with is none of the statement's.
    Without `there`, only those whose values it reads: `shift = self.shift` is not, where it asks `shift is not None`.
    """
    whole = isinstance(stmt.node, cst.If) and stmt.node.test is test
    if type(test) is cst.Subscript and not whole:
        test = test.slice[0].slice  # type: ignore[assignment]  # which item, not what it is an item of
    parts = list(but_for_shapes(test))
    uses = {u for u in _uses(parts, stmt) if asked is None or root(u) in asked}
    named = {dotted(what) for n in descend(test) if there and type(what := asked_there(n)) is cst.Name}
    for bound in (s for s in stmt.block.scope.body.walk() if named and s.number < stmt.number and s.defs & named):
        value = bound.node.value if type(bound.node) is cst.Assign else None
        if type(value) in (cst.Attribute, cst.Subscript) or type(value) is cst.Call and name_called(value) == "get":
            uses |= bound.uses  # `target = batch.get("target")`
    for bound in _found(test, stmt):
        parts.append(own(bound))
        uses |= bound.uses
    loops = {id(a) for a in stmt.ancestors() if a.is_loop}
    left = [s for s in stmt.block.scope.body.walk() if s is not stmt and not isinstance(s.node, cst.FunctionDef)]
    found = True
    while found:
        found = False
        for before in reversed(left):
            again = before.number > stmt.number and any(id(a) in loops for a in before.ancestors())
            if before.defs & uses and (again or before.number < stmt.number) and not _opens(before):
                around = [a for a in before.ancestors() if isinstance(a.node, (cst.If, cst.While))]
                around += [s for a in before.ancestors() if a.is_loop for s in a.walk() if _ends(s)]
                made = [p for s in (before, *around) for p in but_for_shapes(own(s))]
                parts += made
                uses |= _uses(made, before)
                left.remove(before)
                found = True
    return parts, uses


def _found(test: cst.BaseExpression, stmt: Stmt) -> list[Stmt]:
    """What binds the names of whose shape a condition asks, where the values decide about it:
    `rows = torch.where(expert == k)[0]`, `if rows.numel() == 0`."""
    sized = {n.value for part in descend(test) if of_shape(part) for n in descend(part) if type(n) is cst.Name}
    bound = [s for s in stmt.block.scope.body.walk() if s.number < stmt.number and s.defs & sized] if sized else []
    return [s for s in bound if not s.blocks and any(_finds(c) for c in s.calls)]


def _finds(call: cst.Call) -> bool:
    name = name_called(call)
    return name in FINDING or name == "where" and len(call.args) == 1


def _ends(stmt: Stmt) -> bool:
    """A condition decides about how many turns a loop takes."""
    return isinstance(stmt.node, cst.If) and any(isinstance(s.node, (cst.Break, cst.Continue)) for s in stmt.walk())


def _opens(stmt: Stmt) -> bool:
    """A block whose statements are looked at one by one."""
    return bool(stmt.blocks) and not isinstance(stmt.node, cst.For)


def _uses(parts: list[cst.CSTNode], stmt: Stmt) -> set[str]:
    return set[str]().union(*(expression_uses(p, stmt) for p in parts))
