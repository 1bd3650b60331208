"""Translations written by hand (`by_hand.py` beside `original.py`): what the harness is tested with."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.fixture_cases import FIXTURES

OWN = Path(__file__).parent / "pairs"  # programs that exercise the harness and are no fixtures of the translator


@dataclass(frozen=True)
class HandWritten:
    """A PyTorch program and its MindSpore counterpart."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @property
    def original(self) -> Path:
        return self.folder / "original.py"

    @property
    def translated(self) -> Path:
        return self.folder / "by_hand.py"


PAIRS = {path.parent.name: HandWritten(path.parent) for root in (FIXTURES, OWN) for path in root.glob("**/by_hand.py")}
