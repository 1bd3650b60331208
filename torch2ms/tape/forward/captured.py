"""What statements read without naming it: names around the functions that they call, and what generators read.

`loss = crit()` reads `h` where `def crit(): return F.mse_loss(h, y)` does, when it is called; `losses = (f(s) for s in
scales)` reads nothing, and `sum(losses)` does.
"""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

NOTHING: frozenset[str] = frozenset()
WAITING = (cst.GeneratorExp, cst.Lambda, cst.Yield)
LAZY = ("map", "filter", "zip", "enumerate", "iter", "chain", "islice")  # they ask for their items when they are asked


METHODS_OF = ("object", "unknown", "module", "class")  # kinds of what may be an object of the project
DEFINED = {cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom, cst.Global, cst.Nonlocal}


@once
def captured(module: ModuleInfo) -> Captured:
    """What the statements of a module capture; asked for while its values stand."""
    return Captured(module)


class Captured:
    """The names that the statements of a module read so, of those that are bound in the scope of the statement."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.read: dict[int, frozenset[str]] = {}  # by id of a statement
        self.free: dict[int, list[tuple[str, Scope]]] = {}  # by id of a scope: names, and the scopes that bind them
        self.late: dict[int, dict[str, list[Stmt]]] = {}  # by id of a scope: names, and what binds them to such things

    @cached_property
    def by_name(self) -> dict[str, list[Scope]]:
        found: defaultdict[str, list[Scope]] = defaultdict(list)
        for scope in self.module.scope.walk():
            if scope.is_function:
                found[scope.name].append(scope)
        return found

    def reads(self, stmt: Stmt) -> frozenset[str]:
        """The names that a statement, and those inside of it, read so."""
        if not (self.own or self.waiting):
            return NOTHING
        if id(stmt) not in self.read:
            self.read[id(stmt)] = NOTHING  # what binds itself to something around itself
            mine = (name for scope in self.called(stmt) for name in self.of(scope, stmt.block.scope))
            late = self.behind(stmt)
            named = {root(u) for s in late for u in s.uses}
            self.read[id(stmt)] = NOTHING.union(mine, named, *(self.reads(s) for s in late))
        return self.read[id(stmt)]

    def rebound(self, stmts: list[Stmt], start: Stmt) -> str:
        """A name that the statements bind, and that functions from elsewhere read where one of them calls these: it
        would be a local one of the function that the statements become. "" if there is none."""
        inner = [s for stmt in stmts for s in stmt.walk()]
        bound = {d for s in inner for d in s.defs if "." not in d}
        own = {id(s.node) for s in inner} | {id(s) for s in inner}
        for stmt in (*stmts, start):
            late = [s for s in self.behind(stmt) if id(s) not in own]
            named = {root(u) for s in late for u in s.uses} | {n for s in late for n in self.reads(s)}
            called = [scope for scope in self.called(stmt) if id(scope.node) not in own]
            if hit := bound & named.union(*(self.of(scope, stmt.block.scope) for scope in called)):
                return min(hit)
        return ""

    def behind(self, stmt: Stmt) -> list[Stmt]:
        """The statements that bound what this one uses to a generator, or to a lambda: it runs them."""
        bound = self.bound_late(stmt.block.scope) if self.waiting else {}
        return [s for u in sorted(stmt.all_uses) for s in bound.get(u, ()) if s is not stmt] if bound else []

    @cached_property
    def waiting(self) -> bool:
        """Something in the module may be bound to what reads later."""
        return self.module.has("map(") or any(self.module.of_kind(kind) for kind in WAITING)

    def bound_late(self, scope: Scope) -> dict[str, list[Stmt]]:
        if id(scope) not in self.late:
            found: defaultdict[str, list[Stmt]] = defaultdict(list)
            for stmt in scope.body.walk():
                if type(stmt.node) is cst.Assign and self.waits(stmt.node.value):
                    for name in stmt.defs:
                        found[name].append(stmt)
            self.late[id(scope)] = found
        return self.late[id(scope)]

    def waits(self, node: cst.BaseExpression) -> bool:
        """What an expression reads is read later."""
        if type(node) is not cst.Call:
            return type(node) is cst.GeneratorExp or type(node) is cst.Lambda
        name = dotted(node.func).rpartition(".")[2]
        if name in LAZY:
            return any(self.waits(a.value) or type(a.value) is cst.Name for a in node.args)
        return any(generates(scope) for scope in self.by_name.get(name, ()))

    def called(self, stmt: Stmt) -> list[Scope]:
        """The functions of the module that a statement may call, by their names; networks by their classes."""
        found: list[Scope] = []
        for call in (call for inner in stmt.walk() for call in inner.calls) if self.own else ():
            value = self.module.value(call.func)
            if value.kind == "module" and (cls := self.module.classes.get(value.name.rpartition(".")[2])) is not None:
                found += [info.scope for info in cls.methods.values() if info.name == "forward"]
            named = self.by_name.get(dotted(call.func).rpartition(".")[2], ())
            if type(call.func) is cst.Attribute:
                owned = named and self.module.value(call.func.value).kind in METHODS_OF
                found += [scope for scope in named if scope.cls is not None] if owned else []
            else:
                found += [scope for scope in named if scope.cls is None]
        return found

    def of(self, called: Scope, scope: Scope) -> set[str]:
        """What a function, and those that it calls, read of the names of a scope around them."""
        return {name for name, home in self.all(called) if home is scope}

    def all(self, called: Scope) -> list[tuple[str, Scope]]:
        """What a function, and those that it calls, read of the names around them."""
        if id(called) not in self.free:
            self.free[id(called)] = found = [*self.own.get(id(called), ())]
            for stmt in called.body.walk() if self.own else ():
                found += [one for other in self.called(stmt) for one in self.all(other) if one not in found]
        return self.free[id(called)]

    @cached_property
    def own(self) -> dict[int, list[tuple[str, Scope]]]:
        """By id of a function: what it reads itself of the variables around it, and the scopes that bind them."""
        found: dict[int, list[tuple[str, Scope]]] = {}
        for home in self.module.scope.walk():
            inner = [] if type(home.node) is cst.ClassDef else [s for c in home.children for s in c.walk()]
            names = self.variables(home) if inner else set()
            for scope in inner if names else ():
                if not scope.is_function:
                    continue
                uses = {u.partition(".")[0] for s in scope.body.walk() for u in s.uses | s.muts}
                for given in scope.node.decorators:  # type: ignore[union-attr]
                    uses |= {n.value for n in descend(given) if type(n) is cst.Name}  # `@scaled(by)`
                for name in sorted(uses & names - scope.locals):
                    if _home(name, scope) is home:
                        found.setdefault(id(scope), []).append((name, home))
        return found

    def variables(self, scope: Scope) -> set[str]:
        """The names of what is neither defined nor imported in a scope."""
        bound = (s for s in scope.body.walk() if type(s.node) not in DEFINED)
        return {d.partition(".")[0] for s in bound for d in s.defs | s.muts}


def _home(name: str, scope: Scope) -> Scope | None:
    """The scope around a function that binds a name which the function does not."""
    around = scope.parent
    while around is not None:
        if type(around.node) is not cst.ClassDef and name in around.locals:
            return around
        around = around.parent
    return None


def generates(scope: Scope) -> bool:
    """The statements of a generator run whenever its caller asks for the next value."""
    return any(type(n) is cst.Yield for s in scope.body.walk() if not s.blocks for n in s.nodes)
