"""`with torch.no_grad(), evaluating(model):` as two blocks, one in the other.

A block that only says whether gradients are recorded is dissolved; one that shares its header with something else is
parted from it first.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project, qualified
from torch2ms.analysis.syntax.tree import code
from torch2ms.wrappers.suites import Made, Suites


def parted(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such blocks, by name."""
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        mixed = {} if module.uses_mindspore else _mixed(module)
        if mixed:
            plain[module.name] = Parter(module, mixed).plain()
    return plain


def _mixed(module: ModuleInfo) -> dict[int, list[list[cst.WithItem]]]:
    """The blocks with both, by id: their items in groups that are one or the other, in order."""
    found: dict[int, list[list[cst.WithItem]]] = {}
    for scope in module.scope.walk():
        for stmt in scope.body.walk():
            node = stmt.node
            if type(node) is not cst.With or len(node.items) < 2 or node.asynchronous is not None:
                continue
            groups: list[list[cst.WithItem]] = []
            last = None
            for item in node.items:
                if _mode(item, module) != last or not groups:
                    groups.append([])
                last = _mode(item, module)
                groups[-1].append(item)
            if len(groups) > 1 and not any("#" in code(item) for item in node.items):
                found[id(node)] = groups
    return found


def _mode(item: cst.WithItem, module: ModuleInfo) -> bool:
    """The item says whether gradients are recorded, and nothing else."""
    name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, module.imports)
    return name in flow.TRANSPARENT and item.asname is None


class Parter(Suites):
    """One module, with the blocks to part."""

    def __init__(self, module: ModuleInfo, mixed: dict[int, list[list[cst.WithItem]]]) -> None:
        super().__init__(module)
        self.mixed = mixed

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        groups = self.mixed.get(id(original))
        if groups is None:
            return [updated], ()  # type: ignore[list-item]
        assert isinstance(original, cst.With) and isinstance(updated, cst.With)
        items = list(updated.items)
        made = updated.with_changes(leading_lines=())
        for group in reversed(groups):
            own, items = items[len(items) - len(group) :], items[: len(items) - len(group)]
            own[-1] = own[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
            bare = {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
            body = made.body if group is groups[-1] else cst.IndentedBlock([made])
            made = updated.with_changes(items=own, body=body, leading_lines=(), **bare)
            self.number(made, original)
        return [self.renumbered(made, leading_lines=updated.leading_lines)], ()
