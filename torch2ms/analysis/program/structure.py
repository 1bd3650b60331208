"""The structured program: scopes, blocks and statements, with `with torch.no_grad():` and its kin made transparent.

A statement knows what it defines, mutates and uses as *places*: `x`, `self.net`, `a.b.c`. Elements of a container are
one with it. See `flow.py` for how these are collected.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property

import libcst as cst

from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import Value

DEFINITIONS = (cst.FunctionDef, cst.ClassDef)
SmallOrCompound = cst.BaseSmallStatement | cst.BaseCompoundStatement


@cache
def small_kind(kind: type) -> bool:
    """Asking the abstract base class for every statement would cost more."""
    return issubclass(kind, cst.BaseSmallStatement)


@dataclass(eq=False, slots=True)
class Stmt:
    """One statement: a small one, or a compound one with its blocks."""

    node: SmallOrCompound
    line: cst.SimpleStatementLine | None  # the line a small statement stands on; None in a one-line suite
    block: Block
    number: int
    lineno: int = 0
    end_lineno: int = 0
    blocks: list[Block] = field(default_factory=list)
    leading: tuple[cst.EmptyLine, ...] = ()  # comments and blank lines above
    trailing: cst.TrailingWhitespace | None = None  # the comment after a small statement
    modes: tuple[cst.With, ...] = ()  # the transparent `with` blocks it stands in, outermost first
    defs: set[str] = field(default_factory=set)
    muts: set[str] = field(default_factory=set)
    uses: set[str] = field(default_factory=set)
    calls: list[cst.Call] = field(default_factory=list)
    out: dict[str, Value] = field(default_factory=dict)  # the places it writes, as they are afterwards
    refills: set[str] = field(default_factory=set)  # of what it mutates: what was in there before is gone
    sums: set[str] = field(default_factory=set)  # attributes of which methods that it calls make something anew
    shown: set[str] = field(default_factory=set)  # of what it gives a function: what that gives back shows its memory
    rebinds: bool = False  # a nested function that it calls binds names of this scope
    is_small: bool = False  # it has no block of its own
    off: bool = False  # left as it is, because a person asked for it
    gradients: list[cst.Attribute] | None = None  # every `something.grad` in it, once somebody asked (see events)
    _nodes: list[cst.CSTNode] | None = None

    @property
    def nodes(self) -> list[cst.CSTNode]:
        """Everything in it that is code, parents first; small statements are asked again and again."""
        if self._nodes is not None:
            return self._nodes
        found = gathered(self.node)
        if self.is_small:
            self._nodes = found
        return found

    def walk(self) -> Sequence[Stmt]:
        """The statement and those inside of it, in order."""
        if not self.blocks:
            return (self,)
        found = [self]
        for block in self.blocks:
            found += block.walk()
        return found

    @property
    def is_loop(self) -> bool:
        return type(self.node) is cst.For or type(self.node) is cst.While

    @property
    def all_defs(self) -> set[str]:
        return set().union(*[s.defs for s in self.walk()]) if self.blocks else set(self.defs)

    @property
    def all_muts(self) -> set[str]:
        return set().union(*[s.muts for s in self.walk()]) if self.blocks else set(self.muts)

    @property
    def all_uses(self) -> set[str]:
        return set().union(*[s.uses for s in self.walk()]) if self.blocks else set(self.uses)

    def ancestors(self) -> Iterator[Stmt]:
        """The compound statements around it, innermost first."""
        owner = self.block.owner
        while owner is not None:
            yield owner
            owner = owner.block.owner

    def excludes(self, other: Stmt) -> bool:
        """At most one of the two runs: they stand in different branches of an `if`."""
        mine, theirs = (
            {id(s.block.owner): s.block for s in (stmt, *stmt.ancestors())
             if s.block.owner is not None and type(s.block.owner.node) is cst.If}
            for stmt in (self, other)
        )  # fmt: skip
        return any(theirs.get(key, block) is not block for key, block in mine.items())


@dataclass(eq=False, slots=True)
class Block:
    """A sequence of statements under one header."""

    scope: Scope
    owner: Stmt | None
    role: str  # body, orelse, handler, finalbody, case
    node: cst.CSTNode
    stmts: list[Stmt] = field(default_factory=list)
    _every: list[Stmt] = field(default_factory=list)

    def walk(self) -> list[Stmt]:
        """Its statements and those inside of them, in order; asked for once the program is built."""
        if not self._every:
            self._every = every = []
            for stmt in self.stmts:
                every.append(stmt)
                for block in stmt.blocks:
                    every += block.walk()
        return self._every

    def clear(self) -> None:
        """Let go of its statements."""
        self.stmts.clear()
        self._every.clear()


@dataclass(eq=False)
class Scope:
    """A module, class or function body."""

    node: cst.Module | cst.ClassDef | cst.FunctionDef
    name: str
    parent: Scope | None
    body: Block = field(init=False)
    children: list[Scope] = field(default_factory=list)
    locals: set[str] = field(default_factory=set)
    params: list[str] = field(default_factory=list)
    transparent: dict[int, int] = field(default_factory=dict)  # id of a `with` that was dissolved -> its line
    off: bool = False  # its definition is left as it is
    shown: dict[str, str] = field(default_factory=dict)  # a name for a part of a tensor -> the tensor, as far as read
    held: dict[str, str] = field(default_factory=dict)  # a name -> another for the same tensor, or a list with it

    twins: bool = False  # a container has two names in it
    is_function: bool = field(init=False)
    is_module: bool = field(init=False)
    cls: Scope | None = field(init=False)  # the class whose method this is

    def __post_init__(self) -> None:
        self.is_function, self.is_module = type(self.node) is cst.FunctionDef, type(self.node) is cst.Module
        method = self.is_function and self.parent is not None and type(self.parent.node) is cst.ClassDef
        self.cls = self.parent if method else None

    @cached_property
    def in_sight(self) -> list[str]:
        """The names that it and the scopes around it bind, but for definitions; asked for once the program is built."""
        definitions = {child.name for child in self.children}
        again = (s.defs for s in self.body.walk() if type(s.node) not in DEFINITIONS) if definitions else ()
        own = self.locals - definitions.difference(self.params, *again)
        return sorted(own.union(self.parent.in_sight if self.parent is not None else ()))

    @cached_property
    def mentioned(self) -> list[str]:
        """Those of them that its own statements read or write, or those of a scope in it; asked for once built."""
        places = {p for scope in self.walk() for s in scope.body.walk() for p in (*s.uses, *s.defs, *s.muts)}
        return [*filter({place.partition(".")[0] for place in places}.__contains__, self.in_sight)]

    def walk(self) -> Sequence[Scope]:
        """The scope and those in it, in the order of the source."""
        found, stack = [], [self]
        while stack:
            scope = stack.pop()
            found.append(scope)
            stack += scope.children[::-1]
        return found
