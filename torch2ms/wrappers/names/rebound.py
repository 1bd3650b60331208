"""Names that mean one thing after the other, and need to mean one.

`optimizer` that is bound again to an optimizer of other parameters: from there on it has a name of its own. The ledger
keeps gradients by the name of the optimizer. A script that trains one network after the other, under one name, has as
many optimizers as it binds.

`loss` that is bound again while its graph is kept: until there it has a name of its own. One function gives both.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import libcst as cst

from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.tape.forward.effects import leaves
from torch2ms.wrappers.passes import each_module


@each_module
def told_apart(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module in which that happens."""
    names = _names(module, alone=not imported(module, project))
    return Renamer(module, names).plain() if names else None


def imported(module: ModuleInfo, project: Project) -> bool:
    """Another module of the project may take names from this one."""
    last = module.name.rpartition(".")[2]
    others = (other.imports for other in project.modules.values() if other is not module)
    return any(last in source.split(".") for o in others for source in (*o.table.values(), *o.stars))


class Renamer(Suites):
    """One module, with the new name of each occurrence by its id."""

    def __init__(self, module: ModuleInfo, names: dict[int, str]) -> None:
        super().__init__(module)
        self.names = names

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        new = self.names.get(id(original))
        return updated if new is None else updated.with_changes(value=new)


def _names(module: ModuleInfo, alone: bool) -> dict[int, str]:
    """The occurrences to rename; `alone`: no other module can import what this one binds."""
    taken: set[str] = set()
    found: dict[int, str] = {}
    for scope in module.scope.walk():
        if not (scope.is_function or scope.is_module and alone):
            continue
        for name, bindings in _bindings(scope, module).items():
            owns = {module.value(b.node.targets[0].target).owns for b in bindings}  # type: ignore[union-attr]
            if len(owns) < 2 and not any(map(_of_the_trainable, bindings[1:])):
                continue
            taken = taken or {n.value for n in module.of_kind(cst.Name)}
            for number, binding in enumerate(bindings[1:], 2):
                new = f"{name}_{number}"
                if new in taken:
                    break
                found |= {id(n): new for n in _occurrences(name, binding, bindings[number:])}
        for name, binding, again in _kept_losses(scope) if module.has("retain_graph") else ():
            taken = taken or {n.value for n in module.of_kind(cst.Name)}
            new = next(f"{name}_{number}" for number in count(1) if f"{name}_{number}" not in taken)
            taken.add(new)
            found |= {id(n): new for n in _occurrences(name, binding, [again])}
    return found


def _of_the_trainable(stmt: Stmt) -> bool:
    """`SGD((p for p in net.parameters() if p.requires_grad))`: others than before, where some were frozen meanwhile."""
    return any(isinstance(n, cst.Attribute) and n.attr.value == "requires_grad" for n in stmt.nodes)


def _kept_losses(scope: Scope) -> Iterator[tuple[str, Stmt, Stmt]]:
    """Names that a block binds, goes back from keeping the graph, and binds again, with the two statements."""
    if not scope.is_function and not scope.is_module:
        return
    hidden = seen_elsewhere(scope)
    for block in {id(s.block): s.block for s in scope.body.walk()}.values():
        last: dict[str, Stmt] = {}
        for stmt in block.stmts:
            name = bound(stmt)
            if name and name in last and _goes_back(name, last[name], stmt) and name not in hidden:
                yield name, last[name], stmt
            if name and not stmt.off:
                last[name] = stmt
            elif type(stmt.node) is not cst.AugAssign:
                last = {n: s for n, s in last.items() if n not in stmt.all_defs}


def _goes_back(name: str, binding: Stmt, again: Stmt) -> bool:
    """Between two statements of a block a loss is played back, its graph kept, and nothing leaves the block."""
    stmts = binding.block.stmts
    between = stmts[stmts.index(binding) + 1 : stmts.index(again)]
    kept = (c for s in between if s.is_small for c in s.calls if dotted(c.func) == f"{name}.backward")
    keeping = any(a.keyword is not None and a.keyword.value == "retain_graph" for c in kept for a in c.args)
    return keeping and not any(leaves(s) for s in between)


def bound(stmt: Stmt) -> str:
    """The one name that a plain assignment binds."""
    node = stmt.node
    plain = type(node) is cst.Assign and len(node.targets) == 1 and type(node.targets[0].target) is cst.Name
    return node.targets[0].target.value if plain else ""  # type: ignore[union-attr]


def _bindings(scope: Scope, module: ModuleInfo) -> dict[str, list[Stmt]]:
    """The statements that bind a name to optimizers of known parameters, one after the other and nowhere else."""
    found: dict[str, list[Stmt]] = {}
    for stmt in scope.body.stmts:
        node = stmt.node
        if type(node) is cst.Assign and len(node.targets) == 1 and type(node.targets[0].target) is cst.Name:
            value = module.value(node.targets[0].target)
            if value.kind == "optimizer" and value.owns and not stmt.off:
                found.setdefault(node.targets[0].target.value, []).append(stmt)
    if not any(len(bindings) > 1 for bindings in found.values()):
        return {}
    bound = [name for stmt in scope.body.walk() for name in stmt.defs]
    inner = seen_elsewhere(scope)
    return {
        name: bindings for name, bindings in found.items()
        if len(bindings) > 1 and bound.count(name) == len(bindings) and name in scope.locals and name not in inner
    }  # fmt: skip


def seen_elsewhere(scope: Scope) -> set[str]:
    """The names of a scope that functions inside of it read, or that are not its own."""
    inner = {root(use) for child in scope.children for use in free_uses(child)}
    return inner | {item.name.value for child in scope.walk() for stmt in child.body.walk()
                    if type(stmt.node) is cst.Global or type(stmt.node) is cst.Nonlocal
                    for item in stmt.node.names}  # fmt: skip


def _occurrences(name: str, binding: Stmt, later: list[Stmt]) -> list[cst.Name]:
    """Where the name means what the statement binds it to: until it is bound again."""
    end = later[0] if later else None
    assert isinstance(binding.node, cst.Assign)
    nodes: list[cst.CSTNode] = [binding.node.targets[0]]
    stmts = binding.block.stmts
    for stmt in stmts[stmts.index(binding) + 1 :]:
        if stmt is end:
            assert isinstance(end.node, cst.Assign)
            nodes.append(end.node.value)
            break
        nodes.append(stmt.node)
    hidden = {id(n.attr) for node in nodes for n in descend(node) if type(n) is cst.Attribute}
    hidden |= {id(n.keyword) for node in nodes for n in descend(node) if type(n) is cst.Arg}
    return [
        n for node in nodes for n in descend(node)
        if isinstance(n, cst.Name) and n.value == name and id(n) not in hidden
    ]  # fmt: skip


__all__ = ["Renamer", "bound", "imported", "seen_elsewhere", "told_apart"]
