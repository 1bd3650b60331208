"""One module of a project: its tree, and what is known of its nodes."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import libcst as cst

from torch2ms.analysis.program import mentioned
from torch2ms.analysis.program.classes import ClassInfo, FunctionInfo
from torch2ms.analysis.program.plain import Plain
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax import directives
from torch2ms.analysis.syntax.annotations import Annotated
from torch2ms.analysis.syntax.names import Imports, dotted
from torch2ms.analysis.syntax.sources import says
from torch2ms.analysis.syntax.tree import Node, gathered
from torch2ms.analysis.values import UNKNOWN, Value

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.env import Env

TRAINING = re.compile(r"(?<!\bself)\.training\b")

Added = tuple[str, cst.Module, str, frozenset[int], Plain | None, list[tuple[int, int]], Annotated]


@dataclass(eq=False)
class ModuleInfo:
    """One module: its tree, its imports and everything inferred about its nodes."""

    name: str
    path: str
    tree: cst.Module
    imports: Imports
    scope: Scope
    source: str
    lines: list[tuple[int, int]]  # the first and the last of each statement
    values: dict[int, Value] = field(default_factory=dict)
    env: Env = field(init=False, repr=False)  # of its own body; an inference starts with an empty one
    classes: dict[str, ClassInfo] = field(default_factory=dict)
    functions: dict[int, FunctionInfo] = field(default_factory=dict)  # by id of the scope
    directives: directives.Directives = directives.NONE
    reshapes: bool = False  # somewhere a tensor gets another number of dimensions in place
    quoted: dict[int, cst.BaseExpression] = field(default_factory=dict)  # by id of a string: what it annotates
    used: dict[int, frozenset[str]] = field(default_factory=dict)  # by id of a scope: what its places are used as
    held: bool = False  # its gradient code stays as it is
    plain: Plain | None = None  # what was changed before it was read
    annotated: Annotated = field(default_factory=dict)  # what assignments were before they were read plainly
    counting: bool = False  # networks of the project write to what all of them share: their order shows
    weights: frozenset[str] = frozenset()  # attributes of classes that always hold leaves which an optimizer updates
    skips: bool = False  # optimizers of its program leave what is frozen alone, as torch's do
    zeroed: bool = False  # ... which has a gradient of zeros: nothing to an optimizer that remembers nothing
    grows: bool = False  # ... and get more groups when they are at work
    conditional: bool = False  # somewhere in the project a forward calls layers under a condition
    answers: dict[Callable[..., Any], Any] = field(default_factory=dict)  # to what is asked `once`
    texts: dict[re.Pattern[str] | str, bool] = field(default_factory=dict)  # searches in its source: do they find

    def has(self, text: str) -> bool:
        """Its source has a text in it; for what is asked of statement after statement."""
        known = self.texts.get(text)
        if known is None:
            known = self.texts[text] = text in self.source
        return known

    def says(self, pattern: re.Pattern[str]) -> bool:
        """Its source has what is searched for."""
        known = self.texts.get(pattern)
        if known is None:
            known = self.texts[pattern] = says(self.source, pattern)
        return known

    @cached_property
    def optimized(self) -> set[str]:
        """Names of what only optimizers are given, or what is clipped: lists of parameters that are trained."""
        found: set[str] = set()
        others: set[str] = set()
        for stmt in (s for scope in self.scope.walk() for s in scope.body.walk()):
            given: set[str] = set()
            for call in stmt.calls:
                if self.value(call).kind == "optimizer" or "clip_grad" in dotted(call.func):
                    given |= {dotted(arg.value) for arg in call.args}
                if self.value(call).kind == "optimizer" and call.args:
                    found.add(dotted(call.args[0].value))
            others |= stmt.uses - given
        return found - others - {""}

    @property
    def added(self) -> Added:
        """What a project can add it from once more."""
        return self.path, self.tree, self.source, self.directives.off, self.plain, self.lines, self.annotated

    @property
    def exports(self) -> dict[tuple[str, str], object]:
        """What other modules may find here, by kind and name."""
        found: dict[tuple[str, str], object] = {("stars", "*"): self.imports.stars}
        found |= {("import", name): target for name, target in self.imports.table.items()}
        found |= {("function", name): True for name in self.named}
        for cls in self.classes.values():
            found["class", cls.scope.name] = cls.bases
            found |= {(f"method of {cls.scope.name}", name): True for name in cls.methods}
        return found

    def forget(self) -> None:
        """What was inferred of others; values of nodes stay until the next inference has new ones."""
        self.answers.clear()
        self.skips = self.zeroed = self.grows = False
        for known in ("optimized", "outer"):
            self.__dict__.pop(known, None)
        for info in self.functions.values():
            info.args, info.given, info.returns, info.differentiated = {}, {}, None, False
        for cls in self.classes.values():
            cls.forget()

    def close(self) -> None:
        """Let go of everything: what refers to each other in circles would wait for the cyclic collector, which is slow
        among so many small objects."""
        for scope in list(self.scope.walk()):
            for stmt in list(scope.body.walk()):
                for block in stmt.blocks:
                    block.clear()
                stmt.blocks.clear()
            scope.body.clear()
            del scope.body
            scope.children.clear()
        for cls in self.classes.values():
            cls.methods.clear()
            cls.parents.clear()
            cls.overridden.clear()
            cls.unlink()
        for known in ("named", "nodes", "kinds", "attributes"):
            self.__dict__.pop(known, None)
        self.functions.clear()
        self.classes.clear()
        self.answers.clear()

    @cached_property
    def nodes(self) -> list[cst.CSTNode]:
        """Everything in its tree that is code, parents first."""
        return gathered(self.tree)

    @cached_property
    def kinds(self) -> dict[type, list[Any]]:
        """The same by what they are: most that look through a module look for one or two kinds of nodes."""
        found: defaultdict[type, list[Any]] = defaultdict(list)
        for node in self.nodes:
            found[node.__class__].append(node)
        found.default_factory = None
        return found

    def of_kind(self, kind: type[Node]) -> list[Node]:
        """The nodes of its tree that are of a class, parents first."""
        return self.kinds.get(kind, [])

    quotes = cached_property(mentioned.quotes)
    naming = cached_property(mentioned.naming)
    attributes = cached_property(mentioned.attributes)
    handed = cached_property(mentioned.handed)

    @cached_property
    def uses_mindspore(self) -> bool:
        """An earlier conversion, or a person, wrote MindSpore code here already."""
        return any(name.partition(".")[0] == "mindspore" for name in self.imports.table.values())

    @cached_property
    def reads_training(self) -> bool:
        """It asks a module for its mode."""
        return self.says(TRAINING)

    @cached_property
    def bound(self) -> frozenset[str]:
        """Every name that a scope of the module binds, or an import."""
        return frozenset(n for scope in self.scope.walk() for n in scope.locals) | self.imports.table.keys()

    @cached_property
    def called(self) -> frozenset[str]:
        """The last names of what is called somewhere in it."""
        stmts = (s for scope in self.scope.walk() for s in scope.body.walk())
        return frozenset(dotted(call.func).rpartition(".")[2] for s in stmts for call in s.calls)

    @cached_property
    def own_names(self) -> frozenset[str]:
        """What statements of its own body bind, imports left out."""
        stmts = (s for s in self.scope.body.walk() if type(s.node) not in (cst.Import, cst.ImportFrom))
        return frozenset(name for stmt in stmts for name in stmt.defs)

    @cached_property
    def outer(self) -> dict[str, Value]:
        """What names of its own body hold in the end; asked for once its values are inferred."""
        return {n: v for s in self.scope.body.walk() for n, v in s.out.items() if "." not in n}

    @cached_property
    def named(self) -> dict[str, FunctionInfo]:
        """The functions of the module by name; of several the first."""
        found: dict[str, FunctionInfo] = {}
        for child in self.scope.children:
            if child.is_function:
                found.setdefault(child.name, self.functions[id(child)])
        return found

    def weightless(self, value: Value) -> bool:
        """A module that is a loss without weights of its own."""
        name = value.name.rpartition(".")[2]
        return (
            value.kind == "module"
            and name.endswith("Loss")
            and not (name in self.classes and self.classes[name].weighted)
        )

    def value(self, node: cst.CSTNode) -> Value:
        return self.values.get(id(node), UNKNOWN)

    def top_level(self, stmt: Stmt) -> Stmt:
        """The statement of the module's own body that a statement belongs to."""
        outermost = [stmt, *stmt.ancestors()][-1]
        scope = outermost.block.scope
        if scope.parent is None:
            return outermost
        return self.top_level(next(s for s in scope.parent.body.walk() if s.node is scope.node))
