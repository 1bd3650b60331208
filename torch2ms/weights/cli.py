"""The command `torch2ms weights`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import click

from torch2ms.exits import DONE, FAILED, FOUND

FILE = click.Path(dir_okay=False, path_type=Path)
SUFFIXES = (".ckpt", ".safetensors")


class SideError(Exception):
    """A child process did not come to its end; the message is its last word."""


@click.command()
@click.argument("checkpoint", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--like", required=True, metavar="FILE.py:CLASS", help="The model: net.py:ResNet(num_classes=10).")
@click.option("-o", "--out", required=True, type=FILE, help="The checkpoint to write: .ckpt or .safetensors.")
@click.option("--translated", type=FILE, help="The translation of FILE.py, where you have one; else it is converted.")
@click.option("--unchecked", is_flag=True, help="Write without comparing with the translated model.")
def weights(checkpoint: Path, like: str, out: Path, translated: Path | None, unchecked: bool) -> None:
    """Convert CHECKPOINT (.pth, .pt, .bin, .safetensors) for the translation of a model.

    Which layer a name belongs to is known by making the model: FILE.py is imported and the class called, in one process
    with PyTorch and, translated, in one with MindSpore. Both execute FILE.py. The checkpoint itself is read with
    weights_only=True. Exit code 0: written, 1: something did not map and nothing was written, 2: a side could not run.
    """
    from torch2ms.weights.model import Like, LikeError

    try:
        program = Like.parse(like).file.resolve()
    except LikeError as error:
        raise click.UsageError(str(error)) from None
    if not program.is_file():
        raise click.UsageError(f"--like: there is no file {program}")
    if out.suffix not in SUFFIXES:
        raise click.UsageError(f"--out must end in {' or '.join(SUFFIXES)}")
    click.echo(f"weights executes {program.name} here.", err=True)
    with tempfile.TemporaryDirectory(prefix="torch2ms-weights-") as name:
        folder = Path(name)
        if translated is None and not unchecked:
            from torch2ms.verify.converted import convert_folder

            translated = convert_folder(program, folder / "converted")
        order = {
            "like": like, "program": str(program), "checkpoint": str(checkpoint.resolve()), "out": str(out.resolve()),
            "translated": None if unchecked or translated is None else str(translated.resolve()), "cwd": os.getcwd(),
        }  # fmt: skip
        (folder / "order.json").write_text(json.dumps(order), encoding="utf-8")
        try:
            told = _side("torch", folder)
            if not told["problems"]:
                told |= _side("mindspore", folder)
        except SideError as error:
            click.echo(f"not converted: {error}", err=True)
            raise SystemExit(FAILED) from None
    raise SystemExit(_tell(told, out))


def _side(side: str, folder: Path) -> dict[str, Any]:
    env = {"GLOG_v": "3", **os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", f"torch2ms.weights.{side}_side", str(folder / "order.json")]
    run = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    answer = folder / f"{side}.json"
    if run.returncode or not answer.exists():
        from torch2ms.evidence.processes import reason

        raise SideError(f"{side}: {reason(run.stderr) or f'ended with exit code {run.returncode}'}")
    found: dict[str, Any] = json.loads(answer.read_text(encoding="utf-8"))
    return found


def _tell(told: dict[str, Any], out: Path) -> int:
    """Say what became of the entries; the exit code."""
    for problem in told["problems"]:
        click.echo(problem, err=True)
    if told["problems"]:
        click.echo(f"{len(told['problems'])} entries do not map; nothing was written", err=True)
        return FOUND
    written = [entry for entry in told["entries"] if not entry.get("left_out")]
    for entry in told["entries"]:
        if entry.get("left_out"):
            why = "the same parameter as another" if entry["shared"] else "a buffer that the cell makes itself"
            click.echo(f"left out: {entry['key']}: {why}")
    if dropped := told["dropped"]:
        click.echo(f"left out: {len(dropped)} counters that MindSpore does not keep ({dropped[0]}, ...)")
    renamed = sum(entry["key"] != entry["name"] for entry in written)
    click.echo(f"{out}: {len(written)} parameters, {renamed} of them under another name")
    return DONE
