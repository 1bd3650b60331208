"""What a person at a terminal meets: progress, versions, completion, and a project read along."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from torch2ms import progress
from torch2ms.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
Run = Callable[..., CompletedProcess[bytes]]
MODEL = """import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))

    def forward(self, x):
        return self.layer(x)
"""
TRAIN = """import torch
from model import Net

net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for x, y in []:
    opt.zero_grad()
    loss = ((net(x) - y) ** 2).mean()
    loss.backward()
    opt.step()
"""


def test_progress_is_one_line_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter([0.0, 0.5, 10.0, 20.0, 21.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    stream = io.StringIO()
    shown = Progress(100, stream)
    shown(10)
    assert stream.getvalue() == ""  # not before a second has passed
    shown(10)
    assert stream.getvalue() == "\r20 of 100 files, about 0:40 left"
    shown(79)
    assert stream.getvalue().endswith("\r99 of 100 files, about 0:00 left")
    shown(1)
    shown.close()
    assert stream.getvalue().endswith("\r" + " " * 32 + "\r")


def test_progress_is_for_terminals(monkeypatch: pytest.MonkeyPatch, run: Run, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import torch as t\nt.relu(1)\n")
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setattr("torch2ms.progress.Progress.__call__", lambda self, files: self._write("busy"))
    assert b"busy" not in run("convert", "--check", "--no-cache", "a.py").stderr
    monkeypatch.setattr("torch2ms.commands.on_terminal", lambda quiet: not quiet)
    assert b"\rbusy" in run("convert", "--check", "--no-cache", "a.py").stderr
    assert b"busy" not in run("convert", "--check", "--no-cache", "--quiet", "a.py").stderr


def test_version_names_the_frameworks_and_imports_none(run: Run) -> None:
    lines = run("--version").stdout.decode().splitlines()
    assert [line.split()[0] for line in lines] == ["torch2ms", "PyTorch", "MindSpore", "LibCST"]
    code = "import sys\nfrom torch2ms.cli import main\ntry: main(['--version'])\nexcept SystemExit: pass\n"
    code += "assert not {'torch', 'mindspore', 'libcst'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, capture_output=True)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    assert b"_TORCH2MS_COMPLETE" in run("completion", shell).stdout


def test_completion_knows_commands_and_options() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "_TORCH2MS_COMPLETE": "bash_complete"}

    def ask(words: str) -> list[str]:
        typed = {"COMP_WORDS": words, "COMP_CWORD": str(len(words.split()) - 1)}
        command = [sys.executable, "-m", "torch2ms"]
        done = subprocess.run(command, capture_output=True, text=True, env=environment | typed, check=False)
        return [line.partition(",")[2] for line in done.stdout.splitlines()]

    assert ask("torch2ms c") == ["completion", "config", "convert"]
    assert "--report-file" in ask("torch2ms convert --re")
    assert ask("torch2ms convert --style f") == ["functional"]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "broken.py").write_text("import torch\nx = (\n")
    return tmp_path


class TestProjectRoot:
    """With the real engine: the other files decide what becomes of the given one."""

    @pytest.fixture
    def engine(self) -> None:
        """Not replaced here."""

    def test_other_files_are_read_along_and_left(self, run: Run, project: Path) -> None:
        alone = run("convert", "--diff", "train.py").stdout
        done = run("convert", "--in-place", "--project-root", ".", "train.py")
        assert done.returncode == 0 and b"1 of 1 file changed" in done.stderr, done.stderr
        text = (project / "train.py").read_text()
        assert "net.set_train()" in text and "grad_fn(x, y)" in text
        assert b"+net.set_train()" not in alone
        assert (project / "model.py").read_text() == MODEL

    def test_a_file_that_never_names_torch_is_converted_as_with_all(self, run: Run, project: Path) -> None:
        (project / "decay.py").write_text(
            "class Decay:\n    def __init__(self, optimizer):\n        self.optimizer = optimizer\n\n"
            "    def step(self):\n        for group in self.optimizer.param_groups:\n            group['lr'] = 0.01\n"
        )
        (project / "more.py").write_text(
            "import torch\nfrom decay import Decay\n\nnet = torch.nn.Linear(2, 1)\n"
            "Decay(torch.optim.SGD(net.parameters(), lr=0.1)).step()\n"
        )
        alone = run("convert", "--in-place", "--project-root", ".", "decay.py")
        assert alone.returncode == 0 and "assign(group['lr'], 0.01)" in (project / "decay.py").read_text()

    def test_it_may_stand_in_the_configuration(self, run: Run, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (project / "pyproject.toml").write_text('[tool.torch2ms]\nproject-root = "."\n')
        (project / "sub").mkdir()
        monkeypatch.chdir(project / "sub")
        assert b"+net.set_train()" in run("convert", "--diff", "../train.py").stdout
        assert f"project-root = {str(project)!r}  # pyproject.toml" in run("config").stdout.decode()


def test_codes_are_ignored_file_by_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.torch2ms.per-file-ignores]\n"old/*" = ["T2M6"]\n')
    (tmp_path / "old").mkdir()
    for name in ("old/a.py", "b.py"):
        (tmp_path / name).write_text("import torch as t\nt.relu(1)\nrefuse_me = 1\n")
    assert run("convert", "--strict", "--out", "x", "old/a.py").returncode == 0
    assert run("convert", "--strict", "--out", "y", "b.py").returncode == 1
    assert b"per-file-ignores = {'old/*': ['T2M6']}  # pyproject.toml" in run("config").stdout
    (tmp_path / "pyproject.toml").write_text('[tool.torch2ms.per-file-ignores]\n"old/*" = "T2M6"\n')
    assert run("convert", "--check", "b.py").returncode == 2
    (tmp_path / "pyproject.toml").write_text('[tool.torch2ms.per-file-ignores]\n"old/*" = ["E501"]\n')
    assert b"E501 is no code" in run("convert", "--check", "b.py").stderr
