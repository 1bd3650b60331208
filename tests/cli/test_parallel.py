"""Parts, workers and the cache: none of them may change a result."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from torch2ms import cache
from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier
from torch2ms.parallel import convert_parts, parts

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
Run = Callable[..., CompletedProcess[bytes]]
PROJECT = {
    "train.py": "from models import net\n",
    "models/__init__.py": "from .net import Net\n",
    "models/net.py": "import torch.nn.data\n",
    "models/unused.py": "",
    "tools/data.py": "import torch\n",
    "tools/plot.py": "from . import data as d\n",
    "alone.py": "import torch\n",
    "deep/down/under.py": "",
    "user.py": "def f():\n    import deep.down\n",
}


def convert(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """Results that depend on which files are seen together."""
    seen = " ".join(sorted(sources))
    finding = Finding("T2M601", Tier.ASSUMED, seen, config.target, line=3)
    return {
        key: Result(key, text, text + f"# {len(text)}\n" * ("torch" in text), (finding,))
        for key, text in sources.items()
    }


def break_down(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    if os.getpid() != PARENT:
        os._exit(1)
    return convert(sources, config)


PARENT = os.getpid()


def test_parts_are_what_does_not_import_each_other() -> None:
    assert {frozenset(part) for part in parts(PROJECT)} == {
        frozenset({"train.py", "models/__init__.py", "models/net.py", "models/unused.py"}),
        frozenset({"tools/data.py", "tools/plot.py"}),
        frozenset({"alone.py"}),
        frozenset({"deep/down/under.py", "user.py"}),
    }
    assert parts({}) == []


def test_workers_and_executors_give_the_same_results() -> None:
    alone = convert_parts(convert, PROJECT, Config())
    assert list(alone) == list(PROJECT)
    assert convert_parts(convert, PROJECT, Config(), jobs=3) == alone
    with ThreadPoolExecutor(2) as executor:
        assert convert_parts(convert, PROJECT, Config(), executor=executor) == alone


CONVERTED = """
import sys
from pathlib import Path
from torch2ms.config import Config
from torch2ms.pipeline import convert_project

for folder in sys.argv[2:]:
    paths = sorted(Path(folder).rglob("*.py"), reverse=sys.argv[1] == "backwards")
    texts = {path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8") for path in paths}
    for path, result in sorted(convert_project(texts, Config()).items()):
        print(path, result.text, *result.findings, result.error, sep="\\n")
"""


def test_neither_the_order_of_files_nor_that_of_sets_changes_a_project() -> None:
    projects = [str(path) for path in sorted(FIXTURES.glob("*/*/original")) if path.is_dir()][::2]
    told = [
        subprocess.run(
            [sys.executable, "-c", CONVERTED, order, *projects],
            env=os.environ | {"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True,
        ).stdout
        for order, seed in (("forwards", "1"), ("backwards", "2"))
    ]  # fmt: skip
    assert len(projects) > 10
    assert told[0] == told[1]


def test_killed_workers_are_made_up_for() -> None:
    assert convert_parts(break_down, PROJECT, Config(), jobs=2) == convert_parts(convert, PROJECT, Config())
    assert issubclass(BrokenProcessPool, RuntimeError)


def test_cache_finds_what_has_not_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path))
    seen: list[str] = []

    def watched(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
        seen.extend(sources)
        return convert(sources, config)

    first = convert_parts(watched, PROJECT, Config(), cached=True)
    assert first == convert_parts(convert, PROJECT, Config()) and sorted(seen) == sorted(PROJECT)
    seen.clear()
    assert convert_parts(watched, PROJECT, Config(), cached=True) == first and seen == []
    convert_parts(watched, {**PROJECT, "tools/data.py": "x = 1\n"}, Config(), cached=True)
    assert sorted(seen) == ["tools/data.py", "tools/plot.py"]
    seen.clear()
    convert_parts(watched, PROJECT, Config(target="2.7"), cached=True)
    assert sorted(seen) == sorted(PROJECT)


@pytest.mark.parametrize("damage", ["", "{", "[]", "{}", '{"a.py": {"text": null}}', '{"a.py": {"findings": [1]}}'])
def test_damaged_entries_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str) -> None:
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path))
    sources = {"a.py": "import torch\n"}
    name = cache.name_of(sources, Config())
    cache.keep(name, convert(sources, Config()))
    (entry,) = (path for path in tmp_path.rglob("*") if path.is_file())
    assert json.loads(entry.read_text())
    entry.write_text(damage)
    assert cache.find(name, sources) is None


def test_failures_are_not_kept_and_old_entries_go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path))
    cache.keep("ab", {"a.py": Result("a.py", "x", "x", error="failed")})
    assert list(tmp_path.rglob("*")) == []
    cache.keep("ab1", convert({"a.py": "x"}, Config()))
    os.utime(tmp_path / "ab/ab1", (0, 0))
    cache.keep("ab2", convert({"a.py": "x"}, Config()))
    assert [path.name for path in (tmp_path / "ab").iterdir()] == ["ab2"]


def test_unusable_cache_folder_is_no_error(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "a.py").write_text("import torch as t\nt.relu(1)\n")
    monkeypatch.setenv("TORCH2MS_CACHE", str(tmp_path / "file/cache"))
    assert run("convert", "--check", "a.py").returncode == 1


def test_command_line_gives_the_same_with_and_without(run: Run, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.py").write_text("import torch as t\nt.relu(1)\nrefuse_me = 1\n")
    seen = [
        run("convert", "--check", "-v", "--diff", *options, "a.py", "b.py", "c.py")
        for options in ([], [], ["--no-cache"], ["-j", "2", "--no-cache"], ["-j", "3"])
    ]
    assert len({(one.returncode, one.stdout, one.stderr) for one in seen}) == 1
