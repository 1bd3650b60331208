"""`rows = [torch.autograd.grad(y, x, v)[0] for v in vectors]`, written as a loop that appends.

A gradient becomes a call of a function that is defined above its statement; in a comprehension, what it is taken with
changes within the statement.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import descend, gathered
from torch2ms.editing.suites import Suites
from torch2ms.tape.ledger.pairs import COMPREHENSIONS, bound, clauses
from torch2ms.wrappers.passes import each_module

Gathering = tuple[cst.ListComp, str]


@each_module
def looped(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module with such comprehensions."""
    found = _gatherings(module) if module.has("autograd") else {}
    return Loops(module, found).plain() if found else None


class Loops(Suites):
    """One module, with the comprehension of each statement and the name of its list."""

    def __init__(self, module: ModuleInfo, gatherings: dict[int, Gathering]) -> None:
        super().__init__(module)
        self.gatherings = gatherings

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if id(node) not in self.gatherings:
            return [self.rewrite(node)]
        comprehension, name = self.gatherings[id(node)]
        kept = cst.Call(cst.Attribute(cst.Name(name), cst.Name("append")), [cst.Arg(comprehension.elt)])
        inner: cst.BaseStatement = cst.SimpleStatementLine([cst.Expr(kept)])
        for clause in reversed(list(clauses(comprehension.for_in))):
            for test in reversed(clause.ifs):
                inner = cst.If(test.test, cst.IndentedBlock([inner]))
            inner = cst.For(clause.target, clause.iter, cst.IndentedBlock([inner]))
        begun = cst.Assign([cst.AssignTarget(cst.Name(name))], cst.List([]))
        made: list[cst.CSTNode] = [begun, inner]
        if not (isinstance(node, cst.Assign) and node.value is comprehension and _name(node) == name):
            made.append(node.deep_replace(comprehension, cst.Name(name)))
        for part in made:
            self.number(part, node)
        return made


def _name(node: cst.CSTNode) -> str:
    """The one name that an assignment binds, "" for other statements."""
    if not isinstance(node, cst.Assign) or len(node.targets) != 1:
        return ""
    target = node.targets[0].target
    return target.value if isinstance(target, cst.Name) else ""


def _gatherings(module: ModuleInfo) -> dict[int, Gathering]:
    found: dict[int, Gathering] = {}
    taken: set[str] = set()
    for scope in (s for s in module.scope.walk() if s.is_function or s.is_module):  # classes keep the names of loops
        for stmt in scope.body.walk():
            comprehension = _gathering(stmt, scope, module) if not stmt.blocks and not stmt.off else None
            if comprehension is None:
                continue
            taken = taken or {n.value for n in module.of_kind(cst.Name)}
            name = _name(stmt.node)
            inside = {n.value for n in descend(comprehension) if isinstance(n, cst.Name)}
            whole = isinstance(stmt.node, cst.Assign) and stmt.node.value is comprehension
            if not name or name in inside or not whole:
                name = next(n for n in ("rows", *(f"rows_{i}" for i in range(2, len(taken) + 3))) if n not in taken)
                taken.add(name)
            found[id(stmt.node)] = comprehension, name
    return found


def _gathering(stmt: Stmt, scope: Scope, module: ModuleInfo) -> cst.ListComp | None:
    """The list comprehension of a statement that takes gradients with its own names, and may run before the rest."""
    if all(module.value(call.func).name != "torch.autograd.grad" for call in stmt.calls):
        return None
    if not isinstance(stmt.node, (cst.Assign, cst.AnnAssign, cst.Return, cst.Expr)):
        return None
    for node in _outermost(stmt.node):
        calls = [n for n in descend(node) if isinstance(n, cst.Call)]
        if not any(module.value(call.func).name == "torch.autograd.grad" for call in calls):
            continue
        names = {name for clause in clauses(node.for_in) for name in bound(clause)}
        own = {id(n) for n in descend(node)}
        around = [n for n in stmt.nodes if isinstance(n, cst.Call) and id(n) not in own]
        first = all(any(n is node for n in descend(call)) for call in around)
        waits = any(clause.asynchronous is not None for clause in clauses(node.for_in))
        alone = not waits and not names & (scope.locals | set(scope.params))
        if isinstance(node, cst.ListComp) and first and alone:
            return node
    return None


def _outermost(node: cst.CSTNode) -> Iterator[cst.ListComp]:
    """Comprehensions that stand in no other and in no lambda."""
    held = [n for n in gathered(node) if n.__class__ in COMPREHENSIONS or n.__class__ is cst.Lambda]
    inner = {id(n) for outer in held for n in descend(outer) if n is not outer}
    yield from (n for n in held if n.__class__ is not cst.Lambda and id(n) not in inner)  # type: ignore[misc]


__all__ = ["looped"]
