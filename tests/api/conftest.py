"""Runs both sides of every case once per session."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from tests.installed import skip_without
from torch2ms.evidence.probes import Case, read_cases
from torch2ms.evidence.processes import both_sides
from torch2ms.evidence.snippets import translate
from torch2ms.findings import Finding

Translation = tuple[str, list[Finding]]


@pytest.fixture(scope="session")
def translated() -> Callable[[str], Translation]:
    """The translation of a snippet, made once."""
    return cache(translate)


@pytest.fixture(scope="session")
def outcomes(
    tmp_path_factory: pytest.TempPathFactory, translated: Callable[[str], Translation]
) -> dict[Case, tuple[dict[str, Any], dict[str, Any]]]:
    """Both sides' results for every case that translates."""
    skip_without("torch", "mindspore", reason="the cases are run on both sides")
    cases = [case for case in read_cases() if case.mode in " ~-"]
    texts = [(case.text, translated(case.text)[0], case.grad) for case in cases]
    return dict(zip(cases, both_sides(texts, tmp_path_factory.mktemp("sides")), strict=True))
