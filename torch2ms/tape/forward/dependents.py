"""The statements whose results depend on given names."""

from __future__ import annotations

import math

import libcst as cst

from torch2ms.analysis.evaluation.modes import off
from torch2ms.analysis.known.torchapi import SHAPED
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import children, code, constant, descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.tape.ledger.pairs import bound, clauses
from torch2ms.tape.model import Event

CONSTANT = frozenset("size shape dim ndim numel device dtype detach item data type requires_grad is_leaf".split())
LIKE = ("zeros_like", "ones_like", "rand_like", "randn_like", "randint_like", "empty_like", "full_like")


def silenced(stmt: Stmt, module: ModuleInfo) -> bool:
    """The innermost gradient mode around the statement is no_grad."""
    for mode in reversed(stmt.modes):
        for item in mode.items:
            if off(item.item, module):
                return True
            called = item.item.func if isinstance(item.item, cst.Call) else item.item
            if qualified(called, module.imports).rpartition(".")[2] == "enable_grad":
                return False
    return False


def dependents(inputs: list[str], event: Event, scope: Scope, module: ModuleInfo, entry: bool = False) -> set[int]:
    """The statements, up to the call, whose results depend on the inputs as they are last bound, or at `entry`."""
    start = -1
    for stmt in () if entry else scope.body.walk():
        if stmt.number >= event.stmt.number:
            continue
        switched = switch(stmt, inputs) if len(inputs) == 1 else None
        value = module.value(switched) if switched is not None else UNKNOWN
        if begins(stmt, value, inputs[0]) if switched is not None else set(stmt.defs) & set(inputs):
            start = stmt.number
    tainted = set(inputs)
    found: set[int] = set()
    for stmt in scope.body.walk():
        if (
            start < stmt.number < event.stmt.number
            and {p for u in stmt.uses for p in (u, root(u))} & tainted
            and (type(stmt.node) not in (cst.Assign, cst.AnnAssign) or varied_uses(stmt.node, tainted))
            and not silenced(stmt, module)
            and switch(stmt, inputs) is None  # it changes nothing of what the input is taken out of
        ):
            written = {root(d) for d in stmt.defs | stmt.muts}
            if entry or written - set(inputs):
                tainted |= written
                found.add(id(stmt))
    return found


def switch(stmt: Stmt, inputs: list[str]) -> cst.BaseExpression | None:
    """The input of `x.requires_grad = True`, or of `x.requires_grad_()` by itself, written `x = x.requires_grad_()`."""
    node = stmt.node
    switched: cst.CSTNode | None = None
    if type(node) is cst.Assign and len(node.targets) == 1 and constant(node.value) is True:
        switched = node.targets[0].target
    elif isinstance(node, (cst.Expr, cst.Assign)) and type(node.value) is cst.Call:
        switched = node.value.func
    if type(switched) is not cst.Attribute or switched.attr.value not in ("requires_grad", "requires_grad_"):
        return None
    name = dotted(switched.value)
    return switched.value if name in inputs and stmt.defs <= {name, f"{name}.requires_grad"} else None


def begins(stmt: Stmt, value: Value, name: str) -> bool:
    """What was made of the input before has no graph: it has none itself until the switch, in any turn of a loop."""
    loops = [around for around in stmt.ancestors() if around.is_loop]
    anew = all(any(name in s.defs and s is not stmt for s in loop.blocks[0].stmts) for loop in loops)
    return anew and not value.deps and not value.leaf


def undecided(inputs: list[str], event: Event, scope: Scope, module: ModuleInfo) -> bool:
    """An input begins to require gradients within a loop: what is made of it above has a graph in later turns only."""
    for stmt in scope.body.walk():
        switched = switch(stmt, inputs) if stmt.number < event.stmt.number else None
        loop = next((around for around in stmt.ancestors() if around.is_loop), None) if switched is not None else None
        if switched is None or loop is None:
            continue
        name = dotted(switched)
        made = [s for s in scope.body.walk() if s.number < loop.number and name in s.defs | s.muts]
        if begins(stmt, module.value(switched), name) or made and made[-1].out.get(name, UNKNOWN).leaf:
            continue
        before = (s for s in loop.walk() if s.number < stmt.number and s.is_small and s.defs - {name})
        if any(varied_uses(s.node, {name}) for s in before):
            return True
    return False


def varied_uses(node: cst.CSTNode, names: set[str]) -> bool:
    """An expression or statement uses one of the places in a way that its value varies with."""
    if type(node) is cst.Call:
        name = node.func.attr.value if type(node.func) is cst.Attribute else dotted(node.func)
        if name in LIKE or name in CONSTANT and type(node.func) is cst.Attribute:
            return False
        if name in SHAPED and type(node.func) is cst.Attribute:
            return varied_uses(node.func.value, names)
    if type(node) is cst.Attribute:
        if node.attr.value in CONSTANT:
            return False
        place = dotted(node)
        if place:
            return any(place == n or place.startswith(n + ".") for n in names)
    if type(node) is cst.Name:
        return node.value in names
    if type(node) is cst.Assign:
        return varied_uses(node.value, names)
    if type(node) is cst.AnnAssign:
        return node.value is not None and varied_uses(node.value, names)
    if type(node) is cst.Arg:
        return varied_uses(node.value, names)
    if type(node) is cst.GeneratorExp or type(node) is cst.ListComp:
        for clause in clauses(node.for_in):
            names = names | bound(clause) if varied_uses(clause.iter, names) else names - bound(clause)
        return varied_uses(node.elt, names)
    return any(varied_uses(child, names) for child in children(node))


def renamed(names: list[str], event: Event, scope: Scope, stmts: list[Stmt], puts_back: bool = False) -> bool:
    """The statements use an input under another name as well: `pos = data.pos` is `data.pos`.

    `puts_back`: not where they first write `data.pos = pos`; compiled code would keep that to itself.
    """
    for name in names:
        made = [s for s in scope.body.walk() if name in s.defs and s.number < event.stmt.number]
        other = _same_object(made[-1].node) if made else None
        if other is None or dotted(other) == name or puts_back and _put_back(other, name, stmts):
            continue
        if _used_since(other, made[-1], stmts):
            return True
    return False


def _put_back(other: cst.BaseExpression, name: str, stmts: list[Stmt]) -> bool:
    """The first statement that uses the expression puts the input there: `data["pos"] = pos`."""
    node = next((s.node for s in stmts if _uses(other, s)), None)
    plain = isinstance(node, cst.Assign) and len(node.targets) == 1 and dotted(node.value) == name
    return plain and code(node.targets[0].target) == code(other)  # type: ignore[union-attr]


def _used_since(other: cst.BaseExpression, made: Stmt, stmts: list[Stmt]) -> bool:
    """The statements use the expression, while it means what it meant in `made`: until its name is bound again."""
    again = [s for s in made.block.stmts if s.number > made.number and s.is_small and _binds(other, s)]
    end = again[0].number if again else math.inf
    using = (s for s in stmts if s is not made and s.number <= end and not (s.number == end and not _reads(other, s)))
    return any(_uses(other, s) for s in using)


def _binds(other: cst.BaseExpression, stmt: Stmt) -> bool:
    return isinstance(other, cst.Name) and other.value in stmt.defs


def _reads(other: cst.BaseExpression, stmt: Stmt) -> bool:
    return not isinstance(other, cst.Name) or other.value in {root(u) for u in stmt.uses}


def _same_object(node: cst.CSTNode) -> cst.BaseExpression | None:
    """What a new name is another name for."""
    value = node.value if isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Name) else None
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if value.func.attr.value not in ("requires_grad_", "to", "float", "view", "cuda"):
            return None
        value = value.func.value
    return value if isinstance(value, (cst.Name, cst.Attribute, cst.Subscript)) else None


def _uses(other: cst.BaseExpression, stmt: Stmt) -> bool:
    """The statement uses the expression, or what it is a part of; not another part of that."""
    base, text = other if isinstance(other, cst.Name) else other.value, code(other)  # type: ignore[attr-defined]
    head = dotted(base).partition(".")[0]
    if not head or head == "self":
        return False
    apart: set[int] = set()
    for node in stmt.nodes:
        if isinstance(node, (cst.Attribute, cst.Subscript)) and code(node.value) == code(base) and code(node) != text:
            parts = node.slice if isinstance(node, cst.Subscript) else []
            if all(isinstance(p.slice, cst.Index) and constant(p.slice.value) is not ... for p in parts):
                apart |= {id(n) for n in descend(node.value)}
    return any(isinstance(n, cst.Name) and n.value == head and id(n) not in apart for n in stmt.nodes)
