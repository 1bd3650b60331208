"""`e = embed(ids)` in front of a loop and again at the end of each turn, for the next: it begins the turn instead.

Each turn goes backward through what it is given, and a graph that one turn leaves to the next is in no function. What
makes it anew runs once more for the first turn, so it may neither draw numbers nor keep statistics, and nothing that it
reads may change on the way to the loop.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code
from torch2ms.editing.suites import Made, Suites
from torch2ms.tape.forward.effects import RUN, effects
from torch2ms.tape.project import DRAWS, STATE
from torch2ms.wrappers.passes import each_module

LOOPED = re.compile(r"\bin range\(")
BACKWARD = re.compile(r"\.backward\(|\bgrad\(")
STEADY = {f"torch.nn.{name}" for name in ("Embedding", "Linear", "LayerNorm", "Conv1d", "Conv2d")}


@each_module
def made_ahead(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such loops."""
    if not module.says(LOOPED) or not module.says(BACKWARD):
        return None
    drawn = project.says(DRAWS) or project.says(STATE)
    found = [pair for scope in module.scope.walk() for pair in _found(scope, module, drawn)]
    return _Writer(module, found).plain() if found else None


def _found(scope: Scope, module: ModuleInfo, drawn: bool) -> Iterator[tuple[Stmt, Stmt | None]]:
    """The loops that make something for the next turn, each with the statement in front that nobody needs then."""
    for loop in scope.body.walk():
        node = loop.node
        if type(node) is not cst.For or node.orelse is not None or loop.off or len(loop.blocks[0].stmts) < 2:
            continue
        last = loop.blocks[0].stmts[-1]
        if type(last.node) is not cst.Assign or len(last.defs) != 1 or type(node.iter) is not cst.Call:
            continue
        if last.line is None or len(last.line.body) != 1:
            continue
        (name,) = last.defs
        before = [s for s in loop.block.stmts if s.number < loop.number]
        first = next((s for s in reversed(before) if name in s.defs or s.blocks and name in s.all_defs), None)
        if first is None or type(first.node) is not cst.Assign or code(first.node) != code(last.node):
            continue
        if dotted(node.iter.func) != "range" or not BACKWARD.search(code(node)) or not _steady(last, module, drawn):
            continue
        between = before[before.index(first) + 1 :]
        changed = name in last.uses or any(name in s.all_muts for s in between)
        if changed or not _stays(last, loop, between, module) or not _of_loop(name, first, loop, scope):
            continue
        yield loop, None if any(name in s.all_uses for s in between) else first


def _steady(stmt: Stmt, module: ModuleInfo, drawn: bool) -> bool:
    """It may run once more: networks and tensors alone have a part in it, which draw nothing and keep nothing."""
    called = [module.value(call.func) for call in stmt.calls]
    nets = [value for value in called if value.kind == "module"]
    orders = {e for e in effects(stmt, module, draws=False) if not e.startswith(RUN)}
    return bool(nets) and not stmt.muts and not orders and (not drawn or all(v.name in STEADY for v in nets))


def _stays(last: Stmt, loop: Stmt, between: list[Stmt], module: ModuleInfo) -> bool:
    """What it reads is the same in front of the loop, and whether the next turn has begun or not; every turn ends."""
    read = {root(use) for use in last.uses}
    moved = {root(d) for s in between for d in s.all_defs | s.all_muts} | {root(d) for d in loop.defs}
    if read & moved or any("mode" in effects(s, module) for s in between):
        return False
    if any(name_called(call) == "step" for s in between for i in s.walk() for call in i.calls):
        return False  # the weights are others then
    return not any(type(s.node) is cst.Continue for s in loop.walk())


def _of_loop(name: str, first: Stmt, loop: Stmt, scope: Scope) -> bool:
    """Nobody else knows the name, and behind the loop it is not asked for what the last turn has made."""
    if name not in scope.locals or any(root(use) == name for child in scope.children for use in free_uses(child)):
        return False
    inside = {id(s) for s in loop.walk()}
    using = [s for s in scope.body.walk() if id(s) not in inside and name in s.uses | s.muts]
    return all(first.number < s.number < loop.number for s in using)


class _Writer(Suites):
    """One module: the last statement of a loop is its first."""

    def __init__(self, module: ModuleInfo, found: list[tuple[Stmt, Stmt | None]]) -> None:
        super().__init__(module)
        self.loops = {id(loop.node) for loop, _ in found}
        self.gone = {id(first.node) for _, first in found if first is not None}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else [self.rewrite(node)]

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        body = updated.body if id(original) in self.loops and type(updated) is cst.For else None
        if type(body) is not cst.IndentedBlock:
            return super().compound(original, updated)
        *others, last = body.body
        assert type(updated) is cst.For
        return [self.renumbered(updated, body=body.with_changes(body=[last, *others]))], ()


__all__ = ["made_ahead"]
