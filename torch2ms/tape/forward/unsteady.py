"""Conditions of forwards that are other ones from step to step, as far as that is seen."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.beginning import in_constructors
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.never_run import never_run
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.tape.forward.asking import asked_by
from torch2ms.tape.forward.filling import filled
from torch2ms.tape.forward.given import Given
from torch2ms.tape.ledger.beyond import weights

DRAWN = re.compile(r"\brand|\brandom\b|bernoulli|multinomial|\bchoice\(")


def changes(
    test: cst.BaseExpression, stmt: Stmt, info: FunctionInfo, given: Given, cls: ClassInfo | None, project: Project
) -> bool:
    """Whether a condition of a forward of this class, or of a function, is another one from call to call."""
    if given.none_at_times(test) or of_itself(test, stmt, info, given):
        return True
    parts, uses = asked_by(test, stmt)
    nodes = [n for part in parts for n in descend(part)]
    helpers = [h for n in nodes if type(n) is cst.Call and (h := _helper(n, info, cls, project)) is not None]
    within = [s for h in helpers for s in h.scope.body.walk() if not s.blocks]
    if any(DRAWN.search(code(n)) for n in (*parts, *(s.node for s in within))):
        return True
    if {u.partition(".")[0] for u in uses} & given.turning:
        return True
    learnt = any(type(n) is cst.Call and info.module.value(n.func).kind == "module" for n in nodes)
    learns = {f"self.{name}" for name in weights(cls)} if cls is not None else set()
    if learnt or uses & learns and asked_by(test, stmt, there=False)[1] & learns:
        return True
    if type(stmt.node) in (cst.If, cst.While) and info.module.value(test).kind == "tensor":
        return True
    keys = {constant(n.slice[0].slice.value) for n in nodes if _of_settings(n)}  # type: ignore[attr-defined]
    if any(project.says(re.compile(rf"\[[\"']{re.escape(str(key))}[\"']\]\s*[-+*/]?=[^=]")) for key in keys):
        return True
    uses = uses.union(*(s.uses for s in within))
    if given.evaluating and "self.training" in uses:
        return True
    inside = info.scope.locals - {"self"}
    outside = (u for u in uses if "." in u and u.partition(".")[0] not in inside)
    asked = {u.rpartition(".")[2] for u in outside if u != "self.training"}
    asked |= {n.attr.value for n in nodes if type(n) is cst.Attribute and _of_layer(n, info.module)}
    own = ("type(self)", "self.__class__", *([cls.scope.name] if cls is not None else []))
    asked |= {n.attr.value for n in descend(test) if type(n) is cst.Attribute and code(n.value) in own}
    if any(rebound(attr, cls, project) for attr in asked):
        return True
    return any(_turns(name, info.module) for name in uses if "." not in name and name not in info.scope.locals)


def of_itself(test: cst.BaseExpression, stmt: Stmt, info: FunctionInfo, given: Given) -> bool:
    """What calls itself asks of which kind a part is that it was given: `if isinstance(tree, int)`."""
    if not given.turning or info.name not in info.module.called:
        return False
    asked = {root(u) for u in expression_uses(test, stmt)} & given.turning
    name = f"self.{info.name}" if info.scope.cls is not None else info.name
    return bool(asked) and any(dotted(c.func) == name for s in info.scope.body.walk() for c in s.calls)


def _of_layer(node: cst.Attribute, module: ModuleInfo) -> bool:
    """`layer.skip`, where a loop goes through layers."""
    return type(node.value) is cst.Name and module.value(node.value).kind == "module"


def _of_settings(node: cst.CSTNode) -> bool:
    """`self.cfg["use_bn"]`"""
    if type(node) is not cst.Subscript or len(node.slice) != 1 or type(node.slice[0].slice) is not cst.Index:
        return False
    return isinstance(constant(node.slice[0].slice.value), str)


def _helper(call: cst.Call, info: FunctionInfo, cls: ClassInfo | None, project: Project) -> FunctionInfo | None:
    """What a condition calls: a method of the network, or a function of the project."""
    name = dotted(call.func)
    if name.startswith("self.") and name.count(".") == 1:
        return cls.method(name[5:]) if cls is not None else None
    value = info.module.value(call.func)
    found = project.find(value.name, info.module) if value.kind == "function" and value.name else None
    return found if isinstance(found, FunctionInfo) else None


def rebound(attr: str, cls: ClassInfo | None, project: Project) -> bool:
    """An attribute that other code than a constructor binds, if it runs; what other classes call so is another one."""
    homes = [c.scope for below in (cls, *cls.below()) for c in below.lineage()] if cls is not None else []
    for scope in (s for m in project.modules.values() if m.has(attr) for s in m.scope.walk()):
        if scope.is_function and scope.name in in_constructors(project):
            continue
        another = scope.cls is not None and (scope.name == "__init__" or scope.cls not in homes)
        places = {place for s in scope.body.walk() for place in _bound(s, attr)}
        if places - ({f"self.{attr}"} if another else set()) and not _never_runs(scope, project):
            return True
    return False


def _never_runs(scope: Scope, project: Project) -> bool:
    return scope.is_function and scope.name in never_run(project)


def _bound(stmt: Stmt, attr: str) -> Iterator[str]:
    """Where a statement binds an attribute of this name: also that of an item, `net[0].enabled`, and by its name; or
    fills the container that it is."""
    yield from (d for d in stmt.defs if d.rpartition(".")[2] == attr and "." in d)
    if any(m.rpartition(".")[2] == attr for m in stmt.muts):
        yield from (place for place in filled(stmt) if place.rpartition(".")[2] == attr and "." in place)
    node = stmt.node
    targets = [t.target for t in node.targets] if type(node) is cst.Assign else []
    for target in [*targets, node.target] if type(node) is cst.AugAssign else targets:
        if type(target) is cst.Attribute and target.attr.value == attr and not dotted(target):
            yield code(target)
    for call in stmt.calls:
        if dotted(call.func) == "setattr" and len(call.args) == 3 and constant(call.args[1].value) == attr:
            yield f"{code(call.args[0].value)}.{attr}"


def _turns(name: str, module: ModuleInfo) -> bool:
    """A name of a module that its loops, or its functions, bind again."""
    if sum(name in s.defs for s in module.scope.body.stmts) > 1:
        return True
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if type(stmt.node) is cst.Global and any(n.name.value == name for n in stmt.node.names):
                return True
            if scope is module.scope and name in stmt.defs and any(a.is_loop for a in (stmt, *stmt.ancestors())):
                return True
    return False
