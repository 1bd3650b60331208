"""Runs both sides of every case once per session."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from api_cases import CASES, Case, both_sides  # noqa: E402
from api_snippets import translate  # noqa: E402


@pytest.fixture(scope="session")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[Case, tuple[dict[str, Any], dict[str, Any]]]:
    """Both sides' results for every case that translates."""
    pytest.importorskip("torch", reason="the cases compare against PyTorch")
    pytest.importorskip("mindspore", reason="the cases run the translation on MindSpore")
    cases = [case for case in CASES if case.mode in " ~-"]
    texts = [(case.text, translate(case.text)[0], [] if case.mode != " " else case.grad) for case in cases]
    return dict(zip(cases, both_sides(texts, tmp_path_factory.mktemp("sides")), strict=True))
