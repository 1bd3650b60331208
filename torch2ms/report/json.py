"""The report as JSON, in the form of schema.json beside this file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from torch2ms import __version__
from torch2ms.findings import Finding, Tier
from torch2ms.report.text import ordered
from torch2ms.run import Outcome

FORMAT = 1  # counts up when a reader of the old form would misread the new one


def render(outcomes: Sequence[Outcome]) -> str:
    """The whole run as one JSON document."""
    return json.dumps(document(outcomes), indent=2, ensure_ascii=False) + "\n"


def document(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """The document as plain data."""
    looked = [outcome for outcome in outcomes if outcome.item.kind not in ("other", "link")]
    good = [outcome for outcome in outcomes if not outcome.error]
    return {
        "format": FORMAT,
        "tool": {"name": "torch2ms", "version": __version__},
        "total": {
            "files": len(looked),
            "changed": sum(outcome.changed for outcome in outcomes),
            "failed": len(outcomes) - len(good),
            **{tier.value: sum(outcome.result.count(tier) for outcome in good) for tier in Tier},
        },
        "files": [_file(outcome) for outcome in outcomes if outcome in looked or outcome.error],
    }


def _file(outcome: Outcome) -> dict[str, Any]:
    return {
        "path": outcome.item.shown,
        "target": str(outcome.item.target) if outcome.item.target else None,
        "changed": outcome.changed,
        "error": outcome.error or None,
        "findings": [_finding(finding) for finding in ordered(outcome.result.findings)],
    }


def _finding(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "tier": finding.tier.value,
        "line": finding.line or None,
        "what": finding.what,
        "why": finding.why,
        "todo": finding.todo,
    }
