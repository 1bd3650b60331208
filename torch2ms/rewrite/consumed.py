"""Generators that yield where gradients are off: torch has them off in the code that they yield to as well."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.writer import Writer
from torch2ms.wrappers.blocks.contexts import is_manager, is_plain, yields

TODO = "end the block before the `yield`, and put ops.stop_gradient around what is yielded"
CUTTING = {"no_grad", "inference_mode", "set_grad_enabled"}
AT_ONCE = {"sum", "list", "tuple", "set", "dict", "sorted", "max", "min", "any", "all"}  # they ask for every item
BACKWARD = (".backward(", "autograd.grad(")


def refuse_yielded(mode: cst.With, first: Stmt, writer: Writer) -> None:
    """Mark the `yield` in a block of a gradient mode if what it yields to goes backward."""
    if not first.block.scope.is_function or not any(_last(item) in CUTTING for item in mode.items):
        return
    stmt = next((s for s in first.block.walk() if mode in s.modes and not s.blocks and yields(s.node)), None)
    if stmt is None:
        return
    info = next((f for f in writer.module.functions.values() if f.scope is stmt.block.scope), None)
    if info is not None and is_manager(info):
        if all(is_plain(item) for item in mode.items):
            return  # the block that it opens says so (wrappers/contexts.py)
    elif not any(_goes_backward(s, writer.project) for s in _consumers(stmt.block.scope.name, writer.project)):
        return
    why = "the mode of the block holds in the code that it yields to as well, which goes backward"
    finding = Finding("T2M310", Tier.REFUSED, "yield in a gradient mode block", why, TODO, stmt.lineno)
    writer.plan.marks.setdefault(id(stmt), []).append(finding)
    writer.findings.append(finding)


def _last(item: cst.WithItem) -> str:
    return dotted(item.item.func).rpartition(".")[2] if isinstance(item.item, cst.Call) else ""


def _consumers(name: str, project: Project) -> Iterator[Stmt]:
    """The statements that run while a generator waits: the loop over it, or all around where it is kept."""
    for module in project.modules.values():
        for scope in module.scope.walk() if name in module.called else ():
            for stmt in scope.body.walk():
                used_up = {id(a.value) for c in stmt.calls if dotted(c.func) in AT_ONCE for a in c.args}
                if not any(dotted(c.func).rpartition(".")[2] == name and id(c) not in used_up for c in stmt.calls):
                    continue
                if type(stmt.node) is cst.For:
                    yield from (inner for block in stmt.blocks for inner in block.walk())
                elif type(stmt.node) is not cst.Expr or yields(stmt.node):
                    yield from scope.body.walk()


def _goes_backward(stmt: Stmt, project: Project) -> bool:
    """The statement goes backward, or calls a function that does."""
    for call in stmt.calls:
        last = dotted(call.func).rpartition(".")[2]
        if last == "backward" or last == "grad" and "autograd" in dotted(call.func):
            return True
        for module in project.modules.values():
            infos = (info for info in module.functions.values() if info.scope.name == last)
            if any(word in code(info.scope.node) for info in infos for word in BACKWARD):
                return True
    return False
