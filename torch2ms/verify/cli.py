"""The command `torch2ms verify`."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torch2ms.config import HARDWARE, STYLES, TARGETS, Config

if TYPE_CHECKING:
    from torch2ms.verify.reporting.report import Report
    from torch2ms.verify.runner import Case
    from torch2ms.verify.verification import Run

FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("translated", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--steps", type=click.IntRange(min=1), help="Stop both sides after this many optimizer steps.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the report as JSON (- for stdout).")
@click.option("--html", "html_path", type=FILE, help="Write the report as one HTML file.")
@click.option("--device", type=click.Choice(HARDWARE), default="CPU", help="Where the MindSpore side runs.")
@click.option("--torch-device", type=click.Choice(["cpu", "cuda", "npu"]), default="cpu", help="What torch may use.")
@click.option("--result", "results", multiple=True, metavar="NAME", help="A top-level variable that must be equal.")
@click.option("--float64", is_flag=True, help="Measure both sides against torch in double precision in any case.")
@click.option(
    "--mode",
    type=click.Choice(["pynative", "graph", "both"]),
    help="MindSpore's mode; default: pynative, and both with --jit.",
)
@click.option("--target", type=click.Choice(TARGETS), default=TARGETS[-1], help="The MindSpore to convert for.")
@click.option("--style", type=click.Choice(STYLES), default=STYLES[0], help="Form of the converted steps.")
@click.option("--jit", is_flag=True, help="Convert with --jit.")
@click.option("--assume-cleared", is_flag=True, help="Convert with --assume-cleared.")
@click.option("--timeout", type=float, default=300.0, show_default=True, help="Seconds per side.")
@click.option("--record", type=FILE, help="Run only torch's side and write what the other side needs to FILE.")
@click.option("--replay", type=FILE, help="PROGRAM is the translation: compare it with a recording, without torch.")
@click.option("--each", is_flag=True, help="Every argument is a program of its own; nothing is passed to them.")
@click.option("-j", "--jobs", type=click.IntRange(1), default=1, help="Programs at a time, with --each.")
@click.option("--executor", default="", metavar="dask://HOST:PORT", help="A Dask cluster that verifies, with --each.")
def verify(
    program: Path,
    translated: Path | None,
    arguments: tuple[str, ...],
    steps: int | None,
    json_path: Path | None,
    html_path: Path | None,
    device: str,
    torch_device: str,
    results: tuple[str, ...],
    float64: bool,
    mode: str | None,
    timeout: float,
    record: Path | None,
    replay: Path | None,
    each: bool,
    jobs: int,
    executor: str,
    **conversion: Any,
) -> None:
    """Run PROGRAM and its translation and compare losses, gradients, weights and buffers.

    Without TRANSLATED the program's folder is converted into a temporary one first. Arguments for the program follow
    `--`. Exit code 0: agree, 1: differ, 2: a side could not run. Of two modes, and of several programs, the worst one
    counts.
    """
    if importlib.util.find_spec("numpy") is None:
        click.echo("not run: verify needs numpy, torch and mindspore: pip install 'torch2ms[verify]'")
        raise SystemExit(2)
    from torch2ms.verify.converted import translation
    from torch2ms.verify.recording import record as record_side
    from torch2ms.verify.recording import replay as replay_side
    from torch2ms.verify.runner import Case, verify_case

    if record and replay:
        raise click.UsageError("--record and --replay exclude each other")
    if each and (record or replay or html_path):
        raise click.UsageError("--record, --replay and --html are for one program, without --each")
    if not each and (executor or jobs > 1):
        raise click.UsageError("--jobs and --executor are for several programs: say --each")
    if each:
        others = [path for path in (translated, *map(Path, arguments)) if path is not None]
        mode = mode or ("both" if conversion["jit"] else "pynative")
        case = Case(program, program, (), steps, device, mode, timeout, Path.cwd(), float64, results, torch_device)
        raise SystemExit(_verify_each([program, *others], case, Config(**conversion), jobs, executor, json_path))
    if translated is not None and (translated.suffix != ".py" or record or replay):
        arguments, translated = (str(translated), *arguments), None
    click.echo(f"verify executes {program}{'' if record or replay else ' and its translation'} here.", err=True)
    mode = mode or ("both" if conversion["jit"] and translated is None else "pynative")
    case = Case(program, translated or program, arguments, steps, device, mode, timeout)
    case = dataclasses.replace(case, results=results, float64=float64, torch_device=torch_device)
    with _processes(case, alone=bool(record or replay)) as run:
        if record:
            report = record_side(case, record, run)
        elif replay:
            report = replay_side(replay, case, run)
        else:
            with translation(program, translated, Config(**conversion)) as other:
                report = verify_case(dataclasses.replace(case, translated=other), run)
    _show(report, json_path, html_path)
    raise SystemExit(report.exit_code)


@contextlib.contextmanager
def _processes(case: Case, alone: bool) -> Iterator[Run]:
    """What runs a job: forks of processes that have the frameworks imported, where nothing but the CPU is used."""
    from torch2ms.verify.reporting.progress import Progress
    from torch2ms.verify.sides.process import run
    from torch2ms.verify.sides.warm import warm_pair

    if alone or case.device != "CPU" or case.torch_device != "cpu" or not hasattr(os, "fork"):
        yield Progress(run).run
        return
    with warm_pair() as pair:
        pair.start()
        yield Progress(pair.run).run


def _verify_each(
    programs: list[Path], case: Case, config: Config, jobs: int, executor: str, json_path: Path | None
) -> int:
    """Verify programs one by one, or side by side, and tell of each when it is done; the exit status."""
    from torch2ms.executors import ExecutorError, executor_at
    from torch2ms.verify.many import Task, entry, summary, to_json, verify_each

    if missing := [str(path) for path in programs if not path.is_file()]:
        raise click.UsageError(f"no such file: {missing[0]}")
    where = f"by the workers of {executor}" if executor else "here"
    click.echo(f"verify executes {len(programs)} programs and their translations {where}.", err=True)
    tasks = [Task(dataclasses.replace(case, original=path.absolute()), config) for path in programs]
    on_stdout = json_path is not None and str(json_path) == "-"
    reports = []
    try:
        with executor_at(executor, tasks[0].resource) as cluster:
            for report in verify_each(tasks, jobs, cluster):
                reports.append(report)
                click.echo(entry(report), err=on_stdout)
    except ExecutorError as error:
        raise click.UsageError(str(error)) from None
    click.echo(summary(reports), err=on_stdout)
    if on_stdout:
        click.echo(to_json(reports))
    elif json_path is not None:
        json_path.write_text(to_json(reports) + "\n", encoding="utf-8")
    return max(report.exit_code for report in reports)


def _show(report: Report, json_path: Path | None, html_path: Path | None) -> None:
    from torch2ms.verify.reporting.page import html
    from torch2ms.verify.reporting.report import cli_table

    if html_path is not None:
        html_path.write_text(html(report), encoding="utf-8")
    if json_path is not None and str(json_path) == "-":
        click.echo(report.to_json())
        return
    if json_path is not None:
        json_path.write_text(report.to_json() + "\n", encoding="utf-8")
    click.echo(cli_table(report))
