"""What statements do beside binding names: the orders that they take part in, and the jumps by which they leave."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import any_overlap

CONTAINERS = {"OrderedDict", "collections.OrderedDict", "defaultdict", "collections.defaultdict", "deque", "Counter"}


RUN = "run "  # begins the effect of running a network: its place follows


def effects(stmt: Stmt, module: ModuleInfo, draws: bool = True) -> set[str]:
    """Which orders the statement takes part in: io, rng (random draws), mode (of networks: training or not), and the
    networks that it runs, whose statistics may change; `draws`: they may draw random numbers too."""
    found: set[str] = set()
    for inner in stmt.walk():
        for call in inner.calls:
            target = module.value(call.func)
            name = dotted(call.func)
            if target.kind == "builtin":
                if name in ("print", "input", "open"):
                    found.add("io")
            elif target.kind == "api":
                last = target.name.rpartition(".")[2]
                if (
                    last.startswith(("rand", "normal", "bernoulli", "multinomial", "dropout", "uniform"))
                    or "random" in target.name
                ):
                    found.add("rng")
            elif target.kind == "module":
                if not target.name.rpartition(".")[2].endswith("Loss"):
                    found |= {RUN + place for place in target.own or {""}} | ({"rng"} if draws else set())
                    found |= {"counts"} if module.counting else set()
            elif name in CONTAINERS:
                continue
            elif target.kind in ("function", "class", "unknown", "method") and not isinstance(call.func, cst.Attribute):
                found |= {"io", "rng", "mode"}
            elif isinstance(call.func, cst.Attribute):
                receiver = module.value(call.func.value)
                method = call.func.attr.value
                if receiver.kind in ("tensor", "param", "numpy", "list", "dict", "str", "size", "float", "int"):
                    if receiver.kind == "numpy" and ("rng" in name or "random" in name):
                        found.add("rng")
                    elif method.startswith(("normal_", "uniform_", "bernoulli", "random_")):
                        found.add("rng")
                elif method in (
                    "append",
                    "extend",
                    "item",
                    "keys",
                    "values",
                    "items",
                    "format",
                    "size",
                    "update",
                ):
                    pass
                elif method in ("train", "eval"):
                    found.add("mode")
                else:
                    found |= {"io", "rng", "mode"}
    return found


def clash(one: set[str], other: set[str]) -> bool:
    """Two statements with these effects must keep their order."""
    if one & other:
        return True
    mine, theirs = ({e.removeprefix(RUN) for e in effects if e.startswith(RUN)} for effects in (one, other))
    if mine and "mode" in other or theirs and "mode" in one:
        return True
    return bool(mine and theirs) and ("" in mine | theirs or any_overlap(frozenset(mine), frozenset(theirs)))


def leaves(stmt: Stmt, in_loop: bool = False) -> str:
    """The jump by which a statement may leave the statements around it, "" if none.

    `in_loop`: one of those is a loop of its own, which `break` and `continue` mean.
    """
    if type(stmt.node) is cst.Return:
        return "return"
    if type(stmt.node) is cst.Expr and (type(stmt.node.value) is cst.Yield or type(stmt.node.value) is cst.Await):
        return "yield"
    if (type(stmt.node) is cst.Break or type(stmt.node) is cst.Continue) and not in_loop:
        return "break" if isinstance(stmt.node, cst.Break) else "continue"
    for block in stmt.blocks:
        loops = in_loop or (isinstance(stmt.node, (cst.For, cst.While)) and block.role == "body")
        for child in block.stmts:
            if found := leaves(child, loops):
                return found
    return ""


def following(stmt: Stmt) -> list[Stmt]:
    """What runs after a statement in its block and in the blocks around it, up to the function's end."""
    found: list[Stmt] = []
    block = stmt.block
    while True:
        found += block.stmts[block.stmts.index(stmt) + 1 :]
        if block.owner is None:
            return found
        stmt = block.owner
        block = stmt.block


def always(stmts: list[Stmt], wanted: set[int]) -> bool:
    """One of the wanted statements (by id) runs whatever the conditions are, before anything leaves the function."""
    for stmt in stmts:
        if id(stmt) in wanted:
            return True
        bodies = [b.stmts for b in stmt.blocks]
        whole = isinstance(stmt.node, cst.With) or isinstance(stmt.node, cst.If) and len(bodies) == 2
        if bodies and whole and all(always(body, wanted) for body in bodies):
            return True
        if leaves(stmt):
            return False
    return False


def pure(stmt: Stmt, module: ModuleInfo) -> bool:
    """Running the statement twice makes no difference: no effects, no module whose statistics it could move."""
    return not effects(stmt, module) and not stmt.all_muts and not stmt.blocks
