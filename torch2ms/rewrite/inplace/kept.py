"""Attributes whose tensor somebody else holds: `self.last = y.detach()`, then `self.last += 1`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import begun, given_on, shares, shown_by, shows
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant

MAKING = frozenset(
    {"zeros", "ones", "empty", "full", "rand", "randn", "tensor", "zeros_like", "ones_like", "full_like"}
)


def held_elsewhere(target: cst.Attribute, stmt: Stmt, module: ModuleInfo) -> bool:
    """A statement of this module gives an attribute of that name to others, or puts into it what others have; what the
    function has just made is its own until then."""
    place, value = dotted(target), module.value(target)
    if value.kind != "tensor" or value.leaf or target.attr.value in ("data", "grad"):
        return False
    if _of_class(target, stmt, module) or not value.likely and target.attr.value in _of_items(module):
        return True
    if not place:
        return False
    here = [s for s in stmt.block.scope.body.walk() if s.number < stmt.number]
    if new := begun(place, stmt):
        return any(shares(s, place) for s in here if new < s.number)
    stmts, ending = [s for scope in module.scope.walk() for s in scope.body.walk()], f".{target.attr.value}"
    others = [(s, other) for s in stmts for other in (*s.uses, *s.defs) if other.endswith(ending)]
    return any(
        (not value.likely or s in here or _cut_there(s, other)) and (shares(s, other) or _taken(s, other))
        for s, other in others
    )


@once
def _of_items(module: ModuleInfo) -> frozenset[str]:
    """The attributes that others have of objects without names: `first = slots[0].key`, `[s.key for s in slots]`."""
    stmts = (s for scope in module.scope.walk() for s in scope.body.walk())
    parts = ((s, part) for s in stmts for part in given_on(s) if not _as_numpy(part))
    shown = ((s, node) for s, part in parts for node in shown_by(part))
    return frozenset(n.attr.value for s, n in shown if isinstance(n, cst.Attribute) and dotted(n) not in s.uses)


def _as_numpy(node: cst.BaseExpression) -> bool:
    """`slots[0].key.numpy()`, which is asked for its numbers."""
    return isinstance(node, cst.Call) and name_called(node) == "numpy"


def _of_class(target: cst.Attribute, stmt: Stmt, module: ModuleInfo) -> bool:
    """`shift = torch.zeros(1)` in the class itself: all its objects have that one."""
    scope = stmt.block.scope
    body = scope.cls.body.stmts if scope.cls is not None and dotted(target.value) == "self" else ()
    made = (s.node.value for s in body if target.attr.value in s.defs and isinstance(s.node, cst.Assign))
    return any(module.value(value).kind == "tensor" for value in made)


def copied(target: cst.Subscript, scope: Scope) -> bool:
    """`state["h"]`, of which there is a shallow copy, or which is in one: others hold the tensor too."""
    place = dotted(target.value)
    every = [s for s in scope.body.walk() if place and isinstance(s.node, cst.Assign)]
    given = [s.node.value for s in every if place in s.uses and place not in s.defs and isinstance(s.node, cst.Assign)]
    given += [e.value for node in given if isinstance(node, cst.Tuple) for e in node.elements]
    made = [(s.node.value, s.uses) for s in every if place in s.defs and isinstance(s.node, cst.Assign)]
    return any(_copies(node, place) for node in given) or any(_copies(node, use) for node, uses in made for use in uses)


def of_state(target: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> bool:
    """`state[k]` of `state = net.state_dict()`: the parameter itself."""
    place = dotted(target.value)
    before = [s.node for s in stmt.block.scope.body.walk() if place in s.defs and s.number < stmt.number]
    given = before[-1].value if before and isinstance(before[-1], cst.Assign) else None
    if not isinstance(given, cst.Call) or not isinstance(given.func, cst.Attribute) or given.args:
        return False
    return given.func.attr.value == "state_dict" and module.value(given.func.value).kind in ("module", "unknown")


def repeated(target: cst.Subscript, scope: Scope, module: ModuleInfo) -> bool:
    """`rows[0]` of `rows = [row] * 2`: one tensor."""
    place = dotted(target.value)
    for stmt in scope.body.walk() if place else ():
        value = stmt.node.value if isinstance(stmt.node, cst.Assign) and place in stmt.defs else None
        if isinstance(value, cst.BinaryOperation) and isinstance(value.operator, cst.Multiply):
            listed = value.left.elements if isinstance(value.left, cst.List) else ()
            return any(module.value(e.value).kind == "tensor" for e in listed)
    return False


def _copies(node: cst.BaseExpression, place: str) -> bool:
    """`copy.copy(state)`, `dict(state)`, `state.copy()`, `{**state}`, `rows[:]`."""
    if isinstance(node, cst.Call):
        called = dotted(node.func)
        if called in ("copy.copy", "copy", "dict", "list", "tuple", "OrderedDict", "collections.OrderedDict"):
            return len(node.args) == 1 and dotted(node.args[0].value) == place
        return called == f"{place}.copy"
    if isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
        starred = (e for e in node.elements if isinstance(e, (cst.StarredDictElement, cst.StarredElement)))
        return any(dotted(e.value) == place for e in starred)
    sliced = isinstance(node, cst.Subscript) and isinstance(node.slice[0].slice, cst.Slice)
    return sliced and dotted(node.value) == place  # type: ignore[attr-defined]


def without_graph(target: cst.Attribute, added: cst.BaseExpression, module: ModuleInfo) -> bool:
    """Whatever this module puts into an attribute of that name, or adds to it, was cut from its graph, or has none."""
    value = module.value(added)
    if value.deps or value.kind not in ("int", "float") and not _cut_first(added, module):
        return False
    given = [
        stmt.node.value
        for scope in module.scope.walk()
        for stmt in scope.body.walk()
        if isinstance(stmt.node, cst.Assign) and target.attr.value in _attributes(stmt.node)
    ]
    return bool(given) and all(_cut(value, module) for value in given)


def _cut_there(stmt: Stmt, place: str) -> bool:
    """`self.last = y.detach()`: whatever `y` is, this is a tensor."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or all(dotted(t.target) != place for t in node.targets):
        return False
    called = node.value.func if isinstance(node.value, cst.Call) else None
    return isinstance(called, cst.Attribute) and called.attr.value == "detach"


def _attributes(node: cst.Assign) -> set[str]:
    return {t.target.attr.value for t in node.targets if isinstance(t.target, cst.Attribute)}


def _cut(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    value = module.value(node)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "data"
    if not isinstance(node, cst.Call):
        return dotted(node) == "None"
    if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("detach", "clone"):
        return node.func.attr.value == "detach" or _cut(node.func.value, module)
    made = module.value(node.func).name.rpartition(".")[2]
    return value.kind == "tensor" and not value.deps and made in MAKING


def _cut_first(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`y.detach().sum(0)`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if _cut(node, module):
            return True
        node = node.func.value
    return _cut(node, module)


def _taken(stmt: Stmt, place: str) -> bool:
    """The attribute gets a tensor that has a name already, or a view of one; or a function hands it out."""
    node = stmt.node
    if isinstance(node, cst.Return) and node.value is not None:
        return any(place in shows(part) for part in _parts(node.value))
    if not isinstance(node, cst.Assign) or all(dotted(t.target) != place for t in node.targets):
        return False
    unnamed = any(isinstance(n, cst.Attribute) and not dotted(n) for n in shown_by(node.value))  # `net[2].bias.data`
    return bool(shows(node.value) - {place}) or unnamed or len(node.targets) > 1 and constant(node.value) is ...


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    """What is given together: each of `return self.mean, self.std`."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Set, cst.Dict)):
        return [part for e in node.elements for part in _parts(e.value)]
    return [node]
