"""The command `torch2ms verify`."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torch2ms.config import STYLES, TARGETS, Config

if TYPE_CHECKING:
    from torch2ms.verify.reporting.report import Report
    from torch2ms.verify.runner import Case
    from torch2ms.verify.verification import Run

DEVICES = ("CPU", "GPU", "Ascend")
SKIPPED = {".git", "__pycache__", ".venv", "venv", "node_modules", "build", "dist"}
FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@click.argument("program", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("translated", required=False, type=click.Path(path_type=Path))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--steps", type=click.IntRange(min=1), help="Stop both sides after this many optimizer steps.")
@click.option("--json", "json_path", type=click.Path(path_type=Path), help="Write the report as JSON (- for stdout).")
@click.option("--html", "html_path", type=FILE, help="Write the report as one HTML file.")
@click.option("--device", type=click.Choice(DEVICES), default="CPU", help="Where the MindSpore side runs.")
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
    **conversion: Any,
) -> None:
    """Run PROGRAM and its translation and compare losses, gradients, weights and buffers.

    Without TRANSLATED the program's folder is converted into a temporary one first. Arguments for the program follow
    `--`. Exit code 0: agree, 1: differ, 2: a side could not run. Of two modes the worse one counts.
    """
    if importlib.util.find_spec("numpy") is None:
        click.echo("not run: verify needs numpy, torch and mindspore: pip install 'torch2ms[verify]'")
        raise SystemExit(2)
    from torch2ms.verify.recording import record as record_side
    from torch2ms.verify.recording import replay as replay_side
    from torch2ms.verify.runner import Case, verify_case

    if record and replay:
        raise click.UsageError("--record and --replay exclude each other")
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


@contextlib.contextmanager
def translation(program: Path, translated: Path | None, config: Config | None = None) -> Iterator[Path]:
    """The translated program: the file given, or the converted copy of the program's folder."""
    if translated is not None:
        yield translated
        return
    with tempfile.TemporaryDirectory(prefix="torch2ms-converted-") as name:
        yield convert_folder(program.resolve(), Path(name), config)


def convert_folder(program: Path, target: Path, config: Config | None = None) -> Path:
    """Convert the program and the modules beside it; other files are linked, so that relative data is found."""
    from torch2ms.findings import Tier
    from torch2ms.pipeline import convert_project
    from torch2ms.source import SourceError, SourceFile, decode, read_bytes

    root = program.parent
    sources: dict[str, SourceFile] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or not path.is_file():
            continue
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        try:
            if path.suffix == ".py":
                sources[relative.as_posix()] = decode(read_bytes(path))
                continue
        except SourceError:  # not Python that can be read: if the program needs the file, it will say so
            pass
        (target / relative).symlink_to(path)
    for name, result in convert_project({k: v.text for k, v in sources.items()}, config or Config()).items():
        (target / name).write_bytes(sources[name].encode(result.text))
        if result.error:
            click.echo(f"{name}: not converted: {result.error}", err=True)
        elif refused := result.count(Tier.REFUSED):
            click.echo(f"{name}: {refused} construct(s) refused, the program may not run", err=True)
    return target / program.name
