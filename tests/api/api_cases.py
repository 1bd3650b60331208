"""The case files, and running both sides of their lines."""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from api_sides import FLOATS

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Case:
    """One line of a case file: `text`, `text => expected text`, `! refused`, `~ random: shapes only`, `= not run`,
    `- values only` (torch has no gradient there)."""

    file: str
    line: int
    mode: str
    text: str
    expected: str | None

    @property
    def grad(self) -> list[str]:
        used = re.findall(r"\b[a-z]\w*\b", self.text)
        return [name for name in FLOATS if name in used]


def read_cases() -> list[Case]:
    """All cases of cases/*.txt."""
    cases = []
    for path in sorted((HERE / "cases").glob("*.txt")):
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


def both_sides(texts: list[tuple[str, str, list[str]]], folder: Path) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Run (torch text, MindSpore text, inputs to differentiate) on both frameworks."""
    env = {**os.environ, "OMP_NUM_THREADS": "1", "GLOG_v": "3",
           "PYTHONPATH": os.pathsep.join(sys.path)}

    def child(side: str, jobs: Any) -> list[dict[str, Any]]:
        source, target = folder / f"{side}.jobs", folder / f"{side}.results"
        source.write_bytes(pickle.dumps(jobs))
        run = subprocess.run([sys.executable, str(HERE / "api_sides.py"), side, str(source), str(target)], env=env,
                             cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0, run.stderr[-2000:]
        return pickle.loads(target.read_bytes())  # type: ignore[no-any-return]

    left = child("torch", [{"text": text, "grad": grad} for text, _, grad in texts])
    jobs = [{"text": text, "grad": grad} for _, text, grad in texts]
    right = child("mindspore", (jobs, [result.get("counted", []) for result in left]))
    return list(zip(left, right, strict=True))


CASES = read_cases()
