"""Compare what was differentiated: the losses of both sides and, where no optimizer consumes them, the gradients."""

from __future__ import annotations

from typing import Any

import numpy as np

from torch2ms.verify.comparison.judging import Comparison
from torch2ms.verify.comparison.numbers import largest
from torch2ms.verify.trace import Trace

Entry = dict[str, Any]
MOST_LAID = 500  # values that are laid beside each other
MOST_SUMMED = 3  # of which one side may take the sum


def compare_roots(comparison: Comparison, steps: list[tuple[Entry, Entry]]) -> None:
    """One to one where both sides differentiated equally often, else by sums between two optimizer steps.

    What one side differentiates in one go the other may do in several, or without a value to show: of the ways to
    lay both sides beside each other the one counts in which they agree, if there is one.
    """
    pairs = _pair_all(comparison, scalars=True)
    if pairs is None or not all(_close(comparison, a, b) for a, b in pairs):
        shown = _aligned(comparison) if steps else []  # what has no counterpart shows in the steps
        sums = _sums(comparison, steps)
        summed = bool(sums) and all(_near(comparison, *both) for _, *both in sums)
        exact = bool(shown) and all(_near(comparison, a["value"], b["value"], wide=1) for a, b in shown)
        if steps and not exact and not summed and (rows := _grouped(comparison, steps)):
            pairs = []
            comparison.note("some of the losses have no counterpart on the other side")
            _compare_sums(comparison, rows, True)
        elif shown and (exact or not summed):
            pairs = shown
            comparison.note("some of the losses have no counterpart on the other side")
        elif pairs is None or summed:
            pairs = []
            _compare_sums(comparison, sums, bool(steps))
    _compare_pairs(comparison, steps, pairs or [])
    if not steps:
        _compare_gradients(comparison)


def _compare_pairs(comparison: Comparison, steps: list[tuple[Entry, Entry]], pairs: list[tuple[Entry, Entry]]) -> None:
    scale = min(1.0, max((abs(a["value"]) for a, _ in pairs if np.isfinite(a["value"])), default=1.0))
    for i, (a, b) in enumerate(pairs, 1):
        step = _step_of(comparison.torch, a, steps, 0)
        row = comparison.report.steps[step - 1] if 0 < step <= len(comparison.report.steps) else None
        if row is not None:
            row.loss_torch = (row.loss_torch or 0.0) + a["value"]
            row.loss_mindspore = (row.loss_mindspore or 0.0) + b["value"]
        values = np.asarray(a["value"]), np.asarray(b["value"])
        exact = comparison.reference.losses.get(id(a))
        truth = None if exact is None else np.asarray(exact)
        comparison.check("loss", "" if row else str(i), *values, step, scale, truth=truth)


def _aligned(comparison: Comparison) -> list[tuple[Entry, Entry]]:
    """Pairs of equal values in order, where every value of the side that shows fewer has one; none otherwise.

    Values that follow one another may be nearly equal: the tolerance is narrow at first.
    """
    for wide in (1, 10):
        for left, right in _candidates(comparison, scalars=True):
            if len(left) == len(right) or not left or not right:
                continue
            shorter, longer = sorted((left, right), key=len)
            rest = iter(longer)
            found = [(a, next((b for b in rest if _near(comparison, a["value"], b["value"], wide=wide)), None))
                     for a in shorter]  # fmt: skip
            if all(other is not None for _, other in found):
                return [(a, b) if shorter is left else (b, a) for a, b in found if b is not None]
    return []


def _grouped(comparison: Comparison, steps: list[tuple[Entry, Entry]]) -> list[Row]:
    """A row for every step, where each value of MindSpore's is one of torch's, the sum of a few, or is not used.

    MindSpore takes the gradient of a sum of losses at once, and before a condition that leaves torch's call out.
    """
    for left, right in _candidates(comparison, scalars=True):
        rows: dict[int, list[float]] = {}
        for values, other in _laid(comparison, left, right):
            row = rows.setdefault(_step_of(comparison.torch, values[-1], steps, 0), [0.0, 0.0])
            row[0] += sum(value["value"] for value in values)
            row[1] += other["value"]
        if rows:
            return [(number, *both) for number, both in sorted(rows.items()) if number]  # type: ignore[misc]
    return []


def _laid(comparison: Comparison, left: list[Entry], right: list[Entry]) -> list[tuple[list[Entry], Entry]]:
    """Every value of the left, alone or with the next ones, beside one of the right; nothing if there is no way."""
    if not left or max(len(left), len(right)) > MOST_LAID:
        return []
    how: dict[tuple[int, int], int] = {}  # how many of the left lie beside this one of the right: 0 for none

    def reaches(i: int, j: int) -> bool:
        return i == len(left) or (i, j) in how

    for j in reversed(range(len(right))):
        for i in reversed(range(len(left))):
            for many in range(1, min(MOST_SUMMED, len(left) - i) + 1):
                total = sum(value["value"] for value in left[i : i + many])
                if _near(comparison, total, right[j]["value"], wide=1) and reaches(i + many, j + 1):
                    how[i, j] = many
                    break
            else:
                if (i, j + 1) in how:
                    how[i, j] = 0
    found: list[tuple[list[Entry], Entry]] = []
    i = 0
    for j in range(len(right)):
        if many := how.get((i, j), 0):
            found.append((left[i : i + many], right[j]))
            i += many
    return found if i == len(left) else []


def _candidates(comparison: Comparison, scalars: bool) -> list[tuple[list[Entry], list[Entry]]]:
    every = comparison.mindspore.of("backward")
    outer = [event for event in every if event.get("depth", 0) == 0]
    torch, mindspore = comparison.torch, (outer, every)
    taken = torch.of("backward", "grad")
    last = [event for event in taken if not event.get("inner")]  # those of create_graph=True are part of a graph
    found = [(view, other) for other in mindspore for view in (torch.of("backward"), last)]
    # compiled gradients are not seen on MindSpore's side: with those of torch only if equally many are seen
    found += [(taken, other) for other in mindspore if len(taken) == len(last) or len(taken) == len(other)]
    if not scalars:  # a playback has the gradients of what another call began to differentiate
        played = [event for event in every if event["cotangent"]]
        return [*found, *((view, played) for view in (torch.of("backward"), last) if played)]
    return [([a for a in left if a["scalar"]], [b for b in right if b["scalar"]]) for left, right in found]


def _pair_all(comparison: Comparison, scalars: bool) -> list[tuple[Entry, Entry]] | None:
    """Pairs of differentiated values in order, from the first view of both sides that has equally many."""
    equal = [(left, right) for left, right in _candidates(comparison, scalars) if len(left) == len(right)]
    if not equal:
        return None
    best = min(equal, key=lambda view: sum(not _close(comparison, a, b) for a, b in zip(*view, strict=True)))
    return list(zip(*best, strict=True))


def _close(comparison: Comparison, a: Entry, b: Entry) -> bool:
    return _near(comparison, a["value"], b["value"])


def _near(comparison: Comparison, a: float, b: float, *, wide: int = 10) -> bool:
    tolerance = comparison.tolerance
    return bool(np.isclose(a, b, rtol=tolerance.rtol * wide, atol=tolerance.atol * wide, equal_nan=True))


def _step_of(trace: Trace, event: Entry, steps: list[tuple[Entry, Entry]], side: int) -> int:
    """The 1-based number of the optimizer step that follows an event, 0 if none does."""
    position = next(i for i, e in enumerate(trace.events) if e is event)
    places = {id(pair[side]): number for number, pair in enumerate(steps, 1)}
    return next((places[id(e)] for e in trace.events[position:] if id(e) in places), 0)


def _sums(comparison: Comparison, steps: list[tuple[Entry, Entry]]) -> list[Row]:
    """The number of a step and what was differentiated on either side since the one before, summed."""
    torch = [comparison.torch.of("backward", "step"), comparison.torch.of("backward", "grad", "step")]
    right = [e for e in comparison.mindspore.of("backward", "step") if e.get("depth", 0) == 0]
    views = [_summed(left, right, len(steps)) for left in torch]
    views += [_in_step(comparison, left, right, len(steps)) for left in torch]
    views += [_last(comparison, left, right, len(steps)) for left in torch]
    return min(views, key=lambda rows: sum(not _near(comparison, *both) for _, *both in rows))


Row = tuple[int, float, float]


def _summed(left: list[Entry], right: list[Entry], steps: int) -> list[Row]:
    """A row for every step before which both sides differentiated something."""
    rows, pending = [], (0.0, 0.0)
    filled = [False, False]
    for number, groups in enumerate(zip(_groups(left), _groups(right), strict=False), 1):
        values = _consumed(*groups)
        pending = pending[0] + sum(values[0]), pending[1] + sum(values[1])
        filled = [before or bool(now) for before, now in zip(filled, values, strict=True)]
        if all(filled) and number <= steps:
            rows.append((number, *pending))
            pending, filled = (0.0, 0.0), [False, False]
    return rows


def _in_step(comparison: Comparison, left: list[Entry], right: list[Entry], steps: int) -> list[Row]:
    """A row for every step up to which both sides have differentiated the same in all, and one for what is left.

    One side may take the gradients for several optimizers in one go, the other between their steps.
    """
    rows, pending = [], (0.0, 0.0)
    for number, groups in enumerate(zip(_groups(left), _groups(right), strict=False), 1):
        values = _consumed(*groups)
        pending = pending[0] + sum(values[0]), pending[1] + sum(values[1])
        if any(values) and number <= steps and _near(comparison, *pending):
            rows.append((number, *pending))
            pending = 0.0, 0.0
    if any(pending) and not (comparison.stopped and rows):
        rows.append((steps, *pending))
    return rows


def _last(comparison: Comparison, left: list[Entry], right: list[Entry], steps: int) -> list[Row]:
    """A row for every step, with the last of what MindSpore's side has differentiated since the one before.

    torch goes backward from a sum of losses where it is complete, and never from one that is given up before; where
    each term goes backward alone, those of a sum that is given up have done so already.
    """
    rows = []
    for number, groups in enumerate(zip(_groups(left), _groups(right), strict=False), 1):
        whole, terms = groups
        if np.isfinite(sum(whole)):  # what is not finite was skipped before it could go backward
            terms = [term for term in terms if np.isfinite(term)]
        runs = [sum(terms[k:]) for k in range(len(terms))] or [0.0]
        if number <= steps and (whole or terms):
            near = (run for run in runs if _near(comparison, sum(whole), run))
            rows.append((number, sum(whole), next(near, runs[0])))
    return rows


def _compare_sums(comparison: Comparison, sums: list[Row], stepped: bool) -> None:
    if not stepped:
        counts = [len(side.of("backward")) for side in (comparison.torch, comparison.mindspore)]
        text = f"losses not compared: torch differentiated {counts[0]} times, mindspore {counts[1]}"
        comparison.note(text)
        return
    comparison.note("losses are compared as sums between two optimizer steps")
    for number, left, right in sums:
        row = comparison.report.steps[number - 1]
        row.loss_torch, row.loss_mindspore = left, right
        comparison.check("loss", "(sum)", np.asarray(left), np.asarray(right), number)


def _consumed(left: list[float], right: list[float]) -> tuple[list[float], list[float]]:
    """Without values one side only looked at: where torch guards `backward()` by the loss, MindSpore goes first."""
    if left and len(right) > len(left) and not np.isfinite(sum(right)):
        return left, right[-len(left) :]
    return left, right


def _groups(events: list[Entry]) -> list[list[float]]:
    groups: list[list[float]] = [[]]
    for event in events:
        if event["kind"] == "step":
            groups.append([])
        elif event["scalar"]:
            groups[-1].append(event["value"])
    return groups


def _compare_gradients(comparison: Comparison) -> None:
    """Programs without an optimizer: gradients of equally named leaves, one differentiation after the other."""
    pairs = _pair_all(comparison, scalars=False)
    if pairs is None:
        comparison.note("gradients not compared: the sides differentiate differently often")
        return
    for number, (a, b) in enumerate(pairs, 1):
        if not _close(comparison, a, b) and not (a["cotangent"] or b["cotangent"]):
            continue  # not the same value: reported as a loss, or not the same differentiation at all
        beside = max((largest(comparison.torch.arrays[g["value"]]) for g in a["gradients"]), default=0.0)
        for left in a["gradients"]:
            right = next((r for r in b["gradients"] if _same_leaf(left, r)), None)
            if right is None and len(b["gradients"]) == 1 and left is _only(a):
                right = b["gradients"][0]
            if right is None:
                continue
            x, y = comparison.torch.arrays[left["value"]], comparison.mindspore.arrays[right["value"]]
            if x.size == y.size:
                name = f"{left['name'] or right['name']} (backward {number})"
                comparison.check("gradient", name, x, y.reshape(x.shape), beside=beside)


def _only(event: Entry) -> Entry | None:
    """The only leaf of it, or the only one that is no parameter of a module: the sides call it differently."""
    listed = event["gradients"]
    others = [e for e in listed if not e["uid"]] if len(listed) > 1 else listed
    return others[0] if len(others) == 1 else None


def _same_leaf(left: Entry, right: Entry) -> bool:
    if left["uid"] and right["uid"]:
        return bool(left["uid"] == right["uid"])
    return bool(left["name"] and left["name"] == right["name"])
