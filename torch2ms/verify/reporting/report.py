"""The result of a verification: verdict, per-step figures, problems in order, and their texts."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any


@dataclass(frozen=True)
class Worst:
    """The largest difference among several tensors."""

    name: str = ""
    max_abs: float = 0.0
    max_rel: float = 0.0

    def or_worse(self, other: Worst) -> Worst:
        """The worse of two (a NaN is worst)."""
        return other if not self.name or math.isnan(other.max_abs) or other.max_abs > self.max_abs else self


@dataclass
class Step:
    """One optimizer update: the losses since the one before, its gradients, the weights after."""

    index: int
    optimizer: str = ""
    loss_torch: float | None = None
    loss_mindspore: float | None = None
    gradient: Worst = Worst()
    weight: Worst = Worst()


@dataclass(frozen=True)
class Problem:
    """Something that differs. `step` is 1-based, 0 where none applies."""

    what: str
    text: str
    step: int = 0


@dataclass
class Report:
    """What `verify` returns. `verdict` is "agree", "differ" or "not run" ("recorded" where only torch was to run)."""

    original: str
    translated: str
    verdict: str = "not run"
    reason: str = ""
    steps: list[Step] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    located: list[str] = field(default_factory=list)  # the first operation that differs
    noise: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compared: dict[str, int] = field(default_factory=dict)
    uneven: str = ""  # one side printed fewer lines with numbers than the other
    printed: list[int] = field(default_factory=list)  # lines, 1-based among those with numbers, that differ
    asked: list[str] = field(default_factory=list)  # variables the user named as results
    suspected: dict[str, str] = field(default_factory=dict)  # variables that differ, until torch has run again
    worst: dict[str, Worst] = field(default_factory=dict)
    parameters: dict[str, Worst] = field(default_factory=dict)  # the largest difference of each one's gradients
    exact: dict[str, tuple[float, float]] = field(default_factory=dict)  # largest distances from a float64 run
    stdout: dict[str, str] = field(default_factory=dict)
    stderr: dict[str, str] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    mode: str = ""
    also: list[Report] = field(default_factory=list)  # the same in MindSpore's other mode

    @property
    def agrees(self) -> bool:
        """Whether both sides ran and everything compared is equal."""
        return self.exit_code == 0 and self.verdict == "agree"

    @property
    def exit_code(self) -> int:
        """0 agree, 1 differ, 2 a side could not run; the worst of several modes."""
        own = {"agree": 0, "recorded": 0, "differ": 1}.get(self.verdict, 2)
        return max([own, *(report.exit_code for report in self.also)])

    def count(self, what: str, number: int = 1) -> None:
        """Count tensors that were compared."""
        self.compared[what] = self.compared.get(what, 0) + number

    def saw(self, what: str, worst: Worst) -> None:
        """Keep the largest difference of a class of tensors."""
        self.worst[what] = self.worst.get(what, Worst()).or_worse(worst)

    def measured(self, what: str, torch: float, mindspore: float) -> None:
        """Keep how far a class of tensors is from the values of a float64 run."""
        known = self.exact.get(what, (0.0, 0.0))
        self.exact[what] = (max(known[0], torch), max(known[1], mindspore))

    def to_json(self) -> str:
        """Everything, as JSON (NaN and infinities as text)."""
        return json.dumps(_plain({"exit_code": self.exit_code, **asdict(self)}), indent=1)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def cli_table(report: Report, limit: int = 40) -> str:
    """The report as text: a row per step, then what was compared, the verdict and the first divergence."""
    if report.also:
        parts = [replace(report, also=[]), *report.also]
        return "\n\n".join(f"mode {part.mode}\n{cli_table(part, limit)}" for part in parts)
    lines = []
    if report.steps:
        lines.append(f"{'step':>5}  {'loss torch':>13}  {'loss mindspore':>14}  {'gradient':>9}  {'weight':>9}  worst")
        for step in _shown(report.steps, limit):
            if step is None:
                lines.append("  ...")
                continue
            worst = step.weight if step.weight.max_abs > step.gradient.max_abs else step.gradient
            lines.append(
                f"{step.index:>5}  {_number(step.loss_torch):>13}  {_number(step.loss_mindspore):>14}  "
                f"{step.gradient.max_abs:>9.1e}  {step.weight.max_abs:>9.1e}  {worst.name}"
            )
    if report.compared:
        lines.append("compared: " + ", ".join(f"{n} {what}" for what, n in report.compared.items()))
        figures = [f"{what} {w.max_abs:.1e} ({w.name})" for what, w in report.worst.items() if w.name]
        lines.append("largest difference: " + "; ".join(figures))
    if report.exact:
        figures = [f"{what} torch {t:.1e}, mindspore {m:.1e}" for what, (t, m) in report.exact.items()]
        lines.append("distance from float64: " + "; ".join(figures))
    lines += [f"noise: {text}" for text in report.noise]
    lines += [f"note: {text}" for text in report.notes]
    lines.append(verdict_line(report))
    lines += [f"  {_where(p)}{p.what}: {p.text}" for p in report.problems[:8]]
    if len(report.problems) > 8:
        lines.append(f"  ... and {len(report.problems) - 8} more")
    lines += report.located
    return "\n".join(lines)


def verdict_line(report: Report) -> str:
    """One line: the verdict and, if they differ, the first divergence."""
    if report.verdict == "recorded":
        return f"recorded: {report.translated}"
    if report.verdict == "agree":
        return "agree"
    if report.verdict == "not run":
        return f"not run: {report.reason}"
    first = report.problems[0]
    return f"differ: first at {_where(first)}{first.what}"


def _shown(steps: list[Step], limit: int) -> list[Step | None]:
    if len(steps) <= limit:
        return list(steps)
    half = limit // 2
    return [*steps[:half], None, *steps[-half:]]


def _where(problem: Problem) -> str:
    return f"step {problem.step}, " if problem.step else ""


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.6g}"
