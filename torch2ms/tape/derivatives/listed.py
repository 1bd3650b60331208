"""Lists of inputs that have a name: `autograd.grad(loss(fast), fast)`, and the values of a dict."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import overlaps
from torch2ms.tape.derivatives.gradcalls import GradCall, subscripted
from torch2ms.tape.derivatives.paths import Around, Misfit, Way
from torch2ms.tape.model import Event


def listed(event: Event, around: Around) -> GradCall | None:
    """A call whose inputs are a list with a name, which its forward uses: `autograd.grad(loss(fast), fast)`.

    The values of a dict are such a list.
    """
    node = event.inputs
    if isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple") and len(node.args) == 1:
        node = node.args[0].value
    place = dotted(node) if node is not None else ""
    mapped = isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute)
    if mapped and node.func.attr.value == "values":  # type: ignore[union-attr]
        node = node.func.value  # type: ignore[union-attr]
        place = dotted(node)
    if not place or node is None or not event.roots:
        return None
    value = around.module.value(node)
    known = value.kind in ("list", "tuple") or value.name == "parameter list"
    known = known or mapped and value.kind in ("dict", "unknown")
    if not known and (value.kind != "unknown" or not _iterated(place, around.scope)):
        return None
    call = GradCall(event, [place], None, *subscripted(event), listed=True, mapped=mapped)
    try:
        leading = Way(call, around)
    except Misfit:
        return None
    used = {u for s in leading.path.steps for u in s.uses} | {
        u for r in event.roots for u in expression_uses(r, event.stmt)
    }
    return call if any(overlaps(place, u) for u in used) else None


def _iterated(place: str, scope: Scope) -> bool:
    """Somewhere in the scope a loop, or `map(f, zip(grads, fast))`, runs over what has the name."""
    for stmt in scope.body.walk():
        for node in stmt.nodes:
            args: list[cst.BaseExpression] = []
            if type(node) is cst.For or type(node) is cst.CompFor:
                args = [a.value for a in node.iter.args] if isinstance(node.iter, cst.Call) else [node.iter]
            elif type(node) is cst.Call and dotted(node.func) in ("zip", "map", "enumerate"):
                args = [a.value for a in node.args]
            if place in {dotted(a) for a in args}:
                return True
    return False
