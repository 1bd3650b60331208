"""What a forward fills anew in each turn: containers that are emptied before it, and those that hooks write to."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.hooks import Kept
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import overlaps
from torch2ms.tape.forward.regions import Region


def emptied(region: Region) -> set[str]:
    """What the statements of a region fill, and what is empty when they begin: `feats.clear()` was the last before."""
    filled = {m for s in region.all for m in s.all_muts}
    before = region.block.stmts[: region.block.stmts.index(region.stmts[0])] if filled and region.stmts else []
    last = {place: s for s in before for place in filled & (s.all_defs | s.all_muts)}
    return {place for place, stmt in last.items() if _empties(stmt, place)}


def kept_anew(region: Region, module: ModuleInfo, project: Project) -> set[str]:
    """Places of hooks in which nothing but what the region puts there has a graph when it is read."""
    if not region.stmts or not project.kept:
        return set()
    scope = region.block.scope
    return {
        place
        for kept in project.kept
        for (home, place), callers in kept.callers.items()
        if home == id(scope) and _anew(place, kept, callers, region, module)
    }


def _anew(place: str, kept: Kept, callers: dict[str, list[Stmt]], region: Region, module: ModuleInfo) -> bool:
    """Each network that leaves a graph there is called in the region before it is read; a list was emptied before."""
    graphs = {callee: [s for s in stmts if _has_graph(s, callee, module)] for callee, stmts in callers.items()}
    waiting = {callee for callee, stmts in graphs.items() if stmts}
    for stmt in region.all:
        filling = {callee for callee in waiting if stmt in graphs[callee]}
        if waiting and not filling and any(overlaps(place, use) for use in stmt.all_uses):
            return False
        waiting -= filling
    return not waiting and (not kept.adds or _emptied_before(place, graphs, region))


def _has_graph(stmt: Stmt, callee: str, module: ModuleInfo) -> bool:
    return any(dotted(call.func) == callee and module.value(call).deps for call in stmt.calls)


def _emptied_before(place: str, graphs: dict[str, list[Stmt]], region: Region) -> bool:
    """The region begins with a container in which nothing has a graph."""
    for stmt in reversed(region.block.stmts[: region.block.stmts.index(region.stmts[0])]):
        if _empties(stmt, place):
            return True
        if any(stmt in stmts for stmts in graphs.values()) or place in stmt.all_defs:
            return False
    return False


def _empties(stmt: Stmt, place: str) -> bool:
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    return isinstance(call, cst.Call) and dotted(call.func) == f"{place}.clear"
