"""Forwards through callables whose code and kind are not seen: `loss = loss_module(batch)["loss"]`.

Nothing tells what such a call is varied with, but a step needs a gradient: where a backward call feeds an optimizer and
everything that leads to its root goes through calls like this, they are taken for the model. The finding says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation import guess
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.tape.model import Event

# names of values that may carry a graph of their own
CARRIERS = re.compile(r"loss|logit|log_?p|prob|feat|embed|hidden|out|pred|value|score|latent", re.I)


def through_unseen(event: Event, scope: Scope, module: ModuleInfo) -> tuple[set[int], list[str]]:
    """The statements of the forward, and the callables that are taken for the model; nothing where it is not clear."""
    chain = leading_to(event, scope)
    called: dict[str, None] = {}
    active: set[int] = set()
    tainted: set[str] = set()
    for stmt in chain:
        names = list(_models(stmt.calls, scope, module))
        if names or {root(u) for u in stmt.all_uses} & tainted:
            called |= dict.fromkeys(names)
            active.add(id(stmt))
            tainted |= {root(d) for d in stmt.all_defs}
    own = [n for r in event.roots for n in descend(r) if isinstance(n, cst.Call)]
    called |= dict.fromkeys(_models(own, scope, module))
    if not called or (not own and not {root(u) for r in event.roots for u in expression_uses(r, event.stmt)} & tainted):
        return set(), []
    outside = {
        root(u) for s in [*(s for s in chain if id(s) in active), event.stmt] for u in s.all_uses
    } - {root(d) for s in chain for d in s.all_defs} - {c.partition(".")[0] for c in called}  # fmt: skip
    if any(CARRIERS.search(name) for name in outside if _unknown(name, scope)):
        return set(), []
    return active, list(called)


def leading_to(event: Event, scope: Scope) -> list[Stmt]:
    """The statements that lead to the roots of an event, in their order."""
    wanted = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
    found: list[Stmt] = []
    around = {id(a) for a in event.stmt.ancestors()}
    for stmt in reversed([s for s in scope.body.walk() if s.number < event.stmt.number and id(s) not in around]):
        if {root(d) for d in stmt.defs} & wanted:
            found.append(stmt)
            wanted |= {root(u) for u in stmt.uses}
    return found[::-1]


def unseen_step(event: Event, scope: Scope, module: ModuleInfo, project: Project) -> str:
    """The step of something unknown that was made of what the event fills: `updater = make(net)`, `updater.step()`."""
    for _, call in unseen_steps(event, scope, module, project):
        func = call.func
        assert isinstance(func, cst.Attribute)
        return dotted(func) or f"{code(func.value)}.step"
    return ""


def unseen_steps(event: Event, scope: Scope, module: ModuleInfo, project: Project) -> Iterator[tuple[Stmt, cst.Call]]:
    """All such steps of a scope."""
    tainted = {root(d) for d in event.value.deps if not d.startswith("@")}
    for stmt in scope.body.walk():
        together = type(stmt.node) is cst.Assign and type(stmt.node.value) is cst.Call  # `net, opt = make()`
        if {root(u) for u in stmt.uses | (stmt.defs if together else set())} & tainted:
            tainted |= {root(d) for d in stmt.defs | stmt.muts}
    names = {"step"} | _stepping(project)
    for stmt in scope.body.walk():
        for call in stmt.calls:
            func = call.func
            if type(func) is not cst.Attribute or func.attr.value not in names:
                continue
            held = module.value(func.value)
            guessed = held.kind == "optimizer" and held.likely and func.attr.value != "step"  # none of torch's methods
            if not (guessed or held.kind in ("unknown", "none")) or _scheduler(func.value):
                continue
            if func.attr.value != "step" and any(_roots(arg.value) & tainted for arg in call.args):
                continue  # `meter.update(loss.item())`: it is told of the loss
            part = isinstance(func.value, (cst.Subscript, cst.Call))  # `held[1].step()`: who knows what it was made of
            part = part or any(a.is_loop and dotted(func.value) in a.defs for a in stmt.ancestors())
            if _roots(func.value) & tainted or not call.args and (part or not event.value.deps):
                yield stmt, call


@once
def _stepping(project: Project) -> frozenset[str]:
    """The methods of the project's own classes that step with an optimizer they keep: `step_and_update_lr`."""
    found: set[str] = set()
    for module in project.modules.values():
        for cls in module.classes.values() if module.has(".step(") else ():
            for name, method in cls.methods.items():
                calls = (c.func for s in method.scope.body.walk() for c in s.calls if type(c.func) is cst.Attribute)
                for func in calls:
                    kept = func.attr.value == "step" and dotted(func.value).startswith("self.")
                    if kept and method.module.value(func.value).kind == "optimizer":
                        found.add(name)
    return frozenset(found)


def _scheduler(node: cst.BaseExpression) -> bool:
    """`state["scheduler"]`"""
    index = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    key = constant(index.value) if isinstance(index, cst.Index) else None
    return isinstance(key, str) and guess.by_name(key).kind == "scheduler"


def _roots(node: cst.BaseExpression) -> set[str]:
    """The names that an expression begins with: `held` in `held[1].optimizer`, also what it calls or picks with."""
    return {n.value for n in descend(node) if isinstance(n, cst.Name)}


def _models(calls: list[cst.Call], scope: Scope, module: ModuleInfo) -> Iterator[str]:
    """The callables among the calls of which nothing is known."""
    for call in calls:
        place = dotted(call.func)
        value = module.value(call.func)
        guessed = value.kind == "unknown" or (
            value.kind == "lossfn" and value.likely and all(d.startswith("@") for d in value.deps)
        )
        if not place or not guessed or not call.args or place[:1].isupper():
            continue
        if _bound(place, scope) if "." not in place else _of_made(call, scope, module):
            yield place


def _of_made(call: cst.Call, scope: Scope | None, module: ModuleInfo) -> bool:
    """A method of an object that is not seen, over which an optimizer is made: `loss_module.actor_loss(batch)`."""
    func = call.func
    if not isinstance(func, cst.Attribute) or not isinstance(func.value, cst.Name):
        return False
    name, value = func.value.value, module.value(func.value)
    if value.kind != "unknown" or all(constant(a.value) is not ... for a in call.args):
        return False
    while scope is not None and name not in scope.params and name not in scope.locals:
        scope = scope.parent
    stmts = scope.body.walk() if scope is not None else ()
    made = (s for s in stmts if any(v.kind == "optimizer" for v in map(s.out.get, s.defs) if v))
    return any(isinstance(a.value, cst.Name) and a.value.value == name for s in made for c in s.calls for a in c.args)


def _bound(name: str, scope: Scope | None) -> bool:
    """The file binds the name: what is imported is a function, the model would be lost on it."""
    while scope is not None:
        if name in scope.params or any(
            name in s.defs for s in scope.body.walk() if not isinstance(s.node, (cst.Import, cst.ImportFrom))
        ):
            return True
        scope = scope.parent
    return False


def _unknown(name: str, scope: Scope) -> bool:
    return name in scope.params or name not in scope.locals
