"""The answer that comes before the command line is imported: the one that the command line gives."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from torch2ms.plain import check_of_plain_files, of_another_framework

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Files of every kind, none with torch."""
    folder = tmp_path / "src"
    for name in ("a.py", "b.pyi", "pkg/c.pyw", "pkg/deep/d.py", ".hidden/e.py", "setup.py", "my_setup.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("x = 1\n")
    for name in (".git/f.py", "node_modules/g.py", "x.egg-info/h.py", "env/i.py", "__pycache__/j.py"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("import torch\n")
    (folder / "env" / "pyvenv.cfg").write_text("")
    (folder / "requirements.txt").write_text("numpy\n")
    (folder / "data.csv").write_text("x\n")
    (folder / "k.ipynb").write_text('{"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}')
    script = folder / "script"
    script.write_text("#!/usr/bin/env python\nx = 1\n")
    script.chmod(0o755)
    return folder


def test_both_say_the_same(tree: Path, run: Run) -> None:
    files = [os.path.relpath(path) for path in (tree / "a.py", tree / "data.csv", tree / "setup.py")]
    for arguments in (["src"], ["--no-cache", "src"], ["src/pkg/"], ["."], files, [str(tree / "pkg")]):
        asked = ["--check", *arguments]
        said = run(*asked)
        assert said.returncode == 0
        assert check_of_plain_files(asked) + "\n" == said.stderr.decode()
        assert check_of_plain_files(["convert", *asked]) + "\n" == said.stderr.decode()


@pytest.mark.parametrize(
    "arguments",
    [
        [], ["src"], ["--check"], ["--check", "-q", "src"], ["--check", "--out", "src"], ["scan", "--check", "src"],
        ["--check", "missing"], ["--check", "-"], ["--check", "src", "src/a.py"], ["--check", "src/a.py", "src/a.py"],
        ["--check", "src/../src/a.py", "src/a.py"], ["--check", "src/env"], ["--check", "--diff", "src"],
    ],
)  # fmt: skip
def test_everything_else_is_left_to_the_command_line(
    tree: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tree.parent)
    assert check_of_plain_files(arguments) == ""


def test_what_needs_a_look_gets_one(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tree.parent)
    asked = ["--check", "src"]
    assert check_of_plain_files(asked) == "0 of 10 files would change"
    table = tree.parent / "pyproject.toml"
    table.write_text("[tool.torch2ms]\nstrict = true\n")
    assert check_of_plain_files(asked) == ""
    monkeypatch.chdir(tree / "pkg")
    assert check_of_plain_files(["--check", "."]) == ""
    table.write_text("[tool.other]\n")
    monkeypatch.chdir(tree.parent)
    assert check_of_plain_files(asked)
    for data in (b"import torch\n", b"\xff\xfex\0"):
        (tree / "pkg" / "c.pyw").write_bytes(data)
        assert check_of_plain_files(asked) == ""
    (tree / "pkg" / "c.pyw").write_bytes(b"")
    (tree / "link.py").symlink_to(tree / "a.py")
    assert check_of_plain_files(asked) == ""


def test_the_command_line_is_not_imported(tree: Path) -> None:
    code = (
        "import sys, runpy; sys.argv = ['torch2ms', '--check', 'src/pkg']\n"
        "try: runpy.run_module('torch2ms', run_name='__main__')\n"
        "except SystemExit as left: print(left.code, *sorted(set(sys.modules) & {'click', 'dataclasses', 'pathlib'}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tree.parent, env=environment, check=True)
    assert (done.stdout.split()[0], done.stderr) == ("0", "0 of 2 files would change\n")
    assert "click" not in done.stdout and "dataclasses" not in done.stdout


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("import jax\nbackend = 'torch'\n", True),
        ("# beside torch\nfrom flax import linen as nn\n", True),
        ("import warp as wp\nloss.backward()\n", True),
        ("import jax\nimport torch\n", False),
        ("from jaxtyping import Float\n", False),
        ("from warp import warp_image\n", False),
        ("text = 'import jax'\n", False),
    ],
)
def test_files_of_other_frameworks(text: str, found: bool) -> None:
    assert of_another_framework(text.encode()) is found
