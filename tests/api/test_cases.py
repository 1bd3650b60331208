"""Every case: translated, run on both frameworks, values and gradients compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from torch2ms.evidence.compare import difference
from torch2ms.evidence.probes import Case, read_cases
from torch2ms.findings import Finding, Tier

CASES = read_cases()
Translated = Callable[[str], tuple[str, list[Finding]]]


def name_of(case: Case) -> str:
    return f"{case.file}:{case.line}:{case.text}"


@pytest.mark.parametrize("case", [case for case in CASES if case.mode == "!"], ids=name_of)
def test_refused(case: Case, translated: Translated) -> None:
    text, findings = translated(case.text)
    assert any(finding.tier is Tier.REFUSED for finding in findings), text


@pytest.mark.parametrize("case", [case for case in CASES if case.mode != "!"], ids=name_of)
def test_same_numbers(
    case: Case, translated: Translated, outcomes: dict[Case, tuple[dict[str, Any], dict[str, Any]]]
) -> None:
    text, findings = translated(case.text)
    assert not [f for f in findings if f.tier is Tier.REFUSED], findings
    if case.expected is not None:
        assert text == case.expected
    if case.mode == "=":
        return
    left, right = outcomes[case]
    problem = difference(left, right, random=case.mode == "~")
    assert problem is None, f"{text}: {problem}"
