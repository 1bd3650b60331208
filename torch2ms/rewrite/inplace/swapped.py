"""Weights that show a tensor which somebody keeps, `p.data = self.shadow[name]`, until they are given another.

In torch the two have one memory in between. MindSpore's weight gets a copy: what an optimizer or an update of the
average changes there reaches the other no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.shown import taken
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import is_data
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.rewrite.parameters.held import is_parameter
from torch2ms.rewrite.writer import Writer

CHANGED, PUT_BACK = "changed", "put back"
Place = tuple[Scope, ModuleInfo]


def changed_while_shared(value: cst.BaseExpression, stmt: Stmt, writer: Writer) -> bool:
    """An optimizer steps, or what is kept changes, before the weights are given another memory."""
    kept = _keeper(value, stmt)
    if not kept or "." not in kept and kept in writer.scope.params or not _read_again(kept, stmt, writer):
        return False
    return _Order(kept, stmt, writer).behind(stmt, writer.module) == CHANGED


def _keeper(value: cst.BaseExpression, stmt: Stmt) -> str:
    """`self.shadow` for `self.shadow[name]`, `averages` for what a loop takes out of it."""
    whole = value.value if isinstance(value, cst.Subscript) else value
    for owner in stmt.ancestors() if isinstance(whole, cst.Name) else ():
        if type(owner.node) is cst.For and dotted(whole) in owner.defs:
            given = taken(owner.node.target, owner.node.iter, dotted(whole))
            return dotted(given) if given is not None else ""
    return dotted(whole)


def _read_again(kept: str, swap: Stmt, writer: Writer) -> bool:
    """Something else looks at the tensors, or changes them: an item by its key, or in a loop over them."""
    scope, attr = swap.block.scope, kept.rpartition(".")[2]
    homes = [scope] if "." not in kept else [s for m in writer.project.modules.values() for s in m.scope.walk()]
    stmts = [s for home in homes for s in home.body.walk() if s is not swap]
    if any(_changes(s, attr) for s in stmts):
        return True
    if any(_stores(s, node) and _item(node, attr) for s in stmts for node in s.nodes):
        return False  # what is read again is another tensor by then
    around = {owner for owner in swap.ancestors() if owner.is_loop}
    for stmt in stmts:
        if "." not in kept and stmt.number < swap.number and not any(a in around for a in stmt.ancestors()):
            continue
        if type(stmt.node) is cst.For and attr in {u.rpartition(".")[2] for u in stmt.uses}:
            names = stmt.defs if stmt in around else set()
            if stmt not in around or any(names & s.uses & swap.uses for s in stmt.walk() if s not in (stmt, swap)):
                return True
        if any(_item(node, attr) for node in stmt.nodes):
            return True
    return False


def _changes(stmt: Stmt, attr: str) -> bool:
    """The tensors that are kept change in place: `self.shadow[name].mul_(beta)`, `s += p - s` of what a loop takes."""
    changes = type(stmt.node) is cst.AugAssign or any(is_change(call) for call in stmt.calls)
    return changes and any(attr in m.split(".") for m in stmt.muts)


def _item(node: cst.CSTNode, attr: str) -> bool:
    """`self.shadow[name]`"""
    return type(node) is cst.Subscript and dotted(node.value).rpartition(".")[2] == attr


def _stores(stmt: Stmt, node: cst.CSTNode) -> bool:
    return type(stmt.node) is cst.Assign and any(node is t.target for t in stmt.node.targets)


class _Order:
    """What comes first behind a statement, here and where its function is called."""

    def __init__(self, kept: str, swap: Stmt, writer: Writer) -> None:
        self.kept = kept.rpartition(".")[2]
        self.swap, self.writer = swap, writer
        self.scopes = _by_name(writer.project)
        self.asked: set[int] = set()

    def behind(self, stmt: Stmt, module: ModuleInfo) -> str:
        """What comes first behind it, "" if nothing does that is seen."""
        scope = stmt.block.scope
        if id(stmt) in self.asked:
            return ""
        self.asked.add(id(stmt))
        if found := self.first(_following(stmt), module):
            return found
        called = ((s, m) for home, m in self.all_scopes() for s in home.body.walk() if not s.blocks or _opens(s))
        for other, home in called if scope.is_function else ():
            if any(name_called(call) == scope.name for call in other.calls) and self.behind(other, home) == CHANGED:
                return CHANGED
        return ""

    def all_scopes(self) -> Iterator[Place]:
        for module in self.writer.project.modules.values():
            for scope in module.scope.walk():
                yield scope, module

    def first(self, stmts: list[Stmt], module: ModuleInfo) -> str:
        for stmt in stmts:
            if found := self.of(stmt, module):
                return found
        return ""

    def of(self, stmt: Stmt, module: ModuleInfo) -> str:
        """What a statement does, itself or in a function that it calls."""
        node = stmt.node
        if type(node) is cst.Expr and type(node.value) is cst.Yield:
            return self.within(stmt.block.scope)
        if (
            type(node) is cst.Assign
            and any(self.given(t.target, module) for t in node.targets)
            and stmt is not self.swap
        ):
            return PUT_BACK
        if self.changes(stmt, module):
            return CHANGED
        for call in stmt.calls:
            for scope, home in self.called(call, stmt, module):
                if id(scope) not in self.asked:
                    self.asked.add(id(scope))
                    found = self.first(list(scope.body.walk()), home)
                    self.asked.discard(id(scope))
                    if found:
                        return found
        return ""

    def called(self, call: cst.Call, stmt: Stmt, module: ModuleInfo) -> list[Place]:
        """The functions that a call runs, as far as is seen: of methods those of the class of their object."""
        found = self.scopes.get(name_called(call), [])
        if not found or type(call.func) is not cst.Attribute:
            return [place for place in found if place[0].cls is None]
        owner, around = module.value(call.func.value), stmt.block.scope.cls
        own = dotted(call.func.value) == "self" and around is not None
        name = around.name if own and around is not None else owner.name.rpartition(".")[2]
        methods = [place for place in found if place[0].cls is not None]
        mine = [place for place in methods if place[0].cls is not None and place[0].cls.name == name]
        return mine or (methods if len(methods) == 1 and (own or owner.kind == "unknown") else [])

    def within(self, scope: Scope) -> str:
        """What stands in the blocks that a context is opened for: `with averages.swapped():`."""
        for home, module in self.all_scopes():
            for stmt in home.body.walk():
                if type(stmt.node) is cst.With and any(name_called(call) == scope.name for call in stmt.calls):
                    if self.first([s for s in stmt.walk() if s is not stmt], module) == CHANGED:
                        return CHANGED
        return ""

    def given(self, target: cst.BaseExpression, module: ModuleInfo) -> bool:
        """`p.data` of a weight."""
        return is_data(target, module) and self.weight(target.value, module)  # type: ignore[attr-defined]

    def weight(self, node: cst.BaseExpression, module: ModuleInfo) -> bool:
        return is_parameter(node, module.value(node), module, self.writer.plan)

    def changes(self, stmt: Stmt, module: ModuleInfo) -> bool:
        """An optimizer steps; weights, or what is kept, are changed in place."""
        changed = [base(call) for call in stmt.calls if is_change(call)]
        changed += [stmt.node.target] if type(stmt.node) is cst.AugAssign else []
        for call in stmt.calls:
            owner = call.func.value if type(call.func) is cst.Attribute else None
            if owner is not None and name_called(call) == "step" and module.value(owner).kind == "optimizer":
                return True
        for node in changed:
            while is_data(node, module):
                node = node.value  # type: ignore[attr-defined]
            if self.weight(node, module):  # type: ignore[arg-type]
                return True
        return _changes(stmt, self.kept)


def _following(stmt: Stmt) -> list[Stmt]:
    """What runs behind a statement in its function; at last what stands before it in the loops around it."""
    scope = stmt.block.scope
    own = {id(s) for s in stmt.walk()}
    behind = [s for s in scope.body.walk() if s.number > stmt.number and id(s) not in own]
    loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
    return [*behind, *(s for s in loops if s.number <= stmt.number and id(s) not in own)]


def _opens(stmt: Stmt) -> bool:
    return type(stmt.node) is cst.If or type(stmt.node) is cst.For or type(stmt.node) is cst.While


@once
def _by_name(project: Project) -> dict[str, list[Place]]:
    found: defaultdict[str, list[Place]] = defaultdict(list)
    for module in project.modules.values():
        for scope in module.scope.walk():
            if scope.is_function:
                found[scope.name].append((scope, module))
    return found
