"""What is known of the functions and the classes of a project."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, reduce
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value, join

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import ModuleInfo

CACHING = frozenset({"lru_cache", "cache", "cached_property", "cachedmethod", "memoize"})


@dataclass(eq=False)
class FunctionInfo:
    """A function or method of the project. `args` joins what its callers pass."""

    scope: Scope
    module: ModuleInfo
    cls: ClassInfo | None
    args: dict[str, Value] = field(default_factory=dict)
    given: dict[str, dict[int, Value]] = field(default_factory=dict)  # ... by parameter, and by the id of the callee
    returns: Value | None = None
    kept: dict[str, frozenset[str]] = field(default_factory=dict)  # what it puts into what it is given is varied with
    sharper: bool = False  # more is known of what it is given than when it was run
    binds: frozenset[str] | None = None  # attributes of its object that it binds, once asked for
    differentiated: bool = False  # may run inside a function whose gradient is taken

    @property
    def name(self) -> str:
        return self.scope.name

    @cached_property
    def static(self) -> bool:
        return self._decorated("staticmethod")

    @cached_property
    def of_class(self) -> bool:
        """A class method: what it is called on is the class."""
        return self._decorated("classmethod")

    @cached_property
    def getter(self) -> bool:
        """What a property runs: a call of `self.model` is one of what it gives."""
        return self._decorated("property") or any(name.endswith("cached_property") for name in self._decorators)

    @cached_property
    def cached(self) -> bool:
        """What it gave once it gives again: the object itself, as callers have left it."""
        return any(name.rpartition(".")[2] in CACHING for name in self._decorators)

    @cached_property
    def hands_back(self) -> str:
        """The parameter that the function returns, and does nothing else: `def identity(x, *args): return x`."""
        node, stmts = self.scope.node, self.scope.body.stmts
        last = stmts[-1].node if stmts else None
        alone = isinstance(node, cst.FunctionDef) and not node.decorators and node.asynchronous is None
        told = len(stmts) == 1 or len(stmts) == 2 and not stmts[0].uses and not stmts[0].calls  # by a docstring
        name = dotted(last.value) if isinstance(last, cst.Return) and last.value is not None else ""
        return name if alone and told and name in self.scope.params else ""

    def _decorated(self, name: str) -> bool:
        return name in self._decorators

    @cached_property
    def _decorators(self) -> list[str]:
        node = self.scope.node
        assert isinstance(node, cst.FunctionDef)
        return [dotted(d.decorator.func if type(d.decorator) is cst.Call else d.decorator) for d in node.decorators]


@dataclass(eq=False)
class ClassInfo:
    """A class of the project; `kind` says what it inherits from torch: module, autograd, dataset, optimizer, object."""

    scope: Scope
    module: ModuleInfo
    bases: list[str]
    kind: str = "object"
    torch_base: str = ""
    methods: dict[str, FunctionInfo] = field(default_factory=dict)
    attrs: dict[str, Value] = field(default_factory=dict)
    bound: dict[str, dict[int, Value]] = field(default_factory=dict)  # ... by id of the target that binds an attribute
    parents: list[ClassInfo] = field(default_factory=list)
    children: list[ClassInfo] = field(default_factory=list)
    overridden: dict[str, list[FunctionInfo]] = field(default_factory=dict)  # by the classes below, once asked for
    inherited: dict[str, FunctionInfo | None] = field(default_factory=dict)  # answers that `method` gave
    refused: str = ""  # why a custom gradient stays as it is
    remembers: bool = False  # the cell of a custom gradient keeps what its backward needs: each call has one of its own
    twice: bool = False  # gradients are differentiated again somewhere in the project

    @cached_property
    def qualified(self) -> str:
        return f"{self.module.name}.{self.scope.name}"

    def method(self, name: str) -> FunctionInfo | None:
        """Its own, or that of the first class above that has one."""
        if name not in self.inherited:
            self.inherited[name] = self._method(name)
        return self.inherited[name]

    def _method(self, name: str) -> FunctionInfo | None:
        for cls in self.lineage():
            if name in cls.methods:
                return cls.methods[name]
            if (other := cls.other_names.get(name)) is not None:
                return cls.methods.get(other)
        return None

    @cached_property
    def other_names(self) -> dict[str, str]:
        """Further names that the body of the class gives to its methods: `predict = forward`."""
        assigned = [s.node for s in self.scope.body.stmts if type(s.node) is cst.Assign]
        return {
            dotted(target.target): dotted(node.value)
            for node in assigned
            for target in node.targets
            if isinstance(node.value, cst.Name) and node.value.value in self.methods
        }

    def inner(self, name: str) -> ClassInfo | None:
        """A class that is defined in its body."""
        found = self.module.classes.get(name)
        return found if found is not None and found.scope.parent is self.scope else None

    def known(self, name: str) -> FunctionInfo | None:
        """The method of the class, or the one that its subclasses agree on where it has none itself."""
        own = self.method(name)
        below = self.overriding(name) if own is None else []
        return below[0] if len(below) == 1 else own

    def attr(self, name: str) -> Value | None:
        """What its methods put into an attribute, or those of the classes above; else those of the classes below."""
        if name in self.attrs:
            return self.attrs[name]
        for cls in self.lineage():
            if name in cls.attrs:
                return cls.attrs[name]
        below = [value for cls in self.below() if (value := cls.attrs.get(name)) is not None]
        return reduce(join, below) if below else None

    @property
    def weighted(self) -> bool:
        """It holds weights, its own or those of layers."""
        held = [value for cls in self.lineage() for value in cls.attrs.values()]
        parts = [*held, *(part for value in held for part in value.parts)]
        layers = any(v.kind == "module" and not v.name.endswith("Loss") for v in parts)
        return layers or any(v.leaf or v.kind in ("param", "params") for v in parts)

    def below(self) -> list[ClassInfo]:
        """The classes that are derived from it."""
        return self._below

    @cached_property
    def _below(self) -> list[ClassInfo]:
        found: dict[ClassInfo, None] = {}
        waiting = [iter(self.children)]
        while waiting:
            child = next(waiting[-1], None)
            if child is None:
                waiting.pop()
            elif child is not self and child not in found:
                found[child] = None
                waiting.append(iter(child.children))
        return list(found)

    def overriding(self, name: str) -> list[FunctionInfo]:
        """The methods of subclasses that a call of this class's own method may reach instead."""
        if not self.children:
            return []
        if name not in self.overridden:
            own = (cls.methods[name] for cls in self.below() if name in cls.methods)
            self.overridden[name] = list({id(info): info for info in own}.values())
        return self.overridden[name]

    def lineage(self) -> list[ClassInfo]:
        """The class and those above it, in the order in which Python looks through them."""
        return self._lineage

    @cached_property
    def _lineage(self) -> list[ClassInfo]:
        done: list[ClassInfo] = []  # those above a class come before it; the last of its bases first
        seen = {self}
        waiting = [(self, iter(self.parents[::-1]))]
        while waiting:
            cls, above = waiting[-1]
            parent = next(above, None)
            if parent is None:
                done.append(cls)
                waiting.pop()
            elif parent not in seen:
                seen.add(parent)
                waiting.append((parent, iter(parent.parents[::-1])))
        return done[::-1]

    @cached_property
    def homes(self) -> frozenset[str]:
        """The modules of the class and of those above and below it; asked for once they are linked."""
        relatives = [*self.lineage(), *(c for below in self.below() for c in below.lineage())]
        return frozenset(cls.module.name for cls in (self, *relatives))

    @property
    def link(self) -> tuple[object, ...]:
        """What it is by the classes around it."""
        above, below = (tuple(c.qualified for c in classes) for classes in (self.lineage(), self.below()))
        return self.kind, self.torch_base, above, frozenset(below)

    def forget(self) -> None:
        """What was inferred, and the classes around it."""
        self.kind, self.torch_base = "object", ""
        self.attrs, self.bound = {}, {}
        self.parents, self.children, self.overridden = [], [], {}
        self.unlink()

    def unlink(self) -> None:
        """What was seen of the classes around it; they refer to each other."""
        self.inherited = {}
        for known in ("_lineage", "_below", "homes"):
            self.__dict__.pop(known, None)
