"""The report as one HTML page that needs nothing else: side-by-side diffs and findings, linked line by line."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from html import escape

from torch2ms.findings import Finding
from torch2ms.report import text
from torch2ms.run import Outcome

LINE_END = re.compile(r"\r\n|\r|\n")  # str.splitlines knows more line ends than Python does
CONTEXT = 4  # unchanged lines shown around a change
STYLE = """
:root { color-scheme: light dark; --add: #d7f5dd; --cut: #fde2e1; --line: #8884; --dim: #888; --warn: #b35900; }
@media (prefers-color-scheme: dark) { :root { --add: #12351b; --cut: #42181a; --warn: #ffb066; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 110rem; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { padding: .1rem .6rem; text-align: left; vertical-align: top; }
.files td:nth-child(n+2) { text-align: right; } .files td:last-child { text-align: left; }
.diff { table-layout: fixed; width: 100%; font: 12.5px/1.4 ui-monospace, monospace; border: 1px solid var(--line); }
.diff td { white-space: pre-wrap; overflow-wrap: anywhere; padding: 0 .4rem; }
.diff .n { width: 3.2rem; color: var(--dim); text-align: right; user-select: none; }
.cut { background: var(--cut); } .add { background: var(--add); } .gap td { color: var(--dim); text-align: center; }
.note td { font: 13px/1.4 system-ui, sans-serif; border-left: 3px solid var(--line); }
.refused, .error { color: var(--warn); } summary { cursor: pointer; font-weight: 600; margin: 1rem 0 .3rem; }
"""


def render(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    shown = [o for o in outcomes if o.changed or o.error or o.result.findings]
    first, *rest = text.summary(outcomes)
    counts = [line for line in rest if not line.startswith(("refused: ", "error: "))]
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>torch2ms report</title>',
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
        f"<h1>torch2ms</h1>\n<p>{escape('. '.join([first, *counts]))}.</p>",
        *_overview(shown),
        *(part for number, outcome in enumerate(shown) for part in _section(number, outcome)),
        "</body></html>",
    ]
    return "\n".join(parts) + "\n"


def _overview(shown: Sequence[Outcome]) -> Iterator[str]:
    yield '<table class="files"><tr><th>file</th><th>exact</th><th>assumed</th><th>refused</th><th></th></tr>'
    for number, outcome in enumerate(shown):
        counts: dict[str, int] = defaultdict(int)
        for finding in outcome.result.findings:
            counts[finding.tier.value] += 1
        cells = "".join(f"<td>{counts[tier]}</td>" for tier in ("exact", "assumed", "refused"))
        state = f'<span class="error">{escape(outcome.error)}</span>' if outcome.error else ""
        yield f'<tr><td><a href="#f{number}">{escape(outcome.item.shown)}</a></td>{cells}<td>{state}</td></tr>'
    yield "</table>"


def _section(number: int, outcome: Outcome) -> Iterator[str]:
    yield f'<details open id="f{number}"><summary>{escape(outcome.item.shown)}</summary>'
    if outcome.error:
        yield f'<p class="error">{escape(outcome.error)}</p>'
    if not outcome.result.source:
        yield "</details>"
        return
    notes: dict[int, list[Finding]] = defaultdict(list)
    for finding in text.ordered(outcome.result.findings):
        notes[finding.line].append(finding)
    yield '<table class="diff"><colgroup><col class="n"><col><col class="n"><col></colgroup>'
    yield from (_note(finding) for finding in notes.pop(0, []))
    yield from _rows(outcome, notes)
    yield "</table></details>"


def _rows(outcome: Outcome, notes: dict[int, list[Finding]]) -> Iterator[str]:
    before = LINE_END.split(outcome.result.source)
    after = LINE_END.split(outcome.result.text) if outcome.changed else before
    matcher = difflib.SequenceMatcher(None, before, after, autojunk=False)
    skipped = False
    for tag, start, stop, other, other_stop in matcher.get_opcodes():
        for offset in range(max(stop - start, other_stop - other)):
            left, right = start + offset, other + offset
            here = notes.get(left + 1, []) if left < stop else []
            if tag == "equal" and not here and not _near(left, start, stop, len(before), notes):
                if not skipped:
                    yield '<tr class="gap"><td colspan="4">&#8943;</td></tr>'
                skipped = True
                continue
            skipped = False
            yield _row(tag, before, left if left < stop else None, after, right if right < other_stop else None)
            yield from (_note(finding) for finding in here)


def _near(line: int, start: int, stop: int, total: int, notes: dict[int, list[Finding]]) -> bool:
    """Is an unchanged line close enough to a change, or to a finding, to be shown?"""
    after_change, before_change = line < start + CONTEXT and start > 0, line >= stop - CONTEXT and stop < total
    return after_change or before_change or any(near in notes for near in range(line - 1, line + 4))


def _row(tag: str, before: Sequence[str], left: int | None, after: Sequence[str], right: int | None) -> str:
    cells = []
    for lines, index, mark in ((before, left, "cut"), (after, right, "add")):
        style = f' class="{mark}"' if tag != "equal" and index is not None else ""
        number = "" if index is None else str(index + 1)
        cells.append(f'<td class="n">{number}</td><td{style}>{"" if index is None else escape(lines[index])}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _note(finding: Finding) -> str:
    words = ". ".join(part.rstrip(".") for part in (finding.why, finding.todo and f"To do: {finding.todo}") if part)
    tier = finding.tier.value
    return (
        f'<tr class="note"><td></td><td colspan="3"><b class="{tier}">{finding.code} {tier}</b> '
        f"{escape(finding.what)}{': ' if words else ''}{escape(words)}</td></tr>"
    )
