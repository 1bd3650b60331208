"""Truth values of what is differentiated: where several uses send a gradient back, MindSpore fails to add these."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.rewrite.translation import Translation

CHOOSING = {"where", "masked_fill", "masked_fill_", "masked_select", "any", "all"}  # none comes back from there


def ended(original: cst.Assign, updated: cst.Assign, work: Translation) -> cst.Assign:
    """`active = margin > 0`, of which more than one product is made: a constant to the gradient, as in torch."""
    target, stmt = original.targets[0].target, work.stmt
    if stmt is None or work.mixed or len(original.targets) != 1 or type(target) is not cst.Name:
        return updated
    if work.module.value(original.value).kind != "tensor" or work.facts.dtype(original.value) != "bool":
        return updated
    parts = (n for n in descend(original.value) if isinstance(n, (cst.Name, cst.Attribute, cst.Call)))
    if not work.differentiated or not any(work.facts.surely_varied(n) for n in parts):
        return updated
    stopped = f"{work.alias('ops')}.stop_gradient"
    made = code(updated.value)
    if f"{stopped}(" in made or not _sends_back(target.value, stmt, work.module):
        return updated
    work.notes.needs.add("ops")
    work.tell("T2M601", target.value, "MindSpore cannot add gradients of truth values: a constant to the gradient")
    return updated.with_changes(value=cst.parse_expression(f"{stopped}({made})"))


def _sends_back(name: str, stmt: Stmt, module: ModuleInfo) -> bool:
    """More than one place computes with what the name holds."""
    found = 0
    for user in (s for scope in stmt.block.scope.walk() for s in scope.body.walk() if name in s.uses and s.is_small):
        turns = any(a.is_loop and stmt not in a.walk() for a in user.ancestors())
        found += _places(name, user, module) * (2 if turns else 1)
    return found > 1


def _places(name: str, stmt: Stmt, module: ModuleInfo) -> int:
    """How often a statement computes with it; a function of the project that is given it may do so again."""
    chosen: set[int] = set()
    given = 0
    for node in stmt.nodes:
        if type(node) is cst.Subscript:
            chosen |= {id(n) for element in node.slice for n in descend(element)}
        elif type(node) is cst.Call and dotted(node.func).rpartition(".")[2] in CHOOSING:
            chosen |= {id(n) for n in descend(node)}
        elif type(node) is cst.Call and module.value(node.func).kind not in ("api", "builtin"):
            given += any(type(a.value) is cst.Name and a.value.value == name for a in node.args)
    return given + sum(type(n) is cst.Name and n.value == name and id(n) not in chosen for n in stmt.nodes)
