"""Every case: translated, run on both frameworks, values and gradients compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from api_cases import CASES, Case
from api_snippets import translate

from torch2ms.findings import Tier


def name_of(case: Case) -> str:
    return f"{case.file}:{case.line}:{case.text}"


@pytest.mark.parametrize("case", [case for case in CASES if case.mode == "!"], ids=name_of)
def test_refused(case: Case) -> None:
    text, findings = translate(case.text)
    assert any(finding.tier is Tier.REFUSED for finding in findings), text


@pytest.mark.parametrize("case", [case for case in CASES if case.mode != "!"], ids=name_of)
def test_same_numbers(case: Case, outcomes: dict[Case, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    text, findings = translate(case.text)
    assert not [f for f in findings if f.tier is Tier.REFUSED], findings
    if case.expected is not None:
        assert text == case.expected
    if case.mode == "=":
        return
    left, right = outcomes[case]
    problem = difference(left, right, random=case.mode == "~")
    assert problem is None, f"{text}: {problem}"


def difference(left: dict[str, Any], right: dict[str, Any], random: bool) -> str | None:
    """Why two results are not the same, None where they are."""
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
        if kind(one) != kind(two):
            return f"{one.dtype} is not {two.dtype}"
        if not random and not close(one, two):
            return f"values\n{one}\n{two}"
    for one, two in zip(left["grads"] or [], right["grads"] or [], strict=True):
        if not random and not close(one, two):
            return f"gradients\n{one}\n{two}"
    return None


def kind(array: np.ndarray) -> str:
    """The class of an element type; MindSpore's index results are int32 where torch's are int64."""
    return "integer" if array.dtype.kind in "iu" else str(array.dtype)


def close(one: np.ndarray, two: np.ndarray) -> bool:
    """Equal to float32 accuracy relative to the largest element."""
    if one.dtype.kind not in "fc":
        return bool((one == two).all())
    finite = one[np.isfinite(one)]
    scale = float(np.abs(finite).max()) if finite.size else 1.0
    return bool(np.allclose(one, two, rtol=2e-5, atol=5e-6 * max(scale, 1.0), equal_nan=True))
