"""A Dask cluster in place of local processes: the same results, and sentences where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from torch2ms.config import Config
from torch2ms.executors import ExecutorError, executor_at
from torch2ms.parallel import convert_parts
from torch2ms.run import convert_guarded

pytest.importorskip("distributed")
ROOT = Path(__file__).resolve().parents[2]
SOURCES = {
    path.parent.name + ".py": path.read_text(encoding="utf-8")
    for path in sorted((ROOT / "fixtures/zero_grad").glob("*/original.py"))[:6]
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A scheduler and one worker process, as people start them."""
    code = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-3, text=True, env=environment) as cluster:
        assert cluster.stdout is not None
        yield cluster.stdout.readline().strip().replace("tcp://", "dask://")
        cluster.communicate()


def test_results_are_those_of_one_process(address: str) -> None:
    alone = convert_parts(convert_guarded, SOURCES, Config())
    with executor_at(address) as executor:
        assert convert_parts(convert_guarded, SOURCES, Config(), executor=executor) == alone
    assert any(result.changed for result in alone.values())


def test_command_line_reaches_the_cluster(address: str, tmp_path: Path) -> None:
    for name, text in SOURCES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "torch2ms", "convert", "--check", "--diff", "--no-cache"]
    here = subprocess.run([*command, "."], capture_output=True, cwd=tmp_path, env=environment)
    there = subprocess.run([*command, "--executor", address, "."], capture_output=True, cwd=tmp_path, env=environment)
    assert (there.returncode, there.stdout) == (here.returncode, here.stdout)
    assert here.returncode == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [("ray://a:1", "is no executor"), ("dask://", "is no executor"), ("dask://127.0.0.1:1", "no Dask scheduler")],
)
def test_what_is_no_cluster_is_named(given: str, message: str) -> None:
    with pytest.raises(ExecutorError, match=message), executor_at(given):
        pass
