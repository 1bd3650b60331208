"""Rule packs of other packages: found through entry points, read without running their code, never exact."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from torch2ms import packs

ACME = Path(__file__).resolve().parents[1] / "packs/acme"
PROGRAM = """import torch
from acme.losses import focal
import acme


def loss(x, y):
    a = focal(torch.relu(x), y, gamma=1.5)
    b = focal(x, y, alpha=0.25)
    return a + b + acme.crop(x, 3)
"""
EXPECTED = """import acme_ms
from mindspore import ops
from acme.losses import focal


def loss(x, y):
    a = acme_ms.focal(ops.relu(x), y, power=1.5)
    # torch2ms: T2M605 acme.losses.focal -> weight the classes by hand
    b = focal(x, y, alpha=0.25)
    return a + b + ops.crop(x, 3)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the example package installed, and nothing else."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), str(ACME)]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return folder


def convert(site: Path, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).resolve().parents[2]
    code = f"import sys; sys.path[:0] = [{str(root)!r}, {str(site)!r}]; from torch2ms.cli import main; main()"
    command = [sys.executable, "-c", code, "convert", "--no-cache", "-v", *options, "a.py"]
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)


def test_an_installed_pack_takes_part(site: Path, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    done = convert(site, tmp_path, "--in-place")
    assert (tmp_path / "a.py").read_text() == EXPECTED, done.stderr
    assert "T2M604 assumed: acme.losses.focal" in done.stderr and "it is a rule of the pack acme" in done.stderr
    assert "T2M604 assumed: acme.crop" in done.stderr and "channels first" in done.stderr
    assert convert(site, tmp_path, "--in-place").returncode == 0
    assert (tmp_path / "a.py").read_text() == EXPECTED


def test_a_broken_pack_stops_the_run_with_its_name(site: Path, tmp_path: Path) -> None:
    broken = tmp_path / "site"
    shutil.copytree(site, broken)
    (broken / "acme_torch2ms/losses.toml").write_text("[imports]\nx = 1\n")
    (tmp_path / "a.py").write_text(PROGRAM)
    done = convert(broken, tmp_path, "--check")
    assert done.returncode == 2
    assert done.stderr == "error: rule pack acme: losses.toml: 1 is no import statement for x\n"


def test_without_it_the_names_are_not_ours(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(PROGRAM)
    convert(tmp_path, tmp_path, "--in-place")
    assert "acme.crop(x, 3)" in (tmp_path / "a.py").read_text()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("[imports]\nx = 'rm -rf /'", "is no import statement for x"),
        ("[imports]\nx = 'import y'", "is no import statement for x"),
        ("['a", "rules.toml: "),
        (None, "holds no TOML tables"),
    ],
)
def test_what_is_wrong_with_a_pack_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table: str | None, message: str
) -> None:
    package = tmp_path / "some_rules"
    package.mkdir()
    (package / "__init__.py").touch()
    if table is not None:
        (package / "rules.toml").write_text(table)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(packs.PackError, match="rule pack some: ") as told:
        packs._read("some", "some_rules")
    assert message in str(told.value)
    with pytest.raises(packs.PackError, match="there is no package"):
        packs._read("some", "no_such_package_anywhere.rules")
