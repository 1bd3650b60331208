"""Dicts that a program keeps its networks and optimizers in, under keys that are written down.

`box = {}`, then `box["net"] = Net()` and `box["opt"] = Adam(box["net"].parameters())`: the ledger keeps gradients by
the place of an optimizer, and an item of a dict has none. A box is such a dict as long as all that is put into it is
seen, under keys that are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain

import libcst as cst

from torch2ms.analysis.known.attribute_dicts import DICTS
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import PART, UNKNOWN, UNPLACED, Value, entries

LIVING = {"optimizer", "scheduler", "scaler", "module"}  # known by where they are kept
CHANGING = {"update", "pop", "popitem", "clear", "setdefault", "move_to_end", "__setitem__"}
STORE = re.compile(r"""\[\s*(?:[rbu]?["']|[A-Za-z_])[^\]]{0,500}\]\s*=(?!=)|\bfor\b""")


def lives(value: Value) -> bool:
    """It is known by where it is kept."""
    return value.kind in LIVING or value.kind == "tensor" and value.leaf


@dataclass(eq=False)
class Box:
    """A dict with the statement that makes it, and what is put into it."""

    place: str
    node: cst.Assign | cst.AnnAssign
    stmt: Stmt
    scope: Scope
    held: dict[str, list[Value]] = field(default_factory=dict)  # by key, in order: what it may be
    stores: dict[int, str] = field(default_factory=dict)  # by id of an assignment: the key it fills
    filled: list[Stmt] = field(default_factory=list)  # those statements
    changed: set[str] = field(default_factory=set)  # keys whose value changes in another way
    open: bool = False  # more may be put into it elsewhere
    moved: bool = False  # some optimizer is made over networks that are put into it one by one

    @property
    def living(self) -> list[str]:
        """Keys of networks, optimizers and their kin, and of leaves."""
        return [k for k, held in self.held.items() if k not in self.changed and all(map(lives, held))]

    @property
    def trains(self) -> bool:
        """An optimizer is in it, or leaves or networks that some optimizer moves are put into it one by one."""
        held = {key: self.held[key][0] for key in self.living}
        own = any(v.kind == "optimizer" or v.leaf and key in self.stores.values() for key, v in held.items())
        return own or self.moved and any(held[key].kind == "module" for key in self.stores.values() if key in held)

    def whole(self, scope: Scope, number: int) -> bool:
        """Where a statement of the scope runs, everything is in the box that ever will be, once and in this order."""
        once = len(self.stores) == len(set(self.stores.values()))
        top = all(s.block is self.stmt.block for s in self.filled)
        later = scope is not self.scope or number > max(s.number for s in [self.stmt, *self.filled])
        return once and top and later and not self.open


def boxes(module: ModuleInfo, project: Project) -> list[Box]:
    """The boxes of a module; none where no dict of it has an optimizer, or leaves or networks that were put into it."""
    if module.uses_mindspore or module.directives.off or not module.says(STORE):
        return []
    stmts = [(scope, stmt) for scope in module.scope.walk() for stmt in scope.body.walk()]
    made = [box for scope, stmt in stmts for box in _made(stmt, scope, module)]
    first = (value.kind == "optimizer" for box in made for held in box.held.values() for value in held)
    stored = (module.value(both[1]) for _, s in stmts if (both := parts(s.node)) and type(both[0]) is cst.Subscript)
    moved = _moved(module)
    later = (value.kind == "optimizer" or (value.leaf or value.kind == "module") and moved for value in stored)
    if not made or not any(chain(first, later)):
        return []
    elsewhere = put_elsewhere(project)
    found = [box for box in made if _filled(box, module, project, elsewhere)]
    for box in found:
        box.moved = any(place.startswith(f"{box.place}{PART}") for place in moved)
    return found


def _moved(module: ModuleInfo) -> frozenset[str]:
    """The places that optimizers of the module move; updates by hand look their leaves up in a dict."""
    own = (value.owns or {value.place} for value in module.values.values() if value.kind == "optimizer")
    return frozenset().union(*own)


def parts(node: object) -> tuple[cst.BaseExpression, cst.BaseExpression] | None:
    """Target and value of an assignment to one target."""
    if type(node) is cst.Assign and len(node.targets) == 1:
        return node.targets[0].target, node.value
    if type(node) is cst.AnnAssign and node.value is not None:
        return node.target, node.value
    return None


def bound(node: object) -> list[tuple[str, str]]:
    """The places that an assignment binds, with what each is bound to: `nets, optims = self.nets, self.optims`."""
    both = parts(node)
    if both is None:
        return []
    target, value = both
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple) and len(target.elements) == len(value.elements):
        pairs = zip(target.elements, value.elements, strict=True)
        return [(dotted(one.value), dotted(other.value)) for one, other in pairs]
    return [(dotted(target), dotted(value))]


def names_of(place: str, scope: Scope) -> set[str]:
    """The place, and names that hold what it does in all of a function: `optims = self.optims`."""
    if not place.startswith("self.") or not scope.is_function:
        return {place}
    stmts = list(scope.body.walk())
    found = {name for s in stmts for name, value in bound(s.node) if value == place and "." not in name}
    return {place} | {n for n in found if n in scope.locals and sum(n in s.defs for s in stmts) == 1}


def key_of(node: cst.CSTNode) -> str | None:
    """The key of `place["key"]`, or of `place.key` where no other dict has such an attribute."""
    if type(node) is cst.Attribute:
        return None if hasattr(dict, node.attr.value) else node.attr.value
    index = node.slice[0].slice if type(node) is cst.Subscript and len(node.slice) == 1 else None
    key = constant(index.value) if type(index) is cst.Index else None
    return key if isinstance(key, str) else None


def sees(scope: Scope, home: Scope, name: str) -> bool:
    """The name means the same in the scope as where the box was made."""
    if name == "self":
        return scope.cls is not None and scope.cls is home.cls
    return closes_over(scope, home, name)


def closes_over(scope: Scope, home: Scope, name: str) -> bool:
    """A scope in `home`, or that itself, in which the name is that of `home`."""
    current: Scope | None = scope
    while current is not None and current is not home:
        if name in current.locals or name in current.params:
            return False
        current = current.parent
    return current is home


def own_nodes(stmt: Stmt) -> Iterator[cst.CSTNode]:
    """What a statement evaluates itself, without the blocks and definitions in it."""
    node = stmt.node
    if type(node) is cst.FunctionDef or type(node) is cst.ClassDef:
        return  # a scope of its own
    if not stmt.blocks:
        yield from descend(node)
    elif isinstance(node, (cst.If, cst.While)):
        yield from descend(node.test)
    elif isinstance(node, cst.For):
        yield from descend(node.iter)
    elif isinstance(node, cst.With):
        for item in node.items:
            yield from descend(item.item)


def _made(stmt: Stmt, scope: Scope, module: ModuleInfo) -> list[Box]:
    """The dicts that a statement makes: written down, empty, or given back by a function with keys that are known.

    `self.nets, self.averages = build(options)` gives back several.
    """
    both = parts(stmt.node)
    if both is None or stmt.off or type(both[1]) is not cst.Dict and type(both[1]) is not cst.Call:
        return []
    if type(both[1]) is cst.Call and module.value(both[1]).kind not in ("dict", "tuple"):
        return []  # most: this is asked of each statement
    if isinstance(both[0], cst.Tuple) and isinstance(both[1], cst.Call):
        places = [dotted(element.value) for element in both[0].elements]
        made = [(place, _entries_of(stmt.out.get(place, UNKNOWN))) for place in places if _keeps(place, scope)]
        return [Box(place, stmt.node, stmt, scope, held) for place, held in made if held]  # type: ignore[arg-type]
    place = dotted(both[0])
    held = _held(both[1], module) if _keeps(place, scope) else None
    return [] if held is None else [Box(place, stmt.node, stmt, scope, held)]  # type: ignore[arg-type]


def _keeps(place: str, scope: Scope) -> bool:
    """A name, or an attribute of the object whose method it is."""
    own = place.startswith("self.")
    return bool(place) and place != "self" and place.count(".") <= own and (scope.cls is not None or not own)


def _held(value: cst.BaseExpression, module: ModuleInfo) -> dict[str, list[Value]] | None:
    """The entries of a dict that is made; None for what is no dict, or one of which not all is seen."""
    held: dict[str, list[Value]] = {}
    if type(value) is cst.Dict:
        for element in value.elements:
            key = constant(element.key) if isinstance(element, cst.DictElement) else None
            if not isinstance(key, str) or key in held:
                return None
            held[key] = [module.value(element.value)]
        return held
    if type(value) is not cst.Call:
        return None
    if dotted(value.func) in DICTS or module.value(value.func).kind in ("class", "api"):  # `dict()`, `Munch()`
        if module.value(value).kind != "dict" or not all(a.keyword is not None and not a.star for a in value.args):
            return None
        return {a.keyword.value: [module.value(a.value)] for a in value.args if a.keyword is not None}
    return _entries_of(module.value(value)) or None


def _entries_of(value: Value) -> dict[str, list[Value]]:
    """The entries of a dict that a function gives back, where all are seen and none has a name of its own."""
    known = entries(value) if value.kind == "dict" else {}
    if not all(sure for _, sure in value.keys or ()):
        return {}
    if any(v.place and not v.place.startswith(UNPLACED) for v in known.values() if v.kind in LIVING):
        return {}  # its parts have names where they were made
    return {key: [one] for key, one in known.items()}


def _filled(box: Box, module: ModuleInfo, project: Project, elsewhere: list[tuple[int, str, str]]) -> bool:
    """Fill in what is put into the box; False where something else may happen to it."""
    aliases: set[str] = set()
    for scope in module.scope.walk():
        if not sees(scope, box.scope, root(box.place)):
            continue
        for stmt in scope.body.walk():
            if stmt.node is box.node:
                continue
            if box.place in stmt.defs or not _kept(box, stmt, scope, module):
                return False
            aliases |= {name for name, value in bound(stmt.node) if value == box.place}
    return bool(box.held) and untouched(box, aliases, module, project, elsewhere)


def untouched(
    box: Box, aliases: set[str], module: ModuleInfo, project: Project, elsewhere: list[tuple[int, str, str]]
) -> bool:
    """Note which of its keys other classes and functions may fill; False where they make another dict of it."""
    own = _relatives(box, module)
    here = id(box.scope.cls) if box.place.startswith("self.") else id(box.scope)
    last = box.place.rpartition(".")[2]
    for scope_id, place, key in elsewhere:
        if scope_id == here and place == box.place:
            continue  # seen above
        head, _, name = place.rpartition(".")
        related = head == "self" and scope_id in own or head not in ("", "self", "^")
        other = name == last and related and "." in box.place
        if other and not key:
            return False  # another dict from then on
        if other or place in aliases:
            box.open = True
        if key in box.held and (other or place in aliases or head == "^"):
            box.changed.add(key)
    return True


def _kept(box: Box, stmt: Stmt, scope: Scope, module: ModuleInfo) -> bool:
    """What a statement does to the box is seen, if it does anything."""
    node = stmt.node
    if type(node) is cst.Assign or type(node) is cst.AnnAssign:
        targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
        items = (n for t in targets for n in _bound_by(t) if type(n) is cst.Subscript or type(n) is cst.Attribute)
        hit = [n for n in items if dotted(n.value) == box.place]
        both = parts(node)
        if hit:
            key = key_of(both[0]) if both is not None and both[0] is hit[0] else None
            if key is None or both is None:
                return False
            if scope is not box.scope and not box.place.startswith("self."):  # a name would need `global` there
                box.changed.add(key)
                return True
            box.stores[id(node)] = key
            box.filled.append(stmt)
            box.held.setdefault(key, []).append(module.value(both[1]))
    if type(node) is cst.AugAssign or type(node) is cst.Del:
        hit = [n for n in descend(node.target) if isinstance(n, cst.Subscript) and dotted(n.value) == box.place]
        keys = {key_of(n) for n in hit}
        if None in keys or hit and isinstance(node, cst.Del):
            return False
        box.changed |= {k for k in keys if k is not None}
    calls = (c.func for c in stmt.calls if isinstance(c.func, cst.Attribute))
    return not any(f.attr.value in CHANGING and dotted(f.value) == box.place for f in calls)


def _bound_by(target: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What a target binds: `opts["a"].param_groups[0]["lr"] = rate` binds no item of `opts`."""
    if isinstance(target, (cst.Tuple, cst.List)):
        for element in target.elements:
            yield from _bound_by(element.value)
    else:
        yield target


@once
def put_elsewhere(project: Project) -> list[tuple[int, str, str]]:
    """Every `place["key"] = value` of the project: id of the class or scope, place ("^" begins what was given), key.

    The key is empty where an attribute is bound: a dict of that name is another one then.
    """
    found: list[tuple[int, str, str]] = []
    for module in project.modules.values():
        for scope in module.scope.walk():
            home = id(scope.cls) if scope.cls is not None else id(scope)
            for stmt in scope.body.walk():
                found += [(home, place, "") for place in stmt.defs if "." in place]
                both = parts(stmt.node)
                key = key_of(both[0]) if both is not None else None
                if both is None or key is None or not isinstance(both[0], cst.Subscript):
                    continue
                place = dotted(both[0].value)
                if place in scope.params and place != "self":
                    found.append((home, f"^.{place}", key))
                elif place:
                    found.append((home, place, key))
    return found


def _relatives(box: Box, module: ModuleInfo) -> set[int]:
    """The scopes of the classes whose `self` may be the one that has the box; its own scope for other names."""
    if not box.place.startswith("self."):
        return {id(box.scope)}
    cls = class_of(box.scope, module)
    return {id(c.scope) for c in (*cls.lineage(), *cls.below())} if cls is not None else {id(box.scope.cls)}


def class_of(scope: Scope, module: ModuleInfo) -> ClassInfo | None:
    """The class whose method the scope is."""
    return next((c for c in module.classes.values() if c.scope is scope.cls), None) if scope.cls is not None else None
