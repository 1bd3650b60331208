"""Reports: each module has one function from outcomes to text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import cast

from torch2ms.run import Outcome


def render(form: str, outcomes: Sequence[Outcome]) -> str:
    """The report on `outcomes` in one of the formats of `config.REPORTS`."""
    module = import_module(f"torch2ms.report.{form}")
    return cast(Callable[[Sequence[Outcome]], str], module.render)(outcomes)
