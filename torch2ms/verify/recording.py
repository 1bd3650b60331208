"""Split a verification over two machines: one that has torch records, one that has the device replays.

A recording is the torch side's trace: one zip of JSON and plain arrays, versioned, without pickles. What needs torch
again, the proof that a gradient is rounding noise (noise.py), is done while recording.
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
import time
import zipfile
from dataclasses import replace
from pathlib import Path

from torch2ms.verify.comparison.compare import compare
from torch2ms.verify.comparison.noise import ROUNDING, Noise, confirmed, tiny
from torch2ms.verify.reporting.report import Problem, Report
from torch2ms.verify.runner import Case
from torch2ms.verify.sides.process import Job, run
from torch2ms.verify.trace import FILE_LIMIT, Trace
from torch2ms.verify.verification import Run, ran


def record(case: Case, target: Path, run: Run = run) -> Report:
    """Run the torch side alone and write its recording; the report says whether it ran."""
    report = Report(str(case.original), str(target))
    job, _ = case.jobs()
    with tempfile.TemporaryDirectory(prefix="torch2ms-verify-") as name:
        first = run(job, _folder(name, "first"))
        if not ran(report, "torch", first) or first.trace is None:
            return report
        trace, noise = _quiet(job, first.trace, Path(name), run)
        trace.meta.update(
            program=case.original.name,
            sha256=hashlib.sha256(case.original.read_bytes()).hexdigest(),
            argv=list(case.argv),
            limit=case.steps,
            stdout=first.stdout,
            noise={key: found.text for key, found in noise.items()},
            held={key: found.level for key, found in noise.items()},
        )
        trace.save(Path(name) / "recording.zip")
        if (size := (Path(name) / "recording.zip").stat().st_size) > FILE_LIMIT:
            report.reason = f"the recording would have {size >> 20} MiB, more than {FILE_LIMIT >> 20}: use --steps"
            return report
        shutil.copyfile(Path(name) / "recording.zip", target)
    report.verdict, report.reason = "recorded", ""
    return report


def _quiet(job: Job, trace: Trace, place: Path, run: Run) -> tuple[Trace, dict[str, Noise]]:
    """The trace with rounding noise held at zero, and what was held."""
    suspects = tiny(trace)
    if not suspects:
        return trace, {}
    disturbed = run(replace(job, perturb=ROUNDING), _folder(place, "disturbed")).trace
    found = confirmed(trace, disturbed, suspects) if disturbed else {}
    zero = {key: noise.level for key, noise in found.items()}
    again = run(replace(job, zero=zero), _folder(place, "again")).trace if found else None
    return (again, found) if again else (trace, {})


def replay(recording: Path, case: Case, run: Run = run) -> Report:
    """Run the translated program against a recording; torch is not needed. `case.original` is not used."""
    if case.mode == "both":
        report = replay(recording, replace(case, mode="pynative"), run)
        report.also = [replay(recording, replace(case, mode="graph"), run)]
        return report
    started = time.monotonic()
    report = Report(str(recording), str(case.translated))
    try:
        trace = Trace.load(recording)
        report.original, report.sources["torch"] = trace.meta["program"], trace.meta["sha256"]
        report.stdout["torch"], report.asked = trace.meta["stdout"], list(case.results)
        job = replace(
            case.jobs()[1],
            argv=case.argv or trace.meta["argv"],
            steps=case.steps or trace.meta["limit"],
            replay=recording,
            zero=trace.meta["held"],
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        report.reason = f"{recording} is not a recording: {error}"
        return report
    if not case.translated.is_file():
        report.reason = f"mindspore side: no such file {case.translated}"
        return report
    report.sources["mindspore"] = hashlib.sha256(case.translated.read_bytes()).hexdigest()
    with tempfile.TemporaryDirectory(prefix="torch2ms-verify-") as name:
        outcome = run(job, Path(name))
    if ran(report, "mindspore", outcome) and outcome.trace:
        compare(trace, outcome.trace, report)
        report.notes += [report.uneven] if report.uneven else []
        for number in report.printed:  # torch is not here to tell whether it prints the same twice
            report.notes.append(f"printed line {number} differs")
        for variable, text in report.suspected.items():
            if variable in report.asked:
                report.problems.append(Problem(f"variable {variable}", text))
                report.verdict = "differ"
            else:
                report.notes.append(f"variable {variable} differs: {text}")
        report.noise = list(trace.meta["noise"].values())
    report.seconds, report.mode = time.monotonic() - started, case.mode
    return report


def _folder(place: str | Path, name: str) -> Path:
    folder = Path(place) / name
    folder.mkdir()
    return folder
