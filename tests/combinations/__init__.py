"""Training programs put together at random from what real ones do, each translated and run on both sides."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.combinations import one_network, several_networks
from tests.combinations.drawing import Program
from torch2ms import Tier, convert_source
from torch2ms.verify.report import Report
from torch2ms.verify.runner import Case
from torch2ms.verify.warm import verify_many

FAMILIES = {"one": one_network.program, "several": several_networks.program}


def outcomes(programs: Sequence[Program], workers: int = 2) -> dict[Program, Report | list[str]]:
    """What became of each: its report, or the codes with which it was refused, or the converter's error."""
    found: dict[Program, Report | list[str]] = {}
    with tempfile.TemporaryDirectory(prefix="torch2ms-combinations-") as name:
        cases: dict[Program, Case] = {}
        for drawn in programs:
            result = convert_source(drawn.text, path="program.py")
            refused = [f"error: {result.error}"] if result.error else []
            refused += [f"{f.code} {f.what}: {f.why}" for f in result.findings if f.tier is Tier.REFUSED]
            if refused:
                found[drawn] = refused
                continue
            left, right = (Path(name) / f"{drawn.seed}_{side}.py" for side in ("torch", "mindspore"))
            left.write_text(drawn.text, encoding="utf-8")
            right.write_text(result.text, encoding="utf-8")
            cases[drawn] = Case(left, right, explain=False)
        found.update(zip(cases, verify_many(list(cases.values()), workers=workers), strict=True))
    return {drawn: found[drawn] for drawn in programs}
