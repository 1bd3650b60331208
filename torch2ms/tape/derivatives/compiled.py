"""What networks and functions do that compiled code does otherwise, without a word, when it is differentiated."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import descend

RECORD = "its forward makes a record, whose fields compiled code mixes up"


def problem(stmt: Stmt, info: FunctionInfo | None, home: ModuleInfo, project: Project) -> str:
    """Why a statement that runs in a forward cannot stand in compiled code; empty where nothing speaks against it."""
    if info is not None and (place := _outside(stmt, info, project)):
        return f"its forward changes `{place}` whenever it runs, which compiled code does not see"
    for call in stmt.calls:
        made = home.value(call.func)
        if made.kind == "namedtuple":
            return RECORD
        found = project.find(made.name, home) if made.kind == "class" and made.name else None
        if isinstance(found, ClassInfo) and found.kind == "object":
            return RECORD
    for node in descend(stmt.node):
        if type(node) is cst.Attribute and home.value(node).name == "torch.nn.ParameterDict":
            return "its forward takes parameters out of a dict, which are constants to compiled code"
    return ""


def _outside(stmt: Stmt, info: FunctionInfo, project: Project) -> str:
    """What the statement of a function changes that lives longer than the call, and is no buffer."""
    for place in sorted(stmt.defs | stmt.muts):
        head, _, name = place.partition(".")
        own = head == "self" and info.cls is not None
        if own and name and name not in project.buffers or not own and head not in info.scope.locals:
            return place
    return ""
