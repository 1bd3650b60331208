"""Which gradients are rounding noise: what a disturbance of the weights shows while the draws are the same."""

from __future__ import annotations

import numpy as np

from torch2ms.verify.comparison.noise import confirmed
from torch2ms.verify.trace import Trace


def _run(*events: tuple[str, list[float]]) -> Trace:
    """A run of steps, of the gradients of a bias and a weight, and of draws."""
    trace = Trace()
    for kind, numbers in events:
        if kind == "draw":
            trace.add("draw", value=trace.keep(np.array(numbers)))
            continue
        names = ("bias", "weight")
        gradients = [
            {"uid": name, "own": None, "name": name, "gradient": trace.keep(np.array([number]))}
            for name, number in zip(names, numbers, strict=True)
        ]
        trace.add("step", parameters=gradients)
    return trace


def test_noise_is_found_in_the_steps_before_the_first_draw_that_differs():
    torch = _run(("draw", [0.5]), ("step", [3e-9, 0.2]), ("draw", [1.0]), ("step", [0.1, 0.2]))
    disturbed = _run(("draw", [0.5]), ("step", [-5e-9, 0.2]), ("draw", [2.0]), ("step", [0.4, 0.9]))
    found = confirmed(torch, disturbed, {"bias", "weight"})
    assert list(found) == ["bias"] and found["bias"].level < 1e-6


def test_steps_behind_a_draw_that_differs_say_nothing():
    torch = _run(("draw", [0.5]), ("step", [3e-9, 0.2]))
    disturbed = _run(("draw", [0.4]), ("step", [-5e-9, 0.2]))
    assert confirmed(torch, disturbed, {"bias", "weight"}) == {}
