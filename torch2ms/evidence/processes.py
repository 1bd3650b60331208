"""Runs the probes of one framework in child processes; a probe that kills its process costs nothing but itself."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

Result = dict[str, Any]


class NotRun(Exception):
    """A framework or a device is not there; the message says what was missing."""


def header(side: str, folder: Path, device: str = "CPU") -> dict[str, str]:
    """The versions of a framework that runs, NotRun otherwise."""
    code, results, errors = _child(side, [], folder, device)
    if code or not results:
        raise NotRun(f"{side}: {reason(errors) or f'ended with exit code {code}'}")
    return results[0]


def run_side(
    side: str, jobs: Sequence[Result], folder: Path, device: str = "CPU", told: Callable[[int], None] = lambda n: None
) -> list[Result]:
    """The result of every job, in order; a process that ends early is started again behind the job it died of."""
    results: list[Result] = []
    while len(results) < len(jobs):
        before = len(results)
        code, found, errors = _child(side, jobs[before:], folder, device)
        results += found[1:]  # the first is the header
        if code and len(results) < len(jobs):
            results.append({"error": _death(code, errors)})
        told(len(results) - before)
    return results


def both_sides(
    texts: Sequence[tuple[str, str, list[str]]], folder: Path, device: str = "CPU",
    told: Callable[[int], None] = lambda n: None,
) -> list[tuple[Result, Result]]:  # fmt: skip
    """Run (torch text, MindSpore text, inputs to differentiate) on both frameworks."""
    left = run_side("torch", [{"text": text, "grad": grad} for text, _, grad in texts], folder, told=told)
    jobs = [
        {"text": text, "grad": grad, "counted": one.get("counted", [])}
        for (_, text, grad), one in zip(texts, left, strict=True)
    ]
    return list(zip(left, run_side("mindspore", jobs, folder, device, told), strict=True))


def _child(side: str, jobs: Sequence[Result], folder: Path, device: str) -> tuple[int, list[Result], str]:
    source, target = folder / f"{side}.jobs", folder / f"{side}.results"
    source.write_bytes(pickle.dumps(list(jobs)))
    target.unlink(missing_ok=True)
    env = {"GLOG_v": "3", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "torch2ms.evidence.sides", side, str(source), str(target), device]
    run = subprocess.run(command, env=env, cwd=folder, capture_output=True, text=True, check=False)
    results: list[Result] = []
    if target.exists():
        with target.open("rb") as stream:
            try:
                while True:
                    results.append(pickle.load(stream))
            except (EOFError, pickle.UnpicklingError):  # the end, or a process that died while writing
                pass
    return run.returncode, results, run.stderr


def reason(errors: str) -> str:
    """The exception that ended a child; MindSpore prints pages behind it."""
    found = re.findall(r"^\w*(?:Error|Exception|Interrupt)\b.*", errors, re.MULTILINE)
    return found[-1] if found else ""


def _death(code: int, errors: str) -> str:
    if code == -getattr(signal, "SIGALRM", 0):
        return "did not finish"
    if code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}: {reason(errors)}"
