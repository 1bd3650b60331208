"""Gradients without a graph that a forward takes on its way: first-order meta-learning, gradients that are matched.

They are constants of the forward, and their function runs inside of one that is differentiated. There MindSpore fails
on `x[0]`, whatever is differentiated (2.10 on a CPU: "Only support integers ... but got 0"); slices and masks work.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.structure import Stmt
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger.event import Event

NUMBER = "a gradient inside its forward is taken of elements by number, on which MindSpore fails: take slices"
WHOLE = (cst.Ellipsis, cst.Tuple, cst.List)


def nested(event: Event) -> bool:
    """The gradients have no graph: a forward may contain the call."""
    return event.kind == "gradcall" and not event.create_graph


def misfit(region: Region, events: list[Event], module: ModuleInfo, project: Project) -> str:
    """Why a gradient inside of the forward cannot be taken there, "" if each can."""
    inside = {id(s) for stmt in region.all for s in stmt.walk()}
    for event in events:
        if not nested(event) or id(event.stmt) not in inside:
            continue
        block = event.stmt.block.stmts
        before = block[: block.index(event.stmt)]
        if any(_by_number(stmt, home) for stmt, home in reached(before, module, project)):
            return NUMBER
    return ""


def _by_number(stmt: Stmt, module: ModuleInfo) -> bool:
    """The statement takes `x[i]` of a tensor."""
    for node in stmt.nodes:
        if type(node) is not cst.Subscript or module.value(node.value).kind not in ("tensor", "param"):
            continue
        first = node.slice[0].slice
        if type(first) is cst.Index and not isinstance(first.value, WHOLE):
            if module.value(first.value).kind not in ("tensor", "none", "str", "list", "numpy"):
                return True
    return False
