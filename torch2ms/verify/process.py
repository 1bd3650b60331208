"""Start one side in a process group of its own, wait, and leave nothing running."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch2ms.verify.trace import Trace

ROOT = Path(__file__).resolve().parent.parent.parent
BOOT = (
    "import sys; sys.path.insert(0, {root!r}); from torch2ms.verify import child, {side}; "
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
    zero: Sequence[str] = ()  # parameters whose gradient is held at zero (see noise.py)
    perturb: float = 0.0  # torch only: the relative size of a disturbance of the weights (see noise.py)
    locate: int | None = None  # the step whose statements are recorded, 0 for all (see statements.py)
    double: bool = False  # torch only: compute in float64 (see double.py)

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
            "zero": list(self.zero),
            "perturb": self.perturb,
            "double": self.double,
            "locate": self.locate,
            "out": str(out.resolve()),
        }


@dataclass
class Outcome:
    """How a side ended: its trace if one was written, what it printed, and why it did not run."""

    trace: Trace | None
    stdout: str
    stderr: str
    problem: str = ""


def environment() -> dict[str, str]:
    """The parent's environment, with what makes two runs comparable unless the user set it."""
    return {"GLOG_v": "3", "PYTHONHASHSEED": "0", **os.environ}


def run(job: Job, folder: Path) -> Outcome:
    """Run a job; `folder` takes the trace and the captured output."""
    document, out = folder / f"{job.side}.json", folder / f"{job.side}.zip"
    document.write_text(json.dumps(job.document(out)))
    boot = BOOT.format(root=str(ROOT), side="torch_side" if job.side == "torch" else "mindspore_side")
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        process = subprocess.Popen(
            [sys.executable, "-P" if sys.version_info >= (3, 11) else "-s", "-c", boot, str(document)],
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            cwd=job.cwd,
            env=environment(),
            start_new_session=True,
        )
        problem = ""
        try:
            process.wait(job.timeout)
        except subprocess.TimeoutExpired:
            problem = f"did not finish within {job.timeout:g} s"
        finally:
            kill_group(process.pid)
            process.wait()
        texts = []
        for stream in (stdout, stderr):
            stream.seek(0)
            texts.append(stream.read().decode("utf-8", "replace"))
    return outcome(out, process.returncode, problem, *texts)


def outcome(out: Path, code: int, problem: str, stdout: str, stderr: str) -> Outcome:
    """Read what a finished child left."""
    if problem or not out.exists():
        return Outcome(None, stdout, stderr, problem or _ended(code, stderr))
    trace = Trace.load(out)
    if trace.meta.get("status") == "error":
        return Outcome(trace, stdout, stderr, trace.meta["error"])
    return Outcome(trace, stdout, stderr)


def _ended(code: int, stderr: str) -> str:
    if code < 0:
        return f"was killed by signal {signal.Signals(-code).name}"
    last = next((line for line in reversed(stderr.splitlines()) if line.strip()), "")
    return f"ended early with exit code {code}" + (f": {last}" if last else "")


def kill_group(group: int) -> None:
    """End whatever a child left behind in its process group."""
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
