"""`from torch.distributions import *`, with the names that the module takes from there."""

from __future__ import annotations

import builtins
import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children
from torch2ms.api.rules import Rules
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

STAR = re.compile(r"^[ \t]*from (torch\.[\w.]+) import \*", re.MULTILINE)  # `torch` itself covers builtins as well


@each_module
def starred(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that imports everything from a part of torch."""
    if not module.says(STAR):
        return None
    writer = Starred(module)
    made = writer.plain()
    return made if writer.changed else None


class Starred(Suites):
    """One module with its names written out."""

    changed = False

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        bound = {name for scope in module.scope.walk() for stmt in scope.body.walk() for name in stmt.defs}
        bound |= {param for scope in module.scope.walk() for param in scope.params} | set(dir(builtins))
        self.free = [name for name in _read(module.tree) if name not in bound | set(module.imports.table)]

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if not isinstance(node, cst.ImportFrom) or not isinstance(node.names, cst.ImportStar) or node.relative:
            return [node]
        home, rules = dotted(node.module) if node.module is not None else "", Rules.load()
        if not home.startswith("torch."):
            return [node]
        names = [name for name in self.free if rules.find(f"{home}.{name}") is not None]
        if not names:
            return [node]
        self.changed = True
        self.free = [name for name in self.free if name not in names]
        return [node.with_changes(names=[cst.ImportAlias(cst.Name(name)) for name in names])]


def _read(tree: cst.CSTNode) -> list[str]:
    """Every name that an expression reads, the first time it does."""
    found: dict[str, None] = {}
    stack = [tree]
    while stack:
        node = stack.pop()
        if isinstance(node, cst.Name):
            found[node.value] = None
        elif isinstance(node, cst.Attribute):
            stack.append(node.value)
        elif isinstance(node, cst.Arg):
            stack.append(node.value)
        elif not isinstance(node, (cst.Import, cst.ImportFrom)):
            stack += reversed(list(children(node)))
    return list(found)
