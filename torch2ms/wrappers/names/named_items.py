"""`opts[key].zero_grad()`, ..., `opts[key].step()`: an optimizer out of a container of callers gets a name.

The ledger keeps gradients by the place of an optimizer, and an item has none. Where the container stays as it is
between the first use and the last one, `opt = opts[key]` above them is the same; so are networks that are called as its
items, there and where gradients are taken: compiled code is given a network, and no dict.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import children, code, constant
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites, line_of
from torch2ms.inlining.candidates import ONCE
from torch2ms.wrappers.boxes import own_nodes
from torch2ms.wrappers.names.keyed import stores_into
from torch2ms.wrappers.passes import each_module

TAKEN = re.compile(r"\]\s*\.\s*(?:step|zero_grad)\(")
MAY_BE = {"optimizer", "unknown"}


@dataclass(eq=False)
class Item:
    """`place[key]` in one scope, with where it stands and how it is used."""

    place: str
    key: cst.BaseExpression
    uses: list[tuple[Stmt, cst.Subscript]] = field(default_factory=list)
    methods: set[str] = field(default_factory=set)  # "" where it is called itself
    kinds: set[str] = field(default_factory=set)

    @property
    def optimizer(self) -> bool:
        named = self.kinds == {"optimizer"} or "zero_grad" in self.methods
        return "step" in self.methods and named and self.kinds <= MAY_BE

    @property
    def network(self) -> bool:
        return bool({"", "parameters"} & self.methods) and self.kinds <= {"module", "unknown"}

    @property
    def last(self) -> str:
        return self.place.rpartition(".")[2]

    def name(self, taken: set[str]) -> str:
        """A name for it that means nothing else yet, "" where none is found."""
        key = self.key.value if isinstance(self.key, cst.Name) else str(constant(self.key))
        one = self.last[:-1] if self.last.endswith("s") else self.last
        short = (one,) if isinstance(self.key, cst.Name) and one != self.last else ()
        names = (*short, f"{one}_{key}", f"{one}_{key}_")
        return next((n for n in names if n.isidentifier() and n not in taken), "")


@each_module
def named_items(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such items."""
    if module.directives.off or not (module.says(TAKEN) or _twice(module)):
        return None
    return _named(module, project)


@each_module
def named_networks(module: ModuleInfo, project: Project) -> Plain | None:
    """The same once more, of gradients that stood in functions which are written out by now."""
    return None if module.directives.off or not _twice(module) else _named(module, project)


def _twice(module: ModuleInfo) -> bool:
    """A gradient is differentiated, and something is called that is an item."""
    return module.has("create_graph") and any(type(call.func) is cst.Subscript for call in module.of_kind(cst.Call))


def _named(module: ModuleInfo, project: Project) -> Plain | None:
    writer = _Writer(module)
    for scope in module.scope.walk():
        if not isinstance(scope.node, cst.ClassDef):
            writer.name(_Finder(scope, module, project).found())
    return writer.plain() if writer.names else None


class _Finder:
    """The items of one scope, and the statements above which each can be taken for all of its uses."""

    def __init__(self, scope: Scope, module: ModuleInfo, project: Project) -> None:
        self.scope, self.module, self.project = scope, module, project

    def found(self) -> dict[Item, Stmt]:
        """Items of one block are taken above the first statement that uses any of them, if they are there already."""
        tops = {item: above for item in self.items() if (above := self.above(item)) is not None}
        made: dict[Item, Stmt] = {}
        for item, first in tops.items():
            block = first.block
            before = sorted((t for t in tops.values() if t.block is block), key=lambda s: s.number)
            made[item] = next(
                top for top in before
                if not any(self.changes(s, item) for s in block.walk() if top.number <= s.number < first.number)
            )  # fmt: skip
        return made

    def items(self) -> list[Item]:
        """The optimizers, and the networks beside them under the same keys or under written ones."""
        found: dict[str, Item] = {}
        calls = [(stmt, call) for stmt in self.scope.body.walk() for call in stmt.calls]
        twice = [stmt.number for stmt, call in calls if self.compiled(call)]
        if not twice and not any(
            isinstance(c.func, cst.Attribute) and c.func.attr.value == "backward" for _, c in calls
        ):
            return []
        nodes = [(stmt, node) for stmt in self.scope.body.walk() for node in own_nodes(stmt)]
        for stmt, node in nodes:
            if type(node) is cst.Subscript and (key := _key(node)) is not None and dotted(node.value):
                if not isinstance(key, cst.Integer) or root(dotted(node.value)) in self.scope.params:
                    item = found.setdefault(_text(node), Item(dotted(node.value), key))
                    item.uses.append((stmt, node))
                    item.kinds.add(self.module.value(node).kind)
        for _, node in nodes:
            func = node.func if type(node) is cst.Call else None
            method = type(func) is cst.Attribute
            called = func.value if method else func  # type: ignore[union-attr]
            if type(called) is cst.Subscript and (used := found.get(_text(called))) is not None:
                used.methods.add(func.attr.value if method else "")  # type: ignore[union-attr]
        sure = [i for i in found.values() if i.optimizer]
        places, keys = {i.place for i in sure}, {code(i.key) for i in sure}
        networks = [
            i for i in found.values()
            if i.network and i.place not in places and (code(i.key) in keys or isinstance(i.key, cst.SimpleString))
        ]  # fmt: skip
        beside = (i for i in found.values() if i.place in places and i.kinds <= MAY_BE and "step" in i.methods)
        if twice and not sure:
            return [i for i in networks if "" in i.methods and i.uses[0][0].number <= max(twice)]
        return [*networks, *beside] if sure else []

    def compiled(self, call: cst.Call) -> bool:
        """A gradient that is differentiated again: it is taken in compiled code."""
        again = any(arg.keyword is not None and arg.keyword.value == "create_graph" for arg in call.args)
        return again and qualified(call.func, self.module.imports) == "torch.autograd.grad"

    def above(self, item: Item) -> Stmt | None:
        """The statement above which the item can be taken; None where it may be another one later."""
        chains = [[stmt, *stmt.ancestors()] for stmt, _ in item.uses]
        block = next(s.block for s in chains[0] if all(any(o.block is s.block for o in chain) for chain in chains))
        tops = [next(s for s in chain if s.block is block) for chain in chains]
        uses = zip(item.uses, tops, strict=True)
        surely = any(top is stmt and _once(stmt.node, node) for (stmt, node), top in uses)
        first, last = min(tops, key=lambda s: s.number), max(stmt.number for stmt, _ in item.uses)
        within = (s for s in block.walk() if first.number <= s.number <= last)
        if not surely or any(self.changes(s, item) for s in within):
            return None
        while (owner := block.owner) is not None and owner.is_loop:
            if any(self.changes(s, item) for s in (owner, *(s for b in owner.blocks for s in b.walk()))):
                break
            first, block = owner, owner.block
        return first

    def changes(self, stmt: Stmt, item: Item) -> bool:
        """The container, or its key, may be another one after the statement."""
        if {item.place, root(item.place), code(item.key)} & stmt.defs or stores_into(stmt, item.place):
            return True
        called = (resolve(call, self.scope, self.module, self.project) for call in stmt.calls)
        inner = (s for info in called if info is not None for s in info.scope.body.walk())
        return any(d.rpartition(".")[2] == item.last and "." in d for s in inner for d in _stored(s))


def _stored(stmt: Stmt) -> set[str]:
    """The attributes that a statement of another function binds, or puts something into."""
    return {place for place in stmt.defs | stmt.muts if place in stmt.defs or stores_into(stmt, place)}


def _key(node: cst.Subscript) -> cst.BaseExpression | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    key = index.value if isinstance(index, cst.Index) else None
    written = isinstance(key, cst.SimpleString) and str(constant(key)).isidentifier()
    return key if written or isinstance(key, (cst.Integer, cst.Name)) else None


def _text(node: cst.Subscript) -> str:
    """The item, in whichever quotation marks its key stands."""
    key = _key(node)
    return f"{dotted(node.value)}[{constant(key)!r}]" if isinstance(key, cst.SimpleString) else code(node)


def _once(node: cst.CSTNode, wanted: cst.CSTNode) -> bool:
    """An expression is evaluated whenever the statement that has it is."""
    if node is wanted:
        return True
    return not isinstance(node, ONCE) and any(_once(child, wanted) for child in children(node))


class _Writer(Suites):
    """One module, with the names of its items and the lines that bind them."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.names: dict[int, str] = {}
        self.bound: dict[int, list[str]] = {}  # by id of a statement, the lines above it
        self.taken = {n for s in module.scope.walk() for n in s.locals} | module.imports.table.keys()

    def name(self, found: dict[Item, Stmt]) -> None:
        for item, above in found.items():
            name = item.name(self.taken)
            if name:
                self.taken.add(name)
                line = above.line if above.line is not None else above.node
                self.bound.setdefault(id(line), []).append(f"{name} = {code(item.uses[0][1])}")
                self.names |= {id(node): name for _, node in item.uses}

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        name = self.names.get(id(original))
        return updated if name is None else cst.Name(name)

    def statement(self, stmt: cst.CSTNode) -> Made:
        made, waiting = super().statement(stmt)
        lines = self.bound.get(id(stmt), ())
        if not lines or not made:
            return made, waiting
        above: list[cst.BaseStatement] = []
        for text in lines:
            line = line_of(text)
            self.number(line.body[0], stmt.body[0] if isinstance(stmt, cst.SimpleStatementLine) else stmt)
            above.append(line)
        own = made[0].leading_lines  # type: ignore[attr-defined]
        if own and own[0].comment is None:
            above[0] = self.renumbered(above[0], leading_lines=own[:1])
            made[0] = self.renumbered(made[0], leading_lines=layout.strip_blank(own))
        return [*above, *made], waiting
