"""Hooks see gradients on their way: a backward call runs for them even where nobody loads what it stores."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import Value
from torch2ms.tape.model import Event, Owner

HOOKS = {"register_hook", "register_full_backward_hook", "register_full_backward_pre_hook"}


def hooked(stmt: Stmt) -> set[str]:
    """The places whose tensors a statement puts hooks on."""
    found = set()
    for call in stmt.calls:
        if (
            type(call.func) is cst.Attribute
            and call.func.attr.value == "register_hook"
            and (place := dotted(call.func.value))
        ):
            found.add(root(place))
    return found


def late_hooks(before: list[Stmt], active: list[Stmt]) -> list[Stmt]:
    """Statements that put hooks on what the active ones compute, but feed nothing themselves."""
    made = {root(d) for s in active for d in s.defs}
    return [s for s in before if s not in active and hooked(s) & made]


def has_hooks(module: ModuleInfo) -> bool:
    """Some function of the module waits for gradients."""
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            if any(type(c.func) is cst.Attribute and c.func.attr.value in HOOKS for c in stmt.calls):
                return True
    return False


def watched(event: Event, module: ModuleInfo) -> list[Owner]:
    """The modules and leaves behind a root, so that its gradient can be taken for the hooks alone."""
    found: list[Owner] = []
    kinds = {v.place: v for v in module.values.values() if v.place and (v.kind == "module" or v.leaf)}
    deps = {d for node in event.roots for d in module.value(node).deps if not d.startswith(("@", "^"))}
    scope = event.stmt.block.scope
    if scope.cls is not None:
        called = _called(event, module)
        deps = called if len(called) == 1 else deps
        kinds |= {place: Value("module", place=place) for place in called}
    unread = set() if scope.is_module else {f"nobody takes the gradients that are left in `{d}`" for d in deps}
    for place in sorted(d for d in deps if not any(d.startswith(other + ".") for other in deps)):
        held = kinds.get(place)
        if held is None:
            return []
        kind = "module" if held.kind == "module" else "leaf"
        found.append(Owner(kind, place, frozenset({place}), variable="_", assumed=set(unread)))
    return found


def _called(event: Event, module: ModuleInfo) -> set[str]:
    """The networks among the attributes of an object that make what is differentiated, under their names there."""
    wanted = {root(u) for node in event.roots for u in expression_uses(node, event.stmt)}
    found: set[str] = set()
    for stmt in reversed([s for s in event.stmt.block.stmts if s.number < event.stmt.number]):
        if {root(d) for d in stmt.defs} & wanted:
            wanted |= {root(u) for u in stmt.uses}
            found |= {dotted(c.func) for c in stmt.calls if module.value(c.func).kind == "module"}
    return {place for place in found if place.startswith("self.")}
