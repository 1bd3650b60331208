"""What start-up imports, and how long it takes."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}
HEAVY = ("torch", "mindspore", "libcst")
PROBE = """
import sys
try:
    {code}
except SystemExit:
    pass
print(*sorted(set(sys.modules) & {heavy}), file=sys.stderr)
"""


@pytest.mark.parametrize(
    "code",
    [
        "import torch2ms",
        "import torch2ms; torch2ms.convert_source('x = 1')",
        "from torch2ms.cli import main; main(['--help'])",
        "from torch2ms.cli import main; main(['verify', '--help'])",
        "from torch2ms.cli import main; main(['convert', '--check', 'plain.py'])",
        "from torch2ms.cli import main; main(['convert', '--check', '--no-cache', '-j', '2', 'a.py', 'b.py'])",
        "from torch2ms.cli import main; main(['explain', 'T2M600'])",
    ],
)
def test_nothing_heavy_is_imported(code: str, tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text("x = 1\n")
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text("import torch\n\nx = torch.ones(3)\n")
    probe = PROBE.format(code=code, heavy=set(HEAVY))
    command = [sys.executable, "-c", probe]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT, check=True)
    assert done.stderr.splitlines()[-1] == ""


def seconds(*arguments: str) -> float:
    """Of a processor, since other programs may share the machine; the best of five."""
    best = 60.0
    for _ in range(5):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, *arguments], capture_output=True, env=ENVIRONMENT, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        best = min(best, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return best


def test_help_starts_quickly() -> None:
    assert seconds("-m", "torch2ms", "--help") < seconds("-c", "pass") + 0.15


def test_every_command_is_in_the_help_and_has_its_own() -> None:
    def ask(*arguments: str) -> str:
        command = [sys.executable, "-m", "torch2ms", *arguments, "--help"]
        return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=True).stdout

    for name in ("config", "convert", "explain", "scan", "verify"):
        assert f"\n  {name} " in ask()
        assert ask(name).startswith(f"Usage: torch2ms {name} ")
