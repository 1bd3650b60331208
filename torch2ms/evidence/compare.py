"""Comparing what the two frameworks gave for one probe."""

from __future__ import annotations

from typing import Any

import numpy as np


def difference(left: dict[str, Any], right: dict[str, Any], random: bool) -> str | None:
    """Why two results are not the same, None where they are."""
    return forward_difference(left, right, random) or (None if random else gradient_difference(left, right))


def forward_difference(left: dict[str, Any], right: dict[str, Any], random: bool) -> str | None:
    """Why the values are not the same; of random ones only shapes and types are compared."""
    if "error" in left or "error" in right:
        return f"torch: {left.get('error', 'ok')}; mindspore: {right.get('error', 'ok')}"
    if len(left["outs"]) != len(right["outs"]):
        return f"{len(left['outs'])} results, not {len(right['outs'])}"
    for one, two in zip(left["outs"], right["outs"], strict=True):
        if not isinstance(one, np.ndarray) and not isinstance(two, np.ndarray):
            if one != two and not np.allclose(float(one), float(two), rtol=1e-5):
                return f"{one} is not {two}"
            continue
        one, two = np.asarray(one), np.asarray(two)
        if one.shape != two.shape:
            return f"shape {one.shape} is not {two.shape}"
        if _kind(one) != _kind(two):
            return f"{one.dtype} is not {two.dtype}"
        if not random and not _close(one, two):
            return f"values\n{one}\n{two}"
    return None


def gradient_difference(left: dict[str, Any], right: dict[str, Any]) -> str | None:
    """Why the gradients are not the same."""
    for one, two in zip(left.get("grads") or [], right.get("grads") or [], strict=True):
        if not _close(one, two):
            return f"gradients\n{one}\n{two}"
    return None


def _kind(array: Any) -> str:
    """The class of an element type; MindSpore's index results are int32 where torch's are int64."""
    return "integer" if array.dtype.kind in "iu" else str(array.dtype)


def _close(one: Any, two: Any) -> bool:
    """Equal to float32 accuracy relative to the largest element."""
    if one.dtype.kind not in "fc":
        return bool((one == two).all())
    finite = one[np.isfinite(one)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    return bool(np.allclose(one, two, rtol=2e-5, atol=5e-6 * max(scale, 1.0), equal_nan=True))
