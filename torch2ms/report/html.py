"""The report as one HTML page that needs nothing else: side-by-side diffs, hunk by hunk, with the rules behind them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from html import escape

from torch2ms.codes import all_codes, name_of
from torch2ms.findings import Finding, Tier
from torch2ms.hunks import CONTEXT, Opcode, hunks, split_lines
from torch2ms.report import text
from torch2ms.report.page import SCRIPT, STYLE
from torch2ms.run import Outcome

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'"


def render(outcomes: Sequence[Outcome]) -> str:
    """The page."""
    shown = [o for o in outcomes if o.changed or o.error or o.result.findings]
    first, *rest = text.summary(outcomes)
    counts = [line for line in rest if not line.startswith(("refused: ", "error: "))]
    parts = [
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>torch2ms report</title>',
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">',
        f'<meta name="viewport" content="width=device-width"><style>{STYLE}</style></head><body>',
        f"<h1>torch2ms</h1>\n<p>{escape('. '.join([first, *counts]))}.</p>",
        *_filters(shown),
        *_overview(shown),
        *_rules(shown),
        *(part for number, outcome in enumerate(shown) for part in _section(number, outcome)),
        f"<script>{SCRIPT}</script></body></html>",
    ]
    return "\n".join(parts) + "\n"


def _filters(shown: Sequence[Outcome]) -> Iterator[str]:
    """Controls that the script brings to life; without it the page shows everything."""
    codes = Counter(finding.code for outcome in shown for finding in outcome.result.findings)
    yield '<form id="filter" hidden><label>File <select name="file"><option value="">all</option>'
    for number, outcome in enumerate(shown):
        yield f'<option value="f{number}">{escape(outcome.item.shown)}</option>'
    yield '</select></label> <label>Rule <select name="code"><option value="">all</option>'
    for code, count in sorted(codes.items()):
        yield f'<option value="{code}">{code} {escape(name_of(code))} ({count})</option>'
    yield '</select></label> <label>Tier <select name="tier"><option value="">all</option>'
    yield "".join(f'<option value="{tier.value}">{tier.value}</option>' for tier in Tier)
    yield '</select></label> <output name="count"></output></form>'


def _overview(shown: Sequence[Outcome]) -> Iterator[str]:
    yield '<table class="files"><tr><th>file</th><th>exact</th><th>assumed</th><th>refused</th><th></th></tr>'
    for number, outcome in enumerate(shown):
        cells = "".join(f"<td>{outcome.result.count(tier)}</td>" for tier in Tier)
        state = f'<span class="error">{escape(outcome.error)}</span>' if outcome.error else ""
        yield f'<tr><td><a href="#f{number}">{escape(outcome.item.shown)}</a></td>{cells}<td>{state}</td></tr>'
    yield "</table>"


def _rules(shown: Sequence[Outcome]) -> Iterator[str]:
    """What each number on the page means."""
    used = sorted({finding.code for outcome in shown for finding in outcome.result.findings})
    if not used:
        return
    yield '<details class="rules"><summary>The rules behind these hunks</summary><dl>'
    for code in used:
        entry = all_codes().get(code)
        words = [entry.summary, entry.why, entry.by_hand and f"By hand: {entry.by_hand}"] if entry else []
        body = "".join(f"<p>{escape(part)}</p>" for part in words if part)
        yield f'<dt id="{code}"><b>{code}</b> {escape(name_of(code))}</dt><dd>{body}</dd>'
    yield "</dl></details>"


def _section(number: int, outcome: Outcome) -> Iterator[str]:
    yield f'<details open class="file" id="f{number}"><summary>{escape(outcome.item.shown)}</summary>'
    if outcome.error:
        yield f'<p class="error">{escape(outcome.error)}</p>'
    if outcome.result.source:
        yield '<table class="diff"><colgroup><col class="n"><col><col class="n"><col></colgroup>'
        yield from _bodies(outcome)
        yield "</table>"
    yield "</details>"


def _bodies(outcome: Outcome) -> Iterator[str]:
    """One table body for each hunk, and for each place that is told of and does not change, in order."""
    before = split_lines(outcome.result.source)
    after = split_lines(outcome.result.text if outcome.changed else outcome.result.source)
    waiting = text.ordered(outcome.result.findings)
    groups: list[tuple[Sequence[Opcode], list[Finding]]] = []
    for hunk in hunks(outcome) if outcome.changed else []:
        start, stop = hunk.opcodes[0][1], hunk.opcodes[-1][2]
        mine = [finding for finding in waiting if start < finding.line <= stop]
        waiting = [finding for finding in waiting if finding not in mine]
        groups.append((hunk.opcodes, mine))
    changes = [opcode for opcodes, _ in groups for opcode in opcodes if opcode[0] != "equal"]
    for finding in waiting:
        groups.append(([_window(finding.line, len(before), changes)] if finding.line else [], [finding]))
    for opcodes, findings in sorted(groups, key=lambda group: group[0][0][1] if group[0] else -1):
        yield _open(findings)
        yield from _rows(opcodes, before, after, findings)
        yield "</tbody>"


def _window(line: int, total: int, changes: Sequence[Opcode]) -> Opcode:
    """Unchanged lines around a place that is told of."""
    start, stop = max(0, line - CONTEXT), min(total, line + CONTEXT - 1)
    for _, _, changed, _, _ in (c for c in changes if c[2] < line):
        start = max(start, changed)
    for _, changed, _, _, _ in (c for c in changes if c[1] >= line):
        stop = min(stop, changed)
    moved = sum((other_stop - other) - (end - begin) for _, begin, end, other, other_stop in changes if end < line)
    return "equal", start, stop, start + moved, stop + moved


def _open(findings: Sequence[Finding]) -> str:
    codes = " ".join(sorted({finding.code for finding in findings}))
    tiers = " ".join(sorted({finding.tier.value for finding in findings}))
    return f'<tbody class="hunk" data-codes="{codes}" data-tiers="{tiers}">'


def _rows(
    opcodes: Sequence[Opcode], before: Sequence[str], after: Sequence[str], findings: Sequence[Finding]
) -> Iterator[str]:
    told = list(findings)
    yield from (_note(finding) for finding in told if not finding.line)
    for tag, start, stop, other, other_stop in opcodes:
        for offset in range(max(stop - start, other_stop - other)):
            left, right = start + offset, other + offset
            yield _row(tag, before, left if left < stop else None, after, right if right < other_stop else None)
            if left < stop:
                yield from (_note(finding) for finding in told if finding.line == left + 1)


def _row(tag: str, before: Sequence[str], left: int | None, after: Sequence[str], right: int | None) -> str:
    cells = []
    for lines, index, mark in ((before, left, "cut"), (after, right, "add")):
        style = f' class="{mark}"' if tag != "equal" and index is not None else ""
        number = "" if index is None else str(index + 1)
        words = "" if index is None else escape(lines[index].rstrip("\r\n"))
        cells.append(f'<td class="n">{number}</td><td{style}>{words}</td>')
    return f"<tr>{''.join(cells)}</tr>"


def _note(finding: Finding) -> str:
    words = ". ".join(part.rstrip(".") for part in (finding.why, finding.todo and f"To do: {finding.todo}") if part)
    tier, code = finding.tier.value, finding.code
    return (
        f'<tr class="note" data-code="{code}" data-tier="{tier}"><td></td><td colspan="3">'
        f'<a class="{tier}" href="#{code}">{code} {tier}</a> '
        f"{escape(finding.what)}{': ' if words else ''}{escape(words)}</td></tr>"
    )
