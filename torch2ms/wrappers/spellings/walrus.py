"""`(loss := criterion(net(x), y)).backward()`, with an assignment of its own for what it binds.

What is trained, and what is differentiated, is known by the statements that bind it. A name that is bound within an
expression gets one where nothing runs before it in its statement, and where it is bound in any case.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, code
from torch2ms.editing import layout
from torch2ms.editing.rewriter import Rewriter
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

TORCH = ("tensor", "param", "params", "module", "optimizer", "scheduler", "scaler", "lossfn", "loader")
OPAQUE = (cst.Lambda, cst.BaseComp, cst.Await, cst.Yield)
RUNS = (cst.Call, cst.Subscript, cst.Attribute)


@each_module
def bound_before(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that binds names so."""
    if not module.has(":="):
        return None
    writer = Walrus(module)
    made = writer.plain()
    return made if writer.changed else None


class Walrus(Suites):
    """One module, with the assignments."""

    changed = False

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        named = module.of_kind(cst.NamedExpr)
        self.wanted = {n.target.value for n in named if isinstance(n.target, cst.Name) and _wanted(n, module)}

    def statement(self, stmt: cst.CSTNode) -> Made:
        made, pending = super().statement(stmt)
        if len(made) != 1 or pending or not self.wanted or isinstance(stmt, (cst.FunctionDef, cst.ClassDef)):
            return made, pending
        lines = self.parted(stmt, made[0])
        self.changed |= len(lines) > 1 or lines[0] is not made[0]
        return lines, ()

    def parted(self, source: cst.CSTNode, stmt: cst.BaseStatement) -> list[cst.BaseStatement]:
        """Assignments, and what is left of the statement behind them."""
        above: list[cst.BaseStatement] = []
        while (held := _evaluated(stmt)) is not None:
            named = _first(held)
            if named is None or dotted(named.target) not in self.wanted:
                break
            target, value = cst.Name(dotted(named.target)), layout.standing(named.value.with_changes(lpar=(), rpar=()))
            assert isinstance(value, cst.BaseExpression)
            above.append(cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(target)], value)]))
            if held is named and isinstance(_small(stmt), cst.Expr):
                return self.led(source, above, ())
            stmt = _In(held, _Swapped(named).rewrite(held)).rewrite(stmt)  # type: ignore[assignment]
        return self.led(source, above, (stmt,))

    def led(
        self, source: cst.CSTNode, above: Sequence[cst.BaseStatement], rest: Sequence[cst.BaseStatement]
    ) -> list[cst.BaseStatement]:
        """The first of them has what stood above the statement, the last what stood beside it."""
        made = [*above, *rest]
        if not above:
            return made
        made[0] = made[0].with_changes(leading_lines=source.leading_lines)  # type: ignore[attr-defined]
        if rest:
            made[-1] = made[-1].with_changes(leading_lines=())
        elif isinstance(source, cst.SimpleStatementLine):
            made[-1] = made[-1].with_changes(trailing_whitespace=source.trailing_whitespace)
        inner = layout.inner_comments(source.body[0]) if isinstance(source, cst.SimpleStatementLine) else []
        if inner and not any("#" in code(line) for line in made):
            leading = [*made[0].leading_lines, *inner]  # type: ignore[attr-defined]
            made[0] = made[0].with_changes(leading_lines=leading)
        stood = source.body[0] if isinstance(source, cst.SimpleStatementLine) else source
        for line in made:
            for node in line.body if isinstance(line, cst.SimpleStatementLine) else (line,):
                self.number(node, stood)
        return made


class _Swapped(Rewriter):
    """The name in the place of what binds it."""

    def __init__(self, named: cst.NamedExpr) -> None:
        self.named = named

    def leave_NamedExpr(self, original: cst.NamedExpr, updated: cst.NamedExpr) -> cst.BaseExpression:
        return original.target.deep_clone() if original is self.named else updated


class _In(Rewriter):
    """One expression in the place of another."""

    def __init__(self, old: cst.CSTNode, new: cst.CSTNode) -> None:
        self.old, self.new = old, new

    def rewrite(self, node: cst.CSTNode) -> cst.CSTNode:
        return self.new if node is self.old else super().rewrite(node)


def _wanted(node: cst.NamedExpr, module: ModuleInfo) -> bool:
    value = module.value(node.value)
    return value.kind in TORCH or value.leaf or bool(value.deps)


def _small(stmt: cst.CSTNode) -> cst.CSTNode | None:
    single = isinstance(stmt, cst.SimpleStatementLine) and len(stmt.body) == 1
    return stmt.body[0] if single else None  # type: ignore[attr-defined]


def _evaluated(stmt: cst.CSTNode) -> cst.BaseExpression | None:
    """What a statement evaluates once, and before anything else."""
    small = _small(stmt)
    if isinstance(small, (cst.Assign, cst.AnnAssign, cst.Expr, cst.Return)):
        return small.value
    if isinstance(small, cst.AugAssign) and isinstance(small.target, cst.Name):
        return small.value
    if isinstance(stmt, cst.If):
        return stmt.test
    return stmt.iter if isinstance(stmt, cst.For) else None


class _Stop(Exception):
    """Something runs before what comes next, or what comes next may not run."""


def _first(root: cst.BaseExpression) -> cst.NamedExpr | None:
    """The first name that an expression binds, where it is bound before anything else runs."""
    seen: set[str] = set()

    def search(node: cst.CSTNode, called: bool = False) -> cst.NamedExpr | None:
        if isinstance(node, OPAQUE):
            raise _Stop
        if isinstance(node, cst.NamedExpr):
            inner = _first(node.value)
            if inner is None and dotted(node.target) in seen:
                raise _Stop  # `x + (x := f(x))` reads the former first
            return inner or node
        if called and (callee := dotted(node)):
            seen.add(callee.partition(".")[0])
            return None
        if isinstance(node, cst.Name):
            seen.add(node.value)
        for part, certain in _parts(node):
            found = search(part, isinstance(node, cst.Call) and part is node.func)
            if found is not None:
                return found
            if not certain:
                raise _Stop
        if isinstance(node, RUNS) and not (called and isinstance(node, cst.Attribute)):
            raise _Stop
        return None

    try:
        return search(root)
    except _Stop:
        return None


def _parts(node: cst.CSTNode) -> list[tuple[cst.CSTNode, bool]]:
    """The parts of an expression in the order in which they run; False for the last that is certain to."""
    if isinstance(node, cst.IfExp):
        return [(node.test, False)]
    if isinstance(node, cst.BooleanOperation):
        return [(node.left, False)]
    if isinstance(node, cst.Comparison):
        return [(node.left, True), (node.comparisons[0].comparator, len(node.comparisons) == 1)]
    if isinstance(node, cst.Attribute):
        return [(node.value, True)]
    if isinstance(node, cst.Arg):
        return [(node.value, True)]
    return [(child, True) for child in children(node)]


__all__ = ["bound_before"]
