"""Optimizers: torch's Adam is MindSpore's AdamW without decay."""

from __future__ import annotations

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use

_FIRST = "{params:params}, {lr:lr}, {betas:betas}, {eps:eps}"
_LAST = "amsgrad={amsgrad}, maximize={maximize}"


def adam(use: Use) -> Choice:
    """`optim.Adam`: MindSpore's own Adam adds eps before the bias correction, its AdamW after it, as torch does."""
    if use.value("decoupled_weight_decay") is True:
        return Choice(f"optim.AdamW({_FIRST}, weight_decay={{weight_decay|as_float!}}, {_LAST})",
                      uses=("decoupled_weight_decay",))
    if not use.given("weight_decay") or use.value("weight_decay") == 0:
        return Choice(f"optim.AdamW({_FIRST}, weight_decay=0.0, {_LAST})", uses=("weight_decay",))
    return Choice(f"optim.Adam({_FIRST}, {{weight_decay|as_float:weight_decay}}, {_LAST})",
                  assume="gradients are much larger than eps, which MindSpore's Adam adds before its bias correction")
