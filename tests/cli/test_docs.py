"""Documentation: generated pages are whole, and what the prose names exists."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import tomllib

from torch2ms import convert_source
from torch2ms.cli import torch2ms
from torch2ms.codes import all_codes
from torch2ms.config import KEYS, read_pyproject

ROOT = Path(__file__).resolve().parents[2]
PROSE = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def every_command() -> Iterator[click.Command]:
    """The commands, those that are imported late and those of groups included."""
    context = click.Context(torch2ms)
    for name in torch2ms.list_commands(context):
        command = torch2ms.get_command(context, name)
        yield from command.commands.values() if isinstance(command, click.Group) else [command]


def test_codes_and_options_in_prose_exist() -> None:
    options = {name for command in every_command() for p in command.params for name in p.opts + p.secondary_opts}
    foreign = {"--no-format", "--upgrade", "--extra-index-url", "--quiet", "--version", "--epochs", "--batch-size"}
    foreign |= {"--dist", "--count", "--seed", "--family", "--resources"}  # of pytest, a module of the tests, and Dask
    foreign |= {"--files", "--draw"}  # of the benchmarks
    for path in PROSE:
        text = path.read_text(encoding="utf-8")
        assert set(re.findall(r"\bT2M\d{3}\b", text)) <= set(all_codes()), path.name
        assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", text)) - foreign <= options, path.name


def test_marks_in_prose_are_what_a_conversion_writes() -> None:
    marks = [m for path in PROSE for m in re.findall(r"^(# torch2ms: T2M\d.*)\n(.*)$", path.read_text(), re.MULTILINE)]
    assert marks
    for mark, line in marks:
        assert mark in convert_source(f"import torch.nn as nn\n{line}\n").text


def test_links_between_pages() -> None:
    for path in PROSE:
        for link in re.findall(r"\]\(([^)#:]+)\)", path.read_text(encoding="utf-8")):
            generated = link.startswith(("codes/", "api/", "cookbook.md"))  # see test_site
            assert generated or (path.parent / link).exists(), f"{path.name}: {link}"


def test_configuration_in_prose_is_valid(tmp_path: Path) -> None:
    seen = 0
    for path in PROSE:
        for block in re.findall(r"```toml\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL):
            (tmp_path / "pyproject.toml").write_text(block, encoding="utf-8")
            assert read_pyproject(tmp_path / "pyproject.toml").keys() <= KEYS.keys()
            seen += 1
    assert seen == 3


def test_configuration_keys_are_options() -> None:
    options = {p.name for command in torch2ms.commands.values() for p in command.params}
    assert {key.replace("-", "_") for key in KEYS} - {"per_file_ignores"} <= options


def test_version_has_one_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"]
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
