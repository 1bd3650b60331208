"""Where the rule tables are: inside an installed package, or at the top of a checkout."""

from __future__ import annotations

from importlib import resources
from pathlib import Path


def rules_dir() -> Path:
    """The folder of the rule tables: package data of a wheel, else `rules/` of the checkout."""
    packaged = Path(str(resources.files("torch2ms"))) / "_rules"
    return packaged if packaged.is_dir() else Path(__file__).resolve().parent.parent / "rules"
