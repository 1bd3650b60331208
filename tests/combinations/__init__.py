"""Training programs put together at random from what real ones do, each translated and run on both sides."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from tests.combinations import control_flow, habits, one_network, project, several
from tests.combinations.drawing import Program
from tests.updates import compiled, verified
from torch2ms import Tier
from torch2ms.config import Config
from torch2ms.pipeline import convert_project
from torch2ms.verify.reporting.report import Report
from torch2ms.verify.runner import Case

FAMILIES = {
    "habits": habits.program,
    "flow": control_flow.program,
    "one": one_network.program,
    "several": several.program,
    "project": project.program,
}


def outcomes(programs: Sequence[Program], workers: int = 2) -> dict[Program, Report | list[str]]:
    """What became of each: its report, or the codes with which it was refused, or the converter's error."""
    found: dict[Program, Report | list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="torch2ms-combinations-") as name:
        cases: dict[Program, Case] = {}
        translated: list[Iterable[str]] = []
        for drawn in programs:
            results = convert_project(drawn.sources, Config())
            refused = [f"error: {r.error}" for r in results.values() if r.error]
            refused += [
                f"{f.code} {f.what}: {f.why}" for r in results.values() for f in r.findings if f.tier is Tier.REFUSED
            ]
            if refused:
                found[drawn] = refused
                continue
            texts = {"torch": drawn.sources, "mindspore": {path: r.text for path, r in results.items()}}
            left, right = (Path(name) / f"{len(cases)}_{side}" for side in texts)
            for folder, side in ((left, "torch"), (right, "mindspore")):
                folder.mkdir()
                for path, text in texts[side].items():
                    (folder / path).write_text(text, encoding="utf-8")
            cases[drawn] = Case(left / "main.py", right / "main.py", explain=False)
            translated.append(texts["mindspore"].values())
        for (drawn, case), asked in zip(cases.items(), compiled(translated), strict=True):
            cases[drawn] = replace(case, compiled=asked)
        found.update(zip(cases, verified(cases.values(), workers), strict=True))
    return {drawn: found[drawn] for drawn in programs}
