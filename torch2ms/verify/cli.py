"""The command `torch2ms verify`."""

from __future__ import annotations

import contextlib
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from torch2ms.verify.report import Report

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
@click.option("--mode", type=click.Choice(["pynative", "graph"]), default="pynative", help="MindSpore's mode.")
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
    mode: str,
    timeout: float,
    record: Path | None,
    replay: Path | None,
) -> None:
    """Run PROGRAM and its translation and compare losses, gradients, weights and buffers.

    Without TRANSLATED the program's folder is converted into a temporary one first. Arguments for the program follow
    `--`. Exit code 0: agree, 1: differ, 2: a side could not run.
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
    case = Case(program, translated or program, arguments, steps, device, mode, timeout)
    if record:
        report = record_side(case, record)
    elif replay:
        report = replay_side(replay, case)
    else:
        with _translation(program, translated) as other:
            report = verify_case(Case(program, other, arguments, steps, device, mode, timeout))
    _show(report, json_path, html_path)
    raise SystemExit(report.exit_code)


def _show(report: Report, json_path: Path | None, html_path: Path | None) -> None:
    from torch2ms.verify.page import html
    from torch2ms.verify.report import cli_table

    if html_path is not None:
        html_path.write_text(html(report), encoding="utf-8")
    if json_path is not None and str(json_path) == "-":
        click.echo(report.to_json())
        return
    if json_path is not None:
        json_path.write_text(report.to_json() + "\n", encoding="utf-8")
    click.echo(cli_table(report))


@contextlib.contextmanager
def _translation(program: Path, translated: Path | None) -> Iterator[Path]:
    """The translated program: the file given, or the converted copy of the program's folder."""
    if translated is not None:
        yield translated
        return
    with tempfile.TemporaryDirectory(prefix="torch2ms-converted-") as name:
        yield convert_folder(program.resolve(), Path(name))


def convert_folder(program: Path, target: Path) -> Path:
    """Convert the program and the modules beside it; other files are linked, so that relative data is found."""
    from torch2ms.config import Config
    from torch2ms.findings import Tier
    from torch2ms.pipeline import convert_project

    root = program.parent
    sources: dict[str, str] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or not path.is_file():
            continue
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".py":
            sources[relative.as_posix()] = path.read_text(encoding="utf-8")
        else:
            (target / relative).symlink_to(path)
    for name, result in convert_project(sources, Config()).items():
        (target / name).write_text(result.text, encoding="utf-8")
        if result.error:
            click.echo(f"{name}: not converted: {result.error}", err=True)
        elif refused := result.count(Tier.REFUSED):
            click.echo(f"{name}: {refused} construct(s) refused, the program may not run", err=True)
    return target / program.name
