"""`backwards = partial(loss_backwards, self.fp16)` of a function that goes backward, as the calls of it.

So are losses that are given their arguments before: `compute = partial(self.diffusion.training_losses, net, x, t)`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

PARTIAL = re.compile(r"=\s*(?:functools\.)?partial\(")
BACKWARD = re.compile(r"\.backward\(")


@each_module
def called_out(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that calls such partials."""
    if not (module.says(PARTIAL) and module.says(BACKWARD)):
        return None
    found = [each for scope in module.scope.walk() if scope.is_function for each in _partials(scope, module)]
    return _Partials(module, found).plain() if found else None


def _partials(scope: Scope, module: ModuleInfo) -> Iterator[tuple[Scope, str, Stmt]]:
    """The names in a function for a function of the project with its first arguments, if they are only called."""
    for stmt in scope.body.walk():
        node = stmt.node
        call = node.value if type(node) is cst.Assign and len(node.targets) == 1 else None
        if type(call) is not cst.Call or module.value(call.func).name != "functools.partial" or stmt.off:
            continue
        target = node.targets[0].target  # type: ignore[union-attr]
        if type(target) is not cst.Name or len(call.args) < 2 or any(a.star for a in call.args):
            continue
        name = target.value
        if name not in scope.locals or sum(name in s.all_defs for s in scope.body.walk() if not s.blocks) != 1:
            continue
        function = call.args[0].value
        mentioned = [n for n in descend(scope.node) if type(n) is cst.Name and n.value == name]
        calls = [s for s in scope.body.walk() for c in s.calls if dotted(c.func) == name]
        behind = {id(s): s for s in stmt.block.walk() if s.number > stmt.number}
        if len(mentioned) != len(calls) + 1 or not all(id(s) in behind for s in calls) or not _own(function, module):
            continue
        asked = [function, *(a.value for a in call.args[1:])]
        if all(constant(node) is not ... or _stays(dotted(node), behind.values()) for node in asked):
            yield scope, name, stmt


def _own(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    return type(node) is cst.Name or bool(dotted(node)) and module.value(node).kind != "api"


def _stays(place: str, behind: Iterable[Stmt]) -> bool:
    """Nothing that follows, be it in a loop around a call, binds the place or what it is an attribute of."""
    parts = place.split(".")
    wholes = {".".join(parts[:end]) for end in range(1, len(parts) + 1)}
    return bool(place) and not any(wholes & s.defs for s in behind)


class _Partials(Suites):
    """One module with the functions themselves called."""

    def __init__(self, module: ModuleInfo, found: list[tuple[Scope, str, Stmt]]) -> None:
        super().__init__(module)
        self.gone = {id(stmt.node) for _, _, stmt in found}
        self.calls: dict[int, cst.Call] = {}
        for scope, name, stmt in found:
            made = stmt.node.value  # type: ignore[union-attr]
            for each in (c for s in scope.body.walk() for c in s.calls if dotted(c.func) == name):
                self.calls[id(each)] = made

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        return [] if id(node) in self.gone else super().small(node)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        made = self.calls.get(id(original))
        if made is None:
            return updated
        first = [a.deep_clone().with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in made.args[1:]]
        positional = [a for a in first if a.keyword is None]
        named = [a for a in first if a.keyword is not None]
        own = [a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in updated.args]
        return updated.with_changes(func=made.args[0].value.deep_clone(), args=[*positional, *own, *named])


__all__ = ["called_out"]
