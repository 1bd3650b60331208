"""Containers that calls fill where gradients are off: a hook, a lambda, a function that others call with gradients.

What was put into them there keeps no graph in torch. The functions cannot say so, as they do not know who calls them:
the block says it where it ends, of containers that were empty when it began.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.assigned import side_by_side
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import FILLING, any_overlap
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.writer import Writer
from torch2ms.tape.forward.dependents import silenced

AGAIN = {"list": "{0}[:] = without_gradient({0})", "dict": "{0}.update(without_gradient({0}))"}
PLAIN = ("api", "builtin")


def refilled(stmts: list[Stmt], writer: Writer) -> list[str]:
    """The statements that take the graphs from what such calls put into containers."""
    found = {place: fresh(place, stmts, writer) for _, place in _filled(stmts, writer)}
    return [AGAIN[kind].format(place) for place, kind in found.items() if kind]


def refuse_filled(stmts: list[Stmt], writer: Writer) -> None:
    """Mark the calls that fill containers in which something else may be already."""
    for stmt, place in _filled(stmts, writer):
        if not fresh(place, stmts, writer):
            why = f"what it puts into `{place}` has no gradient, and what is in there already may have one"
            todo = f"fill a container of its own, and put ops.stop_gradient around what goes from there into `{place}`"
            finding = Finding("T2M309", Tier.REFUSED, "container filled without gradients", why, todo, stmt.lineno)
            writer.plan.marks.setdefault(id(stmt), []).append(finding)
            writer.findings.append(finding)


def _filled(stmts: list[Stmt], writer: Writer) -> Iterator[tuple[Stmt, str]]:
    """The containers that calls fill, in order, with the statements that call."""
    for stmt in (i for s in stmts for i in s.walk()):
        if stmt.blocks or _registers(stmt) or not _calls(stmt, writer):
            continue
        for place in sorted((stmt.muts - stmt.defs) | _by_lambdas(stmt)):
            kinds = {s.out[place].kind for s in stmt.block.scope.body.walk() if place in s.out}
            known = kinds & AGAIN.keys() and kinds <= {*AGAIN, "unknown"}
            if known and not _directly(stmt, place) and not _by_another(stmt, place, writer):
                yield stmt, place


def _calls(stmt: Stmt, writer: Writer) -> bool:
    """The statement calls what does not know of itself that gradients are off."""
    for call in stmt.calls:
        name = name_called(call).rpartition(".")[2]
        inplace = name.endswith("_") and not name.startswith("_") and type(call.func) is cst.Attribute
        if writer.module.value(call.func).kind not in PLAIN and not inplace and name not in writer.project.silent:
            return True
    return False


def _by_another(stmt: Stmt, place: str, writer: Writer) -> bool:
    """All that the statement calls is a network, and those are others whose hooks fill the place."""
    called = [writer.module.value(c.func) for c in stmt.calls if writer.module.value(c.func).kind not in PLAIN]
    if any(value.kind != "module" for value in called):
        return False
    hooking = [s for s in stmt.block.scope.body.walk() if place in s.muts and _registers(s)]
    receivers = [c.func.value for s in hooking for c in s.calls if isinstance(c.func, cst.Attribute)]
    held = [value for node in receivers if (value := writer.module.value(node)).kind == "module"]
    mine = frozenset().union(*(value.own for value in called))
    return bool(held) and all(value.own and not any_overlap(frozenset(value.own), mine) for value in held)


def _by_lambdas(stmt: Stmt) -> set[str]:
    """The containers that lambdas of the same function put something into, which the statement calls."""
    called = {dotted(c.func) for c in stmt.calls}
    makers = (s.node for s in stmt.block.scope.body.walk() if called & s.defs and isinstance(s.node, cst.Assign))
    bodies = [node.value.body for node in makers if isinstance(node.value, cst.Lambda)]
    fills = (n.func for body in bodies for n in descend(body) if isinstance(n, cst.Call))
    found = (f.value for f in fills if isinstance(f, cst.Attribute) and f.attr.value in (*FILLING, "__setitem__"))
    return {dotted(place) for place in found} - {""}


def _directly(stmt: Stmt, place: str) -> bool:
    """The statement itself puts something into the place: `feats.append(net(x))`, `feats["a"] = net(x)`."""
    node = stmt.node
    if isinstance(node, (cst.Assign, cst.AugAssign)):
        targets = [node.target] if isinstance(node, cst.AugAssign) else [t.target for t in node.targets]
        return any(type(t) is cst.Subscript and dotted(t.value) == place for t in targets)
    return any(type(c.func) is cst.Attribute and dotted(c.func.value) == place for c in stmt.calls)


def fresh(place: str, stmts: list[Stmt], writer: Writer) -> str:
    """What kind of container it is, if it was empty before the statements and nothing with a graph goes into it."""
    scope, first = stmts[0].block.scope, stmts[0].number
    every = list(scope.body.walk())
    makers = [s for s in every if place in s.defs and s.number < first]
    kind = _empty(makers[-1].node, place) if makers else ""
    if not kind or root(place) == "self" and "." in place:
        return ""
    loops = [a for a in stmts[0].ancestors() if a.is_loop and makers[-1] not in set(a.walk())]
    around = {id(s) for loop in loops for s in loop.walk()}
    others = (s for s in every if place in s.muts and s.number > makers[-1].number and not _registers(s))
    recorded = (s for s in others if not silenced(s, writer.module))
    return "" if any(s.number < first or id(s) in around for s in recorded if s not in stmts) else kind


def _registers(stmt: Stmt) -> bool:
    """The statement registers a hook, or defines a lambda, which runs later."""
    if isinstance(stmt.node, cst.Assign) and isinstance(stmt.node.value, cst.Lambda):
        return True
    names = [c.func.attr.value for c in stmt.calls if isinstance(c.func, cst.Attribute)]
    return any(name.startswith("register_") and name.endswith("hook") for name in names)


def _empty(node: cst.CSTNode, place: str) -> str:
    """The kind of the empty container that a statement binds the place to; "" for everything else."""
    if not isinstance(node, (cst.Assign, cst.AnnAssign)) or node.value is None:
        return ""
    whole = node.target if isinstance(node, cst.AnnAssign) else node.targets[0].target
    for target, value in side_by_side(whole, node.value):
        if dotted(target) != place:
            continue
        if isinstance(value, (cst.List, cst.Dict)):
            return "" if value.elements else "list" if isinstance(value, cst.List) else "dict"
        if isinstance(value, cst.Call) and not value.args and dotted(value.func) in ("list", "dict"):
            return dotted(value.func)
    return ""
