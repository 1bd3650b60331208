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
from torch2ms.report.text import ordered
from torch2ms.run import Outcome

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {Tier.EXACT: "none", Tier.ASSUMED: "note", Tier.REFUSED: "warning"}


def render(outcomes: Sequence[Outcome]) -> str:
    """One SARIF run; files that failed are notifications of the tool, not results."""
    found = [(o, f) for o in outcomes if not o.error for f in ordered(o.result.findings)]
    failed = [outcome for outcome in outcomes if outcome.error]
    rules = sorted({finding.code for _, finding in found})
    run = {
        "tool": {"driver": {"name": "torch2ms", "version": __version__, "rules": [_rule(code) for code in rules]}},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {"executionSuccessful": not failed, "toolExecutionNotifications": [_failure(o) for o in failed]}
        ],
        "results": [_result(outcome, finding, rules) for outcome, finding in found],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2, ensure_ascii=False) + "\n"


def _rule(code: str) -> dict[str, Any]:
    entry = all_codes().get(code)
    if entry is None:
        return {"id": code}
    help_text = "\n\n".join(part for part in (entry.why, entry.by_hand) if part)
    return {
        "id": code,
        "name": "".join(part.capitalize() for part in entry.name.split("-")),
        "shortDescription": {"text": entry.summary},
        "fullDescription": {"text": entry.why},
        "help": {"text": help_text},
    }


def _result(outcome: Outcome, finding: Finding, rules: Sequence[str]) -> dict[str, Any]:
    tier = finding.tier
    return {
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
