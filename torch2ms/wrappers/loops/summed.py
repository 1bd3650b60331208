"""`for k in losses: losses[k].backward(retain_graph=True)` as one backward call of the sum behind the loop.

Gradients add up, whether the losses do or the calls: a graph that several losses share is gone through once. Loops
that step, clear or look at gradients between the calls stay.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.layout import opened
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

WHY = "the sum of the losses goes backward behind the loop: their gradients add up, and they share a graph"
HELD = ("tensor", "list", "dict", "tuple", "unknown")
RUN = ("module", "lossfn", "api", "builtin", "str", "int", "float")
READING = {"item", "items", "values", "keys", "append", "mean", "sum", "pow", "abs", "norm", "get", "format"}
BRANCHING = frozenset({cst.Break, cst.Continue, cst.Return, cst.Raise, cst.With, cst.Try})
NAMES = ("total_loss", "summed_loss", "sum_of_losses")


class Summed(NamedTuple):
    """The backward call in a loop, what it goes backward from, and the name of the sum."""

    stmt: cst.CSTNode
    loss: cst.BaseExpression
    total: str


@each_module
def summed(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such loops."""
    if not module.has(".backward(") or module.has("hook("):
        return None
    found = {id(loop.node): made for scope in module.scope.walk() for loop, made in _found(scope, module)}
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope, module: ModuleInfo) -> Iterator[tuple[Stmt, Summed]]:
    for loop in scope.body.walk():
        if type(loop.node) is not cst.For or loop.off or len(loop.blocks) != 1:
            continue
        calls = [(s, call) for s in loop.blocks[0].stmts if (call := _backward(s.node)) is not None]
        if len(calls) != 1 or not _plain(loop, calls[0][0]) or not _shares(loop, scope):
            continue
        if not all(_harmless(c, module) for s in loop.walk() if s is not calls[0][0] for c in s.calls):
            continue
        stmt, call = calls[0]
        taken = {n.value for n in module.of_kind(cst.Name)}
        total = next((name for name in NAMES if name not in taken), "")
        if total:
            yield loop, Summed(stmt.node, call.func.value, total)  # type: ignore[attr-defined]


def _backward(node: cst.CSTNode) -> cst.Call | None:
    """`loss.backward(retain_graph=...)` and `loss.backward()`: nothing else is said."""
    call = node.value if type(node) is cst.Expr else None
    if type(call) is not cst.Call or type(call.func) is not cst.Attribute or call.func.attr.value != "backward":
        return None
    names = [a.keyword.value if a.keyword is not None else "" for a in call.args]
    return call if names in ([], ["retain_graph"]) else None


def _plain(loop: Stmt, stmt: Stmt) -> bool:
    """Nothing else in the loop has to do with gradients, and every turn gets to the call."""
    inside = [s for s in loop.walk() if s is not loop]
    if any(s.modes or type(s.node) in BRANCHING or s.blocks and s.off for s in inside):
        return False
    for node in (n for s in inside if s is not stmt and s.is_small for n in s.nodes):
        if type(node) is cst.Attribute and node.attr.value in ("grad", "step", "zero_grad", "backward", "data"):
            return False
        if type(node) is cst.Attribute and node.attr.value.endswith("_") and not node.attr.value.endswith("__"):
            return False
        if type(node) is cst.Name and "grad" in node.value:
            return False
    return True


def _harmless(call: cst.Call, module: ModuleInfo) -> bool:
    """A network, a function of torch or of Python, a method of a tensor or a container: none looks at gradients."""
    func = call.func
    if module.value(func).kind in RUN:
        return True
    held = module.value(func.value).kind if isinstance(func, cst.Attribute) else ""
    return held in RUN or held in HELD and (held != "unknown" or func.attr.value in READING)  # type: ignore[attr-defined]


def _shares(loop: Stmt, scope: Scope) -> bool:
    """What goes backward in the turns has a graph in common, which was made before the loop."""
    used = {root(u) for s in loop.walk() for u in s.uses}
    own = {root(d) for s in loop.walk() for d in s.defs}
    for stmt in scope.body.walk():
        for place in stmt.defs & (used - own) if stmt.number < loop.number else ():
            value = stmt.out.get(place)
            if value is not None and value.kind in HELD and not value.leaf and not value.of_leaves:
                if any(not d.startswith("@") and d != place for d in value.deps):
                    return True
    return False


class _Writer(Suites):
    """One module, with a sum in each of the loops."""

    def __init__(self, module: ModuleInfo, found: dict[int, Summed]) -> None:
        super().__init__(module)
        self.found = found
        self.stmts = {id(each.stmt): each for each in found.values()}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        each = self.stmts.get(id(node))
        if each is None:
            return super().small(node)
        loss = each.loss.with_changes(lpar=[], rpar=[]) if "\n" not in code(each.loss) else each.loss
        made = cst.AugAssign(cst.Name(each.total), cst.AddAssign(), loss)
        self.findings.append(Finding("T2M101", Tier.EXACT, "backward call", WHY, line=self.line))
        return [made]

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        each = self.found.get(id(original))
        if each is None:
            return super().compound(original, updated)
        assert isinstance(updated, cst.For)
        begun = cst.parse_statement(f"{each.total} = 0.0").with_changes(leading_lines=updated.leading_lines)
        last = cst.parse_statement(f"{each.total}.backward()")
        loop = self.renumbered(updated, leading_lines=(), body=opened(updated.body))
        for line, source in ((begun, original), (last, each.stmt)):
            assert isinstance(line, cst.SimpleStatementLine)
            self.number(line.body[0], source)
        return [begun, loop, last], ()


__all__ = ["summed"]
