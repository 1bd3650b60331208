"""Statements and loops that drop gradients: `x.grad = None`, `p.grad.zero_()`, of all parameters or of some."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, gathered
from torch2ms.analysis.values import PICKED, Value, any_overlap
from torch2ms.tape.model import Event

SINGLE = ("module_param", "parameter")  # the names of values that are one parameter of a network
AROUND = ("backward", "step", "scaler_step", "gradcall", "handed")
SOME = "it drops the gradients of some parameters, and MindSpore's optimizers update all that they hold"


def grads_of(stmt: Stmt) -> list[cst.Attribute]:
    """Every `something.grad` in a simple statement or the header of a compound one."""
    if stmt.gradients is None:
        stmt.gradients = _search_gradients(stmt)
    return stmt.gradients


def _search_gradients(stmt: Stmt) -> list[cst.Attribute]:
    roots: list[cst.CSTNode] = []
    node = stmt.node
    if stmt.is_small:
        return [n for n in stmt.nodes if n.__class__ is cst.Attribute and n.attr.value == "grad"]
    if type(node) is cst.FunctionDef or type(node) is cst.ClassDef:
        return []
    if type(node) is cst.If or type(node) is cst.While:
        roots = [node.test]
    elif type(node) is cst.For:
        roots = [node.iter]
    elif type(node) is cst.With:
        roots = [i.item for i in node.items]
    return [n for r in roots for n in gathered(r) if n.__class__ is cst.Attribute and n.attr.value == "grad"]


def clears(stmt: Stmt, grad: cst.Attribute) -> bool:
    """`x.grad = None`, `x.grad.zero_()`, `x.grad.data.zero_()`, `x.grad.detach_()` as statements."""
    node = stmt.node
    if type(node) is cst.Assign and len(node.targets) == 1 and node.targets[0].target is grad:
        return constant(node.value) is None
    if type(node) is cst.Expr and type(node.value) is cst.Call and type(node.value.func) is cst.Attribute:
        func = node.value.func
        if func.attr.value in ("zero_", "detach_"):
            base = func.value
            if isinstance(base, cst.Attribute) and base.attr.value == "data":
                base = base.value
            return base is grad and (func.attr.value == "zero_" or _zeroed_behind(stmt, dotted(grad)))
    return False


def _zeroed_behind(stmt: Stmt, grad: str) -> bool:
    """`x.grad.detach_()` alone cuts a gradient from its graph and leaves what is in it."""
    behind = (s.node for s in stmt.block.stmts if s.number > stmt.number)
    calls = (n.value for n in behind if isinstance(n, cst.Expr) and isinstance(n.value, cst.Call))
    return any(dotted(c.func) in (f"{grad}.zero_", f"{grad}.data.zero_") for c in calls)


def zeroed_between(events: list[Event]) -> None:
    """`net.scale.grad.zero_()` between backward and step: the optimizer finds zeros, which is a value as any other."""
    for number, event in enumerate(events):
        node = event.stmt.node
        single = event.kind == "clear" and type(event.node) is cst.Attribute and event.value.name in SINGLE
        if not single or type(node) is not cst.Expr:
            continue
        before = next((e for e in reversed(events[:number]) if e.kind in AROUND), None)
        after = next((e for e in events[number + 1 :] if e.kind in AROUND), None)
        ends = after is not None and after.kind in ("step", "scaler_step") and after.stmt.block is event.stmt.block
        moves = after.value.owns if after is not None else None
        if (
            ends
            and (moves is None or any_overlap(frozenset({event.place}), moves))
            and before is not None
            and before.kind == "backward"
        ):
            event.kind, event.writes, event.partial = "leaf_grad", True, False


def only_clears(stmt: Stmt, grads: list[tuple[Stmt, cst.Attribute]]) -> bool:
    """The body does nothing but drop gradients, maybe under `if p.grad is not None`."""
    for block in stmt.blocks:
        for inner in block.walk():
            if type(inner.node) is cst.Pass or type(inner.node) is cst.Continue:
                continue
            if isinstance(inner.node, cst.If) and _asks_for_gradient(inner.node.test):
                continue
            if not any(s is inner and clears(s, g) for s, g in grads):
                return False
    return True


def _asks_for_gradient(test: cst.BaseExpression) -> bool:
    """`p.grad is not None`, `p.requires_grad`: whatever gradient there is goes, that of every parameter."""
    if type(test) is cst.BooleanOperation:
        return _asks_for_gradient(test.left) and _asks_for_gradient(test.right)
    if type(test) is cst.UnaryOperation:
        return isinstance(test.operator, cst.Not) and _asks_for_gradient(test.expression)
    if isinstance(test, cst.Comparison):  # its size does not: `p.grad > 1`
        about = len(test.comparisons) == 1 and isinstance(test.comparisons[0].operator, (cst.Is, cst.IsNot))
        return about and _asks_for_gradient(test.left)
    return isinstance(test, cst.Attribute) and test.attr.value in ("grad", "requires_grad")


def some_dropped(loop: Stmt, grads: list[tuple[Stmt, cst.Attribute]]) -> bool:
    """`p.grad = None` for some of the parameters of a loop: torch's optimizers pass over these."""
    return any(clears(s, g) and isinstance(s.node, cst.Assign) and for_some(s, loop) for s, g in grads)


def sliced(node: cst.BaseExpression, stmt: Stmt) -> bool:
    """`params[:2]`, or a name for it: some of the parameters of a list."""
    if isinstance(node, cst.Subscript):
        cuts = [e.slice for e in node.slice if isinstance(e.slice, cst.Slice)]
        return any(cut.lower is not None or cut.upper is not None or cut.step is not None for cut in cuts)
    if not isinstance(node, cst.Name):
        return isinstance(node, cst.ListComp) and any(part.ifs for part in (node.for_in,))
    bound = [s for s in stmt.block.scope.body.walk() if node.value in s.defs and s is not stmt]
    made = [s.node.value for s in bound if isinstance(s.node, cst.Assign) and s.number < stmt.number]
    return any(not isinstance(value, cst.Name) and sliced(value, stmt) for value in made)


def zeroes(event: Event) -> bool:
    """`for p in net.head.parameters(): p.grad.zero_()`: gradients of zero are there afterwards."""
    stmts = [s for b in event.stmt.blocks for s in b.walk() if grads_of(s) and type(s.node) is not cst.If]
    return event.kind == "clear" and bool(stmts) and all(isinstance(s.node, cst.Expr) for s in stmts)


def for_some(stmt: Stmt, loop: Stmt) -> bool:
    """A statement of a loop over parameters does not happen in every turn, or not to every gradient there is."""
    body = [s for b in loop.blocks for s in b.walk()]
    if any(type(s.node) is cst.Return or type(s.node) is cst.Break and _left(s) is loop for s in body):
        return True  # the turns that would follow do not happen
    jumps = [s for s in body if type(s.node) is cst.Continue or type(s.node) is cst.Break]
    around = [a for s in (stmt, *jumps) if s.number <= stmt.number for a in s.ancestors() if a.number > loop.number]
    return not all(_passed(a.node) for a in around)


def _left(jump: Stmt) -> Stmt | None:
    """The loop that a `break` leaves."""
    return next((a for a in jump.ancestors() if a.is_loop), None)


def some_layers(stmt: Stmt, name: str, layer: Value) -> bool:
    """`if isinstance(m, nn.Linear): m.zero_grad()` in a loop over layers of a network: others keep what they have."""
    if layer.place in ("", name) and not any(PICKED in place for place in layer.owns or ()):
        return False
    loops = [a for a in stmt.ancestors() if isinstance(a.node, cst.For) and name in a.defs]
    return any(for_some(stmt, loop) for loop in loops)


def _passed(node: cst.CSTNode) -> bool:
    """What stands in such a block happens wherever there is a gradient."""
    if isinstance(node, cst.If):
        return _asks_for_gradient(node.test)
    return isinstance(node, cst.With) or isinstance(node, cst.Try) and not node.handlers
