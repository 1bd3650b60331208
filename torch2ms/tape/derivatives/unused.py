"""Weights that `autograd.grad(..., allow_unused=True)` has no gradient of: torch gives None, MindSpore zeros.

The same comes of both where zeros are put in their place, or where what is done with a gradient does nothing for zeros.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.patterns import element
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.tape.forward.partial import without_gradient
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger.pairs import COMPREHENSIONS
from torch2ms.tape.model import Event, Owner

NOT_SEEN = "torch gives None for those of `{}` where nothing uses them, and MindSpore zeros"


def allowed(event: Event) -> bool:
    """The call may have inputs that its outputs do not depend on."""
    assert isinstance(event.node, cst.Call)
    given = [a.value for a in event.node.args if a.keyword is not None and a.keyword.value == "allow_unused"]
    return bool(given) and constant(given[0]) is not False


def unused_weights(
    event: Event, weights: cst.BaseExpression, region: Region, module: ModuleInfo, project: Project | None
) -> str:
    """Why zeros are not what the program makes of None, "" if they are, or if all weights have gradients."""
    if project is None or not allowed(event):
        return ""
    owns = frozenset(d for d in module.value(weights).deps if not d.startswith(("@", "^")))
    missing = without_gradient(event, region, Owner("list", "", owns), module, project) if owns else frozenset[str]()
    if not missing or _same_for_zeros(event.stmt):
        return ""
    return NOT_SEEN.format(min(missing))


def _same_for_zeros(stmt: Stmt) -> bool:
    """Each loop over the gradients does with zeros what it does with None; nothing else is known of them."""
    following = [s for s in stmt.block.scope.body.walk() if s.number > stmt.number and s.uses & stmt.defs]
    for number, use in enumerate(following):
        if not any(_harmless(use, d) for d in stmt.defs):
            return False
        if stmt.defs <= use.defs or number == len(following) - 1:  # from here on there are others under the name
            return True
    return False


def _harmless(stmt: Stmt, name: str) -> bool:
    if isinstance(stmt.node, cst.For):
        taken = _taken(stmt.node.iter, stmt.node.target, name)
        body = [s for b in stmt.blocks for s in b.walk()]
        return bool(taken) and all(_nothing_for_zeros(s, taken) for s in body)
    made = [n for n in stmt.nodes if isinstance(n, COMPREHENSIONS)]
    given = [(m, _taken(m.for_in.iter, m.for_in.target, name)) for m in made]
    elements = [(element(m), taken) for m, taken in given if taken]
    return bool(elements) and all(isinstance(e, cst.IfExp) and _as_zeros(e, taken) for e, taken in elements)


def _taken(source: cst.BaseExpression, target: cst.BaseAssignTargetExpression, name: str) -> str:
    """What a loop calls each of the gradients."""
    if dotted(source) == name:
        return dotted(target)
    if not isinstance(source, cst.Call) or dotted(source.func) != "zip" or not isinstance(target, cst.Tuple):
        return ""
    pairs = zip(source.args, target.elements, strict=False)
    return next((dotted(e.value) for a, e in pairs if dotted(a.value) == name), "")


def _as_zeros(node: cst.IfExp, name: str) -> bool:
    """One side is taken for None: zeros, or what the other is for zeros: `p if g is None else p - lr * g`."""
    sides = sorted((node.body, node.orelse), key=lambda side: _names(side, name))
    if name_called(sides[0]) in ("zeros", "zeros_like", "new_zeros") if isinstance(sides[0], cst.Call) else False:
        return _vanishes(sides[1], name)
    changed = sides[1]
    plain = isinstance(changed, cst.BinaryOperation) and isinstance(changed.operator, (cst.Add, cst.Subtract))
    return plain and dotted(changed.left) == dotted(sides[0]) != "" and _vanishes(changed.right, name)  # type: ignore[attr-defined]


def _nothing_for_zeros(stmt: Stmt, name: str) -> bool:
    """It is asked for None, or a statement that adds what the gradient is a factor of."""
    node = stmt.node
    if isinstance(node, cst.If):
        return name in {n.value for n in descend(node.test) if isinstance(n, cst.Name)}
    if isinstance(node, (cst.Continue, cst.Pass)):
        return True
    if isinstance(node, cst.AugAssign):
        return isinstance(node.operator, (cst.AddAssign, cst.SubtractAssign)) and _vanishes(node.value, name)
    if isinstance(node, cst.Assign) and len(node.targets) == 1 and isinstance(node.value, cst.BinaryOperation):
        same = dotted(node.targets[0].target).removesuffix(".data") == dotted(node.value.left).removesuffix(".data")
        plain = isinstance(node.value.operator, (cst.Add, cst.Subtract))
        return same and plain and _vanishes(node.value.right, name)
    call = node.value if isinstance(node, cst.Expr) else None
    if not isinstance(call, cst.Call) or not isinstance(call.func, cst.Attribute) or not call.args:
        return False
    added = call.func.attr.value in ("add_", "sub_") and bool(dotted(call.func.value))
    return added and _vanishes(call.args[0].value, name)


def _vanishes(node: cst.BaseExpression, name: str) -> bool:
    """The expression is zero where the gradient is."""
    if isinstance(node, cst.Name):
        return node.value == name
    if isinstance(node, cst.BinaryOperation):
        sides = _vanishes(node.left, name), _vanishes(node.right, name)
        if isinstance(node.operator, (cst.Multiply, cst.MatrixMultiply)):
            return any(sides)
        return all(sides) if isinstance(node.operator, (cst.Add, cst.Subtract)) else sides[0]
    if isinstance(node, cst.UnaryOperation):
        return isinstance(node.operator, cst.Minus) and _vanishes(node.expression, name)
    if isinstance(node, cst.Attribute):
        return node.attr.value == "data" and _vanishes(node.value, name)
    if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        steady = node.func.attr.value in ("sum", "norm", "abs", "clone", "detach", "pow", "mul", "div", "to", "item")
        return steady and _vanishes(node.func.value, name)
    return False


def _names(node: cst.CSTNode, name: str) -> bool:
    return any(n.value == name for n in _all_names(node))


def _all_names(node: cst.CSTNode) -> Iterator[cst.Name]:
    yield from (n for n in descend(node) if isinstance(n, cst.Name))
