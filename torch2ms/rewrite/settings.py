"""Statements that set PyTorch itself up: they may go."""

from __future__ import annotations

import re

from torch2ms.rewrite.writer import Writer

SWITCHES = ("torch.set_grad_enabled", "torch.autograd.set_grad_enabled", "torch.autograd.grad_mode.set_grad_enabled")
_ASKING = re.compile(
    r"(?<!no_)grad(?!_enabled)|backward|is_leaf|retain|requires_|is_inference|torch\.func\b|[vj]p\b|jac|hessian"
)


def steers(name: str, writer: Writer) -> bool:
    """The statement sets PyTorch itself up, and may go."""
    rule = writer.rules.find(name)
    if rule is None or not rule.setting:
        return False
    writer.tell("T2M901", name, "a setting of torch without counterpart: dropped")
    return True


def idle(name: str, writer: Writer) -> bool:
    """`torch.set_grad_enabled(False)` of a program that takes no gradients and asks for none."""
    if name not in SWITCHES or any(module.says(_ASKING) for module in writer.project.modules.values()):
        return False
    writer.tell("T2M301", "torch.set_grad_enabled", "nothing is differentiated: dropped")
    return True
