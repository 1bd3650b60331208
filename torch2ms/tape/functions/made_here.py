"""What a function makes itself, and what its callers hand in."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted


def makes(stmt: Stmt, scope: Scope) -> bool:
    """The statement makes what it binds, from more than a parameter that it passes through: `model.to(device)`."""
    value = stmt.node.value if isinstance(stmt.node, (cst.Assign, cst.AnnAssign)) else None
    return isinstance(value, cst.Call) and root(dotted(value.func)) not in scope.params


def handed_in(place: str, scope: Scope) -> bool:
    """A place of what callers hand in, which may have the name of something outside."""
    head = place.partition(".")[0]
    return head in scope.params and head != "self"


def local(deps: frozenset[str], scope: Scope) -> bool:
    """Everything behind a root was made in the scope itself."""
    return bool(deps) and all(d.partition(".")[0] in scope.locals - set(scope.params) for d in deps)
