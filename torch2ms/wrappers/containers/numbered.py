"""`opts = [Adam(net.parameters()) for net in nets]` that loops clear and step: each optimizer gets a name of its own.

The ledger keeps gradients by the place of an optimizer, and an item of a list that is made there has none. Where the
number of items is seen, and the list stays as it is, so do the networks that they are made of.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.boxes import parts, sees
from torch2ms.wrappers.loops.unroll import Named, calls_of, of_one, zipped
from torch2ms.wrappers.passes import each_module

LOOP = re.compile(r"\bfor .*:\s+(?:#.*\n\s+)?\w+\.(?:zero_grad|step|unscale_)\(|\.(?:zero_grad|step)\(.* for ")
LIST = re.compile(r"=[\s(\\]*\[")
MOST = 8  # items of a list
KINDS = ("optimizer", "module", "scheduler")


@dataclass(eq=False)
class Listed:
    """A list that is made in one statement: its place, and what its items are."""

    place: str
    node: cst.Assign
    items: list[cst.BaseExpression]
    scope: Scope
    source: Listed | None = None  # the list that its comprehension runs over

    @property
    def names(self) -> list[str]:
        return [dotted(item) or f"{self.place}_{n}" for n, item in enumerate(self.items)]


@each_module
def numbered(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such lists."""
    if module.directives.off or not module.says(LIST):
        return None
    if not module.says(LOOP) or not _keeps_optimizers(module):
        return None
    stmts = [(scope, stmt) for scope in module.scope.walk() for stmt in scope.body.walk()]
    found = _Finder(module, stmts).found
    return _Writer(module, found).plain() if found else None


def _keeps_optimizers(module: ModuleInfo) -> bool:
    """Somewhere a list of optimizers is made where it is bound."""
    for node in module.of_kind(cst.Assign):
        made = node.value
        items = [made.elt] if type(made) is cst.ListComp else made.elements if type(made) is cst.List else ()
        for item in items:
            held = item.value if type(item) is cst.Element else item
            if type(held) is cst.Call and module.value(held).kind == "optimizer":
                return True
    return False


class _Finder:
    """The lists of one module whose items get names, by id of the assignment."""

    def __init__(self, module: ModuleInfo, stmts: list[tuple[Scope, Stmt]]) -> None:
        self.module, self.stmts = module, stmts
        self.lists: dict[tuple[int, str], Listed] = {}  # by the scope, or the class, whose place it is
        self.found: dict[int, Listed] = {}
        for scope, stmt in stmts:
            if (made := self.listed(stmt, scope)) is not None:
                self.lists[id(_home(made.place, scope)), made.place] = made
        kinds = {id(made): self.kind(made) for made in self.lists.values()}
        for made in self.lists.values():
            if kinds[id(made)] == "optimizer" and self.looped(made):
                self.take(made)
        for made in self.lists.values():  # of which each goes on with its optimizer
            taken = made.source is not None and id(made.source.node) in self.found
            if kinds[id(made)] == "scheduler" and taken and self.looped(made):
                self.take(made)

    def known(self, place: str, scope: Scope) -> Listed | None:
        """The list that a place is in a scope."""
        for (_, name), made in self.lists.items():
            if name == place and sees(scope, made.scope, place.partition(".")[0]):
                return made
        return None

    def kind(self, made: Listed) -> str:
        """What the list holds, as it was written."""
        value = made.node.value
        held = [value.elt] if isinstance(value, cst.ListComp) else made.items
        kinds = {self.module.value(item).kind for item in held}
        return kinds.pop() if len(kinds) == 1 else ""

    def take(self, made: Listed) -> None:
        if any(not dotted(item) for item in made.items):
            self.found[id(made.node)] = made
        if made.source is not None:
            self.take(made.source)

    def listed(self, stmt: Stmt, scope: Scope) -> Listed | None:
        both = parts(stmt.node)
        if stmt.off or stmt.block.owner is not None or both is None or type(stmt.node) is not cst.Assign:
            return None
        place, made = dotted(both[0]), both[1]
        if not place or not self.settled(place, stmt, scope):
            return None
        if place.startswith("self.") and any(
            c.scope is scope.cls and c.kind == "module" for c in self.module.classes.values()
        ):
            return None  # as attributes of their own they would be layers of it
        if isinstance(made, cst.List) and all(type(e) is cst.Element for e in made.elements):
            items = [e.value for e in made.elements]
            living = all(self.module.value(item).kind in KINDS for item in items)
            return Listed(place, stmt.node, items, scope) if living and 0 < len(items) <= MOST else None
        if not isinstance(made, cst.ListComp) or self.module.value(made.elt).kind not in KINDS:
            return None
        head = made.for_in
        if head.ifs or head.inner_for_in is not None or head.asynchronous is not None:
            return None
        names, iterated = _counted(head)
        source = self.known(dotted(iterated), scope)
        turns = source.names if source is not None else self.turns(iterated)
        if not names or not 0 < len(turns) <= MOST:
            return None
        if any(isinstance(n, (cst.Lambda, cst.ListComp)) for n in descend(made.elt)):
            return None
        elt: cst.CSTNode = made.elt
        items = [
            cst.parse_expression(code(elt.visit(Named(dict(zip(names, row[-len(names) :], strict=True))))))  # type: ignore[arg-type]
            for row in ((str(n), turn) for n, turn in enumerate(turns))
        ]
        return Listed(place, stmt.node, items, scope, source)

    def turns(self, node: cst.BaseExpression) -> list[str]:
        """What a comprehension counts with: `range(3)`, names that are written down."""
        if isinstance(node, (cst.List, cst.Tuple)):
            names = [dotted(e.value) for e in node.elements]
            return names if all(names) else []
        if isinstance(node, cst.Call) and dotted(node.func) == "range" and len(node.args) == 1:
            last = constant(self.number(node.args[0].value))
            return [str(n) for n in range(last)] if isinstance(last, int) else []
        return self.layers(dotted(node))

    def layers(self, place: str) -> list[str]:
        """The items of a `ModuleList` that is made once, of layers that are written down."""
        made = [s.node for _, s in self.stmts if place in s.defs]
        value = made[0].value if len(made) == 1 and isinstance(made[0], cst.Assign) else None
        if not isinstance(value, cst.Call) or self.module.value(value).name != "torch.nn.ModuleList" or not value.args:
            return []
        listed = value.args[0].value
        whole = isinstance(listed, cst.List) and all(type(e) is cst.Element for e in listed.elements)
        if not whole or any(place in s.muts for _, s in self.stmts):
            return []
        return [f"{place}[{n}]" for n in range(len(listed.elements))]  # type: ignore[attr-defined]

    def number(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """A number, or what a name is bound to that is bound once."""
        made = [s.node for _, s in self.stmts if type(node) is cst.Name and node.value in s.defs]
        return made[0].value if len(made) == 1 and isinstance(made[0], cst.Assign) else node

    def settled(self, place: str, stmt: Stmt, scope: Scope) -> bool:
        """The list is bound once, where it is made for good, and stays as it is."""
        once = scope.parent is None or place.startswith("self.") and scope.name == "__init__" or "." not in place
        seen = [s for around, s in self.stmts if sees(around, scope, place.partition(".")[0])]
        bound = [s for s in seen if place in s.defs]
        taken = {f"{place}_{n}" for n in range(MOST)}
        used = any(taken & (s.defs | s.uses) or place in s.muts for s in seen)
        return once and bound == [stmt] and not used

    def looped(self, made: Listed) -> bool:
        """Loops clear and step what is in the list, and nothing takes items out of it another way."""
        place, seen = made.place, False
        for scope, stmt in self.stmts:
            if not sees(scope, made.scope, place.partition(".")[0]):
                continue
            if place in stmt.uses and not stmt.blocks:
                if any(isinstance(n, cst.Subscript) and dotted(n.value) == place for n in stmt.nodes):
                    return False
            elif isinstance(stmt.node, cst.For) and place in stmt.uses:
                names, calls = self.items_in(stmt.node, place), calls_of(stmt.node)
                pure = bool(names and calls) and all(of_one(call, names, self.module) for call in calls)
                if not pure and any(s.calls for block in stmt.blocks for s in block.walk()):
                    return False  # networks and optimizers in turns
                seen = seen or pure
        return seen

    def items_in(self, loop: cst.For, place: str) -> list[str]:
        """The names that a loop gives to the items of lists, if it goes over this one."""
        heads = zipped(loop.iter) or [loop.iter]
        target = loop.target
        names = [dotted(e.value) for e in target.elements] if isinstance(target, cst.Tuple) else [dotted(target)]
        return names if place in map(dotted, heads) else []


def _home(place: str, scope: Scope) -> Scope | None:
    return scope.cls if place.startswith("self.") else scope


def _counted(head: cst.CompFor) -> tuple[list[str], cst.BaseExpression]:
    """The names that a comprehension gives to a number and an item, or to an item alone, and what it runs over."""
    target, iterated = head.target, head.iter
    if isinstance(target, cst.Name):
        return [target.value], iterated
    names = [dotted(e.value) for e in target.elements] if isinstance(target, cst.Tuple) else []
    counts = isinstance(iterated, cst.Call) and dotted(iterated.func) == "enumerate" and len(iterated.args) == 1
    if len(set(names)) != 2 or not all(map(str.isidentifier, names)) or not counts:
        return [], iterated
    return names, iterated.args[0].value  # type: ignore[attr-defined]


class _Writer(Suites):
    """One module, with a statement for each item of these lists."""

    def __init__(self, module: ModuleInfo, found: dict[int, Listed]) -> None:
        super().__init__(module)
        self.found = found

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        made = self.found.get(id(node))
        if made is None:
            return [self.rewrite(node)]
        own = [
            cst.Assign([cst.AssignTarget(cst.parse_expression(name))], item)  # type: ignore[arg-type]
            for name, item in zip(made.names, made.items, strict=True)
            if not dotted(item)
        ]
        whole = cst.List([cst.Element(cst.parse_expression(name)) for name in made.names])
        return [*own, made.node.with_changes(value=whole)]
