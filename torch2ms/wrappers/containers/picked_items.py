"""`optims, scheds = self.configure_optimizers()` and `optims[0].step()`: the item gets a name of its own.

The ledger keeps gradients by the place of an optimizer, and an item of a list that a function returned has none. Where
such a list is only asked for items by their number, `optims_0 = optims[0]` stands behind what binds it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.suites import Suites, line_of
from torch2ms.wrappers.passes import each_module

ASKED = re.compile(r"\[(?<=\w\[)\d+\]\.(?:zero_grad|step)\(")  # from the bracket on: those are fewer than words
TOLD = ("zero_grad", "step")


@dataclass(eq=False)
class Found:
    """What to write in a module."""

    names: dict[int, str] = field(default_factory=dict)  # by id of an item: what it is called
    behind: dict[int, list[str]] = field(default_factory=dict)  # by id of a statement: what follows it


@each_module
def picked_items(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such lists."""
    if module.directives.off or not module.says(ASKED):
        return None
    found = Found()
    for scope in module.scope.walk():
        told = _told(scope) if scope.is_function else []
        if len(told) == 1:  # two lists may hold the same optimizer
            _enter(told[0], scope, module, found)
    return _Writer(module, found).plain() if found.behind else None


def _told(scope: Scope) -> list[str]:
    """The lists with items that the scope tells to clear or to step."""
    funcs = [c.func for s in scope.body.walk() for c in s.calls]
    items = [f.value for f in funcs if isinstance(f, cst.Attribute) and f.attr.value in TOLD]
    return list(dict.fromkeys(i.value.value for i in items if _number(i) >= 0))  # type: ignore[attr-defined]


def _number(node: cst.CSTNode) -> int:
    """The number of an item of a list that has a name, -1 for anything else."""
    if not isinstance(node, cst.Subscript) or not isinstance(node.value, cst.Name) or len(node.slice) != 1:
        return -1
    index = node.slice[0].slice
    number = constant(index.value) if isinstance(index, cst.Index) else ...
    return number if type(number) is int else -1


def _enter(name: str, scope: Scope, module: ModuleInfo, found: Found) -> None:
    """Name the items of a list that a call makes, if nothing else is done to it."""
    bound = [s for s in scope.body.walk() if name in s.defs]
    if len(bound) != 1 or name in scope.params or not _made(bound[0], name):
        return
    nodes = list(descend(scope.node))
    items = [n for n in nodes if _number(n) >= 0 and n.value.value == name]  # type: ignore[attr-defined]
    stored = {id(n) for s in scope.body.walk() for t in _targets(s) for n in descend(t)}
    if sum(type(n) is cst.Name and n.value == name for n in nodes) != len(items) + 1 or stored & {id(i) for i in items}:
        return
    numbers = sorted({_number(i) for i in items})
    called = [f"{name}_{number}" for number in numbers]
    if any(module.says(re.compile(rf"\b{new}\b")) for new in called):
        return
    if not all(any(_surely(i, bound[0], scope) for i in items if _number(i) == number) for number in numbers):
        return
    found.names |= {id(item): f"{name}_{_number(item)}" for item in items}
    found.behind.setdefault(id(bound[0].node), []).extend(f"{name}_{n} = {name}[{n}]" for n in numbers)


def _made(stmt: Stmt, name: str) -> bool:
    """The statement binds the name to what a call returns, or to a part of it."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
        return False
    target = node.targets[0].target
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    return any(isinstance(p, cst.Name) and p.value == name for p in parts)


def _targets(stmt: Stmt) -> list[cst.BaseExpression]:
    node = stmt.node
    if isinstance(node, cst.Assign):
        return [t.target for t in node.targets]
    if isinstance(node, (cst.AugAssign, cst.AnnAssign, cst.For)):
        return [node.target]
    return [node.target] if isinstance(node, cst.Del) else []


def _surely(item: cst.CSTNode, bound: Stmt, scope: Scope) -> bool:
    """The item is asked for whatever holds, so that it is there."""
    around = set(map(id, bound.ancestors()))
    uses = [s for s in scope.body.walk() if not s.blocks and any(n is item for n in s.nodes)]
    return any(all(id(a) in around or type(a.node) is cst.For for a in s.ancestors()) for s in uses)


class _Writer(Suites):
    """One module, with names for these items."""

    def __init__(self, module: ModuleInfo, found: Found) -> None:
        super().__init__(module)
        self.found = found

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        name = self.found.names.get(id(original))
        return updated if name is None else cst.Name(name)

    def joined(self, body: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        made: list[cst.BaseStatement] = []
        for stmt in body:
            made.append(stmt)
            last = stmt.body[-1] if isinstance(stmt, cst.SimpleStatementLine) else None
            for text in self.found.behind.get(id(last), ()):
                line = line_of(text)
                assert last is not None
                self.number(line.body[0], last)
                made.append(line)
        return made
