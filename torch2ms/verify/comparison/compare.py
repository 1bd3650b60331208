"""Compare the traces of both sides: losses, gradients, weights, buffers, RESULT and what was printed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from torch2ms.verify.comparison.held import compare_held
from torch2ms.verify.comparison.numbers import (
    FLOAT32,
    HALF,
    Judgement,
    Tolerance,
    aligned,
    different_lines,
    judge,
    largest,
    printed_numbers,
)
from torch2ms.verify.comparison.reference import Reference, is_rounding
from torch2ms.verify.comparison.roots import compare_roots
from torch2ms.verify.comparison.variables import compare_result, compare_variables
from torch2ms.verify.reporting.report import Problem, Report, Step, Worst
from torch2ms.verify.sides.layers import fit
from torch2ms.verify.trace import Array, Trace

Entry = dict[str, Any]


class Comparison:
    """Two traces and the report that grows out of them."""

    def __init__(self, torch: Trace, mindspore: Trace, report: Report, reference: Reference | None = None) -> None:
        self.reference = reference or Reference(torch, None)
        self.torch, self.mindspore, self.report = torch, mindspore, report
        self.tolerance: Tolerance = HALF if torch.meta.get("half") else FLOAT32
        self.stopped = "stopped" in (torch.meta.get("status"), mindspore.meta.get("status"))

    def run(self) -> Report:
        """Compare everything that can be and set the verdict."""
        self._streams()
        steps = self._pair_steps()
        compare_roots(self, steps)
        for number, (left, right) in enumerate(steps, 1):
            self._step(number, left, right)
        compare_held(self, steps)
        if not self.stopped:
            compare_result(self)
            compare_variables(self)
        self._printed()
        self._precision()
        self._verdict()
        return self.report

    def problem(self, what: str, text: str, step: int = 0) -> None:
        """Record one difference."""
        self.report.problems.append(Problem(what, text, step))

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
            self.report.notes.append(f"{kind} {name}{f' at step {step}' if step else ''}: {result.why}")
        if not result.equal:
            text = result.why or f"max abs {result.max_abs:.3g}, max rel {result.max_rel:.3g}{exact}"
            self.problem(f"{kind} {name}".strip(), text, step)
        return result

    # -- streams ----------------------------------------------------------------------------------------------------

    def _streams(self) -> None:
        for event in self.mindspore.of("divergence"):
            self.problem("random draws", event["text"])
        draws = self.mindspore.meta.get("draws", {})
        if draws.get("reordered"):
            self.report.notes.append(f"{draws['reordered']} random draws were made in another order")
        if draws.get("used"):
            self.report.notes.append(f"{draws['used']} random draws replayed")
        if self.mindspore.meta.get("unused") and not self.stopped:
            compiled = (
                " (graph mode: what compiled code draws is out of reach)" if self.mindspore.meta.get("graph") else ""
            )
            self.problem("random draws", self.mindspore.meta["unused"] + compiled)
        for event in self.mindspore.of("unmatched"):
            if event.get("constant"):
                self.report.notes.append(event["text"])
            else:
                self.problem("weights", event["text"])
        without = set(self.mindspore.meta.get("without_cell", []))
        for layer in self.torch.of("layer"):
            if layer["id"] in without:
                shapes = ", ".join(f"{p['name']} {self.torch.arrays[p['value']].shape}" for p in layer["parameters"])
                text = f"torch's nn.{layer['torch']} ({shapes}) has no MindSpore layer"
                if self._constant(layer):
                    self.report.notes.append(text)
                else:
                    self.problem("weights", text)
        if self.torch.meta.get("sampled"):
            self.report.notes.append(
                "of tensors with more than 262,144 values about 65,536 evenly spaced ones are compared"
            )
        asked = self.torch.meta.get("torch_device", "cpu")
        if asked not in ("cpu", self.torch.meta.get("device", "cpu")):
            self.report.notes.append(f"torch: {asked} was asked for, the program trained on the CPU")
        for trace in (self.torch, self.mindspore):
            self.report.notes += [f"{trace.meta['side']}: {note}" for note in trace.meta.get("notes", [])]

    def _constant(self, layer: Entry) -> bool:
        return all(np.ptp(self.torch.arrays[p["value"]]) == 0 for p in layer["parameters"])

    # -- steps ------------------------------------------------------------------------------------------------------

    def _pair_steps(self) -> list[tuple[Entry, Entry]]:
        left, right = self.torch.of("step"), self.mindspore.of("step")
        if len(left) > len(right):  # without gradients PyTorch's step does nothing
            left = [step for step in left if any(entry["gradient"] for entry in step["parameters"])]
        if left and not right:
            self.report.notes.append(f"{len(left)} torch optimizer steps, none seen in mindspore: final weights only")
        elif right and not left:
            self.report.notes.append(f"{len(right)} mindspore optimizer steps, none in torch: final weights only")
        elif len(left) != len(right):
            self.problem("optimizer steps", f"torch took {len(left)}, mindspore {len(right)}")
        if _order(left) != _order(right) and len(left) == len(right):
            self.report.notes.append("the optimizers are stepped in another order")
            left, right = _by_optimizer(left), _by_optimizer(right)
        pairs = list(zip(left, right, strict=False))
        for which, library in enumerate(("NumPy", "Python's random")):
            begun = self.torch.meta["streams"][which]
            drawn = any(a["streams"][which] != begun for a, _ in pairs)  # by the program; MindSpore's layers draw too
            parted = (i for i, (a, b) in enumerate(pairs, 1) if a["streams"][which] != b["streams"][which])
            if drawn and (step := next(parted, 0)):
                text = f"{library}: the sides have not drawn equally often from step {step} on"
                self.report.notes.append(text)
        self.report.steps = [Step(i + 1, a["type"]) for i, (a, _) in enumerate(pairs)]
        return pairs

    def _step(self, number: int, left: Entry, right: Entry) -> None:
        row = self.report.steps[number - 1]
        given, owned = right.get("given"), len(right["parameters"])
        if given not in (None, owned):
            self.problem("gradients", f"mindspore's optimizer got {given} gradients for {owned} parameters", number)
        pairs, lonely, extra = pair_parameters(left["parameters"], right["parameters"], self.torch, self.mindspore)
        gradients = [self.torch.arrays[a["gradient"]] for a, _ in pairs if a["gradient"]]
        beside = max((largest(g) for g in gradients), default=1.0)
        for a, b in pairs:
            name = a["name"] or b["name"] or a["uid"] or "?"
            self._gradient(row, name, a, b, number, beside)
            after_a, after_b = self.arrays(a["after"], b["after"])
            moved = largest(after_a - self.torch.arrays[a["start"]])
            result = self.check("weight", name, after_a, after_b, number, moved=moved)
            row.weight = row.weight.or_worse(Worst(name, result.max_abs, result.max_rel))
        for a in lonely:
            if a["gradient"] is not None and largest(self.torch.arrays[a["gradient"]]) > 0:
                self.problem(f"weight {a['name'] or a['uid']}", "is updated by torch's optimizer only", number)
        for b in extra:
            if b["gradient"] is not None and largest(self.mindspore.arrays[b["gradient"]]) > 0:
                self.problem(f"weight {b['name']}", "is updated by mindspore's optimizer only", number)

    def _gradient(self, row: Step, name: str, a: Entry, b: Entry, number: int, beside: float) -> None:
        if a["gradient"] is None or b["gradient"] is None:
            return  # torch skipped this parameter; its value after the step is compared all the same
        left, right = self.arrays(a["gradient"], b["gradient"])
        result = self.check("gradient", name, left, right, number, min(1.0, beside), beside=beside)
        worst = Worst(name, result.max_abs, result.max_rel)
        self.report.parameters[name] = self.report.parameters.get(name, Worst()).or_worse(worst)
        row.gradient = row.gradient.or_worse(Worst(name, result.max_abs, result.max_rel))

    def arrays(self, left: str, right: str) -> tuple[Array, Array]:
        """Both sides' values, in torch's shape where only axes of length one differ."""
        a, b = self.torch.arrays[left], self.mindspore.arrays[right]
        fitted = fit(b, a.shape)
        return a, b if fitted is None else fitted

    # -- the end ----------------------------------------------------------------------------------------------------

    def _printed(self) -> None:
        left, right = (printed_numbers(self.report.stdout.get(side, "")) for side in ("torch", "mindspore"))
        right = aligned(left, right)
        if len(left) != len(right):
            self.report.uneven = f"torch printed {len(left)} lines with numbers, mindspore {len(right)}"
        elif left:
            self.report.count("printed lines", len(left))
            self.report.printed = different_lines(left, right)

    def _precision(self) -> None:
        if self.torch.meta.get("autocast") and not self.mindspore.meta.get("half"):
            self.problem("precision", "torch computed under autocast, mindspore never in half precision")

    def _verdict(self) -> None:
        if not self.report.compared and not self.report.problems:
            self.problem("nothing to compare", "no losses, gradients, weights, RESULT or printed numbers were seen")
        differentiated = sum(bool(event["gradients"]) for event in self.torch.of("backward", "grad"))
        if differentiated and not self.report.compared.get("gradient") and not self.report.problems:
            text = f"torch differentiated {differentiated} times, and no gradient could be compared"
            self.problem("gradients", text)
        self.report.problems.sort(key=lambda p: p.step or (0 if p.what == "random draws" else 1 << 30))
        self.report.verdict = "differ" if self.report.problems else "agree"


def pair_parameters(
    left: list[Entry], right: list[Entry], torch: Trace, mindspore: Trace
) -> tuple[list[tuple[Entry, Entry]], list[Entry], list[Entry]]:
    """Pair parameters by construction record, owner, name, then by order among equal shapes; and what is left over."""
    pairs: list[tuple[Entry, Entry]] = []
    rest_left, rest_right = list(left), list(right)

    def pair(test: Any) -> None:
        for a in list(rest_left):
            match = next((b for b in rest_right if test(a, b)), None)
            if match is not None:
                pairs.append((a, match))
                rest_left.remove(a)
                rest_right.remove(match)

    def shape(a: Entry, b: Entry) -> bool:
        return fit(mindspore.arrays[b["after"]], torch.arrays[a["after"]].shape) is not None

    pair(lambda a, b: a["uid"] and a["uid"] == b["uid"])
    pair(lambda a, b: a["own"] and a["own"] == b["own"] and shape(a, b))
    pair(lambda a, b: not (a["uid"] and b["uid"]) and a["name"] and a["name"] == b["name"] and shape(a, b))
    pair(lambda a, b: not (a["uid"] and b["uid"]) and shape(a, b))
    position = {id(entry): i for i, entry in enumerate(left)}
    return sorted(pairs, key=lambda p: position[id(p[0])]), rest_left, rest_right


def _order(steps: list[Entry]) -> list[int]:
    seen: dict[int, int] = {}
    return [seen.setdefault(step["optimizer"], len(seen)) for step in steps]


def _by_optimizer(steps: list[Entry]) -> list[Entry]:
    return sorted(steps, key=lambda step: step["optimizer"])
