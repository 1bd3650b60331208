"""`batches = iter(DataLoader(data))`, whose length is asked: that of the loader, under a name of its own.

torch's iterators over batches know how many their loader has, MindSpore's do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.boxes import parts
from torch2ms.wrappers.passes import each_module

ITERATED = re.compile(r"=\s*iter\(")


@each_module
def iterator_lengths(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks iterators for their length."""
    if module.directives.off or not module.says(ITERATED) or not module.has("len("):
        return None
    writer = _Lengths(module)
    for scope in module.scope.walk():
        for name in {dotted(call.args[0].value) for call in _asked(scope)}:
            _name(name, scope, module, writer)
    return writer.plain() if writer.asked else None


def _asked(scope: Scope) -> Iterator[cst.Call]:
    """The calls `len(name)` of a scope."""
    for stmt in scope.body.walk():
        for call in stmt.calls:
            if dotted(call.func) == "len" and len(call.args) == 1 and type(call.args[0].value) is cst.Name:
                yield call


def _name(name: str, scope: Scope, module: ModuleInfo, writer: _Lengths) -> None:
    """A local name that stands for iterators over loaders and nothing else."""
    bindings = [s for s in scope.body.walk() if not s.blocks and name in s.defs]
    if not bindings or name not in scope.locals or any(s.off or not _iterates(s.node, module) for s in bindings):
        return
    asked = [c for c in _asked(scope) if dotted(c.args[0].value) == name]
    given = bindings[0].node.value.args[0].value  # type: ignore[union-attr]
    if (
        len(bindings) == 1
        and type(given) is cst.Name
        and not any(given.value in s.defs and s.number > bindings[0].number for s in scope.body.walk())
    ):
        writer.asked |= {id(call): given.value for call in asked}
        return
    loader = f"{name}_source" if name.endswith("loader") else f"{name}_loader"
    taken = any(type(n) is cst.Name and n.value == loader for n in descend(scope.node))
    if not taken:
        writer.loaders |= {id(s.node): loader for s in bindings}
        writer.asked |= {id(call): loader for call in asked}


def _iterates(node: cst.CSTNode, module: ModuleInfo) -> bool:
    both = parts(node)
    call = both[1] if both is not None and type(both[0]) is cst.Name else None
    given = type(call) is cst.Call and dotted(call.func) == "iter" and len(call.args) == 1
    return given and module.value(call.args[0].value).kind == "loader"  # type: ignore[union-attr]


class _Lengths(Suites):
    """One module with the loaders under names."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.loaders: dict[int, str] = {}  # by id of a statement that makes an iterator: the name of its loader
        self.asked: dict[int, str] = {}  # by id of a call of `len`: that name

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        loader = self.loaders.get(id(node))
        if loader is None:
            return super().small(node)
        both = parts(self.rewrite(node))
        assert both is not None and isinstance(both[1], cst.Call)
        made = small_of(f"{loader} = {code(both[1].args[0].value)}")
        return [made, small_of(f"{code(both[0])} = iter({loader})")]

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        loader = self.asked.get(id(original))
        return updated if loader is None else updated.with_changes(args=[cst.Arg(cst.Name(loader))])
