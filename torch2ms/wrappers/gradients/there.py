"""Whether an expression is an object on every way that leads to it: `scaler = None; if amp: scaler = Scaler()` is not.

What inference says of a name joins what it holds on all ways, and None leaves no trace there.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.wrappers.gradients.passed import argument, callers

OBJECTS = ("object", "module", "optimizer", "scaler")
DEEPEST = 6  # definitions that are followed from one to the next


def always_given(name: str, scope: Scope, project: Project, called: str, depth: int = 0) -> bool:
    """Every call of the function, and nothing else names it, gives the parameter an object that is seen."""
    calls = callers(called, project)
    return bool(calls) and all(
        (given := argument(call, name, scope)) is not None and surely_there(given, home, module, project, depth + 1)
        for call, home, module in calls
    )


def surely_there(node: cst.BaseExpression, scope: Scope, module: ModuleInfo, project: Project, depth: int = 0) -> bool:
    """The expression is an object whatever ran before it."""
    value = module.value(node)
    if depth > DEEPEST or value.kind not in OBJECTS or value.likely or not value.name:
        return False
    if isinstance(node, cst.IfExp):
        return all(surely_there(side, scope, module, project, depth + 1) for side in (node.body, node.orelse))
    if isinstance(node, cst.Call):
        return _makes(node, module, project, depth)
    if isinstance(node, cst.Attribute):
        return _kept_there(node.attr.value, project, depth)
    return isinstance(node, cst.Name) and _bound_there(node.value, scope, module, project, depth)


def _makes(call: cst.Call, module: ModuleInfo, project: Project, depth: int) -> bool:
    """A constructor, a function of another package, or one of the project that returns an object in any case."""
    found = project.find(module.value(call.func).name or dotted(call.func), module)
    if not isinstance(found, FunctionInfo):
        return found is None or isinstance(found, ClassInfo)
    returns = [s for s in found.scope.body.walk() if isinstance(s.node, cst.Return)]
    ends = bool(found.scope.body.stmts) and isinstance(found.scope.body.stmts[-1].node, cst.Return)
    return ends and all(
        s.node.value is not None and surely_there(s.node.value, found.scope, found.module, project, depth + 1)
        for s in returns
        if isinstance(s.node, cst.Return)
    )


def _kept_there(attr: str, project: Project, depth: int) -> bool:
    """Whoever writes an attribute of this name writes an object into it."""
    if any(module.has("setattr(") for module in project.modules.values()):
        return False
    writes = [
        (stmt, scope, module) for module in project.modules.values()
        for scope in module.scope.walk() for stmt in scope.body.walk()
        if any("." in d and d.rpartition(".")[2] == attr for d in stmt.defs)
        or isinstance(scope.node, cst.ClassDef) and attr in stmt.defs
    ]  # fmt: skip
    return bool(writes) and all(_writes_there(*write, project, depth) for write in writes)


def _bound_there(name: str, scope: Scope, module: ModuleInfo, project: Project, depth: int) -> bool:
    """Everything that binds the name, where it is at home, binds it to an object."""
    home: Scope | None = scope
    while home is not None and name not in home.locals and name not in home.params and home.parent is not None:
        home = home.parent
    binds = [s for s in home.body.walk() if name in s.defs] if home is not None else []
    if home is None or not all(_writes_there(s, home, module, project, depth) for s in binds):
        return False
    if name in home.params:
        return always_given(name, home, project, home.name, depth)
    return bool(binds)


def _writes_there(stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project, depth: int) -> bool:
    node = stmt.node
    if not isinstance(node, (cst.Assign, cst.AnnAssign)) or node.value is None:
        return False
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else [node.target]
    plain = all(isinstance(t, (cst.Name, cst.Attribute)) for t in targets)
    return plain and surely_there(node.value, scope, module, project, depth + 1)
