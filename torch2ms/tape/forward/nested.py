"""Gradients without a graph that a forward takes on its way: first-order meta-learning, gradients that are matched.

They are constants of the forward, and their function runs inside of one that is differentiated. There MindSpore fails
on `x[0]`, whatever is differentiated (2.10 on a CPU: "Only support integers ... but got 0"); slices, masks and
`mint.select` work.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.reach import reached
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.tape.forward.region import Region
from torch2ms.tape.model import Event

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
        own = {id(s) for stmt in before for s in stmt.walk()}
        around = event.stmt.block.scope
        for stmt, home in reached(before, module, project):
            if id(stmt) not in own and stmt.block.scope is around:  # of the same name as a network's forward
                continue
            if any(id(stmt) not in own or not _selected(node, home) for node in _by_number(stmt, home)):
                return NUMBER
    return ""


def selecting(region: Region, module: ModuleInfo) -> dict[int, str]:
    """How a forward that runs inside of another one writes `x[i]`."""
    stmts = (s for stmt in region.all for s in stmt.walk())
    return {id(node): _selected(node, module) for stmt in stmts for node in _by_number(stmt, module)}


def _by_number(stmt: Stmt, module: ModuleInfo) -> Iterator[cst.Subscript]:
    """Where the statement takes `x[i]` of a tensor."""
    for node in stmt.nodes:
        if type(node) is not cst.Subscript or module.value(node.value).kind not in ("tensor", "param"):
            continue
        first = node.slice[0].slice
        if type(first) is cst.Index and not isinstance(first.value, WHOLE):
            if module.value(first.value).kind not in ("tensor", "none", "str", "list", "numpy"):
                yield node


def _selected(node: cst.Subscript, module: ModuleInfo) -> str:
    """The same element of a tensor that has a name, by a number that is written or has a name; "" for others."""
    index = node.slice[0].slice
    place, number = dotted(node.value), code(index.value) if isinstance(index, cst.Index) else ""
    plain = isinstance(index, cst.Index) and (module.value(index.value).kind == "int" if dotted(index.value)
                                              else type(constant(index.value)) is int)  # fmt: skip
    return f"mint.select({place}, 0, {number})" if place and plain and len(node.slice) == 1 else ""
