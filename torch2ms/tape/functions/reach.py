"""Which calls may get to a function: by its name, as a value, through an object of which nothing is known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import Site, Unseen, overriding
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children, gathered
from torch2ms.tape.ledger.records import Read
from torch2ms.tape.model import Event

NAMELESS = {cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom}  # statements that mention no function
Everything = Callable[[Scope, ModuleInfo], list[Event]]


@dataclass(eq=False)
class Known:
    """What is known of the functions of a project before their gradients are."""

    project: Project
    callee: dict[int, FunctionInfo]
    sites: dict[int, list[Site]]  # the calls that reach a scope, by its id
    unseen: Unseen
    settled: set[int]  # ids of scopes whose callers do the work
    handed: set[int]  # ids of scopes whose callers see to it that they are entered without gradients
    taken: set[int]  # ids of scopes whose callers hand them gradients
    everything: Everything
    cleared: Everything = lambda scope, module: []  # what calls of functions that only clear are to their callers
    records: Read = field(default_factory=Read)

    @cached_property
    def ways(self) -> Ways:
        """Everything that calls, looked up by what it may call; none of it depends on what is asked for."""
        return Ways(self)


Caller = tuple[Scope, ModuleInfo, cst.Call]


@dataclass(eq=False)
class Calls:
    """What the calls of one scope may get to at all: most scopes call nothing of what is searched."""

    certain: set[int] = field(default_factory=set)  # ids of scopes
    names: set[str] = field(default_factory=set)  # of functions that are meant by their names
    open: bool = False  # one may get to whatever there is

    def lead(self, scopes: set[int], names: set[str]) -> bool:
        """Whether one may get to some of these."""
        return self.open or not self.names.isdisjoint(names) or not self.certain.isdisjoint(scopes)


class Ways:
    """The calls of a project by the scope, or else by the name, that they may get to."""

    def __init__(self, known: Known) -> None:
        self.project = known.project  # not what is known: that keeps these
        self.valued = used_as_values(known.project)
        self.every = [(s, m) for m in known.project.modules.values() for s in m.scope.walk()]
        self.by_id = {id(s): s for s, _ in self.every}
        self.certain: dict[int, list[int]] = defaultdict(list)  # ids of the scopes that call, as are all given
        self.by_name: dict[str, list[Caller]] = defaultdict(list)  # more than do get there
        self.open: list[Caller] = []  # of what `getattr` gives, of names that hold functions
        self.asked: dict[str, list[int]] = {}  # answers of `named`
        self.fetching: dict[int, frozenset[str] | None] = {}  # answers of `fetched`, by id of the call
        self.callee = known.callee
        self.calls: dict[int, Calls] = {}  # answers of `of`, by id of the scope
        for scope, module in self.every:
            for stmt in scope.body.walk() if scope.is_function else ():
                for call in stmt.calls:
                    self.add((scope, module, call), known.callee.get(id(call)))

    def add(self, caller: Caller, info: FunctionInfo | None) -> None:
        scope, _, call = caller
        if info is not None:
            for each in (info, *overriding(info)):
                self.certain[id(each.scope)].append(id(scope))
        elif type(call.func) is cst.Attribute:
            self.by_name[call.func.attr.value].append(caller)
        else:
            name = dotted(call.func)
            for each_name in {name, "__call__"}:
                self.by_name[each_name].append(caller)
            if type(call.func) is cst.Call or name in scope.locals:
                self.open.append(caller)

    def of(self, scope: Scope, module: ModuleInfo) -> Calls:
        """What calls of a scope need to get to something: see `may_reach`."""
        if id(scope) in self.calls:
            return self.calls[id(scope)]
        found = self.calls[id(scope)] = Calls()
        for call in (c for stmt in scope.body.walk() for c in stmt.calls):
            if (info := self.callee.get(id(call))) is not None:
                found.certain.update(id(each.scope) for each in (info, *overriding(info)))
            elif type(call.func) is cst.Attribute:
                found.names.add(call.func.attr.value)
            elif _gets(call):
                found.open = True
            elif (value := module.value(call.func)).kind not in ("api", "builtin"):
                name = dotted(call.func)
                found.names.update((name, value.name.rpartition(".")[2], "__call__"))
                found.open |= value.kind in ("unknown", "method") and name in scope.locals
        return found

    def named(self, name: str) -> list[int]:
        """The scopes whose calls may get to a function of that name."""
        if name not in self.asked:
            found = {id(s): None for s, m, call in self.by_name.get(name, ()) if self.may_reach(call, s, m, {name})}
            loose = (key for key, own, names in self.loose if name != own and (names is None or name in names))
            self.asked[name] = list(found | dict.fromkeys(loose))
        return self.asked[name]

    @cached_property
    def loose(self) -> list[tuple[int, str, frozenset[str] | None]]:
        """Open calls: the scope of each, its name, and the names of what may be called, None for whichever."""
        found: list[tuple[int, str, frozenset[str] | None]] = []
        for scope, module, call in self.open:
            value = module.value(call.func)
            if type(call.func) is cst.Call:
                if value.kind not in ("api", "builtin", "object") and _gets(call) and not _of_network(call, module):
                    found.append((id(scope), "", None))
            elif value.kind in ("unknown", "method"):
                fetched = self.fetched(call, scope, module)
                names = self.valued | fetched if fetched else None if fetched is None else self.valued
                found.append((id(scope), scope.name, names))
        return found

    @cached_property
    def methods(self) -> set[int]:
        """The scopes of methods of networks."""
        modules = self.project.modules.values()
        return {
            id(i.scope) for m in modules for c in m.classes.values() if c.kind == "module" for i in c.methods.values()
        }

    @cached_property
    def over_networks(self) -> list[int]:
        """The scopes with calls of whichever method a network has under some name."""
        return [id(s) for s, m, call in self.open if _of_network(call, m)]

    def may_reach(self, call: cst.Call, scope: Scope, module: ModuleInfo, names: set[str]) -> bool:
        """A call of an unknown function may get to one of those names; methods of networks by `getattr` are apart."""
        func, value = call.func, module.value(call.func)
        if value.kind in ("api", "builtin"):
            return False
        if type(func) is cst.Attribute:
            holder = module.value(func.value)
            loose = holder.kind in ("unknown", "object", "class", "builtin_super", "none")
            return loose and func.attr.value in names
        if value.kind == "object" or dotted(func) == "self":
            return "__call__" in names
        if _gets(call):
            return bool(names) and not _of_network(call, module)
        name = dotted(func)
        if value.kind == "function" or name in names:
            return name in names or value.name.rpartition(".")[2] in names
        if value.kind not in ("unknown", "method") or name not in scope.locals:
            return False
        if names <= {scope.name}:
            return False
        if _meet(names, self.valued, scope.name):
            return True
        fetched = self.fetched(call, scope, module)
        return fetched is None or _meet(names, fetched, scope.name)

    def fetched(self, call: cst.Call, scope: Scope, module: ModuleInfo) -> frozenset[str] | None:
        """Methods that the called name may be by `name = getattr(self, text)`; None for whichever there are."""
        if id(call) not in self.fetching:
            self.fetching[id(call)] = self.fetch(dotted(call.func), scope, module)
        return self.fetching[id(call)]

    def fetch(self, name: str, scope: Scope, module: ModuleInfo) -> frozenset[str] | None:
        found: set[str] = set()
        for stmt in scope.body.walk():
            call = stmt.node.value if type(stmt.node) is cst.Assign and name in stmt.defs else None
            if type(call) is cst.Call and dotted(call.func) == "getattr" and call.args:
                own = module.classes.get(scope.cls.name) if scope.cls is not None else None
                if dotted(call.args[0].value) != "self" or own is None:
                    return None
                found |= {n for c in family(own, self.project) for n in c.methods}
        return frozenset(found)


def _meet(names: set[str], others: frozenset[str], own: str) -> bool:
    """Some of the names, beside a function's own, are among others; the names may be very many."""
    return len(names & others) > 1 if own in names and own in others else not names.isdisjoint(others)


def _gets(call: cst.Call) -> bool:
    """A call of what `getattr` gives."""
    return type(call.func) is cst.Call and dotted(call.func.func) == "getattr"


def _of_network(call: cst.Call, module: ModuleInfo) -> bool:
    """... of a network."""
    func = call.func
    if type(func) is not cst.Call or not _gets(call):
        return False
    return module.value(func.args[0].value if func.args else func).kind in ("module", "lossfn")


class Reach:
    """Which calls may get to one of some scopes."""

    def __init__(self, known: Known, targets: set[int]) -> None:
        self.known = known
        self.ways = known.ways
        self.scopes: set[int] = set()
        self.names: set[str] = set()
        self.reached: dict[int, bool] = {}  # by id of the scope of a function: a call of it may get there
        waiting = list(targets)
        while waiting:
            key = waiting.pop()
            if key not in self.scopes:
                waiting += self.include(key)
        self.of_networks = not self.scopes.isdisjoint(self.ways.methods)

    def include(self, key: int) -> Iterator[int]:
        """One more scope that is reached, and those that may call it."""
        ways = self.ways
        self.scopes.add(key)
        if (scope := ways.by_id.get(key)) is not None and scope.name not in self.names:
            self.names.add(scope.name)
            yield from ways.named(scope.name)
        if key in ways.methods:
            yield from ways.over_networks
        yield from ways.certain.get(key, ())

    def calls(self, scope: Scope, module: ModuleInfo) -> Iterator[tuple[Stmt, cst.Call]]:
        if not self.ways.of(scope, module).lead(self.scopes, self.names):
            return
        for stmt in scope.body.walk():
            for call in stmt.calls:
                if self.hits(call, scope, module):
                    yield stmt, call

    def hits(self, call: cst.Call, scope: Scope, module: ModuleInfo) -> bool:
        info = self.known.callee.get(id(call))
        if info is not None:
            key = id(info.scope)
            if key not in self.reached:
                self.reached[key] = any(id(i.scope) in self.scopes for i in (info, *overriding(info)))
            return self.reached[key]
        if type(call.func) is cst.Attribute and call.func.attr.value not in self.names:
            return False  # most calls: soonest told
        if self.ways.may_reach(call, scope, module, self.names):
            return True
        return self.of_networks and _of_network(call, module)


def family(own: ClassInfo, project: Project) -> list[ClassInfo]:
    """A class with those above and below it, in the order in which the project has them."""
    near = {id(c): c for c in (*own.lineage(), *own.below())}
    if len(near) == 1:
        return [own]
    order = _order(project)
    return sorted((c for key, c in near.items() if key in order), key=lambda c: order[id(c)])


@once
def _order(project: Project) -> dict[int, int]:
    """Where the project has its classes."""
    return {id(c): n for n, c in enumerate(c for m in project.modules.values() for c in m.classes.values())}


@once
def used_as_values(project: Project) -> frozenset[str]:
    """Names of functions that are mentioned without being called."""
    names = {i.name for m in project.modules.values() for i in m.functions.values()}
    return frozenset(name for m in project.modules.values() for name in _mentioned(m, names))


def _mentioned(module: ModuleInfo, names: set[str]) -> set[str]:
    """Those of some names that stand anywhere but before the parenthesis of a call, outside of heads and imports."""
    attributes = module.of_kind(cst.Attribute)
    apart = {id(call.func) for call in module.of_kind(cst.Call)}
    apart |= {id(node.attr) for node in attributes} | {id(arg.keyword) for arg in module.of_kind(cst.Arg)}
    apart |= {id(node.name) for node in module.of_kind(cst.FunctionDef)}
    found = [(id(n), n.value) for n in module.of_kind(cst.Name) if n.value in names and id(n) not in apart]
    found += [(id(n), n.attr.value) for n in attributes if n.attr.value in names and id(n) not in apart]
    if not found:
        return set()
    silent = (node for kind in NAMELESS for node in module.kinds.get(kind, ()))
    heads = (part for node in silent for part in children(node) if not isinstance(part, cst.BaseSuite))
    nameless = {id(node) for head in heads for node in gathered(head)}
    return {name for key, name in found if key not in nameless}
