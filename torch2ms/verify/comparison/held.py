"""Compare what modules hold: buffers after every step, weights and buffers at the end."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch2ms.verify.comparison.judging import Comparison
from torch2ms.verify.comparison.numbers import judge
from torch2ms.verify.comparison.reference import few_digits
from torch2ms.verify.trace import Array, sampled

Entry = dict[str, Any]


def compare_held(comparison: Comparison, steps: list[tuple[Entry, Entry]]) -> None:
    """The end says whether a buffer is right, the steps say since when it is not."""
    wrong = set() if comparison.stopped else _final(comparison) | _owned(comparison)
    names = {
        f"{event['id']}.{name}": entry["name"]
        for event in comparison.torch.of("final", "owned")
        for name, entry in event["parameters"].items()
    }
    several = len({left["optimizer"] for left, _ in steps}) > 1
    for uid in dict.fromkeys(uid for left, _ in steps for uid in left.get("buffers", {})):
        label = f"buffer {names.get(uid, uid)}"
        _buffer(comparison, uid, label, steps, judged=not comparison.stopped, wrong=uid in wrong, several=several)


def _buffer(
    comparison: Comparison,
    uid: str,
    label: str,
    steps: list[tuple[Entry, Entry]],
    judged: bool,
    wrong: bool,
    several: bool,
) -> None:
    """One buffer over all steps.

    Between two steps the sides may run forwards of different networks in another order (a translation groups them into
    functions), so a difference that is gone at the end is none.
    """
    since, figure = 0, 0.0
    for number, (left, right) in enumerate(steps, 1):
        if uid not in left["buffers"] or uid not in right["buffers"]:
            continue
        values = comparison.arrays(left["buffers"][uid], right["buffers"][uid])
        result = judge(*values, comparison.tolerance)
        comparison.report.count("buffer")
        since, figure = (0, 0.0) if result.equal else (since or number, result.max_abs)
    if since and (wrong or not (judged or several)):
        comparison.problem(label, f"differs from this step on, max abs {figure:.3g}", since)
    elif since and not judged:
        comparison.note(f"{label} differs at step {since}, where both sides were stopped")


def _final(comparison: Comparison) -> set[str]:
    """Weights and buffers of the layers; the uids of the buffers that differ."""
    torch, wrong = comparison.torch, set()
    other = {event["id"]: event["parameters"] for event in comparison.mindspore.of("final")}
    start = {
        (event["id"], entry["name"]): torch.arrays[entry["value"]]
        for event in torch.of("layer")
        for entry in event["parameters"]
    }
    for event in torch.of("final"):
        for name, left in event["parameters"].items():
            right = other.get(event["id"], {}).get(name)
            if right is None:
                continue
            kind = "buffer" if name.rpartition(".")[2].startswith("running_") else "final weight"
            values = comparison.arrays(left["value"], right["value"])
            first = start.get((event["id"], name))
            if first is not None and np.array_equal(sampled(first).ravel(), values[0].ravel()):
                _untouched(comparison, kind, left["name"], *values)
            elif not comparison.check(kind, left["name"], *values).equal and kind == "buffer":
                wrong.add(f"{event['id']}.{name}")
    return wrong


def _owned(comparison: Comparison) -> set[str]:
    """What the program's own modules hold; the names of the buffers that differ."""
    torch, wrong = comparison.torch, set()
    other = {event["id"]: event["parameters"] for event in comparison.mindspore.of("owned")}
    steps = torch.of("step")
    trained = {entry["own"] for step in steps for entry in step["parameters"]}
    first = steps[0]["buffers"] if steps else {}
    for event in torch.of("owned"):
        for name, left in event["parameters"].items():
            uid, right = f"{event['id']}.{name}", other.get(event["id"], {}).get(name)
            before = torch.arrays[first[uid]] if uid in first else None
            now = torch.arrays[left["value"]]
            still = uid not in trained and (before is None or np.array_equal(before, now, equal_nan=True))
            if right is None:
                if name in event["buffers"] and not still:
                    comparison.problem(f"buffer {uid}", "changes in torch and is not found in mindspore")
                continue
            values = comparison.arrays(left["value"], right["value"])
            if still:
                _untouched(comparison, "buffer", left["name"], *values, moved=np.inf)  # computed, not carried over
            elif not comparison.check("buffer" if uid not in trained else "final weight", left["name"], *values).equal:
                wrong.add(uid)
    return wrong


def _untouched(comparison: Comparison, kind: str, name: str, left: Array, right: Array, moved: float = 0.0) -> None:
    """What torch left as it was made must be so here, too, but proves nothing: it is not counted."""
    result = judge(left, right, comparison.tolerance, moved=moved)
    if result.equal:
        return
    truth = comparison.reference.arrays.get(id(left))
    if truth is not None and truth.shape == right.shape and not result.why:
        torch, mindspore = comparison.reference.distances(truth, left, right)
        if few_digits(torch, mindspore, truth):
            text = f"{kind} {name}: its computation keeps few digits (from float64: torch {torch:.1e}, "
            comparison.note(f"{text}mindspore {mindspore:.1e})")
            return
    comparison.problem(f"{kind} {name}", f"torch does not change it; max abs {result.max_abs:.3g}")
