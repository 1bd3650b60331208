"""How far a long run is, on a terminal; nothing in a pipe."""

from __future__ import annotations

import sys
import time
from typing import TextIO

PATIENCE = 1.0  # seconds before anything is shown


class Progress:
    """One line that is written over: files done, and the time that is left at this pace."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self.total = total
        self.stream = stream or sys.stderr
        self.started = time.monotonic()
        self.done = 0
        self.width = 0

    def __call__(self, files: int) -> None:
        """`files` more are done."""
        self.done += files
        passed = time.monotonic() - self.started
        if passed < PATIENCE or self.done >= self.total:
            return
        left = round(passed / self.done * (self.total - self.done))
        self._write(f"{self.done} of {self.total} files, about {left // 60}:{left % 60:02d} left")

    def close(self) -> None:
        """Take the line away: what a run has to say comes next."""
        if self.width:
            self._write("")
            self.stream.write("\r")
            self.stream.flush()

    def _write(self, words: str) -> None:
        self.stream.write(f"\r{words}{' ' * (self.width - len(words))}")
        self.stream.flush()
        self.width = len(words)


def on_terminal(quiet: bool) -> bool:
    """Somebody is there to see it."""
    return not quiet and sys.stderr.isatty()
