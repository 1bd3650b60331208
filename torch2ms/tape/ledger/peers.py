"""Networks of one container that take turns, each with an optimizer of its own, and lose by one another.

`for net, opt in zip(nets, opts): ...` trains each as if it were the only one. Where its loss is made with another one
of them, that one's gradients get something too, and keep it for its own turn if they are cleared behind steps only.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.tape.model import Event, Owner

PEERS = "its loss is made with another network of the container too, whose gradients are not cleared before its turn"


def refuse_peers(events: list[Event], owners: list[Owner], scope: Scope) -> None:
    """Mark backward calls of a turn that reach networks of other turns, where nothing clears before they do."""
    optimizers = [owner for owner in owners if owner.kind == "optimizer"]
    for event in [e for e in events if e.kind == "backward"] if optimizers else ():
        left = optimizers  # the innermost loop that binds one is that of its turns
        for loop in [a for a in event.stmt.ancestors() if a.is_loop]:
            inside = [stmt for block in loop.blocks for stmt in block.walk()]
            named = loop.defs.union(*[stmt.defs for stmt in inside])
            turned = [owner for owner in left if owner.place in named]
            left = [owner for owner in left if owner.place not in named]
            if any(_fills_peers(event, owner, events, loop, inside, scope) for owner in turned):
                event.problem = event.problem or PEERS


def _fills_peers(event: Event, owner: Owner, events: list[Event], loop: Stmt, inside: list[Stmt], scope: Scope) -> bool:
    bound = [s for s in (loop, *inside) if owner.place in s.defs]
    upto = [s for s in inside if s.number <= event.stmt.number]
    cleared = (e for e in events if e.kind == "clear" and e.stmt in upto and owner.cleared_by(e, False))
    return not any(cleared) and _of_others([s for s in upto if not s.modes], loop, bound, scope)


def _of_others(stmts: list[Stmt], loop: Stmt, bound: list[Stmt], scope: Scope) -> bool:
    """The statements of a turn call networks out of its containers that are not those whose turn it is."""
    keys = {code(n.slice[0]) for s in bound if not s.blocks for n in _items(s.node)}
    held: set[str] = set()
    if isinstance(loop.node, cst.For):
        keys |= {n.value for n in descend(loop.node.target) if isinstance(n, cst.Name)}
        held = _places(loop.node.iter)
    small = [s for s in stmts if not s.blocks]
    held |= {dotted(n.value) for s in small for n in _items(s.node) if code(n.slice[0]) in keys}
    others = {
        dotted(s.node.targets[0].target)
        for s in scope.body.walk() if isinstance(s.node, cst.Assign)
        for n in _items(s.node.value) if n is s.node.value and dotted(n.value) in held and code(n.slice[0]) not in keys
    }  # fmt: skip
    inner = [s.node for s in stmts if isinstance(s.node, cst.For)]
    others |= {dotted(node.target) for node in inner if _places(node.iter) & held}
    for call in _attached(small):
        func = call.func
        item = isinstance(func, cst.Subscript) and dotted(func.value) in held and code(func.slice[0]) not in keys
        if item or dotted(func) in others - {""}:
            return True
    return False


def _attached(stmts: Iterable[Stmt]) -> list[cst.Call]:
    """The calls whose results are not detached at once."""
    calls = [call for stmt in stmts for call in stmt.calls]
    funcs = (c.func for c in calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "detach")
    cut = {id(func.value) for func in funcs}
    return [call for call in calls if id(call) not in cut]


def _items(node: cst.CSTNode) -> list[cst.Subscript]:
    return [n for n in descend(node) if isinstance(n, cst.Subscript) and dotted(n.value)]


def _places(node: cst.CSTNode) -> set[str]:
    """What a loop goes over."""
    return {dotted(n) for n in descend(node) if isinstance(n, (cst.Name, cst.Attribute))} - {""}
