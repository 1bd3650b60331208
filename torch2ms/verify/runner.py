"""`verify`: both sides in child processes, then the comparison."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch2ms.config import HARDWARE
from torch2ms.verify.reporting.report import Report, cli_table
from torch2ms.verify.sides.process import Job, run
from torch2ms.verify.verification import Run, Verification

TORCH_DEVICES = ("cpu", "cuda", "npu")
MODES = ("pynative", "graph", "both")


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
    float64: bool = False,
    results: Sequence[str] = (),
    torch_device: str = "cpu",
) -> Report:
    """Run the torch program and its translation and compare them, step by step.

    Both get the same arguments, environment and working directory. `steps` ends both after that many optimizer
    updates; `timeout` is in seconds and per side. `float64` measures both sides against a run of torch in double
    precision also if they agree. `results` names variables of the programs' top level that must be equal at the end.
    Never raises for what the programs do.
    """
    folder = None if cwd is None else Path(cwd)
    paths = Path(original), Path(translated)
    return verify_case(Case(*paths, argv, steps, device, mode, timeout, folder, float64, results, torch_device))


@dataclass(frozen=True)
class Case:
    """One program, its translation and the options of `verify`."""

    original: Path
    translated: Path
    argv: Sequence[str] = ()
    steps: int | None = None
    device: str = "CPU"
    mode: str = "pynative"
    timeout: float = 300.0
    cwd: Path | None = None
    float64: bool = False
    results: Sequence[str] = ()
    torch_device: str = "cpu"
    explain: bool = True  # name the first operation that differs
    compiled: bool = True  # the updates of optimizers, as everywhere but where programs run by the hundred

    def jobs(self) -> tuple[Job, Job]:
        """What to run on either side."""
        if self.device not in HARDWARE:
            raise ValueError(f"device must be one of {', '.join(HARDWARE)}, not {self.device!r}")
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        if self.torch_device not in TORCH_DEVICES:
            raise ValueError(f"torch's device must be one of {', '.join(TORCH_DEVICES)}, not {self.torch_device!r}")
        left = Job("torch", self.original, self.argv, self.steps, timeout=self.timeout, cwd=self.cwd)
        left = replace(left, torch_device=self.torch_device)
        right = replace(left, side="mindspore", program=self.translated, device=self.device, mode=self.mode)
        return left, replace(right, compiled=self.compiled)


def verify_case(case: Case, run: Run = run) -> Report:
    """`verify`, with the options in one value; `run` starts the processes."""
    if case.mode == "both":
        report = verify_case(replace(case, mode="pynative"), run)
        report.also = [verify_case(replace(case, mode="graph"), run)]
        report.seconds += report.also[0].seconds
        return report
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="torch2ms-verify-") as name:
        report = Verification(*case.jobs(), run, Path(name), case.results).complete(case.float64, case.explain)
    report.mode = case.mode
    report.seconds = time.monotonic() - started
    return report


def assert_same_gradients(original: str | Path, translated: str | Path, **options: Any) -> Report:
    """`verify`, for tests: raises AssertionError with the table unless both sides agree."""
    report = verify(original, translated, **options)
    if not report.agrees:
        raise AssertionError(cli_table(report))
    return report
