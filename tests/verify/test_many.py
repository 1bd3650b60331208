"""Several programs in one call: here, side by side, and by the workers of a Dask cluster, with equal reports."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from tests.fixture_cases import FIXTURES
from torch2ms.verify.cli import verify
from torch2ms.verify.many import Task
from torch2ms.verify.runner import Case

ROOT = Path(__file__).resolve().parents[2]
CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=2, dashboard_address=None, resources={"CPU": 2}) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two that train, and one that does not run."""
    folder = tmp_path_factory.mktemp("programs")
    for name in ("missing", "once_per_epoch"):
        text = (FIXTURES / "zero_grad" / name / "original.py").read_text(encoding="utf-8")
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    (folder / "broken.py").write_text("import torch\ntorch.zeros(2) @ torch.zeros(3)\n", encoding="utf-8")
    return [folder / f"{name}.py" for name in ("missing", "broken", "once_per_epoch")]


@pytest.fixture(scope="module")
def alone(programs: list[Path]) -> list[dict]:
    """The reports of one worker."""
    return reports(programs)


@contextlib.contextmanager
def cluster() -> Iterator[str]:
    """A scheduler and one worker process, as people start them."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", CLUSTER], stdin=-1, stdout=-1, text=True, env=environment) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().replace("tcp://", "dask://")
        process.communicate()


def call(*arguments: object):
    return CliRunner().invoke(verify, [str(argument) for argument in arguments])


def reports(programs: list[Path], *options: object) -> list[dict]:
    """What does not depend on the clock."""
    done = call("--each", *programs, "--json", "-", *options)
    assert done.exit_code == 2, done.output
    found = json.loads(done.stdout)
    return [{k: v for k, v in report.items() if k != "seconds"} for report in found]


def test_each_program_has_a_report_of_its_own(alone: list[dict], programs: list[Path]) -> None:
    assert [r["verdict"] for r in alone] == ["agree", "not run", "agree"]
    assert [r["original"] for r in alone] == [str(path) for path in programs]
    assert all(r["compared"]["gradient"] for r in alone if r["verdict"] == "agree")


def test_side_by_side_gives_the_same(alone: list[dict], programs: list[Path]) -> None:
    assert reports(programs, "--jobs", 2) == alone


def test_a_cluster_gives_the_same(alone: list[dict], programs: list[Path]) -> None:
    pytest.importorskip("distributed")
    with cluster() as address:
        assert reports(programs, "--executor", address) == alone
        done = call("--each", *programs, "--executor", address, "--device", "GPU")
        assert done.exit_code == 2 and "has a GPU: start one with `dask worker --resources GPU=1`" in done.output


def test_the_worst_decides_and_is_told_last(programs: list[Path]) -> None:
    done = call("--each", programs[0], programs[1])
    assert done.exit_code == 2
    assert f"{programs[0]}: agree\n" in done.output and done.output.endswith("1 agree, 0 differ, 1 not run\n")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--jobs", 2], "say --each"),
        (["--each", "--record", "x.zip"], "without --each"),
        (["--each", "gone.py"], "no such file: gone.py"),
    ],
)
def test_what_does_not_go_together(options: list[object], said: str, programs: list[Path]) -> None:
    done = call(programs[0], *options)
    assert done.exit_code == 2 and said in done.output


def test_a_program_takes_one_of_what_it_runs_on() -> None:
    case = Case(Path("a.py"), Path("a.py"))
    assert Task(case).resource == "CPU"
    assert Task(Case(Path("a.py"), Path("a.py"), device="Ascend")).resource == "Ascend"
    assert Task(Case(Path("a.py"), Path("a.py"), torch_device="cuda")).resource == "GPU"
