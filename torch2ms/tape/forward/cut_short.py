"""Results of several layers of which a program takes some out (`del losses[0]`, `losses.pop()`), or that it goes
through beside a list that may end before (`zip(weights, net(x))`).

All layers ran, and those whose result is left out have no gradient in torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.choices import own

TAKING = frozenset({"pop", "popitem", "popleft", "remove"})
CONTAINERS = ("list", "tuple", "dict")
CUTTING = re.compile(r"\bzip\(|\bdel\b|\.(?:pop|popitem|popleft|remove)\(")
SHOWN = ("item", "float", "print", "detach", "tolist", "format")
PLAIN = ("int", "float", "bool", "none")


def taken_out(stmt: Stmt, stmts: list[Stmt]) -> Iterator[cst.BaseExpression]:
    """What a statement takes items out of that nothing uses any more but to show them."""
    node = stmt.node
    if isinstance(node, cst.Del):
        targets = [e.value for e in node.target.elements] if isinstance(node.target, cst.Tuple) else [node.target]
        yield from (t.value for t in targets if isinstance(t, cst.Subscript))
    value = node.value if isinstance(node, (cst.Expr, cst.Assign)) else None
    if not isinstance(value, cst.Call) or type(value.func) is not cst.Attribute or name_called(value) not in TAKING:
        return
    if isinstance(node, cst.Expr) or not any(_used(s, stmt.defs) for s in stmts if s is not stmt):
        yield value.func.value


def _used(stmt: Stmt, names: set[str]) -> bool:
    """A statement uses one of these names for more than to show what it holds."""
    if not names & stmt.uses:
        return False
    shown = {id(n) for c in stmt.calls if name_called(c) in SHOWN for n in gathered(c)}
    return any(type(n) is cst.Name and n.value in names and id(n) not in shown for n in gathered(own(stmt)))


def beside(stmt: Stmt) -> Iterator[tuple[cst.BaseExpression, list[cst.BaseExpression]]]:
    """What a statement goes through in step with others, each with these others."""
    for call in stmt.calls:
        if dotted(call.func) == "zip" and len(call.args) > 1:
            given = [a.value for a in call.args if not a.star and a.keyword is None]
            yield from ((one, [other for other in given if other is not one]) for one in given)


def ends_before(one: cst.BaseExpression, other: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """Of two that a statement goes through together, the other is a list of the program's that may have fewer items."""
    if uneven(other, stmt, module):
        return True
    mine, theirs = module.value(one), module.value(other)
    return written_out(theirs) and (not mine.items or len(theirs.items or ()) < len(mine.items))


def uneven(node: cst.BaseExpression, stmt: Stmt, module: ModuleInfo) -> bool:
    """A list that is a part of another or one of several: `weights[:depth]`, `plan[epoch]`, what loops go through."""
    value = module.value(node)
    if type(node) is cst.Subscript:
        held = module.value(node.value)
        if type(node.slice[0].slice) is cst.Slice:
            return held.kind in CONTAINERS and not held.deps
        return bool(held.items) and all(item.kind in CONTAINERS and not item.deps for item in held.items or ())
    if value.kind not in ("list", "tuple") or value.deps or value.items or type(node) is not cst.Name:
        return False
    bound = [s for s in stmt.block.scope.body.walk() if node.value in s.defs]
    return any(isinstance(s.node, cst.For) for s in bound)


def written_out(value: Value) -> bool:
    """A list of numbers, or of None."""
    return value.kind in ("list", "tuple") and bool(value.items) and all(i.kind in PLAIN for i in value.items or ())
