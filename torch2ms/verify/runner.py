"""`verify`: both sides in child processes, then the comparison."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from torch2ms.verify.compare import Comparison
from torch2ms.verify.process import Job, Outcome, run
from torch2ms.verify.report import Report, cli_table

DEVICES = ("CPU", "GPU", "Ascend")
MODES = ("pynative", "graph")


def verify(
    original: str | Path,
    translated: str | Path,
    *,
    argv: Sequence[str] = (),
    steps: int | None = None,
    device: str = "CPU",
    mode: str = "pynative",
    timeout: float = 300.0,
    cwd: str | Path | None = None,
) -> Report:
    """Run the torch program and its translation and compare them, step by step.

    Both get the same arguments, environment and working directory. `steps` ends both after that many optimizer
    updates; `timeout` is in seconds and per side. Never raises for what the programs do.
    """
    if device not in DEVICES:
        raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {device!r}")
    if mode not in MODES:
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    started = time.monotonic()
    folder = None if cwd is None else Path(cwd)
    report = Report(str(original), str(translated))
    for side, path in (("torch", Path(original)), ("mindspore", Path(translated))):
        if not path.is_file():
            report.reason = f"{side} side: no such file {path}"
            return report
        report.sources[side] = hashlib.sha256(path.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory(prefix="torch2ms-verify-") as name:
        place = Path(name)
        left = run(Job("torch", Path(original), argv, steps, timeout=timeout, cwd=folder), place)
        if _ran(report, "torch", left):
            job = Job("mindspore", Path(translated), argv, steps, device, mode, timeout, folder, place / "torch.zip")
            right = run(job, place)
            if _ran(report, "mindspore", right) and left.trace and right.trace:
                Comparison(left.trace, right.trace, report).run()
    report.seconds = time.monotonic() - started
    return report


def _ran(report: Report, side: str, outcome: Outcome) -> bool:
    report.stdout[side], report.stderr[side] = outcome.stdout, outcome.stderr
    if outcome.problem:
        report.verdict, report.reason = "not run", f"{side} side: {outcome.problem}"
    return not outcome.problem


def assert_same_gradients(original: str | Path, translated: str | Path, **options: object) -> Report:
    """`verify`, for tests: raises AssertionError with the table unless both sides agree."""
    report = verify(original, translated, **options)  # type: ignore[arg-type]
    if not report.agrees:
        raise AssertionError(cli_table(report))
    return report
