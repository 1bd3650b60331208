"""What the probes say about every rule: the matrix that `torch2ms rules verify` prints."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from typing import Any

from torch2ms.api.rules import Rule, Rules
from torch2ms.evidence.probes import Case
from torch2ms.evidence.snippets import translated
from torch2ms.findings import Tier

SAME, DIFFERS, SHAPES, TEXT, NOTHING = "same", "differs", "shapes", "text", "-"
HOLDS, FAILS, UNPROBED, OPEN, REFUSED = "holds", "FAILS", "NO PROBE", "assumed", "refused"
_STRENGTH = (NOTHING, TEXT, SHAPES, SAME)  # a differing probe outweighs all of them


@dataclass(frozen=True)
class Probe:
    """A case, its translation, and the forms of rules it takes."""

    case: Case
    text: str
    taken: frozenset[tuple[str, int | None]]  # (name of the rule, place of the form)


@dataclass(frozen=True)
class Measured:
    """What running a probe showed; `problem` says how the sides differ."""

    forward: str
    gradient: str
    problem: str = ""


@dataclass
class Row:
    """One rule: how many of its forms the probes take, what they showed, what the rule claims, the verdict."""

    rule: str
    source: str
    claim: str
    forms: int
    probed: int = 0
    probes: int = 0
    forward: str = NOTHING
    gradient: str = NOTHING
    verdict: str = ""
    problems: list[str] = field(default_factory=list)

    @property
    def fatal(self) -> bool:
        """True where the rule claims what was not shown."""
        return self.verdict in (FAILS, UNPROBED)

    def document(self) -> dict[str, Any]:
        """The row for JSON."""
        return asdict(self)


def probes_of(cases: Iterable[Case], rules: Rules) -> list[Probe]:
    """The cases that translate, with the rules they take."""
    probes = []
    for case in cases:
        if case.mode == "!":
            continue
        translator = translated(case.text, rules)
        if any(finding.tier is Tier.REFUSED for finding in translator.findings):
            continue  # the tests of the cases tell about those
        probes.append(Probe(case, translator.text, frozenset(translator.taken)))
    return probes


def wanted(rules: Rules, pattern: str = "*") -> list[Rule]:
    """The rules with a name that fits, each once, in the order of their names."""
    by_name = {rule.name: rule for name, rule in rules.table.items() if fnmatch(name, pattern) or pattern in name}
    return [by_name[name] for name in sorted(by_name)]


def matrix(rules: Sequence[Rule], measured: Sequence[tuple[Probe, Measured]]) -> list[Row]:
    """The rows for these rules."""
    blamed = _blamed(measured)
    by_rule: dict[str, list[tuple[Probe, Measured]]] = defaultdict(list)
    for probe, found in measured:
        for name in {name for name, _ in probe.taken}:
            by_rule[name].append((probe, found))
    return [_row(rule, by_rule[rule.name], blamed.get(rule.name, [])) for rule in rules]


def _blamed(measured: Sequence[tuple[Probe, Measured]]) -> dict[str, list[str]]:
    """The rules that a failing probe speaks against: those that no other probe shows right, else all it takes."""
    right = {use for probe, found in measured if not found.problem for use in probe.taken}
    blamed: dict[str, list[str]] = defaultdict(list)
    for probe, found in measured:
        if found.problem:
            text = f"{probe.case.place}: {probe.case.text}: {found.problem}"
            for name in {name for name, _ in (probe.taken - right or probe.taken)}:
                blamed[name].append(text)
    return blamed


def _row(rule: Rule, found: list[tuple[Probe, Measured]], problems: list[str]) -> Row:
    claimed = [i for i, form in enumerate(rule.forms) if form.tier is not Tier.REFUSED]
    taken = {place for probe, _ in found for name, place in probe.taken if name == rule.name and place in claimed}
    row = Row(rule.name, rule.source, claim_of(rule), len(claimed), len(taken), len(found), problems=problems)
    sound = [one for _, one in found if not one.problem]
    row.forward = max((one.forward for one in sound), key=_STRENGTH.index, default=NOTHING)
    row.gradient = max((one.gradient for one in sound), key=_STRENGTH.index, default=NOTHING)
    for field_name in ("forward", "gradient"):
        if problems and any(getattr(one, field_name) == DIFFERS for _, one in found):
            setattr(row, field_name, DIFFERS)
    row.verdict = _verdict(row)
    return row


def claim_of(rule: Rule) -> str:
    """pass, assumed or refused: the best that one of the rule's forms claims."""
    tiers = {form.tier for form in rule.forms}
    if rule.hopeless or tiers == {Tier.REFUSED} and rule.choose is None:
        return REFUSED
    return "pass" if Tier.EXACT in tiers else OPEN


def _verdict(row: Row) -> str:
    if row.claim == REFUSED:
        return REFUSED
    if row.claim == OPEN:
        return OPEN if not row.problems else "assumed, differs"
    return FAILS if row.problems else HOLDS if row.probes else UNPROBED
