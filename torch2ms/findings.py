"""What a conversion says about a file: findings, their tiers, and the result that carries them."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

APART = "T2M961"  # a file that was looked at without the files that it belongs to


class Tier(enum.Enum):
    """How far a translated construct can be trusted."""

    EXACT = "exact"  # same numbers and gradients by construction
    ASSUMED = "assumed"  # right if the stated assumption holds
    REFUSED = "refused"  # left as valid Python under a mark; `--check` fails


@dataclass(frozen=True)
class Finding:
    """One decision about one construct of the source.

    `code` is a stable T2Mnnn number (`torch2ms explain CODE`), `what` names the construct in the user's words,
    `why` gives the form chosen, the assumption made or the reason of a refusal, `todo` says what a person has to do
    (refusals only). `line` is the 1-based line in the *source*, 0 where none applies.
    """

    code: str
    tier: Tier
    what: str
    why: str = ""
    todo: str = ""
    line: int = 0

    def at(self, line: int) -> Finding:
        """The same of a line of the source."""
        return Finding(self.code, self.tier, self.what, self.why, self.todo, line)

    @property
    def mark(self) -> str:
        """The comment placed above a refused line."""
        return f"# torch2ms: {self.code} {self.what} -> {self.todo or self.why}"


@dataclass(frozen=True)
class Result:
    """The outcome for one file. `error` is set when the file was left as it was (one clear sentence)."""

    path: str
    source: str
    text: str
    findings: tuple[Finding, ...] = field(default=())
    error: str = ""

    @property
    def changed(self) -> bool:
        return self.text != self.source

    def count(self, tier: Tier) -> int:
        return sum(finding.tier is tier for finding in self.findings)


def told_apart(result: Result, why: str) -> Result:
    """The result, with the reason why the file was looked at without those that it belongs to."""
    if any(finding.code == APART for finding in result.findings):
        return result
    return replace(result, findings=(Finding(APART, Tier.ASSUMED, "whole file", why), *result.findings))
