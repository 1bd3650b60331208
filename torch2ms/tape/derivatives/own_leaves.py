"""`params = [w, b]`, whose gradients `autograd.grad(loss, params)` gives: leaves that a list holds for good.

They are weights that no optimizer moves: Parameters in the output, which the list is of.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.model import Event


def own_leaves(event: Event, module: ModuleInfo) -> list[str]:
    """The names of the leaves, where each is bound once and the list is made of them and stays as it is."""
    assert event.inputs is not None
    value, name = module.value(event.inputs), dotted(event.inputs)
    places = [part.place for part in value.parts if part.leaf]
    if event.create_graph or value.kind not in ("list", "tuple") or not name.isidentifier():
        return []
    if not places or len(places) < len(value.parts) or len({*places}) < len(places):
        return []
    scope = event.stmt.block.scope
    bound = [s for s in _among(scope, name) if name in s.defs or _changes(s, name)]
    made = bound[0].node if len(bound) == 1 else None
    if not isinstance(made, cst.Assign) or not isinstance(made.value, (cst.List, cst.Tuple)):
        return []
    written = [dotted(e.value) for e in made.value.elements]
    once = all(p.isidentifier() and sum(p in s.defs for s in _among(scope, p)) == 1 for p in places)
    return places if once and written == places else []


def _among(scope: Scope, name: str) -> Iterator[Stmt]:
    """The statements of the scope that has the name, and of those in it that mean the same by it."""
    home: Scope = scope
    while name not in home.locals and home.parent is not None:
        home = home.parent
    same = (inner for inner in home.walk() if inner is home or name not in inner.locals)
    return (stmt for inner in same for stmt in inner.body.walk())


def _changes(stmt: Stmt, name: str) -> bool:
    """The statement may put other things into the list: what happens to tensors in it leaves them where they are."""
    called = any(isinstance(c.func, cst.Attribute) and dotted(c.func.value) == name for c in stmt.calls)
    targets = stmt.node.targets if isinstance(stmt.node, cst.Assign) else ()
    held = [t.target for t in targets] + ([stmt.node.target] if isinstance(stmt.node, (cst.AugAssign, cst.Del)) else [])
    return called or any(isinstance(h, cst.Subscript) and dotted(h.value) == name for h in held)
