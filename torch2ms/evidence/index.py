"""The page of all rules, rules/INDEX.md: target, tier, and what the probes compare."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from torch2ms.api import Rule, Rules
from torch2ms.data import rules_dir
from torch2ms.evidence.matrix import Probe, claim_of, probes_of, wanted
from torch2ms.evidence.probes import read_cases

HEAD = """# The API rules

Written by `torch2ms rules index`; the tables are in [api/](api/), `torch2ms rules verify` runs the probes.

*Tier* is the best that a form of the rule claims: exact, assumed or refused. *Evidence* is what its probes compare on
both frameworks: gradients (and values), values, shapes (of random results), text (of what cannot run everywhere).
"""
TABLE = ("| torch | MindSpore | tier | evidence |", "|---|---|---|---|")
_EVIDENCE = {" ": "gradients", "-": "values", "~": "shapes", "=": "text"}  # strongest first
_TIERS = {"pass": "exact", "assumed": "assumed", "refused": "refused"}


def page() -> str:
    """The whole page."""
    rules = Rules.load()
    evidence = _evidence(probes_of(read_cases(), rules))
    by_file: dict[str, list[Rule]] = defaultdict(list)
    for rule in wanted(rules):
        by_file[rule.source].append(rule)
    lines = [HEAD]
    for source in sorted(by_file):
        lines += [f"\n## {source.removesuffix('.toml')}\n", *TABLE]
        lines += [_line(rule, evidence.get(rule.name, "")) for rule in by_file[source]]
    return "\n".join(lines) + "\n"


def index_path() -> Path:
    """Where the page belongs."""
    return rules_dir() / "INDEX.md"


def _evidence(probes: Iterable[Probe]) -> dict[str, str]:
    """The strongest kind of probe of each rule."""
    strength = list(_EVIDENCE)
    best: dict[str, int] = {}
    for probe in probes:
        mode = "-" if probe.case.mode == " " and not probe.case.grad else probe.case.mode
        for name, _ in probe.taken:
            best[name] = min(best.get(name, len(strength)), strength.index(mode))
    return {name: _EVIDENCE[strength[place]] for name, place in best.items()}


def _line(rule: Rule, evidence: str) -> str:
    tier = _TIERS[claim_of(rule)]
    if tier == "refused":
        target = rule.main.refuse or next((form.refuse for form in rule.forms if form.refuse), "no counterpart")
    elif rule.main.to is not None:
        target = f"`{rule.main.to}`" + (f" and {len(rule.forms) - 1} more" if len(rule.forms) > 1 else "")
    else:
        target = "by its arguments"
    shown = " ".join(target.split()).replace("|", "\\|")
    return f"| `{rule.name}` | {shown} | {tier} | {evidence} |"
