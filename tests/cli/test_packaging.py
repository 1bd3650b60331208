"""The wheel: what it carries, and that it works where there is no checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def command(*arguments: str | Path, cwd: Path, **options: bool) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
    words = [str(argument) for argument in arguments]
    done = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment, timeout=600, check=False)
    assert done.returncode == 0 or not options.get("check", True), done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", folder, ROOT, cwd=folder)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scripts folder of a clean environment with the wheel and what it needs, but without the frameworks."""
    folder = tmp_path_factory.mktemp("clean")
    command(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    scripts = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
    command(scripts / "python", "-m", "pip", "install", "--quiet", wheel, cwd=folder)
    return scripts


def test_wheel_carries_program_rules_and_licence(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    source = {p.relative_to(ROOT).as_posix() for p in (ROOT / "torch2ms").rglob("*.py")}
    rules = {f"torch2ms/_rules/{p.relative_to(ROOT / 'rules').as_posix()}" for p in (ROOT / "rules").rglob("*.toml")}
    assert source <= names
    assert rules <= names and rules
    assert "torch2ms/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("tests/", "fixtures/")) for name in names)


def test_installed_program_converts_a_file(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_bytes((ROOT / "fixtures/vision/mnist_cnn/original.py").read_bytes())
    assert command(installed / "torch2ms", "--version", cwd=tmp_path).stdout.startswith("torch2ms ")
    done = command(installed / "torch2ms", "convert", "train.py", cwd=tmp_path)
    assert "1 of 1 file changed" in done.stderr
    text = (tmp_path / "train_ms.py").read_text()
    assert "import mindspore as ms" in text and "optimizer(grads)" in text
    assert "T2M600" in command(installed / "torch2ms", "explain", "600", cwd=tmp_path).stdout


def test_readme_command_is_what_ci_runs() -> None:
    section = (ROOT / "README.md").read_text(encoding="utf-8").split("## Run the tests")[1]
    line = section.split("```bash\n")[1].split("\n```")[0]
    assert "-m pytest -n 2" in line and "constraints.txt" in line and "\n" not in line
    assert "'/^## Run the tests/" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def test_hooks_call_options_that_exist(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    entries = [
        line.split("entry: torch2ms ")[1]
        for line in (ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8").splitlines()
        if "entry:" in line
    ]
    assert len(entries) == 2
    for entry in entries:
        words = [sys.executable, "-m", "torch2ms", *entry.split(), str(tmp_path / "a.py")]
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, check=False)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
