"""What networks and functions do that compiled code does otherwise, without a word, when it is differentiated."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.sharing import shows
from torch2ms.analysis.syntax.names import dotted

RECORD = "its forward makes a record, whose fields compiled code mixes up"


def problem(stmt: Stmt, info: FunctionInfo | None, home: ModuleInfo, project: Project) -> str:
    """Why a statement that runs in a forward cannot stand in compiled code; empty where nothing speaks against it."""
    if info is not None and (place := _outside(stmt, info, home, project)):
        return f"its forward changes `{place}` whenever it runs, which compiled code does not see"
    if place := _written_through(stmt):
        return f"its forward writes into `{place}` under another name, which compiled code does not see"
    for call in stmt.calls:
        made = home.value(call.func)
        if made.kind == "namedtuple":
            return RECORD
        found = project.find(made.name, home) if made.kind == "class" and made.name else None
        if isinstance(found, ClassInfo) and found.kind == "object":
            return RECORD
    for node in stmt.nodes:
        if type(node) is cst.Attribute and home.value(node).name == "torch.nn.ParameterDict":
            return "its forward takes parameters out of a dict, which are constants to compiled code"
    return ""


def _outside(stmt: Stmt, info: FunctionInfo, home: ModuleInfo, project: Project) -> str:
    """What the statement of a function changes that lives longer than the call, and is no buffer."""
    for place in sorted(stmt.defs | stmt.muts):
        head, _, name = place.partition(".")
        own = head == "self" and info.cls is not None
        if home.imports.table.get(head, "").startswith("torch"):
            continue  # `F.leaky_relu_(x)` changes no module
        if own and name and name not in project.buffers or not own and head not in info.scope.locals:
            return place
    return ""


def _written_through(stmt: Stmt) -> str:
    """A tensor that the statement changes in place under another name, or whose views are read afterwards."""
    name, part = _changed(stmt.node)
    if not name:
        return ""
    stmts = list(stmt.block.scope.body.walk())
    made = [(s, s.node) for s in stmts if s.number < stmt.number and isinstance(s.node, cst.Assign)]
    new = max((s.number for s, node in made if name in s.defs and not shows(node.value)), default=-1)
    later = {root(use) for s in stmts if s.number > stmt.number for use in s.uses}
    for bound, node in made:
        target, shown = dotted(node.targets[0].target), shows(node.value)
        if bound.number < new or part and not isinstance(node.value, cst.Name):
            continue  # a store into a view is written so that compiled code sees it
        others = shown - {name} if target == name else {target} if name in shown else set()
        if seen := sorted(other for other in others if root(other) in later):
            return seen[0]
    return ""


def _changed(node: cst.CSTNode) -> tuple[str, bool]:
    """The name of a tensor that a statement changes in place, and whether it changes a part alone."""
    target: cst.CSTNode | None = None
    if isinstance(node, cst.AugAssign):
        target = node.target
    elif isinstance(node, cst.Assign) and isinstance(node.targets[0].target, cst.Subscript):
        target = node.targets[0].target
    elif isinstance(node, cst.Expr) and is_change(node.value):
        target = base(node.value)
    part = isinstance(target, cst.Subscript)
    while isinstance(target, cst.Subscript):
        target = target.value
    return (target.value, part) if isinstance(target, cst.Name) else ("", part)
