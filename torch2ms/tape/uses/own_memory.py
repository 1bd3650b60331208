"""Gradients that a program writes into by index: MindSpore may give several of them one memory.

For `a + b` it makes the gradient of the sum once, and hands it to both. torch does so, too, but `backward()` copies it
into `.grad`; what `torch.autograd.grad` returns is shared there as here.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.tape.model import Owner
from torch2ms.tape.plan import Plan, Text

# they show the memory of what they are called on, or give back what is of that type already
SHOWING = frozenset({"detach", "contiguous", "view", "reshape", "flatten", "view_as", "squeeze", "float", "to", "type"})


def by_index(stmt: Stmt) -> bool:
    """The statement, or one in it, writes into the memory of a gradient, or keeps it for others: `p.grad[rows] = 0`;
    `d = p.grad` and `d.add_(p)`; `state["buf"] = d`."""
    body = [stmt, *(s for b in stmt.blocks for s in b.walk())]
    if any(_stores(s.node) for s in body):
        return True
    names, itself = _names(body, SHOWING), bool(_names(body, frozenset()))
    for inner in body:
        direct = _changes(inner.node, SHOWING)
        if names & inner.muts and not direct or itself and _changes(inner.node) or _keeps(inner.node, names):
            return True
    return False


def through_name(stmt: Stmt) -> bool:
    """It writes into a gradient that it has under a name, in torch: `grad = p.grad.float()`, then `grad.add_(p)`."""
    body = [stmt, *(s for b in stmt.blocks for s in b.walk())]
    return any(_names(body, SHOWING) & s.muts for s in body)


def _names(body: list[Stmt], methods: frozenset[str]) -> frozenset[str]:
    """The names that gradients get, through such methods or without."""
    named = [s for s in body if isinstance(s.node, cst.Assign) and _of_gradient(s.node.value, methods)]
    return frozenset().union(*(s.defs for s in named))


@once
def kept_by_steps(project: Project) -> str:
    """The optimizer of the program that has a gradient itself in its state: zeroed in place, that is zero as well."""
    for module in project.modules.values():
        for scope in module.scope.walk() if module.has(".grad") else ():
            if scope.name == "step" and scope.cls is not None:
                names = _names(scope.body.walk(), SHOWING)
                if any(_keeps(s.node, names) for s in scope.body.walk()):
                    return scope.cls.name
    return ""


def into_name(stmt: Stmt) -> bool:
    """`g[rows] = 0`, `g *= s`, `g.mul_(s)`: written by index, where every name shows it."""
    node = stmt.node.value if isinstance(stmt.node, cst.Expr) else stmt.node
    stored = isinstance(node, cst.Assign) and all(isinstance(t.target, cst.Subscript) for t in node.targets)
    return stored or isinstance(node, cst.AugAssign) or is_change(node)


def kept_apart(stmt: Stmt, owner: Owner, plan: Plan) -> None:
    """Give each gradient of the owner memory of its own, above a statement; a function that is handed them writes into
    those of its caller, who has done so."""
    if id(stmt.block.scope) in plan.borrowed:
        return
    name = owner.variable
    made = f"{name} = " + (f"{name}.copy()" if owner.kind == "leaf" else f"[grad.copy() for grad in {name}]")
    if owner.kind != "leaf" and (owner.accumulating or owner.stored):  # there may be none yet
        made = made.replace(" = ", f" = {name} and ", 1)
    siblings = stmt.block.stmts
    for earlier in siblings[siblings.index(stmt) :: -1]:
        if any(isinstance(item, Text) and item.template == made for item in plan.before.get(id(earlier), ())):
            return  # nothing goes backward in between
        backward = any(name_called(c) == "backward" for s in earlier.walk() for c in s.calls)
        if earlier is not stmt and (backward or not by_index(earlier)):
            break
    above = plan.before.setdefault(id(stmt), [])
    tables = (i for i, item in enumerate(above) if isinstance(item, Text) and f", {name}))" in item.template)
    above.insert(next(tables, len(above)), Text(made))  # a table of them shows the copies


def _stores(node: cst.CSTNode) -> bool:
    targets: list[cst.CSTNode] = [node.target] if isinstance(node, cst.AugAssign) else []
    targets += [base(node.value)] if isinstance(node, cst.Expr) and is_change(node.value) else []  # `p.grad[0].zero_()`
    targets += [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    return any(isinstance(t, cst.Subscript) and _of_gradient(t) for t in targets)


def _keeps(node: cst.CSTNode, names: frozenset[str]) -> bool:
    """`self.bufs[i] = d`: what is written into there is written into the gradient."""
    if not isinstance(node, cst.Assign) or not any(isinstance(t.target, cst.Subscript) for t in node.targets):
        return False
    return isinstance(node.value, cst.Name) and node.value.value in names or _of_gradient(node.value)


def _changes(node: cst.CSTNode, methods: frozenset[str] = frozenset()) -> bool:
    """`p.grad.mul_(s)`, which is written by index where other names hold the gradient."""
    return isinstance(node, cst.Expr) and is_change(node.value) and _of_gradient(base(node.value), methods)


def _of_gradient(node: cst.CSTNode, methods: frozenset[str] = frozenset()) -> bool:
    while True:
        if isinstance(node, cst.Subscript) or isinstance(node, cst.Attribute) and node.attr.value == "data":
            node = node.value
        elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in methods:
            node = node.func.value
        else:
            return isinstance(node, cst.Attribute) and node.attr.value in ("grad", "_grad")
