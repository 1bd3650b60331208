"""A comparison on its way: two traces, how far they may differ, and the report that grows out of them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from torch2ms.verify.comparison.numbers import FLOAT32, HALF, Judgement, Tolerance, judge
from torch2ms.verify.comparison.reference import Reference, is_rounding
from torch2ms.verify.reporting.report import Problem, Report, Worst
from torch2ms.verify.sides.layers import fit
from torch2ms.verify.trace import Array, Trace


class Comparison:
    """What every part of a comparison reads and writes."""

    def __init__(self, torch: Trace, mindspore: Trace, report: Report, reference: Reference | None = None) -> None:
        self.reference = reference or Reference(torch, None)
        self.torch, self.mindspore, self.report = torch, mindspore, report
        self.tolerance: Tolerance = HALF if torch.meta.get("half") else FLOAT32
        self.stopped = "stopped" in (torch.meta.get("status"), mindspore.meta.get("status"))

    def problem(self, what: str, text: str, step: int = 0) -> None:
        """Record one difference."""
        self.report.problems.append(Problem(what, text, step))

    def note(self, text: str) -> None:
        """Tell something that is no difference."""
        self.report.notes.append(text)

    def check(
        self,
        kind: str,
        name: str,
        left: Array,
        right: Array,
        step: int = 0,
        scale: float = 1.0,
        moved: float = np.inf,
        truth: Array | None = None,
        beside: float = 0.0,
    ) -> Judgement:
        """Judge a pair of tensors, count it, and record a problem if it differs."""
        result = judge(left, right, self.tolerance, scale, moved)
        exact = ""
        truth = self.reference.arrays.get(id(left)) if truth is None else truth
        if truth is not None and truth.shape == right.shape:
            torch, mindspore = self.reference.distances(truth, left, right)
            self.report.measured(kind, torch, mindspore)
            exact = f" (from float64: torch {torch:.1e}, mindspore {mindspore:.1e})"
            if not result.equal and not result.why and is_rounding(torch, mindspore, truth, beside):
                why = f"max abs {result.max_abs:.3g} is accumulated rounding{exact}"
                result = replace(result, equal=True, why=why)
            elif not result.equal and not result.why and judge(truth, right, self.tolerance, scale, moved).equal:
                why = f"max abs {result.max_abs:.3g} is torch's own rounding{exact}"
                result = replace(result, equal=True, why=why)
        self.report.count(kind)
        self.report.saw(kind, Worst(name, result.max_abs, result.max_rel))
        if result.equal and result.why:
            self.note(f"{kind} {name}{f' at step {step}' if step else ''}: {result.why}")
        if not result.equal:
            text = result.why or f"max abs {result.max_abs:.3g}, max rel {result.max_rel:.3g}{exact}"
            self.problem(f"{kind} {name}".strip(), text, step)
        return result

    def arrays(self, left: str, right: str) -> tuple[Array, Array]:
        """Both sides' values, in torch's shape where only axes of length one differ."""
        a, b = self.torch.arrays[left], self.mindspore.arrays[right]
        fitted = fit(b, a.shape)
        return a, b if fitted is None else fitted
