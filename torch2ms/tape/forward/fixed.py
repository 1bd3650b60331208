"""Items that are written out of what lists of layers return: `outputs[0]`, of which the other layers feed nothing.

torch has no gradient for these layers at any step, and decay moves them in MindSpore. Where layers feed each other,
the last item depends on all of them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.along import carried_along
from torch2ms.tape.forward.choices import LAYERS, moving
from torch2ms.tape.forward.differing import NOTHING, Lists, real
from torch2ms.tape.ledger.pairs import COMPREHENSIONS

LISTS = re.compile(r"Module(List|Dict)")
HOLDERS = ("list", "tuple", "dict")


def fixed(
    stmts: list[Stmt], module: ModuleInfo, lists: Lists, project: Project
) -> Iterator[tuple[str, frozenset[str]]]:
    """The items that statements take, and the lists of layers that not all of them take part in."""
    found = list(_items(stmts, module, lists, project)) if project.says(LISTS) else []
    for text, places in dict.fromkeys((text, places) for text, _, places in found):
        taken = [item for other, item, _ in found if other == text]
        cls = stmts[0].block.scope.cls if text.startswith("self.") else None
        if not all(_whole(place.rpartition(".")[2], taken, cls, project) for place in places):
            yield text, places


def _items(
    stmts: list[Stmt], module: ModuleInfo, lists: Lists, project: Project
) -> Iterator[tuple[str, object, frozenset[str]]]:
    """What items are taken of, what each is called, and the lists of layers behind it."""
    yield from _layers(stmts, module)
    for stmt in stmts:
        stored = {id(t.target) for t in stmt.node.targets} if isinstance(stmt.node, cst.Assign) else ()
        for node in stmt.nodes if not stmt.blocks else ():
            if type(node) is not cst.Subscript or id(node) in stored:
                continue
            if not moving(node) and not _all_of_it(node, stmt):
                if places := _behind(module.value(node.value), lists):
                    item, value = _item(node.slice[0].slice), module.value(node.value)
                    known = bool(value.items) and _known(node.value, item, places, stmts, module, project)
                    if not known and not _container(value, item):
                        yield code(node.value), item, places
        if isinstance(stmt.node, cst.Assign) and isinstance(target := stmt.node.targets[0].target, cst.Tuple):
            for element, value in _unpacked(target, module.value(stmt.node.value)):
                if places := _behind(value, lists):
                    used = {u for s in stmts if s is not stmt for u in s.uses}
                    names = [dotted(e.value) for e in element.elements]
                    taken = [number for number, name in enumerate(names) if name in used]
                    every = len(taken) == len(names)
                    if not every and not carried_along(stmt.node.value, [*taken], places, module, project):
                        yield from ((code(element), n, places) for n in taken if not _container(value, n))


def _known(
    holder: cst.BaseExpression, item: object, places: frozenset[str], stmts: list[Stmt], module: ModuleInfo,
    project: Project,
) -> bool:  # fmt: skip
    """`model(x)["loss"]`, which depends on all that the others do, as far as it is seen what returns them."""
    made = [s.node.value for s in stmts if isinstance(s.node, cst.Assign) and dotted(s.node.targets[0].target) in s.defs
            and dotted(s.node.targets[0].target) == dotted(holder)]  # fmt: skip
    return carried_along(made[-1] if made else holder, [item], places, module, project) is not False


def _item(part: cst.BaseSlice) -> object:
    """The item that is taken; with all up to the end, `outputs[1:]`, the last one is."""
    if type(part) is cst.Slice:
        return -1 if part.upper is None and (part.step is None or constant(part.step) == 1) else None
    return constant(part.value) if type(part) is cst.Index else None


def _container(value: Value, item: object) -> bool:
    """An item that holds results itself: what is taken of it decides."""
    known = value.items is not None and isinstance(item, int) and -len(value.items) <= item < len(value.items)
    return known and value.items[item].kind in HOLDERS  # type: ignore[index, call-overload]


def _layers(stmts: list[Stmt], module: ModuleInfo) -> Iterator[tuple[str, object, frozenset[str]]]:
    """The layers that statements run by numbers that are written out, of lists of which they use no more."""
    numbers: dict[tuple[str, str], list[object]] = {}
    uses: dict[str, int] = {}
    for node in (n for s in stmts for n in s.nodes):
        if type(node) is cst.Subscript and module.value(node.value).name in LAYERS and dotted(node.value):
            index = node.slice[0].slice
            item = constant(index.value) if type(index) is cst.Index else None
            numbers.setdefault((dotted(node.value), module.value(node.value).place), []).append(item)
        elif type(node) is cst.Attribute and (name := dotted(node)):
            uses[name] = uses.get(name, 0) + 1
    for (name, place), items in numbers.items():
        if place and uses.get(name) == len(items) and all(type(item) is int for item in items):
            yield from ((name, item, frozenset({place})) for item in items)


def _all_of_it(node: cst.Subscript, stmt: Stmt) -> bool:
    """`outputs[::-1]` leaves nothing out; of `outputs if self.deep else outputs[0]`, the condition decides."""
    part, text = node.slice[0].slice, code(node.value)
    if type(part) is cst.Slice:
        return len(node.slice) == 1 and part.lower is None and part.upper is None and _each(part.step)
    sides = [{code(n.body), code(n.orelse)} for n in stmt.nodes if type(n) is cst.IfExp]
    return any({text, code(node)} == side for side in sides) or _or_whole(node, stmt)


def _or_whole(node: cst.Subscript, stmt: Stmt) -> bool:
    """`if deep: r = outputs`, `else: r = outputs[0]`: the condition decides."""
    around = next(stmt.ancestors(), None)
    if around is None or type(around.node) is not cst.If or getattr(stmt.node, "value", None) is not node:
        return False
    others = [s for block in around.blocks if block is not stmt.block for s in block.stmts]
    values = [getattr(s.node, "value", None) for s in others if s.defs == stmt.defs]
    return any(value is not None and code(value) == code(node.value) for value in values)


def _each(step: cst.BaseExpression | None) -> bool:
    return step is None or constant(step) in (1, -1)


def _unpacked(target: cst.Tuple, value: Value) -> Iterator[tuple[cst.Tuple, Value]]:
    """The tuples of names that a value is unpacked into, and what each of them is given."""
    yield target, value
    for element, inner in zip(target.elements, value.items or (), strict=False):
        if isinstance(element.value, cst.Tuple):
            yield from _unpacked(element.value, inner)


def _behind(value: Value, lists: Lists) -> frozenset[str]:
    """The lists of layers behind a container, where it is not known which layer each of its items is of."""
    if value.kind not in HOLDERS:
        return NOTHING
    if value.items:  # which layer of a list each is from, is not seen
        several = Counter(d for item in value.items for d in real(item))
        return frozenset(d for d, count in several.items() if count > 1 and lists(d))
    return frozenset(d for d in real(value) if lists(d))


def _whole(attr: str, items: list[object], cls: Scope | None, project: Project) -> bool:
    """These items depend on every layer of a list: they are all there are, or the last one of layers in a row; the
    list that the class makes, where it does."""
    made = [(s, m) for m in project.modules.values() if m.has(f".{attr}") for scope in m.scope.walk()
            for s in scope.body.walk()]  # fmt: skip
    lists = [(s, s.block.scope.cls is cls) for s, _ in made if f"self.{attr}" in s.defs]
    sizes = {_size(s) for s, own in lists if own or not any(own for _, own in lists)}
    if len(sizes) == 1 and (size := sizes.pop()):
        if {i % size for i in items if isinstance(i, int)} == set(range(size)):
            return True
    return -1 in items and not any(_apart(s, attr) for s, _ in made)


def _size(stmt: Stmt) -> int:
    """How many layers are put into a list, 0 if it is not written out."""
    made = stmt.node.value if isinstance(stmt.node, (cst.Assign, cst.AnnAssign)) else None
    given = made.args[0].value if isinstance(made, cst.Call) and made.args else None
    if isinstance(given, (cst.List, cst.Tuple)):
        return len(given.elements) if not any(isinstance(e, cst.StarredElement) for e in given.elements) else 0
    over = given.for_in.iter if isinstance(given, (cst.ListComp, cst.GeneratorExp)) else None
    if not isinstance(over, cst.Call) or dotted(over.func) != "range" or len(over.args) != 1:
        return 0
    count = constant(argument(over, 0, "stop"))
    return count if isinstance(count, int) and not over.lpar else 0


def _apart(stmt: Stmt, attr: str) -> bool:
    """A statement runs the layers of a list each for itself: in a comprehension, or in a loop that carries nothing."""
    named = re.compile(rf"\.{attr}\b")
    if not isinstance(stmt.node, cst.For):
        return not stmt.blocks and any(isinstance(n, COMPREHENSIONS) and named.search(code(n)) for n in stmt.nodes)
    inner = [s for block in stmt.blocks for s in block.walk()]
    if not named.search(code(stmt.node.iter)) and not any(named.search(code(s.node)) for s in inner if not s.blocks):
        return False
    return not any(s.uses & t.defs for n, s in enumerate(inner) if s.calls for t in inner[n:])
