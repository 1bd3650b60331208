"""`trainer = opt`: two names for one object, written as one.

What an object of the program, or one that is not seen, does to gradients is known by the name that has it. Where
another name is bound to it once, and the first never means anything else, the first stands for both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import descend
from torch2ms.wrappers.names.rebound import Renamer, bound
from torch2ms.wrappers.passes import each_module

OBJECTS = ("object", "unknown")
TRAINS = ("backward", "autograd", ".step(")


@each_module
def copied(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has two names for an object."""
    if not any(module.has(word) for word in TRAINS):
        return None
    names = {k: v for scope in module.scope.walk() for k, v in _second(scope, module)}
    return Renamer(module, names).plain() if names else None


def _second(scope: Scope, module: ModuleInfo) -> Iterator[tuple[int, str]]:
    """Occurrences of second names in a scope and in the functions inside of it, with the first name."""
    if scope.off or not (scope.is_function or scope.is_module):
        return
    made = [s for s in scope.body.walk() if _copies(s, module)]
    if not made:
        return
    bindings = Counter(d for s in scope.body.walk() for d in s.defs)
    bindings.update(scope.params)
    elsewhere = _bound_inside(scope)
    for stmt in made:
        assert isinstance(stmt.node, cst.Assign)
        second, first = bound(stmt), stmt.node.value.value  # type: ignore[attr-defined]
        if bindings[second] != 1 or bindings[first] != 1 or {first, second} & elsewhere or first not in scope.locals:
            continue
        if {first, second} <= _used(scope):
            target = stmt.node.targets[0].target
            yield from ((id(n), first) for n in _occurrences(scope, second) if n is not target)


def _copies(stmt: Stmt, module: ModuleInfo) -> bool:
    """`b = a`, which happens once, for an object on which methods are called."""
    node = stmt.node
    if not bound(stmt) or stmt.off or type(node) is not cst.Assign or type(node.value) is not cst.Name:
        return False
    return module.value(node.value).kind in OBJECTS and not any(a.is_loop for a in stmt.ancestors())


def _used(scope: Scope) -> set[str]:
    """Names that are called, or of which an attribute is looked at."""
    nodes = [n for stmt in scope.body.stmts for n in stmt.nodes]
    held = [n.value for n in nodes if isinstance(n, cst.Attribute)] + [n.func for n in nodes if isinstance(n, cst.Call)]
    return {n.value for n in held if isinstance(n, cst.Name)}


def _occurrences(scope: Scope, name: str) -> Iterator[cst.Name]:
    """Where a name stands in a scope and in what is inside of it, attributes and keywords left out."""
    nodes = [n for stmt in scope.body.stmts for n in stmt.nodes]
    hidden = {id(n.attr) for n in nodes if isinstance(n, cst.Attribute)}
    hidden |= {id(n.keyword) for n in nodes if isinstance(n, cst.Arg)}
    return (n for n in nodes if isinstance(n, cst.Name) and n.value == name and id(n) not in hidden)


def _bound_inside(scope: Scope) -> set[str]:
    """Names that functions, classes and comprehensions inside of a scope have for themselves, or share with it."""
    inner = {n for child in scope.walk() if child is not scope for n in (*child.locals, *child.params)}
    for stmt in (s for child in scope.walk() for s in child.body.walk()):
        if isinstance(stmt.node, (cst.Global, cst.Nonlocal)):
            inner |= {item.name.value for item in stmt.node.names}
        for part in stmt.nodes if not stmt.blocks else ():
            if isinstance(part, cst.CompFor):
                inner |= {n.value for n in descend(part.target) if isinstance(n, cst.Name)}
            elif isinstance(part, cst.Lambda):
                inner |= {p.name.value for p in descend(part.params) if isinstance(p, cst.Param)}
    return inner


__all__ = ["copied"]
