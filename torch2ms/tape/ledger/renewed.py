"""Networks whose name is bound again in a loop: a new one has no gradients, another one has its own."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import overlaps, within

OTHER = "the loop goes on with another network, and nothing clears what the one before has in its gradients"


def bindings(places: frozenset[str], scope: Scope, module: ModuleInfo, seen: bool) -> dict[int, bool]:
    """The statements that bind these places to other networks, by id; True: all of them, to newly made ones.

    Not `seen`: these are names of optimizers, and a new one may hold the same networks.
    """
    if not places or any(place.startswith(("^", "@")) for place in places):
        return {}
    found: dict[int, bool] = {}
    row: list[tuple[Stmt, set[str]]] = []  # one after the other, each binds some of the places to new objects
    for stmt in scope.body.walk():
        bound = {place for place in places if within(place, stmt.defs)} if stmt.defs else set()
        if row and (stmt.block is not row[0][0].block or type(stmt.node) is not cst.Assign):
            row = []
        if bound and type(stmt.node) is cst.For:
            found[id(stmt)] = False
        elif bound and seen and isinstance(stmt.node, cst.Assign):
            leaf = _leaf(stmt.node.value, module)
            if not leaf and _kept(stmt.node, bound):
                continue
            row = [*row, (stmt, bound)] if leaf or _made(stmt.node.value, module) else []
            new = bool(row) and places <= {place for _, some in row for place in some}
            if new:
                for before, _ in row:
                    found.pop(id(before), None)
            if new or any(a.is_loop for a in stmt.ancestors()):
                found[id(stmt)] = new
    return found


def _kept(node: cst.Assign, places: set[str]) -> bool:
    """`net = net.to(device)`: the same network, for all that is known."""
    nodes = [n for n in descend(node.value) if type(n) is cst.Name or type(n) is cst.Attribute]
    parts = {id(p) for n in nodes if type(n) is cst.Attribute for p in (n.value, n.attr)}
    named = {dotted(n) for n in nodes if id(n) not in parts}  # of `self.image.clone()` the whole, not `self`
    return any(overlaps(name, place) for name in named for place in places)


def _leaf(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A call that makes a leaf, or a list of them: `x.clone().requires_grad_()`, where `x.requires_grad_()` is x."""
    if type(node) is cst.ListComp:
        node = node.elt
    if type(node) is not cst.Call or not module.value(node).leaf:
        return False
    if not isinstance(node.func, cst.Attribute) or node.func.attr.value != "requires_grad_":
        return True
    inner = node.func.value
    return isinstance(inner, cst.Call) and not module.value(inner).place


def _made(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A call of a class, or of a function that returns what it makes, or a copy."""
    if type(node) is not cst.Call:
        return False
    value = module.value(node)
    if value.kind == "module" and qualified(node.func, module.imports) == "copy.deepcopy":
        return True  # of the weights alone, without their gradients
    if value.kind == "unknown" and module.value(node.func).kind == "api":
        return dotted(node.func).rpartition(".")[2][:1].isupper()  # a class of another library
    return value.kind in ("module", "object") and not value.likely and not value.place and not value.deps


def starts(made: list[Stmt], first: Stmt) -> bool:
    """One of the statements has run whenever the first backward call does."""
    blocks = [s.block for s in (first, *first.ancestors())]
    return any(s.block in blocks and s.number < first.number for s in made)
