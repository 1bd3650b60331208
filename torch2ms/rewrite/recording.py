"""`torch.is_grad_enabled()`, where it is seen what it answers."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.syntax.names import dotted
from torch2ms.rewrite.translation import Translation

QUESTIONS = {"torch.is_grad_enabled": True, "torch.is_inference_mode_enabled": False}  # and what torch begins with


def asked(name: str, work: Translation) -> cst.Name | None:
    """What the blocks around the question say, or torch's default where nothing can change it."""
    if name not in QUESTIONS or work.stmt is None:
        return None
    default, inside = QUESTIONS[name], work.stmt.modes
    sources = "".join(module.source for module in work.project.modules.values())
    if "set_grad_enabled" in sources:
        return None
    if inside:
        around = [item.item for item in inside[-1].items if is_no_grad(item.item, work.module)]
        known = len(inside) == len(around) == 1
        asks_mode = any("inference_mode" in dotted(n.func if isinstance(n, cst.Call) else n) for n in around)
        return cst.Name(str(not default if default or asks_mode else default)) if known else None
    if not work.stmt.block.scope.is_module and re.search("no_grad|inference_mode|enable_grad", sources):
        return None
    return cst.Name(str(default))
