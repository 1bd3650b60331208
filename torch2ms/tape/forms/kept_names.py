"""The names of a module that are all it has to show: `y = net(x)`, `y.sum().backward()`, `g = x.grad`, and no more.

A script prints, saves or steps, and what stands in its functions of ours need not be seen outside. A module that does
nothing of the kind is there for its names: a cell of a notebook, a snippet, settings of a test.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.tape.forward.region import Region

QUIET = {"tensor", "leaf", "parameter", "param", "module"}
TELLING = {"torch.save", "torch.jit.save"}


def kept_names(region: Region, module: ModuleInfo) -> set[str]:
    """The names of the region that whoever imports the module may look at."""
    return kept_among(region.all, region.block, module)


def kept_among(stmts: list[Stmt], block: Block, module: ModuleInfo) -> set[str]:
    """The names that statements of a block bind, where it is a module that has nothing else to show."""
    if block.owner is not None or not block.scope.is_module or not _silent(block, module):
        return set()
    return {name for stmt in stmts for name in stmt.all_defs if "." not in name and not name.startswith("_")}


def _silent(block: Block, module: ModuleInfo) -> bool:
    return not any(_tells(stmt, module) for stmt in block.walk())


def _tells(stmt: Stmt, module: ModuleInfo) -> bool:
    node = stmt.node
    if not isinstance(node, cst.Expr) or not isinstance(node.value, cst.Call):
        return isinstance(node, (cst.Assert, cst.Raise))
    func = node.value.func
    called = module.value(func)
    if called.kind == "api":
        return called.name in TELLING
    return not isinstance(func, cst.Attribute) or module.value(func.value).kind not in QUIET
