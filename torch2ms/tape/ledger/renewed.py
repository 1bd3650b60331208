"""Networks whose name is bound again in a loop: a new one has no gradients, another one has its own."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend

OTHER = "the loop goes on with another network, and nothing clears what the one before has in its gradients"


def bindings(places: frozenset[str], scope: Scope, module: ModuleInfo, seen: bool) -> dict[int, bool]:
    """The statements that bind these places to other networks, by id; True: all of them, to newly made ones.

    Not `seen`: these are names of optimizers, and a new one may hold the same networks.
    """
    if not places or any(place.startswith(("^", "@")) for place in places):
        return {}
    found: dict[int, bool] = {}
    for stmt in scope.body.walk():
        bound = {place for place in places if any(place == d or place.startswith(f"{d}.") for d in stmt.defs)}
        if bound and isinstance(stmt.node, cst.For):
            found[id(stmt)] = False
        elif bound and seen and isinstance(stmt.node, cst.Assign) and not _kept(stmt.node, bound):
            new = len(bound) == len(places) and _made(stmt.node.value, module)
            if new or any(a.is_loop for a in stmt.ancestors()):
                found[id(stmt)] = new
    return found


def _kept(node: cst.Assign, places: set[str]) -> bool:
    """`net = net.to(device)`: the same network, for all that is known."""
    roots = {root(place) for place in places}
    return any(isinstance(n, cst.Name) and n.value in roots for n in descend(node.value))


def _made(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A call of a class, or of a function that returns what it makes."""
    if not isinstance(node, cst.Call):
        return False
    value = module.value(node)
    if value.kind == "unknown" and module.value(node.func).kind == "api":
        return dotted(node.func).rpartition(".")[2][:1].isupper()  # a class of another library
    return value.kind in ("module", "object") and not value.likely and not value.place and not value.deps


def starts(made: list[Stmt], first: Stmt) -> bool:
    """One of the statements has run whenever the first backward call does."""
    blocks = [s.block for s in (first, *first.ancestors())]
    return any(s.block in blocks and s.number < first.number for s in made)
