"""Optimizers: torch's Adam is MindSpore's AdamW without decay, or with one of its own."""

from __future__ import annotations

from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_FIRST = "{params:params}, {lr:lr}, {betas:betas}, {eps:eps}"
_LAST = "amsgrad={amsgrad}, maximize={maximize}"


def adam(use: Use) -> Choice:
    """`optim.Adam`: MindSpore's own Adam adds eps before the bias correction, its AdamW after it, as torch does.

    A decay that is added to the gradients, of all parameters or of a group, needs a definition: MindSpore's own Adam
    has one, but adds eps too early and passes over amsgrad.
    """
    if use.value("decoupled_weight_decay") is True:
        return Choice(
            f"optim.AdamW({_FIRST}, weight_decay={{weight_decay|as_float!}}, {_LAST})", uses=("decoupled_weight_decay",)
        )
    params = use.node("params")
    grouped = params is not None and use.facts.decays(params)
    if not grouped and (not use.given("weight_decay") or use.value("weight_decay") == 0):
        return Choice(f"optim.AdamW({_FIRST}, weight_decay=0.0, {_LAST})", uses=("weight_decay",))
    return Choice(f"AdamL2({_FIRST}, {{weight_decay|as_float:weight_decay}}, {_LAST})")
