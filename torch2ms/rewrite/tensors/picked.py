"""Elements that a tensor, a list or a mask picks: torch copies them, MindSpore writes what is stored in them back.

`batch = data[order]; batch[0] = 0` changes `data` in MindSpore, unless the batch is a copy of its own.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.inplace.callers import argument
from torch2ms.rewrite.inplace.views import SAME
from torch2ms.rewrite.translation import Translation

_MASKS = (cst.LessThan, cst.LessThanEqual, cst.GreaterThan, cst.GreaterThanEqual, cst.Equal, cst.NotEqual)
WHY = "what is stored in the elements that it picks would be written back in MindSpore: a copy"


def copied(original: cst.Subscript, updated: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """`x[picks]`, with memory of its own where something is stored in it afterwards."""
    stmt = work.stmt
    if stmt is None or not picks(original, stmt, work.module) or not _stored_in(original, stmt, work):
        return updated
    unsure = _unsure(original, work.module)
    tier, why = (Tier.ASSUMED, f"{WHY}; assumed: {unsure} has dimensions") if unsure else (Tier.EXACT, WHY)
    work.notes.findings.append(Finding("T2M613", tier, f"index of {code(original.value)}", why))
    return cst.Call(cst.Attribute(parenthesised(updated), cst.Name("copy")))


def picks(node: cst.Subscript, stmt: Stmt, module: ModuleInfo) -> bool:
    """An index by a tensor with dimensions, a list or a mask; numbers and slices show the tensor itself."""
    kind = module.value(node.value).kind
    if kind not in ("tensor", "param", "unknown"):
        return False
    for index in _indices(node):
        value, rank = module.value(index), _rank(index, module)
        if value.kind == "tensor" and rank != 0 and not (rank is None and _of_loop(index, stmt, module)):
            return kind != "unknown" or bool(rank)
        if kind != "unknown" and (value.kind in ("list", "numpy") or isinstance(index, cst.List)):
            return True
        if isinstance(index, cst.Comparison) and all(isinstance(c.operator, _MASKS) for c in index.comparisons):
            return True
    return False


def _indices(node: cst.Subscript) -> Iterator[cst.BaseExpression]:
    for element in node.slice:
        if isinstance(element.slice, cst.Index) and element.slice.star is None:
            yield element.slice.value


def _rank(index: cst.BaseExpression, module: ModuleInfo) -> int | None:
    value = module.value(index)
    return value.rank if not value.likely and not module.reshapes else None


def _of_loop(index: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """A name for what a loop takes out of a tensor: nearly always a number."""
    loops = (s.node for s in stmt.ancestors() if dotted(index) in s.defs)
    return any(isinstance(loop, cst.For) and module.value(loop.iter).kind == "tensor" for loop in loops)


def _unsure(node: cst.Subscript, module: ModuleInfo) -> str:
    """The index that may be a number, in a tensor: elements that one picks are shown."""
    unsure = ""
    for index in _indices(node):
        value = module.value(index)
        if isinstance(index, (cst.List, cst.Comparison)) or value.kind in ("list", "numpy") or value.dtype == "bool":
            return ""
        if value.kind == "tensor":
            if _rank(index, module):
                return ""
            unsure = f"`{code(index)}`"
    return unsure


def _stored_in(node: cst.Subscript, stmt: Stmt, work: Translation) -> bool:
    """Whether something is stored in what the index picks: here, under a name that it gets, or in a function."""
    if any(_handed(call, node, work.project) for call in stmt.calls):
        return True
    if isinstance(stmt.node, cst.AugAssign):
        return _within(stmt.node.target, node)
    if isinstance(stmt.node, cst.Return):
        return stmt.node.value is not None and _by_callers(stmt.node.value, node, stmt, work.project)
    if not isinstance(stmt.node, (cst.Assign, cst.AnnAssign)) or stmt.node.value is None:
        return False
    targets = [t.target for t in stmt.node.targets] if isinstance(stmt.node, cst.Assign) else [stmt.node.target]
    if any(_within(target, node) for target in targets):
        return True
    return any(_written(dotted(t), stmt) for target in targets for t in _named(target, stmt.node.value, node))


def _handed(call: cst.Call, node: cst.Subscript, project: Project) -> bool:
    """A function of the project is given what the index picks, and stores in it: `blank(x[picks])`."""
    if not any(_is_or_shows(arg.value, node) for arg in call.args):
        return False
    name = dotted(call.func).rpartition(".")[2]
    for module in project.modules.values():
        for scope in module.scope.walk() if name and module.has(f"def {name}") else ():
            if scope.name == name and scope.is_function:
                given = (p for p in scope.params if (held := argument(call, p, scope)) and _is_or_shows(held, node))
                if any(_changed(parameter, scope) for parameter in given):
                    return True
    return False


def _by_callers(value: cst.BaseExpression, node: cst.Subscript, stmt: Stmt, project: Project) -> bool:
    """A function returns what the index picks, and somebody stores in what it returned."""
    returned = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
    name = stmt.block.scope.name
    if not any(_is_or_shows(part, node) for part in returned):
        return False
    for module in project.modules.values():
        for scope in module.scope.walk() if module.has(f"{name}(") else ():
            for caller in scope.body.walk():
                if any(dotted(call.func).rpartition(".")[2] == name for call in caller.calls):
                    if any(_written(place, caller) for place in caller.defs):
                        return True
    return False


def _within(target: cst.BaseExpression, node: cst.Subscript) -> bool:
    """`x[picks][0]` as the target of a store."""
    while target is not node and isinstance(target, (cst.Subscript, cst.Attribute)):
        target = target.value
        if target is node:
            return True
    return False


def _named(target: cst.BaseExpression, value: cst.BaseExpression, node: cst.Subscript) -> Iterator[cst.BaseExpression]:
    """The names that an assignment gives to what the index picks."""
    if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
        for one, other in zip(target.elements, value.elements, strict=False):
            yield from _named(one.value, other.value, node)
    elif dotted(target) and _is_or_shows(value, node):
        yield target


def _is_or_shows(value: cst.BaseExpression, node: cst.Subscript) -> bool:
    """The expression is the elements themselves, a part of them, or a container that holds them."""
    if value is node:
        return True
    if isinstance(value, (cst.List, cst.Tuple, cst.Dict)):
        return any(_is_or_shows(element.value, node) for element in value.elements)
    if isinstance(value, cst.IfExp):
        return _is_or_shows(value.body, node) or _is_or_shows(value.orelse, node)
    if isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        value = value.func
    if isinstance(value, cst.Subscript) or isinstance(value, cst.Attribute) and value.attr.value in SAME:
        return _is_or_shows(value.value, node)
    return False


def _written(place: str, stmt: Stmt) -> bool:
    """Something is stored in elements of the place, after the statement that binds it or in another method."""
    home = stmt.block.scope
    if "." in place:
        while home.parent is not None:
            home = home.parent
    return any(_changed(place, scope, but=stmt) for scope in home.walk())


def _changed(place: str, scope: Scope, but: Stmt | None = None) -> bool:
    """`y[0] = 1`, or `y += 1` where other names show it too."""
    return any(
        place in other.muts and other is not but
        and (isinstance(other.node, (cst.Assign, cst.AugAssign)) or len(other.muts) > 1)
        for other in scope.body.walk()
    )  # fmt: skip
