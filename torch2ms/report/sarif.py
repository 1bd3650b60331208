"""The report as SARIF 2.1.0: for code scanning services and editors."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from torch2ms import __version__
from torch2ms.codes import all_codes
from torch2ms.findings import Finding, Tier
from torch2ms.hunks import Opcode, covers, hunks, split_lines
from torch2ms.report.text import ordered
from torch2ms.run import Outcome

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Tier.EXACT: "none", Tier.ASSUMED: "note", Tier.REFUSED: "warning"}


def render(outcomes: Sequence[Outcome]) -> str:
    """One SARIF run; files that failed are notifications of the tool, not results."""
    found = [(o, f) for o in outcomes if not o.error for f in ordered(o.result.findings)]
    failed = [outcome for outcome in outcomes if outcome.error]
    rules = sorted({finding.code for _, finding in found})
    fixes: dict[int, list[Opcode]] = {}
    for outcome in outcomes:
        fixes.update(_attributed(outcome))
    run = {
        "tool": {"driver": {"name": "torch2ms", "version": __version__, "rules": [_rule(code) for code in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not failed, "toolExecutionNotifications": [_failure(o) for o in failed]}
        ],
        "results": [_result(outcome, finding, rules, fixes.get(id(finding), ())) for outcome, finding in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    entry = all_codes().get(code)
    if entry is None:
        return {"id": code}
    by_hand = f"By hand: {entry.by_hand}" if entry.by_hand else ""
    help_text = "\n\n".join(part for part in (entry.why or entry.summary, by_hand) if part)
    examples = [f"{title}:\n\n```python\n{code}\n```" for title, code in
                (("PyTorch", entry.before), ("MindSpore", entry.after)) if code]  # fmt: skip
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in entry.name.split("-")),
        "shortDescription": {"text": entry.summary},
        "fullDescription": {"text": entry.why or entry.summary},
        "help": {"text": help_text, "markdown": "\n\n".join([help_text, *examples])},
        "defaultConfiguration": {"level": "warning" if entry.name.endswith("-refused") else "note"},
    }


def _attributed(outcome: Outcome) -> dict[int, list[Opcode]]:
    """The changes of a file, each with one finding (by id): all of them together are the translation."""
    if outcome.error or not outcome.changed or not outcome.result.findings:
        return {}
    found = ordered(outcome.result.findings)
    fixes: dict[int, list[Opcode]] = {}
    for change in (change for hunk in hunks(outcome) for change in hunk.changes):
        owner = next((finding for finding in found if covers(change, finding.line)), found[0])
        fixes.setdefault(id(owner), []).append(change)
    return fixes


def _fix(outcome: Outcome, changes: Sequence[Opcode]) -> dict[str, Any]:
    before, after = split_lines(outcome.result.source), split_lines(outcome.result.text)
    replacements = [
        {"deletedRegion": _region(before, start, stop), "insertedContent": {"text": "".join(after[other:other_stop])}}
        for _, start, stop, other, other_stop in changes
    ]
    place = _location(outcome, 0)["physicalLocation"]["artifactLocation"]
    words = "A part of the translation: all fixes of this file belong together."
    return {
        "description": {"text": words},
        "artifactChanges": [{"artifactLocation": place, "replacements": replacements}],
    }


def _region(lines: Sequence[str], start: int, stop: int) -> dict[str, int]:
    """Whole lines; behind a last line that has no end, the place where it stops."""

    def at(index: int) -> tuple[int, int]:
        unended = index == len(lines) and lines and not lines[-1].endswith(("\n", "\r"))
        return (index, len(lines[-1]) + 1) if unended else (index + 1, 1)

    (first, column), (last, end) = at(start), at(stop)
    return {"startLine": first, "startColumn": column, "endLine": last, "endColumn": end}


def _result(outcome: Outcome, finding: Finding, rules: Sequence[str], changes: Sequence[Opcode]) -> dict[str, Any]:
    tier = finding.tier
    fixes = {"fixes": [_fix(outcome, changes)]} if changes else {}
    return {
        **fixes,
        "ruleId": finding.code,
        "ruleIndex": rules.index(finding.code),
        "kind": "pass" if tier is Tier.EXACT else "fail",
        "level": LEVELS[tier],
        "message": {"text": _join(finding)},
        "locations": [_location(outcome, finding.line)],
        "properties": {"tier": tier.value},
    }


def _join(finding: Finding) -> str:
    todo = f"To do: {finding.todo}" if finding.todo else ""
    return ". ".join(part.rstrip(".") for part in (f"{finding.what} ({finding.tier.value})", finding.why, todo) if part)


def _failure(outcome: Outcome) -> dict[str, Any]:
    return {"level": "error", "message": {"text": outcome.error}, "locations": [_location(outcome, 0)]}


def _location(outcome: Outcome, line: int) -> dict[str, Any]:
    place: dict[str, Any] = {"artifactLocation": {"uri": quote(_posix(outcome.item.shown))}}
    if line:
        place["region"] = {"startLine": line}
    return {"physicalLocation": place}


def _posix(shown: str) -> str:
    parts: Iterable[str] = PurePath(shown).parts
    return "/".join(part.replace("\\", "/").rstrip("/") if part == PurePath(shown).anchor else part for part in parts)
