"""What both sides share while a program runs: its trace, its limits, and when the harness looks away."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch2ms.verify.trace import Trace


class StopProgram(BaseException):
    """Raised inside an optimizer call once the wanted number of steps is done; no `except Exception` catches it."""


class Unavailable(Exception):
    """The side cannot run here at all (a device that is not there)."""


class Quiet:
    """A reentrant region whose random draws belong to something recorded as a whole (a layer, a shuffle)."""

    def __init__(self) -> None:
        self.level = 0

    @property
    def active(self) -> bool:
        return self.level > 0

    def __enter__(self) -> Quiet:
        self.level += 1
        return self

    def __exit__(self, *error: object) -> None:
        self.level -= 1


@dataclass
class Session:
    """One side's run: `steps` limits the optimizer updates, `replay` is the other side's trace."""

    trace: Trace
    steps: int | None = None
    replay: Trace | None = None
    options: dict[str, Any] = field(default_factory=dict)
    done: int = 0
    sample: list[int] | None = None  # the sample a dataset is making (samples.py)
    told: float = 0.0  # when the parent was last told how far the run is

    def stepped(self, inner: bool = False) -> None:
        """Count one optimizer update; ends the program at the limit."""
        if inner:
            return
        self.done += 1
        if self.options.get("out") and time.monotonic() > self.told + 0.2:
            self.told = time.monotonic()
            Path(self.options["out"]).with_suffix(".steps").write_text(str(self.done))
        if self.steps is not None and self.done >= self.steps:
            raise StopProgram
