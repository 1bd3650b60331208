"""[tool.torch2ms]: found upwards, checked key by key, overruled by the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

Run = Callable[..., CompletedProcess[bytes]]


def write(folder: Path, body: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.torch2ms]\n{body}\n", encoding="utf-8")


def test_nearest_table_gives_the_defaults(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'target = "2.8"\ndevice-target = "Ascend"\nexclude = ["a", "b"]\njit = true')
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub/pyproject.toml").write_text("[project]\n")  # says nothing of torch2ms
    monkeypatch.chdir(tmp_path / "sub")
    shown = run("config", "--no-jit").stdout.decode()
    assert f"# {tmp_path / 'pyproject.toml'}" in shown
    assert "target = '2.8'  # pyproject.toml" in shown
    assert "device-target = 'Ascend'  # pyproject.toml" in shown
    assert "exclude = ['a', 'b']  # pyproject.toml" in shown
    assert "jit = False  # command line" in shown
    assert "style = 'functional'  # default" in shown


def test_options_of_the_table_are_used(run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch as t\nt.relu(1)\nrefuse_me = 1\n")
    write(tmp_path, 'strict = true\nout = "there"')
    assert run("convert", "a.py").returncode == 1
    assert (tmp_path / "there/a.py").exists()
    write(tmp_path, 'strict = true\nout = "there"\nignore = ["T2M6"]')
    assert run("convert", "a.py").returncode == 0


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("taget = '2.8'", "has no key 'taget'; did you mean target?"),
        ("device_target = 'CPU'", "did you mean device-target?"),
        ("zzz = 1", "known keys: target"),
        ("target = 2.8", "target must be a str, not 2.8"),
        ("target = '1.0'", "target is '1.0'; choose from 2.7"),
        ("jit = 1", "jit must be a bool"),
        ("exclude = 'a'", "exclude must be a list"),
        ("exclude = [1]", "exclude must be a list of strings"),
        ("= 1", "pyproject.toml: "),
    ],
)
def test_mistakes_are_named(run: Run, tmp_path: Path, body: str, message: str) -> None:
    write(tmp_path, body)
    (tmp_path / "a.py").write_text("x = 1\n")
    done = run("convert", "--check", "a.py")
    assert done.returncode == 2
    assert message in " ".join(done.stderr.decode().split())


def test_another_file_may_be_named(run: Run, tmp_path: Path) -> None:
    write(tmp_path, "nonsense = 1")
    (tmp_path / "sub").mkdir()
    write(tmp_path / "sub", "target = '2.9'")
    assert "target = '2.9'" in run("config", "--config", "sub/pyproject.toml").stdout.decode()
    assert run("config", "--config", "missing.toml").returncode == 2
