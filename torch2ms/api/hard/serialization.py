"""Saving: a checkpoint holds the parameters of one cell."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use
from torch2ms.api.signature import code

_PARAMETERS = (".parameters_dict()", ".state_dict()")
_WORDS = ("state", "param", "weight", "wts")


def save(use: Use) -> Choice:
    """`torch.save(net.state_dict(), path)` saves the cell; other objects have no checkpoint."""
    bound = use.binding.single["obj"]
    before, after = bound.original.value, code(bound.updated.value)
    if isinstance(before, cst.Call) and code(before.func).endswith(".state_dict") and not before.args:
        for ending in _PARAMETERS:
            if after.endswith(ending) and "{" not in after:
                return Choice(f"ms.save_checkpoint({after.removesuffix(ending)}, {{f|ckpt}})", uses=("obj",))
    if isinstance(before, cst.Dict) or use.kind("obj") == "tensor":
        return Choice(
            refuse="a checkpoint of MindSpore holds the parameters of one cell",
            todo="ms.save_checkpoint(net, path, append_dict={...}), numbers only; tensors with numpy.save",
        )
    if any(word in code(before).lower() for word in _WORDS):
        return Choice("ms.save_checkpoint({obj}, {f|ckpt})", assume=f"{code(before)} holds the parameters of a cell")
    return Choice(
        refuse="a cell or another object cannot be pickled whole",
        todo="save its parameters: ms.save_checkpoint(net, path)",
    )
