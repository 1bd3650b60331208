"""Values of parameters that are put aside before the parameters get others.

`old = p.data` and then `p.data = new`: in torch `old` still has the values from before. MindSpore's parameters are
assigned, where `old` would be one with the parameter: it takes a copy.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.tape.plan import Plan


def keep_values(scope: Scope, module: ModuleInfo, plan: Plan) -> None:
    """Copy what the scope puts aside of parameters to which it gives other values later."""
    if module.plain is None and ".data" not in module.source:
        return
    stmts = list(scope.body.walk())
    given = [s for s in stmts if any(_of_parameter(t, module) for t in _targets(s))]
    for stmt in stmts if given else ():
        loops = {id(a) for a in stmt.ancestors() if a.is_loop}
        if any(g.number > stmt.number or loops & {id(a) for a in g.ancestors()} for g in given):
            for node in _put_aside(stmt):
                if _of_parameter(node, module) and id(node) not in plan.expressions:
                    (plan.around if isinstance(node, cst.Call) else plan.about)[id(node)] = "{0}.copy()"


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
            yield value
    for call in stmt.calls:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == "append":
            yield from (a.value for a in call.args)


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
