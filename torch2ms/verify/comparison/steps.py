"""Optimizer steps side by side: their gradients, and the weights after them."""

from __future__ import annotations

from typing import Any

from torch2ms.verify.comparison.judging import Comparison
from torch2ms.verify.comparison.numbers import largest
from torch2ms.verify.reporting.report import Step, Worst
from torch2ms.verify.sides.layers import fit
from torch2ms.verify.trace import Trace

Entry = dict[str, Any]


def pair_steps(comparison: Comparison) -> list[tuple[Entry, Entry]]:
    """The optimizer steps of both sides, each beside the one it is compared with."""
    left, right = comparison.torch.of("step"), comparison.mindspore.of("step")
    if len(left) > len(right):  # without gradients PyTorch's step does nothing
        left = [step for step in left if any(entry["gradient"] for entry in step["parameters"])]
    if left and not right:
        comparison.note(f"{len(left)} torch optimizer steps, none seen in mindspore: final weights only")
    elif right and not left:
        comparison.note(f"{len(right)} mindspore optimizer steps, none in torch: final weights only")
    elif len(left) != len(right):
        comparison.problem("optimizer steps", f"torch took {len(left)}, mindspore {len(right)}")
    if _order(left) != _order(right) and len(left) == len(right):
        comparison.note("the optimizers are stepped in another order")
        left, right = _by_optimizer(left), _by_optimizer(right)
    pairs = list(zip(left, right, strict=False))
    for which, library in enumerate(("NumPy", "Python's random")):
        begun = comparison.torch.meta["streams"][which]
        drawn = any(a["streams"][which] != begun for a, _ in pairs)  # by the program; MindSpore's layers draw too
        parted = (i for i, (a, b) in enumerate(pairs, 1) if a["streams"][which] != b["streams"][which])
        if drawn and (step := next(parted, 0)):
            text = f"{library}: the sides have not drawn equally often from step {step} on"
            comparison.note(text)
    comparison.report.steps = [Step(i + 1, a["type"]) for i, (a, _) in enumerate(pairs)]
    return pairs


def compare_step(comparison: Comparison, number: int, left: Entry, right: Entry) -> None:
    """What one step did: its gradients and the weights after it."""
    row = comparison.report.steps[number - 1]
    given, owned = right.get("given"), len(right["parameters"])
    if given not in (None, owned):
        comparison.problem("gradients", f"mindspore's optimizer got {given} gradients for {owned} parameters", number)
    torch, mindspore = comparison.torch, comparison.mindspore
    pairs, lonely, extra = pair_parameters(left["parameters"], right["parameters"], torch, mindspore)
    gradients = [torch.arrays[a["gradient"]] for a, _ in pairs if a["gradient"]]
    beside = max((largest(g) for g in gradients), default=1.0)
    for a, b in pairs:
        name = a["name"] or b["name"] or a["uid"] or "?"
        _gradient(comparison, row, name, a, b, number, beside)
        after_a, after_b = comparison.arrays(a["after"], b["after"])
        moved = largest(after_a - torch.arrays[a["start"]])
        result = comparison.check("weight", name, after_a, after_b, number, moved=moved)
        row.weight = row.weight.or_worse(Worst(name, result.max_abs, result.max_rel))
    for a in lonely:
        if a["gradient"] is not None and largest(torch.arrays[a["gradient"]]) > 0:
            comparison.problem(f"weight {a['name'] or a['uid']}", "is updated by torch's optimizer only", number)
    for b in extra:
        if b["gradient"] is not None and largest(mindspore.arrays[b["gradient"]]) > 0:
            comparison.problem(f"weight {b['name']}", "is updated by mindspore's optimizer only", number)


def _gradient(comparison: Comparison, row: Step, name: str, a: Entry, b: Entry, number: int, beside: float) -> None:
    if a["gradient"] is None or b["gradient"] is None:
        return  # torch skipped this parameter; its value after the step is compared all the same
    left, right = comparison.arrays(a["gradient"], b["gradient"])
    result = comparison.check("gradient", name, left, right, number, min(1.0, beside), beside=beside)
    worst = Worst(name, result.max_abs, result.max_rel)
    comparison.report.parameters[name] = comparison.report.parameters.get(name, Worst()).or_worse(worst)
    row.gradient = row.gradient.or_worse(Worst(name, result.max_abs, result.max_rel))


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
