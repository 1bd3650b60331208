"""Loops that change the entries of a state in place, where layers share weights: `for v in net.state_dict().values():
v *= 0.9`.

A state of torch's has what is shared under each of its names, and such a loop changes it as often; MindSpore's has it
once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.shown import target_places
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

TIED = re.compile(r"\.weight\s*=\s*[\w.\[\]]+\.weight[ \t]*(?:#[^\n]*)?$", re.MULTILINE)
GIVING = ("copy_", "fill_", "zero_")
WHY = "a loop changes its entries, and what layers share stands there once in MindSpore, not under each of its names"
TODO = "go over named_parameters() and the buffers, or change what is shared once more"


@once
def shares_weights(project: Project) -> bool:
    """Somewhere a layer gets the weight of another."""
    return project.says(TIED)


@once
def changed_entries(module: ModuleInfo) -> frozenset[int]:
    """The ids of the `state_dict()` calls whose entries a loop changes in place."""
    found: set[int] = set()
    for scope in module.scope.walk() if module.has("state_dict()") else ():
        stmts = scope.body.walk()
        bound = {name: value for s in stmts for name, value in _states(s)}
        for loop in (s for s in stmts if type(s.node) is cst.For):
            over = loop.node.iter  # type: ignore[union-attr]
            asked = over.func if isinstance(over, cst.Call) and isinstance(over.func, cst.Attribute) else None
            held = asked.value if asked is not None and asked.attr.value in ("items", "values", "keys") else over
            state = bound.get(dotted(held), held)
            if _is_state(state) and _changes(loop, dotted(held)):
                found.add(id(state))
    return frozenset(found)


def _states(stmt: Stmt) -> Iterator[tuple[str, cst.BaseExpression]]:
    node = stmt.node
    if isinstance(node, cst.Assign) and len(node.targets) == 1 and _is_state(node.value):
        yield dotted(node.targets[0].target), node.value


def _is_state(node: cst.BaseExpression) -> bool:
    return isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value == "state_dict"


def _changes(loop: Stmt, state: str) -> bool:
    """An entry is made of what it was in the turn: not where it is given a value that others have."""
    assert isinstance(loop.node, cst.For)
    names = target_places(loop.node.target)
    for stmt in (s for block in loop.blocks for s in block.walk() if s.is_small):
        if isinstance(stmt.node, cst.AugAssign) and _entry(stmt.node.target, names, state):
            return True
        for node in descend(stmt.node):
            if isinstance(node, cst.Call) and is_change(node) and _entry(base(node), names, state):
                given = {n.value for a in node.args for n in descend(a) if isinstance(n, cst.Name)}
                if node.func.attr.value not in GIVING or root(dotted(base(node))) in given:  # type: ignore[attr-defined]
                    return True
    return False


def _entry(node: cst.CSTNode, names: set[str], state: str) -> bool:
    """`v`, `v.data` or `state[k]`"""
    if isinstance(node, cst.Subscript):
        return bool(state) and dotted(node.value) == state
    return root(dotted(node)) in names
