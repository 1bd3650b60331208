"""Many programs, each verified by itself: side by side here, or by the workers of a cluster that see the same files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from torch2ms.config import Config
from torch2ms.source import explain_os_error
from torch2ms.verify.converted import translation
from torch2ms.verify.reporting.report import Report, cli_table, verdict_line
from torch2ms.verify.runner import Case, verify_case
from torch2ms.verify.sides.process import run
from torch2ms.verify.sides.warm import warm_each
from torch2ms.verify.verification import Run

if TYPE_CHECKING:
    from concurrent.futures import Executor

CONVERTED = "its conversion"  # what a report calls a translation that is gone when it is read


@dataclass(frozen=True)
class Task:
    """A program that is converted and verified; all that a worker is sent."""

    case: Case
    config: Config = Config()

    @property
    def resource(self) -> str:
        """What a worker needs one of."""
        return {"cuda": "GPU", "npu": "Ascend"}.get(self.case.torch_device, self.case.device)


def verify_task(task: Task, run: Run = run) -> Report:
    """Convert the folder of a program and verify the program. Never raises for what is wrong with it."""
    program = task.case.original
    try:
        with translation(program, None, task.config, cached=True) as translated:
            report = verify_case(replace(task.case, translated=translated), run)
    except OSError as error:
        return Report(str(program), CONVERTED, reason=f"{program}: {explain_os_error(error)}")
    for each in (report, *report.also):
        each.translated = CONVERTED
    return report


def verify_each(tasks: Sequence[Task], jobs: int = 1, executor: Executor | None = None) -> Iterator[Report]:
    """The reports of the tasks in their order, as they come; the same, whoever does the work."""
    if executor is None and all(t.resource == "CPU" for t in tasks):
        yield from warm_each(verify_task, tasks, jobs)
        return
    if executor is None:
        yield from map(verify_task, tasks)  # they would share one device
        return
    for task, future in [(task, executor.submit(verify_task, task)) for task in tasks]:
        try:
            yield future.result()
        except Exception as error:  # its worker was killed, or does not have the program
            reason = f"the worker failed ({type(error).__name__}: {error})"
            yield Report(str(task.case.original), CONVERTED, reason=reason)


def entry(report: Report) -> str:
    """A report among others: one line where the sides agree, else all that is known."""
    if report.agrees:
        return f"{report.original}: {verdict_line(report)}"
    return f"{report.original}:\n" + "\n".join(f"  {line}" for line in cli_table(report).splitlines())


def summary(reports: Sequence[Report]) -> str:
    """How many of the programs agree, differ, and did not run."""
    codes = [report.exit_code for report in reports]
    return f"{codes.count(0)} agree, {codes.count(1)} differ, {codes.count(2)} not run"


def to_json(reports: Sequence[Report]) -> str:
    """The reports as one JSON list."""
    return json.dumps([json.loads(report.to_json()) for report in reports], indent=1)
