"""Which names of a project may mean one optimizer: assignments, arguments and results connect them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sized
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.evaluation.guess import makes_optimizers
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import Site, Unseen, overriding
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value

Key = tuple[str, int, str]  # a variable of a scope, an attribute of a class, or a result of a function
ANY: Key = ("any", 0, "")  # what a container holds, or code that is not seen
MAY_BE = ("optimizer", "unknown", "none", "tuple", "list", "dict")


@dataclass(eq=False)
class Creation:
    """A statement that makes an optimizer and binds it to one place."""

    stmt: Stmt
    module: ModuleInfo
    place: str
    value: Value


class Aliases:
    """Classes of places. What got into a container, or to code that is not seen, may be anything else that did."""

    def __init__(
        self, project: Project, callee: Mapping[int, FunctionInfo], called: Mapping[int, Sized], unseen: Unseen
    ) -> None:
        self.project = project
        self.callee = callee
        self.parent: dict[Key, Key] = {}
        self.tainted: set[Key] = set()
        self.open: set[Key] = set()  # parameters whose arguments are not all seen
        self.unnamed: set[Key] = set()  # optimizers made where no statement binds them
        self.creations: list[tuple[Key, Creation]] = []
        self.families: dict[int, int] = {}
        self.constructed: dict[int, list[Site]] = {}  # by id of the scope of an `__init__`
        self.factories: dict[int, bool] = {}  # by id of a scope: whether all that it returns are new optimizers
        self.assigned: dict[int, set[str]] = {}  # by id of a module
        self.products: dict[int, list[tuple[Key, Creation]]] = {}  # by id of a scope: what binds its result
        self.connect_classes()
        scopes = [(scope, module) for module in project.modules.values() for scope in module.scope.walk()]
        for scope, module in scopes:
            for stmt in scope.body.walk():
                self.read(stmt, scope, module)
        for key, made in self.factories.items():
            products = self.products.get(key, [])
            if made and len(products) == len(called.get(key, ())):
                self.unnamed.discard(("result", key, ""))
                self.creations += products
        reached = {*called, *self.constructed, *self.versions()}
        for scope, _ in scopes:
            seen = not unseen.reached(scope) and id(scope) in reached
            for name in scope.params if scope.is_function and not seen else ():
                if name not in ("self", "cls"):
                    self.taint(("variable", id(scope), name))
                    self.open.add(("variable", id(scope), name))
        self.tainted |= {self.find(key) for key in self.tainted}

    def versions(self) -> set[int]:
        """Ids of the scopes that calls of the methods they override reach, with the same parameters (see above)."""
        infos = {id(i.scope): i for i in self.callee.values()}.values()
        return {id(o.scope) for i in infos for o in overriding(i) if o.scope.params == i.scope.params}

    # --- classes of keys

    def find(self, key: Key) -> Key:
        """The representative of all that is surely or possibly the same."""
        while (up := self.parent.get(key, key)) != key:
            self.parent[key] = self.parent.get(up, up)
            key = up
        return key

    def unite(self, one: Key, other: Key) -> None:
        if ANY in (one, other):
            self.taint(other if one == ANY else one)
            return
        left, right = self.find(one), self.find(other)
        if left != right:
            self.parent[left] = right
            if left in self.tainted:
                self.tainted.add(right)

    def taint(self, key: Key) -> None:
        self.tainted.add(self.find(key))

    def wide(self, key: Key) -> Key:
        """The class of a key, where everything that got out of sight is one."""
        found = self.find(key)
        return ANY if found in self.tainted else found

    def connect_classes(self) -> None:
        """An attribute is that of subclasses as well; a method may be called in place of the one it overrides."""
        classes = [c for m in self.project.modules.values() for c in m.classes.values()]
        self.families = {id(c): id(c) for c in classes}
        for cls in classes:
            for parent in cls.lineage()[1:]:
                old, new = self.families[id(cls)], self.families[id(parent)]
                self.families = {k: new if v == old else v for k, v in self.families.items()}
                for name in cls.methods.keys() & parent.methods.keys():
                    one, other = cls.methods[name].scope, parent.methods[name].scope
                    for param in set(one.params) & set(other.params) - {"self"}:
                        self.unite(("variable", id(one), param), ("variable", id(other), param))

    # --- keys of places

    def key(self, place: str, scope: Scope, module: ModuleInfo) -> Key:
        """The key of a place as a scope writes it."""
        parts = place.split(".")
        if not all(p.isidentifier() for p in parts):
            return ANY
        if len(parts) == 1:
            return self.variable(place, scope, module)
        holder = self.holder(parts[0], scope, module)
        for attr in parts[1:-1]:
            value = holder.attr(attr) if holder is not None else None
            holder = self.named(value, holder.module) if value is not None and holder is not None else None
        return ("attribute", self.families[id(holder)], parts[-1]) if holder is not None else ANY

    def variable(self, name: str, scope: Scope, module: ModuleInfo) -> Key:
        current: Scope | None = scope
        while current is not None and not current.is_module:
            if name in current.locals and type(current.node) is not cst.ClassDef:
                return ("variable", id(current), name)
            current = current.parent
        target = module.imports.table.get(name)
        if target is not None and name not in self.bound(module):
            home = self.project.modules.get(target.rpartition(".")[0]) or self.project.by_suffix(
                target.rpartition(".")[0]
            )
            return ("variable", id(home.scope), target.rpartition(".")[2]) if home is not None else ANY
        return ("variable", id(module.scope), name)

    def bound(self, module: ModuleInfo) -> set[str]:
        """The names of a module that something else than an import binds."""
        if id(module) not in self.assigned:
            stmts = (s for s in module.scope.body.walk() if not isinstance(s.node, (cst.Import, cst.ImportFrom)))
            self.assigned[id(module)] = {name for stmt in stmts for name in stmt.defs}
        return self.assigned[id(module)]

    def holder(self, name: str, scope: Scope, module: ModuleInfo) -> ClassInfo | None:
        """The class of the object that a variable holds."""
        current: Scope | None = scope
        while current is not None:
            if name == "self" and current.cls is not None:
                return module.classes.get(current.cls.name)
            if name in current.params:
                info = module.functions.get(id(current))
                return self.named(info.args.get(name), module) if info is not None else None
            values = [s.out[name] for s in current.body.walk() if name in s.out]
            if values:
                return self.named(values[-1], module)
            current = current.parent
        return None

    def named(self, value: Value | None, module: ModuleInfo) -> ClassInfo | None:
        found = self.project.find(value.name, module) if value is not None and value.name else None
        return found if isinstance(found, ClassInfo) else None

    # --- flow

    def read(self, stmt: Stmt, scope: Scope, module: ModuleInfo) -> None:
        """What a statement makes equal."""
        node = stmt.node
        for call in stmt.calls:
            self.arguments(call, stmt, scope, module)
        if type(node) is cst.Assign:
            for target in node.targets:
                self.bind(target.target, node.value, stmt, scope, module)
        elif type(node) is cst.AnnAssign and node.value is not None:
            self.bind(node.target, node.value, stmt, scope, module)
        elif type(node) is cst.For or type(node) is cst.With:
            for place in stmt.defs:
                self.taint(self.key(place, scope, module))
        elif type(node) is cst.Return and node.value is not None:
            new = type(node.value) is cst.Call and self.creates(node.value, module)
            self.factories[id(scope)] = new and self.factories.get(id(scope), True)
            for number, part in _parts(node.value):
                self.flow(("result", id(scope), number), part, stmt, scope, module)

    def bind(
        self, target: cst.BaseExpression, value: cst.BaseExpression, stmt: Stmt, scope: Scope, module: ModuleInfo
    ) -> None:
        if type(target) is cst.Tuple or type(target) is cst.List:
            info = self.callee.get(id(value)) if isinstance(value, cst.Call) else None
            for number, (_, part) in enumerate(_parts(target)):
                if isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements):
                    self.bind(part, value.elements[number].value, stmt, scope, module)
                elif info is not None and (place := dotted(part)):
                    self.unite(self.key(place, scope, module), ("result", id(info.scope), str(number)))
                elif place := dotted(part):
                    self.taint(self.key(place, scope, module))
            return
        place = dotted(target)
        if place and type(value) is cst.Call and self.creates(value, module):
            key = self.key(place, scope, module)
            self.creations.append((key, Creation(stmt, module, place, module.value(value))))
        else:
            key = self.key(place, scope, module) if place else ANY
            self.flow(key, value, stmt, scope, module)
            if place and type(value) is cst.Call and (info := self.callee.get(id(value))) is not None:
                product = Creation(stmt, module, place, module.value(value))
                self.products.setdefault(id(info.scope), []).append((key, product))

    def creates(self, call: cst.Call, module: ModuleInfo) -> bool:
        """A class is called: by its name, out of a table, or in a variable."""
        if module.value(call).kind != "optimizer" or id(call) in self.callee:
            return False
        func = call.func
        if isinstance(func, cst.Call):
            return dotted(func.func) == "getattr"
        made = isinstance(func, cst.Subscript) or module.value(func).kind in ("api", "class")
        return made or makes_optimizers(dotted(func))

    def flow(self, key: Key, value: cst.BaseExpression, stmt: Stmt, scope: Scope, module: ModuleInfo) -> None:
        """A value gets to a key."""
        kind = module.value(value).kind
        if place := dotted(value):
            if kind in MAY_BE:
                self.unite(key, self.key(place, scope, module))
        elif type(value) is cst.IfExp:
            self.flow(key, value.body, stmt, scope, module)
            self.flow(key, value.orelse, stmt, scope, module)
        elif type(value) is cst.BooleanOperation:
            self.flow(key, value.left, stmt, scope, module)
            self.flow(key, value.right, stmt, scope, module)
        elif isinstance(value, (cst.Tuple, cst.List, cst.Set)):
            for element in value.elements:
                self.flow(ANY, element.value, stmt, scope, module)
        elif type(value) is cst.Dict:
            for held in value.elements:
                self.flow(ANY, held.value, stmt, scope, module)
        elif type(value) is cst.Call and self.creates(value, module):
            self.unnamed.add(key)
        elif type(value) is cst.Call and (info := self.callee.get(id(value))) is not None:
            self.unite(key, ("result", id(info.scope), ""))
        elif kind in MAY_BE and not isinstance(value, (cst.BaseNumber, cst.BaseString)):
            self.unite(key, ANY)

    def arguments(self, call: cst.Call, stmt: Stmt, scope: Scope, module: ModuleInfo) -> None:
        """What a call hands on."""
        info = self.callee.get(id(call)) or self.constructor(call, stmt, scope, module)
        if info is None:
            if not self.outside(call, module):
                for arg in call.args:
                    if module.value(arg.value).kind == "optimizer":
                        self.flow(ANY, arg.value, stmt, scope, module)
            return
        names = [*info.scope.params]
        if info.cls is not None and not info.static and not self.by_class(call, module):
            names = names[1:]
        free = iter(names)
        for arg in call.args:
            if arg.star:
                for name in names:
                    self.taint(("variable", id(info.scope), name))
                continue
            name = arg.keyword.value if arg.keyword is not None else next(free, "")
            if name in info.scope.params:
                self.flow(("variable", id(info.scope), name), arg.value, stmt, scope, module)

    def by_class(self, call: cst.Call, module: ModuleInfo) -> bool:
        """`Base.__init__(self, ...)`"""
        func = call.func
        init = isinstance(func, cst.Attribute) and func.attr.value == "__init__"
        return init and isinstance(func, cst.Attribute) and module.value(func.value).kind == "class"

    def constructor(self, call: cst.Call, stmt: Stmt, scope: Scope, module: ModuleInfo) -> FunctionInfo | None:
        """The `__init__` behind a call of a class of the project, or of its base class."""
        value, func = module.value(call.func), call.func
        found = self.project.find(value.name, module) if value.kind == "class" and value.name else None
        info = found.method("__init__") if isinstance(found, ClassInfo) else None
        if type(func) is cst.Attribute and self.by_class(call, module):
            base = self.named(module.value(func.value), module)
            info = base.method("__init__") if base is not None else None
        above = type(func) is cst.Attribute and type(func.value) is cst.Call and dotted(func.value.func)
        if above == "super" and scope.cls is not None and isinstance(func, cst.Attribute):
            own = module.classes[scope.cls.name]
            info = next((m for p in own.parents if (m := p.method(func.attr.value)) is not None), None)
        if info is not None:
            self.constructed.setdefault(id(info.scope), []).append(Site(module, scope, stmt, call))
        return info

    def outside(self, call: cst.Call, module: ModuleInfo) -> bool:
        """Libraries keep no optimizer that the project would find under another name."""
        if module.value(call.func).kind in ("api", "builtin"):
            return True
        if isinstance(call.func, cst.Attribute) and module.value(call.func.value).kind in ("scaler", "optimizer"):
            return True
        head = dotted(call.func).partition(".")[0]
        target = module.imports.table.get(head, "")
        return bool(target) and head not in module.scope.locals and self.project.find(target, module) is None


def _parts(node: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    if isinstance(node, (cst.Tuple, cst.List)):
        for number, element in enumerate(node.elements):
            yield str(number), element.value
    else:
        yield "", node
