"""Which functions of a project a statement may run: those its calls are resolved to, else by name.

Beside calls a function runs what it hands on or keeps (`hook(self.thaw)`), what it has inside, properties it reads,
decorators, and of a context that it makes the methods for `with`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cached_property

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import CALL, overriding, resolved, takes
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.tree import descend, gathered
from torch2ms.packages import is_foreign

# kinds of what has no method of the project, unless its class is one of the project
BUILT = ("tensor", "param", "params", "named_params", "optimizer", "scheduler", "scaler", "loader", "list", "dict",
         "tuple", "str", "numpy", "int", "float", "bool", "api", "builtin", "dtype", "device")  # fmt: skip
ANYTHING = 0  # stands for all that is called without being seen
AT_ONCE = ("apply", "map", "filter")  # run what they are given and forget it
ACCESSORS = ("getter", "setter", "deleter")
MADE = ("__init__", "__enter__", "__exit__")  # what may run of a class that is called


@once
def call_graph(project: Project) -> CallGraph:
    return CallGraph(project)


class CallGraph:
    """The functions of a project, and those that may run them."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.handed: list[FunctionInfo] = []  # to whoever calls something that is not seen
        self.certain = resolved(project)
        self.functions: defaultdict[str, list[FunctionInfo]] = defaultdict(list)  # by name
        for module in project.modules.values():
            for info in module.functions.values():
                self.functions[info.name].append(info)
        self.users: defaultdict[int, set[int]] = defaultdict(set)  # by the id of a scope those that may run it
        for module in project.modules.values():
            for scope in module.scope.walk():
                for info in self.run_by(scope, module):
                    self.users[id(info.scope)].add(id(scope))
        self.handed = self._handed()
        for info in self.handed:
            self.users[id(info.scope)].add(ANYTHING)
        if self.handed:
            self.users[ANYTHING] |= {
                id(scope)
                for module in project.modules.values() for scope in module.scope.walk()
                for stmt in scope.body.walk() for call in stmt.calls if self.unseen(call, module)
            }  # fmt: skip

    def leading(self, scopes: Iterable[int], *, seen: bool = False) -> set[int]:
        """The scopes, and those that may run one of them; `seen`: not by calling just anything."""
        waiting = list(scopes)
        found = {*waiting, ANYTHING} if seen else set(waiting)
        while waiting:
            new = self.users.get(waiting.pop(), set()) - found
            found |= new
            waiting += new
        return found

    def run_by(self, scope: Scope, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """What a scope may run, hand on or keep."""
        yield from (module.functions[id(child)] for child in scope.children if child.is_function)
        if type(scope.node) is cst.FunctionDef:
            for decorator in scope.node.decorators:
                made = decorator.decorator
                name = qualified(made.func if type(made) is cst.Call else made, module.imports)
                yield from self._named(self.project.find(name, module))
        for stmt in scope.body.walk():
            yield from self.run_in(stmt, scope, module)

    def run_in(self, stmt: Stmt, scope: Scope, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """What a statement may run, hand on or keep; not whatever object of the project a called name may be."""
        for call in stmt.calls:
            yield from (i for i in self.meant(call, scope, module) if i.name != CALL or id(call) in self.certain)
        yield from self.mentioned(stmt, scope, module)

    def meant(self, call: cst.Call, scope: Scope, module: ModuleInfo) -> Iterable[FunctionInfo]:
        """The functions that a call may run."""
        if (info := self.certain.get(id(call))) is not None:
            return [info, *overriding(info)]
        func, value = call.func, module.value(call.func)
        if value.kind == "class":
            return self._made(class_of(value, module, self.project))
        if value.kind in ("api", "builtin"):
            return list(self._named(self.project.find(value.name, module)))
        if type(func) is cst.Attribute:
            kept = self.handed if self.unseen(call, module) else ()
            return [*(i for i in self._methods(func, scope, module) if takes(i.scope, call)), *kept]
        name = dotted(func)
        if value.kind == "method":
            return self.functions.get(value.name, ())
        if value.kind == "function" or name not in scope.locals and not is_foreign(module.imports.table.get(name, "")):
            last = (value.name or name).rpartition(".")[2]
            named = [i for i in self.functions.get(last, ()) if i.cls is None]
            if named:
                return named
        objects = self.functions.get(CALL, ()) if value.kind in ("unknown", "object") else ()
        return [*(i for i in objects if takes(i.scope, call)), *(self.handed if self.unseen(call, module) else ())]

    def unseen(self, call: cst.Call, module: ModuleInfo) -> bool:
        """What is called may be any function that somebody handed out: `hook(net)`, `self.hooks[0](net)`."""
        func = call.func
        value = module.value(func)
        if value.kind == "function" and id(call) not in self.certain:  # a lambda has a name with a space
            return not value.name or " " in value.name
        if id(call) in self.certain or value.kind != "unknown":
            return False
        if type(func) is not cst.Attribute:
            return not is_foreign(module.imports.table.get(dotted(func), ""))
        holder = module.value(func.value)
        cls = class_of(holder, module, self.project) if holder.kind in ("object", "module") else None
        return cls is not None and cls.attr(func.attr.value) is not None and not _of_class(cls, func.attr.value)

    def _handed(self) -> list[FunctionInfo]:
        """Functions that are mentioned without being called, but for programs that make optimizers of their own."""
        found: dict[int, FunctionInfo] = {}
        making: set[int] = set()
        for module in self.project.modules.values():
            for scope in module.scope.walk():
                for stmt in scope.body.walk():
                    found |= {id(i.scope): i for i in self._given(stmt, scope, module)}
                    if not stmt.blocks and any(v.kind == "optimizer" for v in stmt.out.values()):
                        making.add(id(scope))
                if self._registered(scope, module):
                    found[id(scope)] = module.functions[id(scope)]
        making = self.leading(making) if found else making
        return [info for key, info in found.items() if key not in making]

    def _registered(self, scope: Scope, module: ModuleInfo) -> bool:
        """A decorator that is made in the project has the function: `@engine.on("start")`, `@register`."""
        if type(scope.node) is not cst.FunctionDef or scope.parent is None:
            return False
        for decorator in scope.node.decorators:
            made = decorator.decorator
            name = dotted(made.func if type(made) is cst.Call else made)
            head, _, last = name.partition(".")
            bound = head in scope.parent.locals or head in module.scope.locals
            if bound and last not in ACCESSORS and not is_foreign(module.imports.table.get(head, "")):
                return True
        return False

    def _given(self, stmt: Stmt, scope: Scope, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """What a statement hands on or keeps, also in a `lambda`."""
        at_once = (a for c in stmt.calls if name_called(c) in AT_ONCE for a in c.args)
        apart = {id(call.func) for call in stmt.calls}.union(id(n) for a in at_once for n in descend(a))
        for node in _own(stmt):
            kind = type(node)
            if kind is cst.Lambda and id(node) not in apart:
                calls = (n for n in descend(node) if isinstance(n, cst.Call))
                yield from (i for call in calls for i in self.meant(call, scope, module))
            elif kind in (cst.Name, cst.Attribute) and id(node) not in apart:
                value = module.value(node)
                if value.kind == "function" and (name := dotted(node)):
                    nested = _nested(name, scope)
                    found = self.project.find(value.name, module) if nested is None else module.functions[id(nested)]
                    yield from [found] if isinstance(found, FunctionInfo) else []
                elif value.kind == "method" and type(node) is cst.Attribute:
                    yield from self._methods(node, scope, module)

    @cached_property
    def getters(self) -> set[str]:
        """The names of properties."""
        return {name for name, named in self.functions.items() if any(i.getter for i in named)}

    def _accessors(self, node: cst.Attribute, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """The functions of a property, whether it is read or written."""
        cls, named = self._class_of(node.value, module), self.functions[node.attr.value]
        near = [*cls.lineage(), *cls.below()] if cls is not None else ()
        yield from (i for i in named if cls is None or i.cls in near)

    def _class_of(self, node: cst.BaseExpression, module: ModuleInfo) -> ClassInfo | None:
        holder = module.value(node)
        apart = holder.kind in ("api", "builtin", "function")
        return None if apart else class_of(holder, module, self.project)

    def _methods(self, func: cst.Attribute, scope: Scope, module: ModuleInfo) -> Iterable[FunctionInfo]:
        """The methods that `something.name(...)` may be, which is not resolved."""
        name, holder = func.attr.value, module.value(func.value)
        if type(func.value) is cst.Call and dotted(func.value.func) == "super":
            return self._above(name, scope, module)
        if (cls := self._class_of(func.value, module)) is not None:
            return _of_class(cls, name)
        return [] if holder.kind in BUILT else [i for i in self.functions.get(name, ()) if i.name not in MADE]

    def _above(self, name: str, scope: Scope, module: ModuleInfo) -> list[FunctionInfo]:
        """What `super().name` may be: the next in the order of classes, of whichever class the object is."""
        cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
        found: dict[int, FunctionInfo] = {}
        for each in (cls, *cls.below()) if cls is not None else ():
            order = list(each.lineage())
            later = order[order.index(cls) + 1 :] if cls in order else order
            own = next((c.methods[name] for c in later if name in c.methods), None)
            found |= {id(own): own} if own is not None else {}
        return list(found.values())

    def mentioned(self, stmt: Stmt, scope: Scope, module: ModuleInfo) -> Iterator[FunctionInfo]:
        """Functions, classes and properties in a statement, whether they are called or not."""
        for use in stmt.uses:
            head, _, rest = use.partition(".")
            if (nested := _nested(use, scope)) is not None:
                yield module.functions[id(nested)]
            elif head not in scope.locals:
                full = f"{module.imports.table[head]}.{rest}" if rest and head in module.imports.table else use
                yield from self._named(self.project.find(full, module))
        called = {id(call.func) for call in stmt.calls}
        for node in _own(stmt):
            if type(node) is cst.Attribute and node.attr.value in self.functions and id(node) not in called:
                if node.attr.value in self.getters:
                    yield from self._accessors(node, module)
                elif module.value(node).kind in ("method", "unknown"):
                    yield from self._methods(node, scope, module)

    def _named(self, found: object) -> Iterator[FunctionInfo]:
        if isinstance(found, FunctionInfo):
            yield found
        elif isinstance(found, ClassInfo):
            yield from self._made(found)

    def _made(self, cls: ClassInfo | None) -> list[FunctionInfo]:
        made = [cls.method(name) for name in MADE] if cls is not None else []
        return [info for info in made if info is not None]


def _of_class(cls: ClassInfo, name: str) -> list[FunctionInfo]:
    own = cls.method(name)
    return [*([own] if own is not None else []), *cls.overriding(name)]


def _nested(name: str, scope: Scope) -> Scope | None:
    """The function of that name inside of a scope or of one around it."""
    current: Scope | None = scope
    while current is not None and not current.is_module:
        if type(current.node) is not cst.ClassDef:
            for child in current.children:
                if child.name == name and child.is_function:
                    return child
        current = current.parent
    return None


def _own(stmt: Stmt) -> Iterable[cst.CSTNode]:
    """The code of a small statement, or what stands in the head of a compound one."""
    if stmt.is_small or not stmt.blocks:
        return stmt.nodes if stmt.is_small else ()
    apart = (cst.BaseSuite, cst.Else, cst.If, cst.ExceptHandler, cst.Finally)
    return [n for child in stmt.node.children if not isinstance(child, apart) for n in gathered(child)]
