"""Scalers of mixed precision."""

from __future__ import annotations

from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_GROWTH = ("growth_factor", "backoff_factor")
_DYNAMIC = "ms.amp.DynamicLossScaler(scale_value={init_scale!}, scale_factor=%d, scale_window={growth_interval!})"
_STATIC = "ms.amp.StaticLossScaler(1.0)"


def scaler(use: Use) -> Choice:
    """`GradScaler`: MindSpore's scaler grows by an integer and shrinks by its inverse, never below 1."""
    growth, backoff = (use.value(name) for name in _GROWTH)
    known = isinstance(growth, (int, float)) and isinstance(backoff, (int, float))
    if not known or growth != int(growth) or growth * backoff != 1:
        return Choice(refuse="MindSpore's scaler grows by an integer and shrinks by its inverse",
                      todo="choose the scale_factor of an ms.amp.DynamicLossScaler")  # fmt: skip
    if use.value("enabled") is False:
        uses = (*_GROWTH, "init_scale", "growth_interval", "enabled")
        return Choice(_STATIC, evidence="pass", uses=uses)
    dynamic = _DYNAMIC % growth
    floor = "the scale need not fall below 1, where MindSpore's stops"
    if use.given("enabled"):
        off = "where the scaler is off, gradients are finite: torch takes a step with any"
        return Choice(f"({dynamic} if {{enabled}} else {_STATIC})", uses=_GROWTH, assume=f"{floor}; {off}")
    return Choice(dynamic, assume=floor, uses=_GROWTH)
