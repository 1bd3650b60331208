"""The probes of the API rules: one torch snippet per line of a text file."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from torch2ms.data import rules_dir
from torch2ms.evidence.sides import FLOATS


@dataclass(frozen=True)
class Case:
    """One line of a probe file: `text`, `text => expected text`, `! refused`, `~ random: shapes only`, `= not run`,
    `- values only` (torch has no gradient there)."""

    file: str
    line: int
    mode: str
    text: str
    expected: str | None

    @property
    def grad(self) -> list[str]:
        """The inputs by which the probe is differentiated."""
        if self.mode != " ":
            return []
        used = re.findall(r"\b[a-z]\w*\b", self.text)
        return [name for name in FLOATS if name in used]

    @property
    def place(self) -> str:
        """Where the probe stands, for messages."""
        return f"{self.file}.txt:{self.line}"


def probes_dir() -> Path:
    """The folder of the probe files: package data of a wheel, else the tests of the checkout."""
    packaged = rules_dir() / "probes"
    return packaged if packaged.is_dir() else rules_dir().parent / "tests" / "api" / "cases"


def read_cases() -> list[Case]:
    """All probes."""
    cases = []
    for path in sorted(probes_dir().glob("*.txt")):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            for one in expanded(line):
                cases.append(case_of(path.stem, number, one))
    return cases


def expanded(line: str) -> list[str]:
    """`torch.<abs|neg>(x)` is two lines."""
    match = re.search(r"<(\w+(?:\|\w+)+)>", line)
    if match is None:
        return [line]
    return [more for name in match[1].split("|") for more in expanded(line.replace(match[0], name))]


def case_of(file: str, number: int, line: str) -> Case:
    """One expanded line."""
    mode = line[0] if line[:2] in ("! ", "~ ", "= ", "- ") else " "
    text, _, expected = (line[2:] if mode != " " else line).partition(" => ")
    return Case(file, number, mode, text.strip(), expected.strip() or None)
