"""The command `torch2ms verify`."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from torch2ms.config import STYLES, TARGETS, Config

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
    mode: str | None,
    timeout: float,
    record: Path | None,
    replay: Path | None,
    **conversion: Any,
) -> None:
    """Run PROGRAM and its translation and compare losses, gradients, weights and buffers.

    Without TRANSLATED the program's folder is converted into a temporary one first. Arguments for the program follow
    `--`. Exit code 0: agree, 1: differ, 2: a side could not run. Of two modes the worse one counts, and the HTML page
    of graph mode stands beside the other.
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
    modes = ("pynative", "graph") if mode == "both" else (mode,)
    cases = [Case(program, translated or program, arguments, steps, device, each, timeout) for each in modes]
    if record:
        reports = [record_side(cases[0], record)]
    elif replay:
        reports = [replay_side(replay, case) for case in cases]
    else:
        with _translation(program, translated, Config(**conversion)) as other:
            reports = [verify_case(dataclasses.replace(case, translated=other)) for case in cases]
    _show(dict(zip(modes, reports, strict=False)), json_path, html_path)
    raise SystemExit(max(report.exit_code for report in reports))


def _show(reports: dict[str, Report], json_path: Path | None, html_path: Path | None) -> None:
    from torch2ms.verify.page import html
    from torch2ms.verify.report import cli_table

    for number, (mode, report) in enumerate(reports.items()):
        if html_path is not None:
            path = html_path if not number else html_path.with_name(f"{html_path.stem}-{mode}{html_path.suffix}")
            path.write_text(html(report), encoding="utf-8")
    several = len(reports) > 1
    document = ",\n".join(f'"{mode}": {report.to_json()}' for mode, report in reports.items())
    text = f"{{{document}}}" if several else next(iter(reports.values())).to_json()
    if json_path is not None and str(json_path) == "-":
        click.echo(text)
        return
    if json_path is not None:
        json_path.write_text(text + "\n", encoding="utf-8")
    for mode, report in reports.items():
        click.echo((f"--- {mode}\n" if several else "") + cli_table(report))


@contextlib.contextmanager
def _translation(program: Path, translated: Path | None, config: Config) -> Iterator[Path]:
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
    for name, result in convert_project(sources, config or Config()).items():
        (target / name).write_text(result.text, encoding="utf-8")
        if result.error:
            click.echo(f"{name}: not converted: {result.error}", err=True)
        elif refused := result.count(Tier.REFUSED):
            click.echo(f"{name}: {refused} construct(s) refused, the program may not run", err=True)
    return target / program.name
