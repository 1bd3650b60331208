"""Functions that a forward calls and that choose between networks: `z = nets["map"](x) if x is not None else ...`.

Which networks take part hangs on what the function is given, and an optimizer moves all that it has.
"""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.tree import code

OTHERS = frozenset({"api", "tensor", "module", "lossfn", "builtin", "param", "params"})  # kinds of what chooses nothing


def chooses(stmts: Iterable[Stmt], scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """A function that one of the statements calls runs some network in one branch of a condition alone."""
    for stmt in stmts:  # loops: this is asked of every backward call
        for inner in stmt.walk():
            for call in inner.calls:
                of = call.func.value if type(call.func) is cst.Attribute else call.func
                if module.value(of).kind in OTHERS:
                    continue
                info = resolve(call, scope, module, project)
                forward = info is not None and info.cls is not None and info.cls.kind == "module"  # asked elsewhere
                if info is not None and not forward and _chooses(info):
                    return True
    return False


def _chooses(info: FunctionInfo) -> bool:
    for stmt in info.scope.body.walk():
        if type(stmt.node) is cst.If and stmt.blocks:
            ways = [_networks(block, info.module) for block in stmt.blocks]
            if any(way != ways[0] for way in ways) or len(ways) == 1 and ways[0]:
                return True
        for node in stmt.nodes if not stmt.blocks else ():
            if type(node) is cst.IfExp and info.module.value(node).kind == "module":
                return True
    return False


def _networks(block: Block, module: ModuleInfo) -> frozenset[str]:
    """The networks that the statements of a block call."""
    called = (call.func for stmt in block.walk() for call in stmt.calls)
    return frozenset(code(func) for func in called if module.value(func).kind == "module")
