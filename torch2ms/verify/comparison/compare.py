"""Compare the traces of both sides: losses, gradients, weights, buffers, RESULT and what was printed."""

from __future__ import annotations

import numpy as np

from torch2ms.verify.comparison.held import compare_held
from torch2ms.verify.comparison.judging import Comparison
from torch2ms.verify.comparison.numbers import aligned, different_lines, printed_numbers
from torch2ms.verify.comparison.reference import Reference
from torch2ms.verify.comparison.roots import compare_roots
from torch2ms.verify.comparison.steps import compare_step, pair_steps
from torch2ms.verify.comparison.variables import compare_result, compare_variables
from torch2ms.verify.reporting.report import Report
from torch2ms.verify.trace import Trace


def compare(torch: Trace, mindspore: Trace, report: Report, reference: Reference | None = None) -> Report:
    """Compare everything that can be and set the verdict; returns the report it was given, filled."""
    comparison = Comparison(torch, mindspore, report, reference)
    _draws(comparison)
    _weights_carried_over(comparison)
    _circumstances(comparison)
    steps = pair_steps(comparison)
    compare_roots(comparison, steps)
    for number, (left, right) in enumerate(steps, 1):
        compare_step(comparison, number, left, right)
    compare_held(comparison, steps)
    if not comparison.stopped:
        compare_result(comparison)
        compare_variables(comparison)
    _printed(comparison)
    _precision(comparison)
    _verdict(comparison)
    return report


def _draws(comparison: Comparison) -> None:
    """Whether the random draws of torch were those of MindSpore."""
    meta = comparison.mindspore.meta
    for event in comparison.mindspore.of("divergence"):
        comparison.problem("random draws", event["text"])
    draws = meta.get("draws", {})
    if draws.get("reordered"):
        comparison.note(f"{draws['reordered']} random draws were made in another order")
    if draws.get("used"):
        comparison.note(f"{draws['used']} random draws replayed")
    if meta.get("unused") and not comparison.stopped:
        compiled = " (graph mode: what compiled code draws is out of reach)" if meta.get("graph") else ""
        comparison.problem("random draws", meta["unused"] + compiled)


def _weights_carried_over(comparison: Comparison) -> None:
    """Weights of torch that found no place in MindSpore's layers; a constant one need not."""
    for event in comparison.mindspore.of("unmatched"):
        _tell(comparison, event["text"], constant=event.get("constant", False))
    without = set(comparison.mindspore.meta.get("without_cell", []))
    for layer in comparison.torch.of("layer"):
        if layer["id"] in without:
            arrays = {p["name"]: comparison.torch.arrays[p["value"]] for p in layer["parameters"]}
            shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
            text = f"torch's nn.{layer['torch']} ({shapes}) has no MindSpore layer"
            _tell(comparison, text, constant=all(np.ptp(array) == 0 for array in arrays.values()))


def _tell(comparison: Comparison, text: str, constant: bool) -> None:
    if constant:
        comparison.note(text)
    else:
        comparison.problem("weights", text)


def _circumstances(comparison: Comparison) -> None:
    """What a reader of the report should know of both runs."""
    meta = comparison.torch.meta
    if meta.get("sampled"):
        comparison.note("of tensors with more than 262,144 values about 65,536 evenly spaced ones are compared")
    asked = meta.get("torch_device", "cpu")
    if asked not in ("cpu", meta.get("device", "cpu")):
        comparison.note(f"torch: {asked} was asked for, the program trained on the CPU")
    for trace in (comparison.torch, comparison.mindspore):
        for note in trace.meta.get("notes", []):
            comparison.note(f"{trace.meta['side']}: {note}")


def _printed(comparison: Comparison) -> None:
    left, right = (printed_numbers(comparison.report.stdout.get(side, "")) for side in ("torch", "mindspore"))
    right = aligned(left, right)
    if len(left) != len(right):
        comparison.report.uneven = f"torch printed {len(left)} lines with numbers, mindspore {len(right)}"
    elif left:
        comparison.report.count("printed lines", len(left))
        comparison.report.printed = different_lines(left, right)


def _precision(comparison: Comparison) -> None:
    if comparison.torch.meta.get("autocast") and not comparison.mindspore.meta.get("half"):
        comparison.problem("precision", "torch computed under autocast, mindspore never in half precision")


def _verdict(comparison: Comparison) -> None:
    if not comparison.report.compared and not comparison.report.problems:
        comparison.problem("nothing to compare", "no losses, gradients, weights, RESULT or printed numbers were seen")
    differentiated = sum(bool(event["gradients"]) for event in comparison.torch.of("backward", "grad"))
    if differentiated and not comparison.report.compared.get("gradient") and not comparison.report.problems:
        text = f"torch differentiated {differentiated} times, and no gradient could be compared"
        comparison.problem("gradients", text)
    comparison.report.problems.sort(key=lambda p: p.step or (0 if p.what == "random draws" else 1 << 30))
    comparison.report.verdict = "differ" if comparison.report.problems else "agree"
