"""Runs both sides of every case once per session."""

from __future__ import annotations

from typing import Any

import pytest

from torch2ms.evidence.probes import Case, read_cases
from torch2ms.evidence.processes import both_sides
from torch2ms.evidence.snippets import translate


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, tuple[dict[str, Any], dict[str, Any]]]:
    """Both sides' results for every case that translates."""
    pytest.importorskip("torch", reason="the cases compare against PyTorch")
    pytest.importorskip("mindspore", reason="the cases run the translation on MindSpore")
    cases = [case for case in read_cases() if case.mode in " ~-"]
    texts = [(case.text, translate(case.text)[0], case.grad) for case in cases]
    return dict(zip(cases, both_sides(texts, tmp_path_factory.mktemp("sides")), strict=True))
