"""Calls of functions of the project, and the function that a call reaches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value

CALL = "__call__"


@dataclass(eq=False)
class Site:
    """A call of a function of the project."""

    module: ModuleInfo
    scope: Scope
    stmt: Stmt
    call: cst.Call


class Unseen:
    """Methods called on objects that are not known: one of that name may be meant if it takes what the call gives.

    Neither `env.step(action)` nor `with cache.step():` is a call of `def step(self)` that returns nothing.
    """

    def __init__(self) -> None:
        self.names: set[str] = set()  # for whatever they are given
        self.scopes: set[int] = set()  # ids of those of functions that are handed about
        self.versions: set[int] = set()  # ids of those of methods: which of several a call reaches is not known
        self.calls: dict[str, list[tuple[cst.Call, bool]]] = {}

    def add(self, call: cst.Call, name: str, stmt: Stmt) -> None:
        node = stmt.node
        parts = type(node) is cst.Assign and node.value is call and type(node.targets[0].target) is cst.Tuple
        entered = type(node) is cst.With and any(item.item is call for item in node.items)
        called = name == CALL and not (type(node) is cst.Expr and node.value is call)
        self.calls.setdefault(name, []).append((call, parts or entered or called))

    def __contains__(self, scope: Scope) -> bool:
        return id(scope) in self.versions or self.reached(scope)

    def reached(self, scope: Scope) -> bool:
        """Calls that are not seen may reach the function, apart from those that are seen of another version."""
        if scope.name in self.names or id(scope) in self.scopes:
            return True
        calls = [(call, used) for call, used in self.calls.get(scope.name, ()) if takes(scope, call)]
        return any(not used for _, used in calls) or bool(calls) and _gives(scope)

    def also(self, names: Iterable[str]) -> Unseen:
        """Functions that are used as values are among them."""
        more = Unseen()
        more.names, more.calls, more.versions = self.names.union(names), self.calls, self.versions
        more.scopes = self.scopes
        return more


def takes(scope: Scope, call: cst.Call) -> bool:
    """A function takes these arguments, as far as is seen."""
    node = scope.node
    if type(node) is not cst.FunctionDef:
        return True
    how = {dotted(d.decorator) for d in node.decorators}
    params = [*node.params.posonly_params, *node.params.params]
    open_ended = isinstance(node.params.star_arg, cst.Param) or node.params.star_kwarg is not None
    if open_ended or how - {"staticmethod", "classmethod"} or any(arg.star for arg in call.args):
        return True
    params = params[1:] if scope.cls is not None and "staticmethod" not in how else params
    given = sum(arg.keyword is None for arg in call.args)
    named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
    rest = [*params[given:], *node.params.kwonly_params]
    asked = {p.name.value for p in rest if p.default is None}
    return given <= len(params) and asked <= named <= {p.name.value for p in rest}


def _gives(scope: Scope) -> bool:
    """A function returns something."""
    stmts = [s for s in scope.body.walk() if not s.blocks]
    returns = any(isinstance(s.node, cst.Return) and s.node.value is not None for s in stmts)
    return returns or any(isinstance(n, cst.Yield) for s in stmts for n in s.nodes)


def resolve(call: cst.Call, scope: Scope, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The project's function that a call reaches, where that is certain."""
    func = call.func
    value = module.value(func)
    if type(func) is cst.Attribute:
        receiver = module.value(func.value)
        if value.kind in ("module", "lossfn"):  # a layer, or what a property gives
            return None
        if receiver.kind in ("object", "module", "optimizer") and receiver.name:
            cls = _class(receiver.name, module, project)
            method = cls.known(func.attr.value) if cls is not None else None
            if method is not None and method.getter:
                return _called_object(value, module, project)
            held = method is None and receiver.kind != "optimizer"  # what the object keeps may be called itself
            return _called_object(value, module, project) if held else method
        if receiver.kind == "class" and receiver.name:
            cls = _class(receiver.name, module, project)
            method = cls.method(func.attr.value) if cls is not None else None
            return method if method is not None and method.static else None
        found = project.find(value.name, module) if value.kind in ("api", "function") else None
        return found if isinstance(found, FunctionInfo) else _called_object(value, module, project)
    if value.kind == "function" and value.name:
        current: Scope | None = scope
        while current is not None:
            inner = current.children if current is scope or type(current.node) is not cst.ClassDef else ()
            for child in inner:  # a method is not seen by its name alone in those of its class
                if child.name == value.name and child.is_function:
                    return module.functions[id(child)]
            current = current.parent
        found = project.find(value.name, module)
        return found if isinstance(found, FunctionInfo) else None
    return _called_object(value, module, project)


@once
def resolved(project: Project) -> dict[int, FunctionInfo]:
    """The function that each call of a project reaches for certain, by id of the call."""
    return {
        id(call): info
        for module in project.modules.values() for scope in module.scope.walk()
        for stmt in scope.body.walk() for call in stmt.calls
        if (info := resolve(call, scope, module, project)) is not None
    }  # fmt: skip


def calls_of(project: Project, modules: Iterable[ModuleInfo]) -> dict[int, tuple[FunctionInfo, list[Site]]]:
    """All calls in some modules of functions of the project, by id of the scope of the function."""
    known = resolved(project)
    found: dict[int, tuple[FunctionInfo, list[Site]]] = {}
    for module in modules:
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if (info := known.get(id(call))) is not None:
                        found.setdefault(id(info.scope), (info, []))[1].append(Site(module, scope, stmt, call))
    return found


def _called_object(value: Value, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The `__call__` of an object of the project."""
    cls = _class(value.name, module, project) if value.kind == "object" and value.name else None
    return cls.known(CALL) if cls is not None else None


def any_object(func: cst.BaseExpression, module: ModuleInfo, project: Project) -> bool:
    """What is called may be an object of any class: `update = UPDATES[name](optimizer)`, `update(loss)`."""
    value = module.value(func)
    if value.name or value.kind not in ("unknown", "object"):
        return False
    if type(func) is not cst.Attribute or value.kind == "object":
        return True
    holder = module.value(func.value)
    cls = _class(holder.name, module, project) if holder.kind in ("object", "module") and holder.name else None
    return cls is not None and cls.known(func.attr.value) is None and not inherited(func, module, project)


def inherited(func: cst.Attribute, module: ModuleInfo, project: Project) -> bool:
    """A method that a class of the project, known as that of the object, has from a class outside of the project."""
    value = module.value(func.value)
    cls = _class(value.name, module, project) if value.kind == "object" and value.name else None
    name = func.attr.value
    return cls is not None and cls.known(name) is None and not cls.overriding(name) and cls.attr(name) is None


def receiver(info: FunctionInfo, call: cst.Call) -> cst.BaseExpression | None:
    """The object whose method a call reaches; one that is called stands alone. None in calls of functions."""
    func = call.func
    if info.cls is None or info.static:
        return None
    if info.name == CALL and not (type(func) is cst.Attribute and func.attr.value == CALL):
        return func
    return func.value if type(func) is cst.Attribute else None


def receiving(info: FunctionInfo, call: cst.Call) -> str:
    """The place of that object, "" where it has none."""
    found = receiver(info, call)
    return dotted(found) if found is not None else ""


def bound_arguments(info: FunctionInfo, call: cst.Call) -> dict[str, cst.Arg]:
    """The argument of each parameter."""
    node = info.scope.node
    assert isinstance(node, cst.FunctionDef)
    names = [p.name.value for p in [*node.params.posonly_params, *node.params.params]]
    if receiver(info, call) is not None:
        names = names[1:]
    bound: dict[str, cst.Arg] = {}
    free = iter(names)
    for arg in call.args:
        name = arg.keyword.value if arg.keyword is not None else next(free, "")
        bound[name] = arg
    return bound


def overriding(info: FunctionInfo) -> list[FunctionInfo]:
    """The methods of subclasses that a call may reach instead of the one it is resolved to."""
    return info.cls.overriding(info.name) if info.cls is not None else []


def versions(info: FunctionInfo) -> Iterator[FunctionInfo]:
    """What a call that is resolved to the function may reach; one that only raises is none where there are others."""
    others = overriding(info)
    if not others or not abstract(info):
        yield info
    yield from others


def abstract(info: FunctionInfo) -> bool:
    """The method does nothing but to say that others do it."""
    return all(
        isinstance(s.node, (cst.Pass, cst.Raise))
        or isinstance(s.node, cst.Expr)
        and isinstance(s.node.value, (cst.BaseString, cst.Ellipsis))
        for s in info.scope.body.stmts
    )


def _class(name: str, module: ModuleInfo, project: Project) -> ClassInfo | None:
    home, _, last = name.rpartition(".")
    owner = project.modules.get(home)
    return owner.classes.get(last) if owner is not None else module.classes.get(name)
