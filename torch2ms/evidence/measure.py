"""Running probes on both frameworks and judging what came back."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch2ms.evidence.compare import forward_difference, gradient_difference
from torch2ms.evidence.matrix import DIFFERS, NOTHING, SAME, SHAPES, TEXT, Measured, Probe
from torch2ms.evidence.processes import both_sides, header


@dataclass(frozen=True)
class Versions:
    """What the probes ran on."""

    torch: str
    mindspore: str
    device: str


def versions(device: str) -> Versions:
    """The frameworks that would run; NotRun where one, or the device, is not there."""
    with tempfile.TemporaryDirectory(prefix="torch2ms-rules-") as name:
        one = header("torch", Path(name))
        return Versions(one["version"], header("mindspore", Path(name), device)["version"], device)


def measure(
    probes: Sequence[Probe], device: str = "CPU", told: Callable[[int], None] = lambda n: None
) -> list[tuple[Probe, Measured]]:
    """Every probe with what running it showed."""
    run = [probe for probe in probes if probe.case.mode != "="]
    texts = [(probe.case.text, probe.text, probe.case.grad) for probe in run]
    with tempfile.TemporaryDirectory(prefix="torch2ms-rules-") as name:
        results = both_sides(texts, Path(name), device, told)
    found = dict(zip(run, (judge(probe, *pair) for probe, pair in zip(run, results, strict=True)), strict=True))
    return [(probe, found.get(probe, Measured(TEXT, NOTHING))) for probe in probes]


def judge(probe: Probe, left: dict[str, Any], right: dict[str, Any]) -> Measured:
    """Compare the two results of one probe."""
    random = probe.case.mode == "~"
    problem = forward_difference(left, right, random)
    if problem is not None:
        return Measured(DIFFERS, NOTHING, problem)
    forward = SHAPES if random else SAME
    if random or not any(left["counted"]):
        return Measured(forward, NOTHING)
    problem = gradient_difference(left, right)
    return Measured(forward, SAME if problem is None else DIFFERS, problem or "")
