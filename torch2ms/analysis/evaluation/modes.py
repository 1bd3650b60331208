"""Regions without gradients: what `no_grad` and its relatives make of the statements and functions in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted, is_foreign, qualified

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator


def entered(node: cst.With, ev: Evaluator) -> bool:
    """Whether gradients are cut inside a `with`, given whether they are around it."""
    cut = ev.cut
    for item in node.items:
        name = qualified(item.item.func if isinstance(item.item, cst.Call) else item.item, ev.module.imports)
        last = name.rpartition(".")[2]
        if last in ("no_grad", "inference_mode"):
            cut = True
        elif last == "enable_grad":
            cut = False
        elif last == "set_grad_enabled" and isinstance(item.item, cst.Call):
            for arg in item.item.args:
                ev.ev(arg.value)
                if dotted(arg.value) == "False":
                    cut = True
    return cut


def is_no_grad(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """Whether a decorator or context manager is torch's `no_grad` or `inference_mode`."""
    name = qualified(node.func if isinstance(node, cst.Call) else node, module.imports)
    return name.rpartition(".")[2] in ("no_grad", "inference_mode") and is_foreign(name)


def off(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A context manager that turns gradients off, whatever holds around it: `set_grad_enabled(False)` too."""
    last = qualified(node.func if isinstance(node, cst.Call) else node, module.imports).rpartition(".")[2]
    if last == "set_grad_enabled" and isinstance(node, cst.Call):
        return any(dotted(arg.value) == "False" for arg in node.args)
    return last in ("no_grad", "inference_mode")
