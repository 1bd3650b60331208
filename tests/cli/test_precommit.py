"""The hooks, through the real pre-commit program, in a real repository."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
TORCH = "import torch\n\n\ndef f(x):\n    return torch.relu(x)\n"
TRANSLATED = "from mindspore import ops\n\n\ndef f(x):\n    return ops.relu(x)\n"

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with both hooks as they are published, run by this Python instead of an environment of their own."""
    scripts = tmp_path / "bin"
    scripts.mkdir()
    command = scripts / "torch2ms"
    command.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m torch2ms "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{scripts}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path / "cache"))
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    for hook in hooks:
        assert hook["language"] == "python"
        hook["language"] = "system"
    folder = tmp_path / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "user.email", "someone@example.org")
    git(folder, "config", "user.name", "someone")
    write_config(folder, hooks)
    (folder / "plain.py").write_text("x = 1\n")
    (folder / "old.py").write_text(TORCH)
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--no-verify", "-m", "before the hooks")
    return folder


def write_config(folder: Path, hooks: list[dict[str, object]]) -> None:
    document = {"repos": [{"repo": "local", "hooks": hooks}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(document))


def only(folder: Path, name: str) -> None:
    """Keep one of the hooks."""
    document = yaml.safe_load((folder / ".pre-commit-config.yaml").read_text())
    write_config(folder, [hook for hook in document["repos"][0]["hooks"] if hook["id"] == name])
    git(folder, "add", ".pre-commit-config.yaml")
    precommit(folder, "install")


def git(folder: Path, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=check)


def precommit(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_published_hooks_are_valid() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-manifest", str(ROOT / ".pre-commit-hooks.yaml")]
    subprocess.run(command, check=True)


def test_check_stops_a_commit_with_torch_and_looks_at_changed_files_only(repository: Path) -> None:
    only(repository, "torch2ms-check")
    (repository / "plain.py").write_text("x = 2\n")
    git(repository, "add", ".")
    done = git(repository, "commit", "-m", "no torch in it", check=False)  # old.py holds torch and is not touched
    assert done.returncode == 0, done.stdout + done.stderr
    (repository / "new.py").write_text(TORCH)
    git(repository, "add", ".")
    done = git(repository, "commit", "-m", "torch", check=False)
    assert done.returncode == 1 and "would change: new.py" in done.stdout + done.stderr
    assert (repository / "new.py").read_text() == TORCH
    (repository / "new.py").write_text(TORCH.replace("import torch", "# torch2ms: off\nimport torch"))
    git(repository, "add", ".")
    assert git(repository, "commit", "-m", "on purpose", check=False).returncode == 0


def test_convert_edits_and_the_next_commit_passes(repository: Path) -> None:
    only(repository, "torch2ms-convert")
    (repository / "new.py").write_text(TORCH)
    git(repository, "add", ".")
    done = git(repository, "commit", "-m", "torch", check=False)
    assert done.returncode == 1 and "files were modified by this hook" in done.stdout + done.stderr
    assert (repository / "new.py").read_text() == TRANSLATED
    assert (repository / "old.py").read_text() == TORCH
    git(repository, "add", ".")
    assert git(repository, "commit", "-m", "translated", check=False).returncode == 0


def test_files_without_torch_and_files_seen_before_are_quick(repository: Path) -> None:
    only(repository, "torch2ms-check")
    for number in range(200):
        (repository / f"plain{number}.py").write_text(f"x = {number}\n" * 50)
    big = "import torch\n" + "".join(f"def f{n}(x):\n    return torch.relu(x) + {n}\n" for n in range(400))
    (repository / "big.py").write_text(big)
    git(repository, "add", ".")

    def seconds(*files: str) -> float:
        """Of a processor, since other programs may share the machine."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(["torch2ms", "convert", "--check", *files], cwd=repository, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert min(seconds(*(f"plain{number}.py" for number in range(200))) for _ in range(3)) < 0.8
    first = seconds("big.py")
    again = min(seconds("big.py") for _ in range(3))
    assert again < first / 2
    done = precommit(repository, "run", "torch2ms-check", "--files", "plain1.py", "plain2.py")
    assert done.returncode == 0 and "Passed" in done.stdout, done.stdout
