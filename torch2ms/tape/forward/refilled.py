"""What a forward fills anew in each turn: containers that are emptied before it, and those that hooks write to."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.hooks import Kept
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import any_overlap, overlaps, within
from torch2ms.tape.forward.region import Region


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


def put_before(nodes: list[cst.CSTNode], stmt: Stmt, region: Region, module: ModuleInfo) -> set[int]:
    """Ids of the containers out of which a statement takes an item that the region has put there: `terms["l1"]`.

    Or all of them, where no other item has a graph: `inputs["embeds"] = e + delta`, then `model(**inputs)`.
    """
    taken = [n for n in nodes if type(n) is cst.Subscript and dotted(n.value)]
    found = {id(n.value) for n in taken if (key := _key(n)) is not ... and _put(dotted(n.value), key, stmt, region)}
    for node in nodes:
        if type(node) is cst.Call and node.args and node.args[-1].star == "**":
            spread = node.args[-1].value
            if (place := dotted(spread)) and _all_put(place, stmt, region, module):
                found.add(id(spread))
    return found


def _all_put(place: str, stmt: Stmt, region: Region, module: ModuleInfo) -> bool:
    """Each turn of the region puts every item of a dict there that has a graph, before the dict is handed on."""
    scope = region.block.scope
    before = [s for s in region.all if s.block is region.block and s.number < stmt.number and place in s.muts]
    keys = {_item(s, place) for s in before} - {...}
    inner = any(root(use) == place for child in scope.children for use in free_uses(child))
    own = place in scope.locals and place not in scope.params
    return (
        bool(keys)
        and own
        and not inner
        and all(_without_graph(s, place, keys, module) for s in scope.body.walk() if place in s.uses | s.defs | s.muts)
    )


def _without_graph(stmt: Stmt, place: str, keys: set[object], module: ModuleInfo) -> bool:
    """A statement leaves no graph under other keys of a dict: it puts in what has none, or takes items out."""
    node = stmt.node
    if type(node) is cst.Assign and dotted(node.targets[0].target) == place:
        made = node.value.elements if type(node.value) is cst.Dict else None
        return made is not None and not any(type(e) is not cst.DictElement or _graphs(e.value, module) for e in made)
    known = {id(n.value) for n in stmt.nodes if type(n) is cst.Subscript}
    known |= {id(a.value) for c in stmt.calls for a in c.args if a.star == "**"}
    if any(type(n) is cst.Name and n.value == place and id(n) not in known for n in stmt.nodes):
        return False
    if place not in stmt.muts or (key := _item(stmt, place)) in keys:
        return True
    return key is not ... and type(node) is cst.Assign and not _graphs(node.value, module)


def _graphs(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    value = module.value(node)
    return bool(value.deps) or any(item.deps for item in value.items or ())


def _put(place: str, key: object, stmt: Stmt, region: Region) -> bool:
    """Each turn of the region puts it there, and nothing but such items into the container before it is taken."""
    before = [i for s in region.all for i in s.walk() if i.number < stmt.number and within(place, i.defs | i.muts)]
    keys = [_item(i, place) if i.block is region.block else ... for i in before]
    return key in keys and ... not in keys


def _item(stmt: Stmt, place: str) -> object:
    """The key under which a statement puts an item into a container, and does nothing else to it."""
    node = stmt.node
    target = node.targets[0].target if type(node) is cst.Assign and len(node.targets) == 1 else None
    return _key(target) if type(target) is cst.Subscript and dotted(target.value) == place else ...


def _key(node: cst.Subscript) -> object:
    """A key that is written down, `...` for any other."""
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = constant(index.value) if type(index) is cst.Index else ...
    return key if isinstance(key, str) else ...


def left_in_object(region: Region, owns: frozenset[str] | None, module: ModuleInfo) -> str:
    """An object that the region uses, in which something else left a graph, "" if there is none."""
    stmts = [inner for s in region.all for inner in s.walk()]
    made = {d for s in stmts for d in s.defs}
    for node in (n for s in region.all for n in s.nodes if type(n) is cst.Name or type(n) is cst.Attribute):
        value = module.value(node)
        if value.kind != "object" or not value.deps or value.name.startswith("torch."):
            continue
        place = dotted(node)
        if not place or place in made or root(place) in made or not _graph_of(value.deps, place, owns):
            continue
        kept = (s.out[p].deps for s in stmts for p in (s.defs | s.muts) & s.out.keys() if p.startswith(f"{place}."))
        if not any(_graph_of(deps, place, owns) for deps in kept):
            return place
    return ""


def _graph_of(deps: frozenset[str], place: str, owns: frozenset[str] | None) -> bool:
    real = frozenset(d for d in deps if not d.startswith("@") and not overlaps(d, place))
    return bool(real) and (owns is None or any(d.startswith("^") for d in real) or any_overlap(real, owns))


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
