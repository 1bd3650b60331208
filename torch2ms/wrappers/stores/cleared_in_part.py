"""`net.body.zero_grad()` between the backward calls of one step, written as a loop that fills with zeros.

Without gradients an optimizer passes over the parameters; with zeros it does not. Where each of them has another
gradient before anything uses what is there, nobody can tell the two apart: losses of several tasks that are played back
one after the other, and whose gradients in the body are projected (CAGrad and its kin), are written so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import overlaps, within
from torch2ms.editing.suites import Made, Suites
from torch2ms.tape.forward.surely_run import runs
from torch2ms.wrappers.gradients.added import DEEP, uses_gradients
from torch2ms.wrappers.passes import each_module

CLEARS = re.compile(r"\w\.(?!optim|opt\b)\w+(?:\[\w+\])?\.zero_grad\(\)|:\s+\w+\.grad = None")
OK, USED = "another gradient is there", "what is there is used"


@each_module
def cleared_in_part(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that clears a part of a network so."""
    if not module.says(CLEARS) or not module.has(".backward("):
        return None
    found = {id(stmt.node): part for scope in module.scope.walk() for stmt, part in _found(scope, module, project)}
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope, module: ModuleInfo, project: Project) -> list[tuple[Stmt, str]]:
    """The statements that clear a part of what an optimizer of the scope has, with the code of that part."""
    stmts = [s for s in scope.body.walk() if type(s.node) is cst.Expr or type(s.node) is cst.For]
    cleared = [(s, part) for s in stmts if (part := _cleared(s)) is not None and not s.off]
    cleared = [(s, part) for s, part in cleared if module.value(part).kind == "module"]
    if not cleared:
        return []
    steps = [c.func.value for s in scope.body.walk() for c in s.calls
             if isinstance(c.func, cst.Attribute) and c.func.attr.value == "step"]  # fmt: skip
    owns = {place for value in map(module.value, steps) if value.kind == "optimizer" for place in value.owns or ()}
    parts = [(s, part, module.value(part).place) for s, part in cleared]
    parts = [each for each in parts if any(each[2].startswith(f"{place}.") for place in owns)]
    return [(s, code(part)) for s, part, place in parts if _refilled(s, _Part(place, scope, module, project))]


def _cleared(stmt: Stmt) -> cst.BaseExpression | None:
    """The part that `net.body.zero_grad()` clears, or a loop over its parameters that says `p.grad = None`."""
    node = stmt.node
    if type(node) is cst.Expr and type(call := node.value) is cst.Call and type(call.func) is cst.Attribute:
        plain = call.func.attr.value == "zero_grad" and all(constant(a.value) is True for a in call.args)
        return call.func.value if plain else None
    if type(node) is not cst.For or type(node.target) is not cst.Name or len(stmt.walk()) != 2:
        return None
    (inner,) = stmt.blocks[0].stmts
    over = node.iter.func if isinstance(node.iter, cst.Call) and not node.iter.args else None
    if not isinstance(over, cst.Attribute) or over.attr.value != "parameters":
        return None
    return over.value if code(inner.node).strip() == f"{node.target.value}.grad = None" else None


def _refilled(stmt: Stmt, part: _Part) -> bool:
    """On each way from here something else is stored, or cleared, before anything uses what is there."""
    while True:
        stmts = stmt.block.stmts
        at = stmts.index(stmt)
        behind = part.first(stmts[at + 1 :])
        if behind is not None:
            return behind == OK
        around = stmt.block.owner
        if around is None:
            return part.scope.is_module
        if around.is_loop and part.first(stmts[: at + 1]) == USED:
            return False
        stmt = around


class _Part:
    """A part of a network, and what statements do with its gradients."""

    def __init__(self, place: str, scope: Scope, module: ModuleInfo, project: Project) -> None:
        self.place = place
        self.scope, self.module, self.project = scope, module, project

    def first(self, stmts: Sequence[Stmt]) -> str | None:
        """What happens first, if anything does."""
        return next((found for stmt in stmts if (found := self.done(stmt)) is not None), None)

    def done(self, stmt: Stmt) -> str | None:
        if not stmt.blocks:
            return self.small(stmt)
        if self.fills(stmt):
            return OK
        if any(type(n) is cst.Attribute and n.attr.value == "grad" for n in _header(stmt)):
            return USED
        ways = [self.first(block.stmts) for block in stmt.blocks]
        if USED in ways or isinstance(stmt.node, (cst.Try, cst.Match)) and any(ways):
            return USED
        whole = stmt.is_loop or isinstance(stmt.node, cst.With) or len(ways) == 2
        return OK if whole and all(ways) else None

    def small(self, stmt: Stmt) -> str | None:
        """A statement without a block: the parts of it in the order in which they run."""
        if any(type(n) is cst.Attribute and n.attr.value == "grad" and self.is_of(n) for n in stmt.nodes):
            return USED
        if isinstance(stmt.node, (cst.Return, cst.Raise, cst.Break, cst.Continue)):
            return USED
        for call in stmt.calls:
            name = name_called(call)
            value = self.module.value(call.func.value) if isinstance(call.func, cst.Attribute) else None
            info = resolve(call, self.scope, self.module, self.project)
            if info is not None and uses_gradients(info, self.project, DEEP):
                return USED
            if info is not None or value is None:
                continue
            if name == "backward" and self.place in value.deps and self.surely(stmt):
                return OK
            if name == "zero_grad" and any(within(self.place, {p}) for p in value.owns or {value.place}):
                return OK
            if name in ("step", "unscale_", "backward", "zero_grad") or "clip_grad" in name:
                places = value.owns if value.kind == "optimizer" else value.deps
                if not places or any(overlaps(p, self.place) for p in places):
                    return USED
        return None

    def surely(self, stmt: Stmt) -> bool:
        """The loss of a backward call depends on each parameter of the part, whatever is the case."""
        around = [stmt.block, *(a.block for a in stmt.ancestors())]
        before = (s for block in around for s in block.stmts if s.number <= stmt.number)
        return any(runs(s, self.place, self.module, self.project) for s in before)

    def fills(self, stmt: Stmt) -> bool:
        """Each turn of a loop over the parameters of the part stores a gradient."""
        node = stmt.node
        if type(node) is not cst.For or self.place not in self.module.value(_params(node)).deps:
            return False
        stores = [s for s in stmt.blocks[0].stmts if _stored(s)]
        names = [n for s in stmt.walk() for n in s.nodes if not s.blocks
                 if type(n) is cst.Attribute and n.attr.value == "grad"]  # fmt: skip
        return len(stores) == len(names) == 1

    def is_of(self, grad: cst.Attribute) -> bool:
        """The gradient may be of the part."""
        value = self.module.value(grad.value)
        places = {d for d in value.deps if not d.startswith("@")}
        return not places or any(overlaps(d, self.place) for d in places)


def _params(loop: cst.For) -> cst.BaseExpression:
    """The parameters that a loop goes over, counted or beside something else."""
    given = loop.iter
    if isinstance(given, cst.Call) and dotted(given.func) in ("enumerate", "zip") and given.args:
        return given.args[0].value
    return given


def _stored(stmt: Stmt) -> bool:
    node = stmt.node
    targets = [t.target for t in node.targets] if type(node) is cst.Assign else []
    return len(targets) == 1 and isinstance(targets[0], cst.Attribute) and targets[0].attr.value == "grad"


def _header(stmt: Stmt) -> Iterator[cst.CSTNode]:
    node = stmt.node
    asked = node.test if isinstance(node, (cst.If, cst.While)) else node.iter if isinstance(node, cst.For) else None
    return descend(asked) if asked is not None else iter(())


class _Writer(Suites):
    """One module with loops that fill with zeros."""

    def __init__(self, module: ModuleInfo, found: dict[int, str]) -> None:
        super().__init__(module)
        self.found = found
        used = {n.value for n in module.of_kind(cst.Name)}
        self.name = next(n for n in ("p", "param", "parameter", "each_parameter") if n not in used or n == "p")

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [self.rewrite(node)] if id(node) not in self.found else [self.zeroing(node)]

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.found:
            return super().compound(original, updated)
        leading = updated.leading_lines  # type: ignore[attr-defined]
        return [self.zeroing(original).with_changes(leading_lines=leading)], ()

    def zeroing(self, source: cst.CSTNode) -> cst.BaseCompoundStatement:
        """The loop in the place of a statement."""
        text = f"for {self.name} in {self.found[id(source)]}.parameters():\n    {self.name}.grad.zero_()"
        made = cst.parse_statement(text, self.module.tree.config_for_parsing)
        assert isinstance(made, cst.For)
        for node in descend(made):
            if isinstance(node, (cst.BaseSmallStatement, cst.BaseCompoundStatement)):
                self.number(node, source)
        return made


__all__ = ["cleared_in_part"]
