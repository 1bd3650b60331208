"""Functions that give back what they did not make: `return self.slots[-1]`, `return state["h"]`, `yield key`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.program.sites import resolved, versions
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import shows

DEPTH = 3  # names that stand for names, and functions that give what others give


@once
def by_name(project: Project) -> dict[str, list[FunctionInfo]]:
    """The functions and methods of a project."""
    found: defaultdict[str, list[FunctionInfo]] = defaultdict(list)
    for module in project.modules.values():
        for info in module.functions.values():
            found[info.name].append(info)
    return found


def hands_out(info: FunctionInfo, project: Project, depth: int = DEPTH) -> bool:
    """What somebody else holds, an object, a caller or the module, is among what the function returns or yields."""
    scope = info.scope
    stmts = list(scope.body.walk())
    places = {p for s in stmts for given in _given(s) for p in _shown(given, project, depth)}
    for _ in range(DEPTH):
        made = (s.node for s in stmts if places & s.defs)
        places |= {p for n in made for value in _bound(n) for p in _shown(value, project, depth)}
    bound = {name for s in stmts for name in s.defs}
    own = {name for name in scope.locals if name not in scope.params or name in bound}
    return any(root(place) not in own for place in places)


def _given(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What a statement gives to the caller, each part."""
    node = stmt.node.value if type(stmt.node) is cst.Expr else stmt.node
    if type(node) is cst.Return or type(node) is cst.Yield:
        value = node.value.item if isinstance(node.value, cst.From) else node.value
        if value is not None:
            yield from [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]


def _bound(node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """What the names of a statement are bound to, or taken out of."""
    if type(node) is cst.Assign:
        yield node.value
    elif type(node) is cst.For:
        yield node.iter


def _shown(node: cst.BaseExpression, project: Project, depth: int) -> set[str]:
    """The places whose memory an expression may show, also through what a function gives that it was given."""
    found = shows(node)
    info = resolved(project).get(id(node)) if type(node) is cst.Call and depth and not found else None
    if info is None or not any(hands_out(version, project, depth - 1) for version in versions(info)):
        return found
    owner = [node.func.value] if type(node.func) is cst.Attribute else []  # type: ignore[attr-defined]
    return found.union(*(shows(part) for part in (*owner, *(arg.value for arg in node.args))))  # type: ignore[attr-defined]
