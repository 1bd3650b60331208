"""The report as Markdown: for a pull request or an issue."""

from __future__ import annotations

import re
from collections.abc import Sequence

from torch2ms.findings import Finding, Tier
from torch2ms.report import text
from torch2ms.run import Outcome

TITLES = {
    Tier.REFUSED: ("By hand", "left as they were, under a mark"),
    Tier.ASSUMED: ("Assumed", "right if the stated assumption holds"),
    Tier.EXACT: ("Exact", "same numbers and gradients by construction"),
}


def render(outcomes: Sequence[Outcome]) -> str:
    """Summary, table of files, then the findings by tier, what needs a person first."""
    first, *rest = text.summary(outcomes)
    counts = [line for line in rest if not line.startswith(("refused: ", "error: "))]
    lines = ["# torch2ms", "", first + "".join(f". {line}" for line in counts) + ".", "", *_table(outcomes)]
    failed = [outcome for outcome in outcomes if outcome.error]
    if failed:
        lines += ["", "## Failed", "", *(f"- {code(o.item.shown)}: {escape(o.error)}" for o in failed)]
    for tier, (title, meaning) in TITLES.items():
        found = [(o, f) for o in outcomes if not o.error for f in text.ordered(o.result.findings) if f.tier is tier]
        if found:
            lines += ["", f"## {title}", "", f"{text.plural(len(found), 'construct')} {meaning}.", ""]
            lines += [_entry(outcome, finding) for outcome, finding in found]
    return "\n".join(lines) + "\n"


def _table(outcomes: Sequence[Outcome]) -> list[str]:
    shown = [o for o in outcomes if o.changed or o.error or o.result.findings]
    if not shown:
        return ["Nothing to do."]
    rows = [
        f"| {code(o.item.shown)} | {' | '.join(str(o.result.count(tier)) for tier in Tier)} | {_state(o)} |"
        for o in shown
    ]
    return ["| file | exact | assumed | refused | |", "|---|---:|---:|---:|---|", *rows]


def _state(outcome: Outcome) -> str:
    return "failed" if outcome.error else "changed" if outcome.changed else "unchanged"


def _entry(outcome: Outcome, finding: Finding) -> str:
    line = f"- {code(text.place(outcome, finding))} {finding.code} {escape(finding.what)}"
    line += f": {escape(finding.why)}" if finding.why else ""
    return line + (f" **To do:** {escape(finding.todo)}" if finding.todo else "")


def code(words: str) -> str:
    """`words` as inline code, whatever is in them."""
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", words)), default=0))
    pad = " " * (fence != "`")
    return f"{fence}{pad}{words}{pad}{fence}".replace("|", "\\|")


def escape(words: str) -> str:
    """`words` as plain prose on one line."""
    for character in "\\`*_<>[]|":
        words = words.replace(character, "\\" + character)
    return " ".join(words.split())
