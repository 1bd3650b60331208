"""Values of parameters and buffers that are put aside before these get others.

`old = p.data` and then `p.data = new`: in torch `old` still has the values from before. MindSpore's parameters are
assigned, where `old` would be one with the parameter: it takes a copy. So does a buffer that is bound anew,
`self.mean = 0.9 * self.mean + h`: MindSpore puts the values into the parameter that the buffer is.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.plan import Plan
from torch2ms.tape.uses.rebound import attributes

KEEPING = {"append", "appendleft", "insert", "add", "push", "put"}
SAME = {"to", "cuda", "cpu", "float", "type_as"}  # the buffer itself, elsewhere


def keep_values(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
    """Copy what the scope puts aside of parameters to which it gives other values later."""
    if project.buffers and (renewed := _renewed(project)):
        _keep_buffers(scope, module, renewed, plan)
    if module.plain is None and not module.has(".data"):
        return
    stmts = list(scope.body.walk())
    given = [s for s in stmts if any(_of_parameter(t, module) for t in _targets(s))]
    for stmt in stmts if given else ():
        loops = {id(a) for a in stmt.ancestors() if a.is_loop}
        if any(g.number > stmt.number or loops & {id(a) for a in g.ancestors()} for g in given):
            for node in _put_aside(stmt):
                if _of_parameter(node, module) and id(node) not in plan.expressions:
                    (plan.around if isinstance(node, cst.Call) else plan.about)[id(node)] = "{0}.copy()"


@once
def _renewed(project: Project) -> frozenset[str]:
    """The buffers which are bound anew after their modules were made, and never changed in place."""
    bound: set[str] = set()
    changed: set[str] = set()
    scopes = (s for module in project.modules.values() for s in module.scope.walk() if s.name != "__init__")
    for stmt in (stmt for scope in scopes for stmt in scope.body.walk()):
        places = stmt.defs | stmt.muts if stmt.is_small else ()
        if not any(place.rpartition(".")[2] in project.buffers for place in places):
            continue
        bound |= {t.attr.value for t in _targets(stmt) if type(t) is cst.Attribute and not _moved(t, stmt.node)}
        changed |= set(_written(stmt))
    return project.buffers & bound - changed - {name for _, name in attributes(project)}


def _written(stmt: Stmt) -> Iterator[str]:
    """The last names of what the statement may change in place itself."""
    held = [t.value for t in _targets(stmt) if type(t) is cst.Subscript]
    if type(stmt.node) is cst.AugAssign:
        held.append(stmt.node.target.value if type(stmt.node.target) is cst.Subscript else stmt.node.target)
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and call.func.attr.value.endswith("_"):
            held.append(call.func.value)
        if type(call.func) is cst.Attribute and call.func.attr.value not in KEEPING:
            held += [arg.value for arg in call.args]  # statistics that `F.batch_norm` updates
    yield from (dotted(node).rpartition(".")[2] for node in held)


def _moved(target: cst.Attribute, node: cst.CSTNode) -> bool:
    """`self.mask = self.mask.to(device)`."""
    made = node.value if type(node) is cst.Assign else None
    of = made.func if type(made) is cst.Call else None
    return type(of) is cst.Attribute and of.attr.value in SAME and dotted(of.value) == dotted(target)


def _keep_buffers(scope: Scope, module: ModuleInfo, renewed: frozenset[str], plan: Plan) -> None:
    """Copy the buffers that the scope puts aside, unless the name is gone before the buffer is bound anew."""
    stmts = list(scope.body.walk())
    for number, stmt in enumerate(stmts):
        for node in _put_aside(stmt) if any(u.rpartition(".")[2] in renewed for u in stmt.uses) else ():
            if type(node) is not cst.Attribute or node.attr.value not in renewed or id(node) in plan.expressions:
                continue
            if module.value(node).kind not in ("tensor", "unknown"):
                continue
            names = {t.value for t in _targets(stmt) if type(t) is cst.Name}
            later = stmts if any(a.is_loop for a in stmt.ancestors()) else stmts[number + 1 :]
            if names and not any(s.calls or dotted(node) in s.defs for s in later if names & s.uses or s.defs):
                continue
            plan.expressions[id(node)] = f"{dotted(node)}.copy()"


def _targets(stmt: Stmt) -> list[cst.BaseExpression]:
    return [t.target for t in stmt.node.targets] if type(stmt.node) is cst.Assign else []


def _put_aside(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What the statement stores as it is: under a name, as an item, in a list."""
    node = stmt.node
    if isinstance(node, cst.Assign):
        value = node.value
        if isinstance(value, cst.ListComp):
            yield value.elt
        elif isinstance(value, cst.DictComp):
            yield value.value
        else:
            yield from _shown(value)
    elif isinstance(node, cst.Return) and node.value is not None:
        yield from _shown(node.value)
    for call in stmt.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in KEEPING:
            yield from (shown for a in call.args for shown in _shown(a.value))


def _shown(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """An expression, or what stands in the container that it writes down."""
    if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
        for element in node.elements:
            yield from _shown(element.value)
    else:
        yield node


def _of_parameter(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`p.data` of a parameter, or `p.detach()`, which has the same memory."""
    if type(node) is cst.Call and type(node.func) is cst.Attribute and not node.args:
        return node.func.attr.value == "detach" and _held(node.func.value, module)
    if type(node) is not cst.Attribute or node.attr.value != "data":
        return False
    return _held(node.value, module)


def _held(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    owner = module.value(node)
    return owner.kind == "param" or owner.name in ("module_param", "parameter")
