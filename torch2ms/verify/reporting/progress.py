"""How far a verification is, on one line of the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import click

from torch2ms.verify.sides.process import Job, Outcome, Watch

WIDTH = 30


class Progress:
    """Runs jobs like `start` and shows their steps; silent where standard error is no terminal."""

    def __init__(self, start: Callable[[Job, Path, Watch | None], Outcome]) -> None:
        self.start = start
        self.shown = sys.stderr.isatty()
        self.total = 0  # steps of torch's first run: the other runs have as many

    def run(self, job: Job, folder: Path) -> Outcome:
        """Run one job."""
        if not self.shown:
            return self.start(job, folder, None)
        self._show(job, 0)
        outcome = self.start(job, folder, self._show)
        click.echo("\r\033[K", nl=False, err=True)
        if outcome.trace is not None and not self.total:
            self.total = outcome.trace.meta.get("steps", 0)
        return outcome

    def _show(self, job: Job, done: int) -> None:
        click.echo("\r\033[K" + line(job, done, job.steps or self.total), nl=False, err=True)


def line(job: Job, done: int, total: int) -> str:
    """What the terminal shows: side, purpose of the run, and a bar once the number of steps is known."""
    purposes = {"float64": job.double, "fine": job.fine, "disturbed": job.perturb, "locating": job.locate is not None}
    purpose = next((name for name, given in purposes.items() if given), "")
    head = f"{job.side}{f' ({purpose})' if purpose else ''}"
    if not total:
        return f"{head}: step {done}"
    filled = min(WIDTH, WIDTH * done // total)
    return f"{head}: [{'#' * filled}{'.' * (WIDTH - filled)}] step {done} of {total}"
