"""Many verifications with the frameworks imported once: a warm process per framework forks a child for every job."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from torch2ms.verify.reporting.report import Report
from torch2ms.verify.runner import Case, verify_case
from torch2ms.verify.sides.process import (
    HIDDEN,
    ROOT,
    TEXT_LIMIT,
    Job,
    Outcome,
    Watch,
    environment,
    kill_group,
    kill_marked,
    outcome,
    steps_done,
)
from torch2ms.verify.verification import Run

Item = TypeVar("Item")
Done = TypeVar("Done")

START = (
    "import sys; sys.path.insert(0, {root!r}); from torch2ms.verify.sides import child, {side}; "
    "sys.path.remove({root!r}); child.serve({side}.preload)"
)
STARTUP = 120.0


class Warm:
    """A process that has imported one framework and forks for each job; it never runs a program itself."""

    def __init__(self, side: str) -> None:
        module = "torch_side" if side == "torch" else "mindspore_side"
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-P" if sys.version_info >= (3, 11) else "-s",
                "-c",
                START.format(root=str(ROOT), side=module),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**environment(), **HIDDEN},  # what has opened a device cannot be forked
            start_new_session=True,
        )
        self.pending = b""

    def run(self, job: Job, folder: Path, watch: Watch | None = None) -> Outcome:
        """Run one job in a fork; same contract as `process.run`."""
        document, out = folder / f"{job.side}.json", folder / f"{job.side}.zip"
        streams = [folder / f"{job.side}.{name}" for name in ("stdout", "stderr")]
        mark = uuid.uuid4().hex
        order = {
            "mark": mark,
            "document": str(document),
            "streams": [str(s) for s in streams],
            "cwd": str(job.cwd or Path.cwd()),
        }
        document.write_text(json.dumps(job.document(out)))
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order).encode() + b"\n")
        self.process.stdin.flush()
        started = self._answer(STARTUP)
        if started is None:
            raise RuntimeError(f"the warm {job.side} process does not answer")
        problem = ""
        try:
            ended = self._answer(job.timeout, (lambda: watch(job, steps_done(out))) if watch else None)
            if ended is None:
                problem = f"did not finish within {job.timeout:g} s"
        finally:  # also when the user interrupts: the fork is in a session of its own
            kill_group(started["pid"])
            kill_marked(mark)
        if ended is None:
            ended = self._answer(STARTUP) or {"code": -9}
        texts = [stream.read_bytes()[:TEXT_LIMIT].decode("utf-8", "replace") for stream in streams]
        return outcome(out, ended["code"], problem, *texts)

    def close(self) -> None:
        """End the process and whatever it left."""
        kill_group(self.process.pid)
        self.process.wait()

    def _answer(self, seconds: float, tick: Callable[[], None] | None = None) -> dict[str, Any] | None:
        """The next line from the process, None if it does not come in time; `tick` is called while waiting."""
        assert self.process.stdout is not None
        end = time.monotonic() + seconds
        while b"\n" not in self.pending:
            left = end - time.monotonic()
            if left <= 0:
                return None
            if not select.select([self.process.stdout], [], [], min(left, 0.2) if tick else left)[0]:
                if tick:
                    tick()
                continue
            data = os.read(self.process.stdout.fileno(), 65536)
            if not data:
                raise RuntimeError("the warm process has ended")
            self.pending += data
        line, _, self.pending = self.pending.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer


class Pair:
    """One warm process per framework, started when first needed."""

    def __init__(self) -> None:
        self.sides: dict[str, Warm] = {}

    def run(self, job: Job, folder: Path, watch: Watch | None = None) -> Outcome:
        """Run a job on its side; a side that broke is started anew for the next job."""
        side = self.sides.get(job.side)
        if side is None:
            side = self.sides[job.side] = Warm(job.side)
        try:
            return side.run(job, folder, watch)
        except (RuntimeError, OSError) as error:
            self.sides.pop(job.side).close()
            return Outcome(None, "", "", str(error))

    def start(self) -> None:
        """Import both frameworks at the same time, before the first job."""
        for side in ("torch", "mindspore"):
            self.sides[side] = Warm(side)

    def close(self) -> None:
        """End both processes."""
        for side in self.sides.values():
            side.close()


@contextlib.contextmanager
def warm_pair() -> Iterator[Pair]:
    """A pair of warm processes that is gone afterwards."""
    pair = Pair()
    try:
        yield pair
    finally:
        pair.close()


def warm_each(work: Callable[[Item, Run], Done], items: Iterable[Item], workers: int = 1) -> Iterator[Done]:
    """The results of `work` in the order of the items; every worker has a pair of warm processes that runs its jobs."""
    local = threading.local()
    pairs: list[Pair] = []

    def one(item: Item) -> Done:
        if not hasattr(local, "pair"):
            local.pair = Pair()
            pairs.append(local.pair)
        return work(item, local.pair.run)

    try:
        with ThreadPoolExecutor(workers) as executor:
            yield from executor.map(one, items)
    finally:
        for pair in pairs:
            pair.close()


def verify_many(cases: Iterable[Case], workers: int = 1) -> list[Report]:
    """Verify many pairs, each in a fresh fork of processes that have the frameworks imported already.

    Without a `cwd` a case runs in an empty temporary folder. On systems without `fork` use `verify`.
    """

    def one(case: Case, run: Run) -> Report:
        with tempfile.TemporaryDirectory(prefix="torch2ms-cwd-") as empty:
            return verify_case(replace(case, cwd=case.cwd or Path(empty)), run)

    return list(warm_each(one, cases, workers))
