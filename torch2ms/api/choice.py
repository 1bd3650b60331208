"""What a function of `hard` answers where a table cannot."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Choice:
    """A target, or a refusal with its reason."""

    to: str | None = None
    returns: str | None = None
    assume: str = ""
    refuse: str = ""
    todo: str = ""
    evidence: str | None = None
    uses: tuple[str, ...] = ()  # parameters written into `to` without a placeholder
