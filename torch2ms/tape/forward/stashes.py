"""Places on modules and objects where functions leave values that carry a graph: `policy.saved_log_probs`.

Who fills them, who empties them, and whether anything else touches them. Attributes are told apart by name alone: what
two classes call the same counts as one place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import any_overlap

NO_GRAPH = ("module", "optimizer", "params", "named_params", "param", "class", "function", "lossfn", "scheduler")
EMPTY = ("list", "deque", "collections.deque")


@dataclass(eq=False)
class Fill:
    """A statement that appends `value` to the place."""

    module: ModuleInfo
    scope: Scope
    stmt: Stmt
    value: cst.BaseExpression


@dataclass(eq=False)
class Stash:
    """One such place, by its last name; `bare`: a global name. `problem` is why not everything about it is seen."""

    name: str
    bare: bool = False
    fills: list[Fill] = field(default_factory=list)
    problem: str = ""


def related(project: Project, module: ModuleInfo) -> list[ModuleInfo]:
    """The module and those that imports connect it with, in either direction: others run without it."""
    links: dict[str, set[str]] = {name: set() for name in project.modules}
    for one in project.modules.values():
        for full in [*one.imports.table.values(), *one.imports.stars]:
            for name in (full, full.rpartition(".")[0]):
                home = project.modules.get(name) or project.by_suffix(name)
                if home is not None:
                    links[one.name].add(home.name)
                    links[home.name].add(one.name)
    seen, work = {module.name}, [module.name]
    while work:
        fresh = links[work.pop()] - seen
        seen |= fresh
        work += fresh
    return [m for m in project.modules.values() if m.name in seen]


def graph_places(modules: list[ModuleInfo]) -> dict[tuple[str, bool], Stash]:
    """Every place outside of functions that something varied is written to."""
    found: dict[tuple[str, bool], Stash] = {}
    for module in modules:
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for place in _written(stmt, scope, module):
                    found.setdefault(_key(place), Stash(*_key(place)))
    return found


def left_behind(modules: list[ModuleInfo]) -> list[Stash]:
    """The lists outside of functions that values with parameters behind them are surely appended to."""
    found: dict[tuple[str, bool], Stash] = {}
    constructing, layers = _constructing(modules), _layers(modules)
    for module in modules:
        for scope in module.scope.walk():
            if scope.name in constructing:
                continue
            for stmt in scope.body.walk():
                place, value = appended(stmt)
                if value is None or not place or "." not in place and place in scope.locals and not scope.is_module:
                    continue
                if "." in place and _key(place)[0] in layers:
                    continue
                if any(_parameters(d, scope) for d in module.value(value).deps):
                    stash = found.setdefault(_key(place), Stash(*_key(place)))
                    stash.fills.append(Fill(module, scope, stmt, value))
    return list(found.values())


def _constructing(modules: list[ModuleInfo]) -> set[str]:
    """The names of methods that run while objects are made, before any forward: what they keep are parameters."""
    callers: dict[str, set[str]] = {}
    for module in modules:
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    callers.setdefault(dotted(call.func).rpartition(".")[2], set()).add(scope.name)
    return {"__init__"} | {name for name, scopes in callers.items() if scopes == {"__init__"}}


def _layers(modules: list[ModuleInfo]) -> set[str]:
    """The attributes that a class of the project binds to an `nn.ModuleList` or another layer, and none to a list."""
    attributes = [(n, v.kind) for m in modules for c in m.classes.values() for n, v in c.attrs.items()]
    return {n for n, kind in attributes if kind in NO_GRAPH} - {n for n, kind in attributes if kind == "list"}


def _key(place: str) -> tuple[str, bool]:
    return place.rpartition(".")[2], "." not in place


def _parameters(dep: str, scope: Scope) -> bool:
    """The dependence is on a place whose parameters outlive the function."""
    if dep.startswith(("@", "^")) or dep == "self":
        return False
    return scope.is_module or root(dep) in scope.params or root(dep) not in scope.locals


def cuts(stmt: Stmt) -> bool:
    """`old = torch.stack(memory.actions).detach()`: no graph comes along."""
    node: cst.CSTNode | None = stmt.node.value if type(stmt.node) is cst.Assign else None
    while type(node) is cst.Call or type(node) is cst.Attribute:
        if type(node) is cst.Attribute and node.attr.value in ("detach", "data", "item", "numpy", "tolist"):
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False


def feeding(stmt: Stmt, roots: set[str]) -> set[str]:
    """The places of the scope that reach the roots of a statement, whatever the order."""
    wanted = set(roots)
    waiting = [s for s in stmt.block.scope.body.walk() if s is not stmt and not cuts(s)]
    while found := {id(s): s for s in waiting if any_overlap(s.defs | s.muts, wanted)}:
        waiting = [s for s in waiting if id(s) not in found]
        wanted |= {u for s in found.values() for u in s.uses if u != "self"}
    return wanted


def _written(stmt: Stmt, scope: Scope, module: ModuleInfo) -> Iterator[str]:
    """Places that outlive the function and that the statement gives a value with a graph."""
    target, value = appended(stmt)
    for place in stmt.defs | stmt.muts:
        if "." not in place and place in scope.locals and not scope.is_module:
            continue
        if place == target and value is not None:
            if module.value(value).deps and not _number(value, scope, module):
                yield place
            continue
        out = stmt.out.get(place)
        if out is None or out.leaf or out.kind in NO_GRAPH:
            continue
        if any(not d.startswith("@") for d in out.deps):
            yield place


def _number(value: cst.BaseExpression, scope: Scope, module: ModuleInfo) -> bool:
    """A parameter for which every caller gives a number: `memory.store(log_prob, reward)`."""
    info = module.functions.get(id(scope))
    rebound = isinstance(value, cst.Name) and any(value.value in s.defs for s in scope.body.walk())
    if info is None or not isinstance(value, cst.Name) or rebound:
        return False
    passed = info.args.get(value.value)
    return passed is not None and passed.kind in ("int", "float", "bool", "str") and not passed.deps


def appended(stmt: Stmt) -> tuple[str, cst.BaseExpression | None]:
    """The place and the value of `place.append(value)` as a statement."""
    node = stmt.node
    call = node.value if type(node) is cst.Expr else None
    if type(call) is cst.Call and type(call.func) is cst.Attribute and call.func.attr.value == "append":
        if len(call.args) == 1 and not call.args[0].star and call.args[0].keyword is None:
            return dotted(call.func.value), call.args[0].value
    return "", None


def added(stmt: Stmt) -> tuple[str, cst.BaseExpression | None]:
    """The attribute and the value of `place += value` or `place = place + value`: what is kept is a sum."""
    node = stmt.node
    if type(node) is cst.AugAssign and type(node.operator) is cst.AddAssign:
        place, value = dotted(node.target), node.value
    elif type(node) is cst.Assign and len(node.targets) == 1 and type(node.value) is cst.BinaryOperation:
        place, value = dotted(node.targets[0].target), node.value.right
        if type(node.value.operator) is not cst.Add or dotted(node.value.left) != place:
            return "", None
    else:
        return "", None
    return (place, value) if "." in place else ("", None)


def emptied(stmt: Stmt) -> set[str]:
    """The places that the statement empties: `del place[:]`, `place.clear()`, `place = []`, `place, other = [], []`."""
    bound = {dotted(target) for target, value in _pairs(stmt.node) if _empty(value)}
    return bound - {""} if bound else {_emptied_in_place(stmt.node)} - {""}


def _pairs(node: object) -> Iterator[tuple[cst.BaseExpression, cst.BaseExpression]]:
    """What an assignment binds, target by target, where its values are written one by one."""
    if type(node) is not cst.Assign or len(node.targets) != 1:
        return
    target, value = node.targets[0].target, node.value
    if type(target) is not cst.Tuple:
        yield target, value
    elif type(value) is cst.Tuple and len(value.elements) == len(target.elements):
        yield from ((t.value, v.value) for t, v in zip(target.elements, value.elements, strict=True))


def _emptied_in_place(node: object) -> str:
    if type(node) is cst.Del and type(node.target) is cst.Subscript:
        part = node.target.slice[0].slice if len(node.target.slice) == 1 else None
        if isinstance(part, cst.Slice) and part.lower is None and part.upper is None and part.step is None:
            return dotted(node.target.value)
    if type(node) is cst.Expr and type(node.value) is cst.Call and not node.value.args:
        func = node.value.func
        if isinstance(func, cst.Attribute) and func.attr.value == "clear":
            return dotted(func.value)
    return ""


def emptied_by(stmt: Stmt, callee: Mapping[int, FunctionInfo]) -> set[str]:
    """The places that a statement empties, by itself or in a method that does nothing else: `self.memory.clear()`."""
    call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
    info = callee.get(id(call))
    if info is None or not isinstance(call, cst.Call):
        return emptied(stmt)
    if not (base := receiving(info, call)):
        return set()
    found = set()
    for inner in info.scope.body.stmts:
        if isinstance(inner.node, cst.Expr) and isinstance(inner.node.value, cst.SimpleString):
            continue
        places = emptied(inner)
        bound = list(_pairs(inner.node))
        if bound and all(_empty(v) or constant(v) is not ... for _, v in bound):
            places |= {dotted(target) for target, _ in bound}
        if not places or not all(place.startswith("self.") for place in places):
            return set()
        found |= {base + place[4:] for place in places}
    return found


def _empty(value: cst.BaseExpression) -> bool:
    if type(value) is cst.List:
        return not value.elements
    if isinstance(value, cst.Call) and dotted(value.func) in EMPTY:
        return all(a.keyword is not None and a.keyword.value == "maxlen" for a in value.args)
    return False


def read_in(stash: Stash, scope: Scope) -> bool:
    """The function, or one inside it, reads the place or fills it."""
    if stash.bare and stash.name in scope.locals and not scope.is_module:
        return False
    used = {u for s in scope.body.walk() for u in s.uses | s.muts}
    return used_among(stash, used) or any(read_in(stash, child) for child in scope.children)


def used_among(stash: Stash, used: set[str]) -> bool:
    """One of the places is the stash or something in it."""
    if stash.bare:
        return any(root(u) == stash.name for u in used)
    return any(stash.name in u.split(".")[1:] for u in used)


def examine(stash: Stash, modules: list[ModuleInfo], reader: Scope, callee: Mapping[int, FunctionInfo]) -> None:
    """Find what fills the place; a problem if anything but `reader` does something else with it."""
    stash.fills, stash.problem = [], ""
    explained: set[int] = set()
    cleared: set[str] = set()
    read: set[str] = set()
    for module in modules:
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                zero = {dotted(t) for t, v in _pairs(stmt.node) if constant(v) is not ...}
                gone = {place for place in emptied(stmt) | zero if names(stash, place)}
                target, value = appended(stmt)
                more, term = added(stmt)
                target, value = (more, term) if term is not None else (target, value)
                if scope is reader and stmt.block is scope.body:
                    cleared |= gone | {p for p in emptied_by(stmt, callee) if names(stash, p)}
                if gone:
                    explained |= {id(n) for n in stmt.nodes}
                elif names(stash, target) and value is not None:
                    inside = {id(n) for n in descend(value)}
                    explained |= {id(n) for n in stmt.nodes} - inside
                    stash.fills.append(Fill(module, scope, stmt, value))
    for node in descend(reader.node):
        if _is(stash, node):
            explained |= {id(n) for n in descend(node)}
            read.add(dotted(node))
    if not read <= cleared:
        stash.problem = f"`{stash.name}` keeps what was appended from one episode to the next"
    for module in modules:
        for node in module.nodes:
            if type(node) is cst.Call:
                explained.add(id(node.func))  # `dist.entropy()` is none that is kept as `self.entropy`
                if dotted(node.func) == "len" and len(node.args) == 1:
                    explained.add(id(node.args[0].value))
            if id(node) not in explained and (_is(stash, node) or _mentions(stash, node)):
                stash.problem = stash.problem or f"`{stash.name}` is used elsewhere too"


def names(stash: Stash, place: str) -> bool:
    """The place is the stash itself."""
    head, _, last = place.rpartition(".")
    return bool(place) and last == stash.name and bool(head) is not stash.bare


def _is(stash: Stash, node: cst.CSTNode) -> bool:
    if stash.bare:
        return isinstance(node, cst.Name) and node.value == stash.name
    return type(node) is cst.Attribute and node.attr.value == stash.name


def _mentions(stash: Stash, node: cst.CSTNode) -> bool:
    """Text with its name, as `getattr` takes it."""
    return type(node) is cst.SimpleString and node.value.strip("'\"") == stash.name
