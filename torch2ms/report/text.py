"""The summary that ends a run, and the list of findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from unicodedata import category

from torch2ms.findings import APART, Finding, Tier
from torch2ms.run import Outcome


def render(outcomes: Sequence[Outcome]) -> str:
    """Every finding, then the summary."""
    return "\n".join([*findings(outcomes), *summary(outcomes)]) + "\n"


def findings(outcomes: Iterable[Outcome]) -> list[str]:
    """Every finding with its reason."""
    return [line for o in outcomes for f in ordered(o.result.findings) for line in _lines(o, f)]


def ordered(found: Iterable[Finding]) -> list[Finding]:
    """Findings in the order of the source."""
    return sorted(found, key=lambda finding: (finding.line, finding.code))


def printable(text: str) -> str:
    """What a terminal can show on one line: a file's name may hold newlines, and what steers a terminal."""
    if text.isprintable():
        return text
    return "".join(repr(c)[1:-1] if category(c) in ("Cc", "Cf", "Zl", "Zp") else c for c in text)


def place(outcome: Outcome, finding: Finding) -> str:
    """`path:line`, or the path alone where no line applies."""
    name = printable(outcome.item.shown)
    return f"{name}:{finding.line}" if finding.line else name


def _lines(outcome: Outcome, finding: Finding) -> list[str]:
    lines = [f"{place(outcome, finding)} {finding.code} {finding.tier.value}: {finding.what}"]
    if finding.why:
        lines.append(f"    {finding.why}")
    if finding.todo and finding.todo != finding.why:
        lines.append(f"    to do: {finding.todo}")
    return lines


def summary(outcomes: Sequence[Outcome], *, verb: str = "changed") -> list[str]:
    """Counts, then the places that a person has to look at, then what could not be processed."""
    looked = [o for o in outcomes if o.item.kind not in ("other", "link")]
    failed = [o for o in outcomes if o.error]
    changed = sum(o.changed for o in outcomes)
    lines = [f"{changed} of {plural(len(looked), 'file')} {verb}" + (f", {len(failed)} failed" if failed else "")]
    good = [o for o in outcomes if not o.error]
    counts = {tier: sum(o.result.count(tier) for o in good) for tier in Tier}
    if any(counts.values()):
        parts = ", ".join(f"{number} {tier.value}" for tier, number in counts.items())
        lines.append(f"{plural(sum(counts.values()), 'construct')}: {parts}")
    refused = Counter(
        f"refused: {place(outcome, finding)} {finding.code} {finding.what}"
        for outcome in good
        for finding in ordered(outcome.result.findings)
        if finding.tier is Tier.REFUSED
    )
    lines += [line + f" ({number} times)" * (number > 1) for line, number in refused.items()]
    apart = Counter(f.why for o in good for f in o.result.findings if f.code == APART)
    lines += [
        printable(f"{plural(number, 'file')} converted without the others of the project: {why}")
        for why, number in apart.items()
    ]
    lines += [printable(f"error: {o.item.shown}: {o.error}") for o in failed]
    return lines


def to_do(outcomes: Iterable[Outcome]) -> list[str]:
    """What makes `--check` fail, beside refusals: files that would change, and marks of earlier runs."""
    lines = []
    for outcome in outcomes:
        if outcome.changed:
            lines.append(f"would change: {printable(outcome.item.shown)}")
        elif outcome.marks:
            lines.append(f"unresolved: {printable(outcome.item.shown)} holds {plural(outcome.marks, 'mark')}")
    return lines


def plural(number: int, noun: str) -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}" + "s" * (number != 1)
