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
        last = _last(item.item, ev.module)
        if last == "set_grad_enabled" and isinstance(item.item, cst.Call):
            for arg in item.item.args:
                ev.ev(arg.value)
        if _cuts(last, item.item):
            cut = True
        elif last == "enable_grad" or last == "inference_mode":  # `inference_mode(False)` turns gradients on
            cut = False
    return cut


def is_no_grad(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """Whether a decorator or context manager of torch turns gradients off, as `no_grad` does."""
    name = qualified(node.func if isinstance(node, cst.Call) else node, module.imports)
    return _cuts(name.rpartition(".")[2], node) and is_foreign(name)


def recording(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """`torch.enable_grad()`"""
    return _last(node, module) == "enable_grad"


def off(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A context manager that turns gradients off, whatever holds around it: `set_grad_enabled(False)` too."""
    return _cuts(_last(node, module), node)


def _last(node: cst.BaseExpression, module: ModuleInfo) -> str:
    return qualified(node.func if isinstance(node, cst.Call) else node, module.imports).rpartition(".")[2]


def _cuts(last: str, node: cst.BaseExpression) -> bool:
    """`no_grad()`, `inference_mode()`, `set_grad_enabled(False)`, and not `inference_mode(False)`."""
    said = isinstance(node, cst.Call) and any(dotted(arg.value) == "False" for arg in node.args)
    return last == "no_grad" or last == "inference_mode" and not said or last == "set_grad_enabled" and said
