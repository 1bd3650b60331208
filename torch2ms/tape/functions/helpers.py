"""Functions that only differentiate what they are given: `def gradient(y, x): return autograd.grad(y, x, ...)[0]`.

The graph between their arguments is made by the caller, so each call is planned where it stands, as the gradient call
that it is; the function itself goes.
"""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Stmt
from torch2ms.analysis.project import FunctionInfo
from torch2ms.analysis.tree import descend
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.functions.handing import bound_arguments
from torch2ms.tape.ledger.events import Event
from torch2ms.tape.plan import Plan


@dataclass(eq=False)
class Helper:
    """Which parameter is differentiated with respect to which; `first`: the only element is returned, not a tuple."""

    info: FunctionInfo
    output: str
    input: str
    first: bool
    create_graph: bool
    line: int  # of the gradient call


def helper_of(info: FunctionInfo, events: list[Event]) -> Helper | None:
    """The function, if it is one of these."""
    if len(events) != 1 or events[0].kind != "gradcall" or len(events[0].roots) != 1:
        return None
    event = events[0]
    body = [s for s in info.scope.body.stmts if not _docstring(s)]
    output, given = dotted(event.roots[0]), event.inputs
    if isinstance(given, (cst.List, cst.Tuple)) and len(given.elements) == 1:
        given = given.elements[0].value
    name = dotted(given) if given is not None else ""
    if not {output, name} <= set(info.scope.params) or any(c is not None and not all_ones(c) for c in event.cotangents):
        return None
    value, first = event.stmt.node, False
    result = value.value if isinstance(value, (cst.Return, cst.Assign)) else None
    if isinstance(result, cst.Subscript):
        first, result = True, result.value
    if result is not event.node or event.stmt is not body[0]:
        return None
    if isinstance(value, cst.Return):
        return Helper(info, output, name, first, event.create_graph, event.stmt.lineno) if len(body) == 1 else None
    assert isinstance(value, cst.Assign)
    last = body[-1].node
    if len(body) != 2 or not isinstance(last, cst.Return) or last.value is None:
        return None
    if dotted(last.value) != dotted(value.targets[0].target):
        return None
    return Helper(info, output, name, first, event.create_graph, event.stmt.lineno)


def call_of(helper: Helper, call: cst.Call, stmt: Stmt) -> Event | None:
    """One call as the gradient call it is; None where its arguments are not seen."""
    if any(a.star for a in call.args):
        return None
    bound = bound_arguments(helper.info, call)
    if not {helper.output, helper.input} <= bound.keys():
        return None
    event = Event("gradcall", stmt, call, roots=[bound[helper.output].value], cotangents=[None])
    event.inputs, event.create_graph, event.first = bound[helper.input].value, helper.create_graph, helper.first
    return event


def plan_helper(helper: Helper, plan: Plan) -> None:
    """The definition goes."""
    node, module = helper.info.scope.node, helper.info.module
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if stmt.node is node:
                plan.replaced[id(stmt)] = []
                what, why = "function that differentiates", "its calls are gradient calls, planned where they stand"
                plan.findings.append(Finding("T2M203", Tier.EXACT, what, why, line=helper.line))


def used_as_value(helper: Helper) -> bool:
    """The function is mentioned other than by calling it."""
    module, name = helper.info.module, helper.info.name
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            called = {id(c.func) for c in stmt.calls}
            if stmt.blocks or _defines(stmt) or name not in stmt.uses:
                continue
            nodes = list(descend(stmt.node))
            parts = {id(n.attr) for n in nodes if isinstance(n, cst.Attribute)} | called
            parts |= {id(n.keyword) for n in nodes if isinstance(n, cst.Arg) and n.keyword is not None}
            if any(isinstance(n, cst.Name) and n.value == name and id(n) not in parts for n in nodes):
                return True
    return False


def _defines(stmt: Stmt) -> bool:
    return isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef, cst.Import, cst.ImportFrom))


def _docstring(stmt: Stmt) -> bool:
    return isinstance(stmt.node, cst.Expr) and isinstance(stmt.node.value, (cst.SimpleString, cst.ConcatenatedString))
