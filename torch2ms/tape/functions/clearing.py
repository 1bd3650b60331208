"""Calls of functions that empty gradients and do nothing else to them: `loss = trades_loss(model, x, y, optimizer)`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.arguments import bind_arguments
from torch2ms.analysis.evaluation.transfer import rebase
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.program.sites import receiver
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, method_called
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.values import Value
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.ledger.clears import SOME, sliced
from torch2ms.tape.ledger.events import find
from torch2ms.tape.ledger.records import LOADS
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan

DEEP = 3  # calls into which clears are followed
UNNAMED = "*"  # a place that the caller has no name for: what it owns tells whose gradients they are


def clearing(scope: Scope, module: ModuleInfo, lifting: Lifting) -> list[Event]:
    """The clears that the functions called in a scope do to what the scope holds."""
    found: list[Event] = []
    calls = [(s, c, i) for s in scope.body.walk() for c in s.calls if (i := lifting.callee.get(id(c))) is not None]
    if not calls or not any(method_called(c) in ("backward", "step") for s in scope.body.walk() for c in s.calls):
        return found
    for stmt, call, info in calls:
        if id(info.scope) in lifting.exports:
            continue
        if _only_clears(info, lifting):
            found += _events(info, call, stmt, scope, module, lifting)
        elif id(call) not in lifting.takings and _may_clear(info, lifting):
            found += _of_leaves(info, call, stmt, scope, module, lifting)
    return found


def _of_leaves(
    info: FunctionInfo, call: cst.Call, stmt: Stmt, scope: Scope, module: ModuleInfo, lifting: Lifting
) -> list[Event]:
    """The clears that a function which does more to gradients does to the tensors that it is handed."""
    own = find(info.scope, info.module)
    bound = {d for s in info.scope.body.walk() for d in s.defs}
    given = {e.place for e in own if e.kind == "clear"} & set(info.scope.params) - bound
    if not given or any(e.kind == "backward" for e in own):
        return []
    leaves = [e for e in _events(info, call, stmt, scope, module, lifting, 0) if _leaf(e, call, module)]
    for event in leaves:
        event.problem = event.problem or f"`{info.name}` does more to its gradients than clear them"
    return leaves


def called_clears(events: list[Event], lifting: Lifting) -> list[Event]:
    """The events, where a `zero_grad` of the project that does more than clear is called for the rest of it."""
    known = {id(e.node) for e in events if e.kind == "clear" and e.lifted}
    found = []
    for event in events:
        info = lifting.callee.get(id(event.node)) if event.kind == "clear" and not event.lifted else None
        if info is not None and not _nothing_else(info, lifting):
            if id(event.node) in known:
                continue
            event.lifted = event.called = True
        found.append(event)
    return found


def unasked(events: list[Event], plan: Plan) -> list[Event]:
    """The events of a function that does nothing but clear, without its questions whether there is something to."""
    clears = {id(e.stmt) for e in events if e.kind == "clear"}
    questions = [e for e in events if e.kind != "clear"]
    for event in questions:
        blocks = event.stmt.blocks
        if not _asks(event) or len(blocks) != 1 or not all(id(s) in clears for s in blocks[0].stmts):
            return events
    plan.replaced |= {id(event.stmt): [] for event in questions}
    return [e for e in events if e.kind == "clear"]


def _nothing_else(info: FunctionInfo, lifting: Lifting, depth: int = 3) -> bool:
    """A call of the function is of no use once there are no gradients to clear."""
    clears = {id(e.stmt): e for e in find(info.scope, info.module) if e.kind == "clear"}
    inside = {id(s) for e in clears.values() for b in e.stmt.blocks for s in b.walk()}
    for stmt in info.scope.body.walk():
        event = clears.get(id(stmt))
        if event is not None:
            inner = lifting.callee.get(id(event.node))
            if inner is not None and (not depth or not _nothing_else(inner, lifting, depth - 1)):
                return False
        elif id(stmt) not in inside and not _says_nothing(stmt.node):
            return False
    return bool(clears)


def _says_nothing(node: cst.CSTNode) -> bool:
    return isinstance(node, (cst.Pass, cst.If, cst.For)) or is_docstring(node)


def _only_clears(info: FunctionInfo, lifting: Lifting) -> bool:
    known = lifting.clearing.get(id(info.scope))
    if known is None:
        kinds = _kinds(info, lifting) if _may_clear(info, lifting) else set()
        known = lifting.clearing[id(info.scope)] = "clear" in kinds and not kinds & {"backward", "step_closure", *LOADS}
    return known


def _kinds(info: FunctionInfo, lifting: Lifting, depth: int = DEEP) -> set[str]:
    """What a function does to gradients, with all that it calls."""
    kinds = {e.kind for e in find(info.scope, info.module) if not _asks(e)}
    if depth:
        kinds = kinds.union(*(_kinds(inner, lifting, depth - 1) for inner, *_ in _called(info, lifting)))
    return kinds


def _may_clear(info: FunctionInfo, lifting: Lifting, depth: int = DEEP) -> bool:
    """By the names in it."""
    for stmt in info.scope.body.walk():
        for call in stmt.calls:
            name = method_called(call)
            if name == "zero_grad" or name == "zero_" and _zeroes(call):
                return True
        for place in stmt.defs:
            if place.endswith(".grad"):
                return True
    return depth > 0 and any(_may_clear(inner, lifting, depth - 1) for inner, *_ in _called(info, lifting))


def _leaf(event: Event, call: cst.Call, module: ModuleInfo) -> bool:
    """What is cleared is a tensor that the call is handed."""
    handed = {dotted(a.value) for a in call.args if module.value(a.value).kind == "tensor"}
    return event.place in handed


def _zeroes(call: cst.Call) -> bool:
    """`x.grad.zero_()`"""
    place, _, method = dotted(call.func).rpartition(".")
    return method == "zero_" and place.removesuffix(".data").endswith(".grad")


def _asks(event: Event) -> bool:
    """`if x.grad is not None:` wants to know of a gradient only whether it is there."""
    node = event.stmt.node
    return event.kind == "leaf_grad" and type(node) is cst.If and _there(node.test, event.place)


def _there(test: cst.BaseExpression, place: str) -> bool:
    """The condition holds where the place has a gradient."""
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        only = test.comparisons[0]
        compared = isinstance(only.operator, (cst.IsNot, cst.NotEqual)) and dotted(only.comparator) == "None"
        return compared and _there(test.left, place)
    return dotted(test) == f"{place}.grad"


def _surely(clear: Event, given: Value | None, module: ModuleInfo) -> bool:
    """What is cleared is so whenever the function runs with this argument and there is something to clear."""
    block = clear.stmt.block
    while (owner := block.owner) is not None:
        node = owner.node
        if type(node) is not cst.If or owner.blocks[0] is not block:
            return False
        tensor = given is not None and given.kind == "tensor" and _of_tensors(node.test, clear.place, module)
        if not tensor and not _there(node.test, clear.place):
            return False
        block = owner.block
    return not clear.problem


def _of_tensors(test: cst.BaseExpression, place: str, module: ModuleInfo) -> bool:
    """`isinstance(x, torch.Tensor)`"""
    if not isinstance(test, cst.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return False
    return dotted(test.args[0].value) == place and module.value(test.args[1].value).name == "torch.Tensor"


def _called(info: FunctionInfo, lifting: Lifting) -> list[tuple[FunctionInfo, cst.Call, Stmt]]:
    """The functions of the project that it calls."""
    calls = [(lifting.callee.get(id(c)), c, s) for s in info.scope.body.walk() for c in s.calls]
    return [(inner, c, s) for inner, c, s in calls if inner is not None and inner is not info]


def _clears(info: FunctionInfo, lifting: Lifting, depth: int = DEEP) -> list[Event]:
    """Its clears, and those of the functions it calls, under its names."""
    found = [e for e in find(info.scope, info.module) if e.kind == "clear"]
    if depth:
        for inner, call, stmt in _called(info, lifting):
            if method_called(call) != "zero_grad":  # which is found above
                found += _events(inner, call, stmt, info.scope, info.module, lifting, depth - 1)
    return found


def _events(
    info: FunctionInfo,
    call: cst.Call,
    stmt: Stmt,
    scope: Scope,
    module: ModuleInfo,
    lifting: Lifting,
    depth: int = DEEP,
) -> list[Event]:
    called = receiver(info, call)
    as_method = called is not None
    values = [module.value(a.value) for a in call.args]
    bound = bind_arguments(info, call, values, skip_self=as_method)
    found = []
    for clear in _clears(info, lifting, depth):
        head, _, rest = clear.place.partition(".")
        value = clear.value
        if head == "self" and called is not None:
            base = dotted(called)
        elif head in bound:
            base = bound[head].place
            value = value if rest else bound[head]
        else:
            base = head if head not in info.scope.locals and _same_name(head, info, scope, module) else ""
        value = rebase(value, head, base) if rest else value
        base = base or UNNAMED
        place = f"{base}.{rest}" if rest else base
        event = Event("clear", stmt, call, place, value, lifted=True, called=True)
        written = any(_zeroes(c) or method_called(c) == "detach_" for c in clear.stmt.calls)
        event.zeroed = clear.zeroed or isinstance(clear.stmt.node, cst.Expr) and written
        if not _surely(clear, bound.get(head) if not rest else None, info.module):
            event.problem = clear.problem or f"`{info.name}` clears its gradients on some paths only"
        if any(sliced(a.value, stmt) for a in call.args):
            event.problem = SOME
        found.append(event)
    return found


def _same_name(name: str, info: FunctionInfo, scope: Scope, module: ModuleInfo) -> bool:
    """A name that the function takes from around it means the same where it is called."""
    caller: Scope | None = scope
    while caller is not None and not (caller.is_function and name in caller.locals):
        caller = caller.parent
    around = info.scope.parent
    while around is not None and not (around.is_function and name in around.locals):
        around = around.parent
    return info.module is module and around is caller
