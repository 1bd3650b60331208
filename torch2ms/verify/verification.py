"""One verification: both sides, the comparison, and the runs that tell what a difference means."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from torch2ms.verify.comparison.compare import compare
from torch2ms.verify.comparison.locate import locate
from torch2ms.verify.comparison.noise import KERNELS, ROUNDING, candidates, confirmed
from torch2ms.verify.comparison.numbers import FLOAT32, aligned, different_lines, printed_numbers, writes_by_itself
from torch2ms.verify.comparison.reference import Reference
from torch2ms.verify.reporting.report import Problem, Report
from torch2ms.verify.sides.process import Job, Outcome
from torch2ms.verify.trace import Trace

ELSEWHERE = {"weights", "random draws", "nothing to compare", "gradients", "optimizer steps", "precision"}
PROOF = {"gradient", "weight", "result"}
Run = Callable[[Job, Path], Outcome]
Traces = tuple[Trace, Trace]


class Verification:
    """The jobs of both sides as they stand, the traces they gave, and the report so far."""

    def __init__(self, left: Job, right: Job, run: Run, place: Path, results: Sequence[str] = ()) -> None:
        self.left, self.right, self.run, self.place = left, right, run, place
        self.folders = 0
        self.traces: Traces | None = None
        self.report = start_report(left, right)
        self.report.asked = list(results)

    def complete(self, float64: bool = False, explain: bool = True) -> Report:
        """Everything, in the order in which one explanation of a difference excludes the next."""
        if self.report.reason:
            return self.report
        self.traces = self._both(self.report, self.left, self.right)
        if self.traces is None:
            return self.report
        compare(*self.traces, self.report)
        if not self.report.agrees:
            self._without_noise()
            self._before_chaos()
        if float64 or not self.report.agrees:
            self._against_float64()
        if not self.report.agrees:
            self._with_fine_kernels()
        if self.report.agrees:
            self._judge_suspects()
        if explain and not self.report.agrees:
            self._locate()
        return self.report

    def _folder(self) -> Path:
        self.folders += 1
        folder = self.place / f"run{self.folders}"
        folder.mkdir()
        return folder

    def _both(self, report: Report, left: Job, right: Job) -> Traces | None:
        folder = self._folder()
        first = self.run(left, folder)
        if not ran(report, "torch", first) or first.trace is None:
            return None
        second = self.run(replace(right, replay=folder / "torch.zip"), folder)
        if not ran(report, "mindspore", second) or second.trace is None:
            return None
        return first.trace, second.trace

    def _torch(self, **changes: float) -> Outcome:
        """Torch's side once more, with something changed."""
        return self.run(replace(self.left, **changes), self._folder())  # type: ignore[arg-type]

    def _without_noise(self) -> None:
        """Both sides again, with gradients that are proven to be rounding noise (noise.py) held at zero."""
        assert self.traces is not None
        suspects = candidates(*self.traces)
        disturbed = self._torch(perturb=ROUNDING).trace if suspects else None
        found = confirmed(self.traces[0], disturbed, suspects) if disturbed else {}
        if not found:
            return
        zero = {key: noise.level for key, noise in found.items()}
        self.left, self.right = replace(self.left, zero=zero), replace(self.right, zero=zero)
        self._again(self.left, self.right)
        self.report.noise = [noise.text for noise in found.values()]

    def _again(self, left: Job, right: Job) -> bool:
        """Both sides once more; what was known stays if one of them does not run."""
        fresh = start_report(left, right)
        fresh.asked = self.report.asked
        traces = self._both(fresh, left, right)
        if traces is None:
            return False
        self.report, self.traces = compare(*traces, fresh), traces
        return True

    def _before_chaos(self) -> None:
        """Where torch itself loses its numbers to a rounding error, only the steps before can be compared.

        Long or chaotic training ends there on any pair of machines; the difference then says nothing about the
        translation.
        """
        first = self.report.problems[0].step if self.report.problems else 0
        if first < 2 or self.traces is None:
            return
        disturbed = self._torch(perturb=KERNELS).trace
        if disturbed is None:
            return
        scratch = compare(self.traces[0], disturbed, Report("torch", "torch"))
        moved = [p for p in scratch.problems if p.step and p.what.startswith(("loss", "gradient"))]
        lost = min((problem.step for problem in moved), default=first + 1)
        if not 2 <= lost <= first:
            return
        before, traces, short = self.report, self.traces, lost - 1
        if not self._again(replace(self.left, steps=short), replace(self.right, steps=short)) or self.report.problems:
            self.report, self.traces = before, traces
            return
        self.left, self.right = replace(self.left, steps=short), replace(self.right, steps=short)
        self.report.noise = before.noise
        self.report.notes.append(
            f"only the first {short} steps are compared: from step {lost} on a disturbance of its operators "
            f"by {KERNELS:g} moves torch's own numbers beyond the tolerance ({moved[0].what})"
        )

    def _judge_suspects(self) -> None:
        """What differs in print or in a variable counts if torch gives it again after a rounding error.

        Times, dates and addresses do not.
        """
        report, traces = self.report, self.traces
        if traces is None or not (report.printed or report.suspected or report.uneven):
            return
        again = self._torch(perturb=ROUNDING)
        left, right = (printed_numbers(report.stdout[side]) for side in ("torch", "mindspore"))
        lines = [left, aligned(left, right)]
        second = printed_numbers(again.stdout)
        if report.uneven and (self.left.steps or any(map(writes_by_itself, report.stdout.values()))):
            report.notes.append(report.uneven)
        elif report.uneven:
            self._judge("printed lines", report.uneven, unstable=len(second) != len(left))
        unstable = set(different_lines(lines[0], second)) if len(second) == len(lines[0]) else set(report.printed)
        for number in report.printed:
            torch, mindspore = (" ".join(numbers[number - 1]) for numbers in lines)
            self._judge(f"printed line {number}", f"torch {torch}, mindspore {mindspore}", number in unstable)
        scratch = Report("torch", "torch")
        if again.trace is not None:
            compare(traces[0], again.trace, scratch)
        proven = bool(PROOF & report.compared.keys())
        for name, text in report.suspected.items():
            if again.trace is None or name in scratch.suspected:
                self._judge(f"variable {name}", text, unstable=True)
            elif proven and name not in report.asked:
                report.notes.append(f"variable {name} differs at the end: {text} (--result {name} makes that count)")
            else:
                self._judge(f"variable {name}", text, unstable=False)

    def _judge(self, what: str, text: str, unstable: bool) -> None:
        if unstable:
            self.report.notes.append(f"{what} varies by itself: {text}")
        else:
            self.report.problems.append(Problem(what, text))
            self.report.verdict = "differ"

    def _against_float64(self) -> None:
        """Measure both sides against torch in double precision; rounding that torch itself has is no difference."""
        if self.traces is None or self.traces[0].meta.get("half"):
            return
        double = self._torch(double=True)
        reference = Reference(self.traces[0], double.trace)
        if not reference.arrays:
            self.report.notes.append("no float64 run to compare with: " + (double.problem or "it takes another course"))
            return
        fresh = Report(self.report.original, self.report.translated)
        fresh.asked = self.report.asked
        fresh.stdout, fresh.stderr, fresh.sources = self.report.stdout, self.report.stderr, self.report.sources
        compare(*self.traces, fresh, reference)
        fresh.noise = self.report.noise
        fresh.notes += [note for note in self.report.notes if note not in fresh.notes]
        self.report = fresh

    def _with_fine_kernels(self) -> None:
        """Whether the difference is what MindSpore's kernels of elementary functions lose on this device (fine.py)."""
        if self.traces is None or self.right.mode == "graph" or self.report.problems[0].what in ELSEWHERE:
            return
        before, traces, job = self.report, self.traces, self.right
        self.right = replace(job, fine=True)
        if self._again(self.left, self.right) and not self.report.agrees:
            self._against_float64()
        refined = self.traces[1].meta.get("refined", [])
        if not (self.report.agrees and refined):
            self.report, self.traces, self.right = before, traces, job
            return
        first, names = before.problems[0], ", ".join(refined)
        self.report.noise = before.noise
        self.report.notes += [note for note in before.notes if note not in self.report.notes]
        self.report.notes.append(
            f"rounding of MindSpore's kernels on this device: agrees with {names} computed in float64; with its own "
            f"kernels first apart at {f'step {first.step}, ' if first.step else ''}{first.what}: {first.text}"
        )

    def _locate(self) -> None:
        """Name the first statement that differs, in a run that records them."""
        first = self.report.problems[0]
        if self.right.mode == "graph" or first.what in ELSEWHERE or first.text.startswith("is updated by"):
            return
        if first.what.startswith("weight "):
            self.report.located = ["the gradients agree up to here: the update differs (the optimizer's arguments)"]
            return
        folder = self._folder()
        steps = first.step or None
        left = self.run(replace(self.left, locate=first.step, steps=steps), folder).trace
        if left is None:
            return
        job = replace(self.right, locate=first.step, steps=steps, replay=folder / "torch.zip")
        right = self.run(job, folder).trace
        if right is not None:
            self.report.located = locate(left, right, FLOAT32)


def start_report(left: Job, right: Job) -> Report:
    """An empty report that names both programs; with a reason if one is not there."""
    report = Report(str(left.program), str(right.program))
    for job in (left, right):
        if not job.program.is_file():
            report.reason = f"{job.side} side: no such file {job.program}"
            break
        report.sources[job.side] = hashlib.sha256(job.program.read_bytes()).hexdigest()
    return report


def ran(report: Report, side: str, outcome: Outcome) -> bool:
    """Take a side's output into the report; False, with the reason in it, if the side could not run."""
    report.stdout[side], report.stderr[side] = outcome.stdout, outcome.stderr
    if outcome.problem:
        report.verdict, report.reason = "not run", f"{side} side: {outcome.problem}"
        report.notes += [event["text"] for event in (outcome.trace.of("divergence") if outcome.trace else [])]
    return not outcome.problem
