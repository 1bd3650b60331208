"""Products with the curvature of what a parameter gives: `def trpo_step(model, get_kl): def Fvp(v): kl = get_kl() ...`.

A gradient that is differentiated again is compiled, and for that the forward has to be seen: written out where it is
called, the function finds `get_kl` defined beside it.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import argument, is_on

GRAD = "torch.autograd.grad"


def curved(info: FunctionInfo) -> int:
    """The line of a gradient that a function inside this one differentiates again, of what a function that callers
    give returns; 0 where there is none, or where its names are not its own."""
    given = set(info.scope.params)
    for child in info.scope.children:
        node = child.node
        if not isinstance(node, cst.FunctionDef) or node.decorators or node.asynchronous or child.children:
            return 0
        if given & (child.locals | set(child.params)):
            return 0  # one word for two things
    return next((line for child in info.scope.children if (line := _again(child, info, given))), 0)


def _again(child: Scope, info: FunctionInfo, given: set[str]) -> int:
    """The line of such a gradient in one of the functions inside."""
    stmts = list(child.body.walk())
    if not any(type(c.func) is cst.Name and c.func.value in given for s in stmts for c in s.calls):
        return 0
    for stmt in stmts:
        for call in stmt.calls:
            if info.module.value(call.func).name == GRAD and is_on(argument(call, 4, "create_graph")):
                return stmt.lineno
    return 0
