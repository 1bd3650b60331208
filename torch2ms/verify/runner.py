"""`verify`: both sides in child processes, then the comparison."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch2ms.verify.compare import Comparison
from torch2ms.verify.noise import KERNELS, ROUNDING, candidates, confirmed
from torch2ms.verify.numbers import different_lines, printed_numbers
from torch2ms.verify.process import Job, Outcome, run
from torch2ms.verify.report import Problem, Report, cli_table
from torch2ms.verify.trace import Trace

DEVICES = ("CPU", "GPU", "Ascend")
MODES = ("pynative", "graph")
Run = Callable[[Job, Path], Outcome]
Traces = tuple[Trace, Trace]


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
    folder = None if cwd is None else Path(cwd)
    return verify_case(Case(Path(original), Path(translated), argv, steps, device, mode, timeout, folder))


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

    def jobs(self) -> tuple[Job, Job]:
        """What to run on either side."""
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {', '.join(DEVICES)}, not {self.device!r}")
        if self.mode not in MODES:
            raise ValueError(f"mode must be one of {', '.join(MODES)}, not {self.mode!r}")
        left = Job("torch", self.original, self.argv, self.steps, timeout=self.timeout, cwd=self.cwd)
        return left, replace(left, side="mindspore", program=self.translated, device=self.device, mode=self.mode)


def verify_case(case: Case) -> Report:
    """`verify`, with the options in one value."""
    return verify_jobs(*case.jobs(), run)


def verify_jobs(left: Job, right: Job, run: Run) -> Report:
    """Run a pair of jobs with `run` and compare; once more where the difference may be rounding noise."""
    started = time.monotonic()
    report = _report(left, right)
    if report.reason:
        return report
    with tempfile.TemporaryDirectory(prefix="torch2ms-verify-") as name:
        traces = _run_both(report, left, right, run, Path(name), "first")
        if traces is not None:
            Comparison(*traces, report).run()
        if traces is not None and not report.agrees:
            zero, noise = _noise(left, traces, run, Path(name))
            left, right = replace(left, zero=zero), replace(right, zero=zero)
            report, traces = _again(report, left, right, traces, run, Path(name)) if zero else (report, traces)
            report.noise = noise
            report = _before_chaos(report, left, right, traces, run, Path(name))
        if report.printed:
            _judge_printed(report, left, run, Path(name))
    report.seconds = time.monotonic() - started
    return report


def _report(left: Job, right: Job) -> Report:
    report = Report(str(left.program), str(right.program))
    for job in (left, right):
        if not job.program.is_file():
            report.reason = f"{job.side} side: no such file {job.program}"
            break
        report.sources[job.side] = hashlib.sha256(job.program.read_bytes()).hexdigest()
    return report


def _run_both(report: Report, left: Job, right: Job, run: Run, place: Path, label: str) -> tuple[Trace, Trace] | None:
    folder = place / label
    folder.mkdir()
    first = run(left, folder)
    if not ran(report, "torch", first) or first.trace is None:
        return None
    second = run(replace(right, replay=folder / "torch.zip"), folder)
    if not ran(report, "mindspore", second) or second.trace is None:
        return None
    return first.trace, second.trace


def _noise(left: Job, traces: Traces, run: Run, place: Path) -> tuple[tuple[str, ...], list[str]]:
    """The parameters whose gradients are proven to be rounding noise (noise.py), and the proofs as text."""
    suspects = candidates(*traces)
    disturbed = _disturbed(left, ROUNDING, run, place, "disturbed") if suspects else None
    found = confirmed(traces[0], disturbed, suspects) if disturbed else {}
    return tuple(found), list(found.values())


def _again(
    report: Report, left: Job, right: Job, traces: Traces, run: Run, place: Path, label: str = "again"
) -> tuple[Report, Traces]:
    """Both sides once more; what was known stays if one of them does not run."""
    fresh = _report(left, right)
    found = _run_both(fresh, left, right, run, place, label)
    if found is None:
        return report, traces
    return Comparison(*found, fresh).run(), found


def _before_chaos(report: Report, left: Job, right: Job, traces: Traces, run: Run, place: Path) -> Report:
    """Where torch itself loses its numbers to a rounding error in the weights, only the steps before can be compared.

    Long or chaotic training ends there on any pair of machines; the difference then says nothing about the translation.
    """
    first = report.problems[0].step if report.problems else 0
    if first < 2:
        return report
    disturbed = _disturbed(left, KERNELS, run, place, "chaos")
    if disturbed is None:
        return report
    scratch = Comparison(traces[0], disturbed, Report("torch", "torch")).run()
    moved = [p for p in scratch.problems if p.step and p.what.startswith(("loss", "gradient"))]
    lost = min((problem.step for problem in moved), default=first + 1)
    if not 2 <= lost <= first:
        return report
    short = lost - 1
    again, _ = _again(report, replace(left, steps=short), replace(right, steps=short), traces, run, place, "short")
    if not again.agrees:
        return report
    again.noise = report.noise
    again.notes.append(
        f"only the first {short} steps are compared: from step {lost} on a disturbance of {KERNELS:g} in the weights "
        f"moves torch's own numbers beyond the tolerance ({moved[0].what})"
    )
    return again


def _disturbed(left: Job, size: float, run: Run, place: Path, label: str) -> Trace | None:
    folder = place / label
    folder.mkdir()
    return run(replace(left, perturb=size), folder).trace


def _judge_printed(report: Report, left: Job, run: Run, place: Path) -> None:
    """A printed number that differs counts if torch prints it again after a rounding error: times and dates do not."""
    folder = place / "printed"
    folder.mkdir()
    lines = [printed_numbers(report.stdout[side]) for side in ("torch", "mindspore")]
    again = printed_numbers(run(replace(left, perturb=ROUNDING), folder).stdout)
    unstable = set(different_lines(lines[0], again)) if len(again) == len(lines[0]) else set(report.printed)
    for number in report.printed:
        torch, mindspore = (" ".join(numbers[number - 1]) for numbers in lines)
        if number in unstable:
            report.notes.append(f"printed line {number} varies by itself: torch {torch}, mindspore {mindspore}")
        else:
            report.problems.append(Problem(f"printed line {number}", f"torch {torch}, mindspore {mindspore}"))
    if report.problems:
        report.verdict = "differ"


def ran(report: Report, side: str, outcome: Outcome) -> bool:
    """Take a side's output into the report; False, with the reason in it, if the side could not run."""
    report.stdout[side], report.stderr[side] = outcome.stdout, outcome.stderr
    if outcome.problem:
        report.verdict, report.reason = "not run", f"{side} side: {outcome.problem}"
        report.notes += [event["text"] for event in (outcome.trace.of("divergence") if outcome.trace else [])]
    return not outcome.problem


def assert_same_gradients(original: str | Path, translated: str | Path, **options: Any) -> Report:
    """`verify`, for tests: raises AssertionError with the table unless both sides agree."""
    report = verify(original, translated, **options)
    if not report.agrees:
        raise AssertionError(cli_table(report))
    return report
