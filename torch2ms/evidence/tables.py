"""Tables of the rules that hold in a way of their own: what probes showed, rule by rule, as a file of `rules/`."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from torch2ms.data import rules_dir
from torch2ms.evidence.matrix import Probe
from torch2ms.evidence.processes import header

Found = Sequence[tuple[Probe, str]]  # every probe, and how both sides differ; "" where they do not


def write(name: str, measure: Callable[[Path], Found], table: Callable[[Found, str], str]) -> None:
    """Measure in an empty folder, tell what differs, and write the table of that name."""
    with tempfile.TemporaryDirectory(prefix=f"torch2ms-{name}-") as folder:
        version = header("mindspore", Path(folder))["version"]
        found = measure(Path(folder))
    for probe, problem in found:
        if problem:
            print(f"{probe.case.place}: {probe.text}: {problem}", file=sys.stderr)
    (rules_dir() / f"{name}.toml").write_text(table(found, version), encoding="utf-8")
    print(f"\n{len(holding(found))} rules hold in {len(found)} probes", file=sys.stderr)


def text(head: Sequence[str], lists: Mapping[str, Sequence[str]]) -> str:
    """The text of a table: what it says above, and lists of rules by name."""
    lines = [f"# {line}" for line in head]
    for key, names in lists.items():
        lines += ["", f"{key} = [", *(f'    "{name}",' for name in names), "]"]
    return "\n".join(lines) + "\n"


def holding(found: Found) -> list[str]:
    """The rules that every probe shows right, but for those where another rule is to blame: the one that fails most."""
    shown: dict[str, list[bool]] = {}
    for probe, problem in found:
        for name in {name for name, _ in probe.taken}:
            shown.setdefault(name, []).append(not problem)
    share = {name: sum(results) / len(results) for name, results in shown.items()}
    wrong: set[str] = set()
    for probe, problem in found:
        names = {name for name, _ in probe.taken}
        if problem and names:
            lowest = min(share[name] for name in names)
            wrong |= {name for name in names if share[name] == lowest}
    return sorted(set(shown) - wrong)


def holding_bare(found: Found, holds: Sequence[str]) -> list[str]:
    """Of the other rules, those that hold where they are called without arguments: `nn.CrossEntropyLoss()`."""
    shown: dict[str, list[bool]] = {}
    for probe, problem in found:
        for name in {name for name, _ in probe.taken} - set(holds):
            layer = name.startswith("torch.nn.") and name.rpartition(".")[2][:1].isupper()
            if layer and f"{name.rpartition('.')[2]}()" in probe.case.text:
                shown.setdefault(name, []).append(not problem)
    return sorted(name for name, results in shown.items() if all(results))
