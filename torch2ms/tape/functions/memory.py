"""Names that share the memory of a tensor: `flat = h.view(-1)`, `a = h`, `for t in (h, k)`. What is written into one is
written into all, so that a statement which writes takes part in the forward of each of them.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.tape.functions.foreign import SHOWING, change

FUNCTIONS = ("torch.", "torch.nn.functional.")  # `relu_` of these writes into its first argument
THROUGH = ("enumerate", "zip", "reversed", "list", "tuple")


def spread_writes(project: Project) -> None:
    """Add to statements that write into tensors the other names of what they write into."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            writing = [s for s in scope.body.walk() if s.muts or any(_function(c) for c in s.calls)]
            if not writing or isinstance(scope.node, cst.ClassDef):
                continue
            for stmt in writing:
                for call in stmt.calls:
                    if _function(call) and _of_torch(call, module) and (place := dotted(call.args[0].value)):
                        change(stmt, place, scope)
            shared = _Shared(scope)
            for stmt in writing if shared.aliases else ():
                for place in sorted(stmt.muts):
                    if _writes(stmt, place, module):
                        for other in shared.names(place, stmt):
                            change(stmt, other, scope)


def _function(call: cst.Call) -> bool:
    """`F.relu_(x)`, perhaps."""
    name = call.func.attr.value if type(call.func) is cst.Attribute else ""
    return name.endswith("_") and not name.endswith("__") and bool(call.args)


def _of_torch(call: cst.Call, module: ModuleInfo) -> bool:
    value = module.value(call.func)
    return value.kind == "api" and any(value.name == f"{home}{value.name.rpartition('.')[2]}" for home in FUNCTIONS)


def _writes(stmt: Stmt, place: str, module: ModuleInfo) -> bool:
    """The statement writes into the tensor in the place, or into tensors that it holds; numbers are bound again."""
    value = stmt.out.get(place)
    node = stmt.node
    if type(node) is cst.AugAssign:
        held = module.value(node.target)
        return held.kind == "tensor" or held.kind == "unknown" and bool(held.deps)
    return value is None or value.kind in ("tensor", "unknown", "param")


class _Shared:
    """Which names of a scope show the same memory."""

    def __init__(self, scope: Scope) -> None:
        self.bound: dict[str, list[Stmt]] = {}
        self.aliases: list[tuple[Stmt, str, str]] = []  # where a name is bound to what another one shows
        for stmt in scope.body.walk():
            for place in stmt.defs:
                if type(stmt.node) is not cst.AugAssign:
                    self.bound.setdefault(place, []).append(stmt)
            self.aliases += [(stmt, name, source) for name, source in _shares(stmt)]

    def names(self, place: str, stmt: Stmt) -> set[str]:
        """The other names of what the place holds where the statement runs."""
        found, waiting = {place}, [place]
        while waiting:
            current = waiting.pop()
            for made, name, source in self.aliases:
                if made.number >= stmt.number or self.last(name, stmt) is not made:
                    continue
                other = source if name == current else name if source == current else ""
                if other and other not in found and not self.between(source, made, stmt):
                    found.add(other)
                    waiting.append(other)
        return found - {place}

    def last(self, name: str, stmt: Stmt) -> Stmt | None:
        """What bound the name before the statement."""
        before = [s for s in self.bound.get(name, ()) if s.number < stmt.number]
        return before[-1] if before else None

    def between(self, source: str, made: Stmt, stmt: Stmt) -> bool:
        """The source is bound anew after it got the other name."""
        return any(made.number < s.number < stmt.number for s in self.bound.get(source, ()))


def _shares(stmt: Stmt) -> Iterator[tuple[str, str]]:
    """The names that a statement binds to what other places show."""
    node = stmt.node
    if type(node) is cst.Assign and len(node.targets) == 1 and (name := dotted(node.targets[0].target)):
        source = _shown(node.value)
        if source and source != name and root(source) != "torch":
            yield name, source
    if type(node) is cst.For:
        names = [n for n in stmt.defs if "." not in n]
        for name in names:
            yield from ((name, source) for source in _elements(node.iter) if source != name)


def _shown(node: cst.BaseExpression) -> str:
    """The place whose memory an expression shows."""
    moved = False
    while True:
        if type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in SHOWING:
            node, moved = node.func.value, True
        elif type(node) is cst.Subscript:
            if not all(_basic(e.slice) for e in node.slice):
                return ""
            node, moved = node.value, True
        elif type(node) is cst.Attribute and node.attr.value in ("data", "T", "mT"):
            node, moved = node.value, True
        else:
            return dotted(node) if moved or type(node) is cst.Name else ""


def _basic(part: cst.BaseSlice) -> bool:
    """A slice or a number: what it picks is no copy."""
    return type(part) is cst.Slice or type(part) is cst.Index and type(part.value) in (cst.Integer, cst.Ellipsis)


def _elements(node: cst.BaseExpression) -> Iterator[str]:
    """The places whose tensors a loop takes in turn."""
    if type(node) is cst.Call and dotted(node.func) in THROUGH:
        for arg in node.args:
            yield from _elements(arg.value)
    elif type(node) is cst.Tuple or type(node) is cst.List:
        yield from (place for e in node.elements if (place := dotted(e.value)))
    elif type(node) is cst.Name:
        yield node.value
