"""Start one side in a process group of its own, wait, and leave nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch2ms.verify.trace import Trace

MARK = "TORCH2MS_VERIFY"
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "ASCEND_RT_VISIBLE_DEVICES": ""}
TEXT_LIMIT = 1 << 24  # bytes of what a program prints
ROOT = Path(__file__).resolve().parent.parent.parent.parent
BOOT = (
    "import sys; sys.path.insert(0, {root!r}); from torch2ms.verify.sides import child, {side}; "
    "sys.path.remove({root!r}); child.main()"
)


@dataclass
class Job:
    """One program to run on one side."""

    side: str
    program: Path
    argv: Sequence[str] = ()
    steps: int | None = None
    device: str = "CPU"
    mode: str = "pynative"
    timeout: float = 300.0
    cwd: Path | None = None
    replay: Path | None = None
    zero: dict[str, float] = field(default_factory=dict)  # up to where gradients are held at zero (see noise.py)
    perturb: float = 0.0  # torch only: the relative size of a disturbance of its operators (see rounding.py)
    locate: int | None = None  # the step whose statements are recorded, 0 for all (see statements.py)
    torch_device: str = "cpu"  # torch only: what the program may find
    compiled: bool = True  # mindspore only: whether its optimizers compile their updates (see updates.py)
    double: bool = False  # torch only: compute in float64 (see double.py)
    fine: bool = False  # mindspore only: elementary functions in float64 (see fine.py)

    def document(self, out: Path) -> dict[str, Any]:
        """The JSON the child reads."""
        return {
            "side": self.side,
            "program": str(self.program.resolve()),
            "argv": [str(a) for a in self.argv],
            "steps": self.steps,
            "device": self.device,
            "mode": self.mode,
            "replay": str(self.replay.resolve()) if self.replay else None,
            "zero": self.zero,
            "perturb": self.perturb,
            "double": self.double,
            "fine": self.fine,
            "compiled": self.compiled,
            "locate": self.locate,
            "torch_device": self.torch_device,
            "out": str(out.resolve()),
        }


@dataclass
class Outcome:
    """How a side ended: its trace if one was written, what it printed, and why it did not run."""

    trace: Trace | None
    stdout: str
    stderr: str
    problem: str = ""


Watch = Callable[[Job, int], None]


def environment(job: Job | None = None) -> dict[str, str]:
    """The parent's environment, with what makes two runs comparable unless the user set it."""
    hidden = HIDDEN if job and job.side == "torch" and job.torch_device == "cpu" else {}
    # threads that wait for others take all of a core by default: four fifths of what short programs cost
    return {"GLOG_v": "3", "PYTHONHASHSEED": "0", "OMP_WAIT_POLICY": "PASSIVE", **os.environ, **hidden}


def run(job: Job, folder: Path, watch: Watch | None = None) -> Outcome:
    """Run a job; `folder` takes the trace and the captured output, `watch` hears how many steps are done."""
    document, out, mark = folder / f"{job.side}.json", folder / f"{job.side}.zip", uuid.uuid4().hex
    document.write_text(json.dumps(job.document(out)))
    boot = BOOT.format(root=str(ROOT), side="torch_side" if job.side == "torch" else "mindspore_side")
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", boot, str(document)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=job.cwd,
            env={**environment(job), MARK: mark},
            start_new_session=True,
        )
        problem = ""
        try:
            problem = _wait(process, job, out, watch)
        finally:
            kill_group(process.pid)
            process.wait()
            kill_marked(mark)
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read(TEXT_LIMIT).decode("utf-8", "replace"))
    return outcome(out, process.returncode, problem, *texts)


def _wait(process: subprocess.Popen[bytes], job: Job, out: Path, watch: Watch | None) -> str:
    """Wait for the end and return "", or the reason why it was not waited for."""
    end = time.monotonic() + job.timeout
    while True:
        try:
            process.wait(max(0.0, min(0.2 if watch else job.timeout, end - time.monotonic())))
            return ""
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end:
                return f"did not finish within {job.timeout:g} s"
            if watch:
                watch(job, steps_done(out))


def steps_done(out: Path) -> int:
    """How many optimizer steps the child that writes `out` has said it did."""
    try:
        return int(out.with_suffix(".steps").read_text() or 0)
    except (OSError, ValueError):
        return 0


def outcome(out: Path, code: int, problem: str, stdout: str, stderr: str) -> Outcome:
    """Read what a finished child left."""
    if problem or not out.exists():
        return Outcome(None, stdout, stderr, problem or _ended(code, stderr))
    trace = Trace.load(out)
    if trace.meta.get("status") == "error":
        said = _last_line(stderr) if trace.meta["error"].startswith("the program exited") else ""
        return Outcome(trace, stdout, stderr, trace.meta["error"] + (f": {said}" if said else ""))
    return Outcome(trace, stdout, stderr)


def _ended(code: int, stderr: str) -> str:
    if code < 0:
        cause = " (what the system does when memory runs out)" if code == -signal.SIGKILL else ""
        return f"was killed by signal {signal.Signals(-code).name}{cause}"
    last = _last_line(stderr)
    return f"ended early with exit code {code}" + (f": {last}" if last else "")


def _last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


def kill_group(group: int) -> None:
    """End whatever a child left behind in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def kill_marked(mark: str) -> None:
    """End what left the process group, too: everything started with this mark in its environment (Linux only)."""
    wanted = f"{MARK}={mark}".encode()
    for place in Path("/proc").glob("[0-9]*/environ"):
        try:
            if wanted in place.read_bytes().split(b"\0"):
                os.kill(int(place.parent.name), signal.SIGKILL)
        except (OSError, ValueError):
            continue
