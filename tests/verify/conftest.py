"""One warm process per framework for all tests of the harness: a pair then takes a second instead of seven."""

from __future__ import annotations

import importlib.util
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.verify.hand_written import PAIRS
from torch2ms.verify.reporting.report import Report
from torch2ms.verify.runner import Case, verify_case
from torch2ms.verify.sides.process import Job, Outcome, Watch
from torch2ms.verify.sides.warm import Pair, warm_pair
from torch2ms.verify.trace import Trace

Check = Callable[..., Report]


MISSING = [name for name in ("torch", "mindspore") if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a framework is not installed only the arithmetic can be tested."""
    for item in items:
        here = item.path.parent == Path(__file__).parent and item.path.name != "test_numbers.py"
        if here and MISSING:
            item.add_marker(pytest.mark.skip(reason=f"runs programs on both sides: {', '.join(MISSING)} not installed"))


class Shared:
    """A warm pair in which torch runs a hand-written program once for all tests that ask the same of it."""

    def __init__(self, pair: Pair, place: Path) -> None:
        self.pair = pair
        self.place = place
        self.programs = {pair.original for pair in PAIRS.values()}
        self.known: dict[str, tuple[Outcome, Path]] = {}

    def run(self, job: Job, folder: Path, watch: Watch | None = None) -> Outcome:
        """Run a job, or give what the same one gave: a trace of its own each time."""
        if job.side != "torch" or job.program not in self.programs or watch is not None:
            return self.pair.run(job, folder, watch)
        asked, made = json.dumps(job.document(Path("out"))), folder / "torch.zip"
        if asked not in self.known:
            found = self.pair.run(job, folder)
            if found.trace is None or found.problem:
                return found
            kept = self.place / f"{len(self.known)}.zip"
            shutil.copy(made, kept)
            self.known[asked] = found, kept
            return found
        found, kept = self.known[asked]
        shutil.copy(kept, made)
        return Outcome(Trace.load(kept), found.stdout, found.stderr)


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    with warm_pair() as pair:
        yield Shared(pair, tmp_path_factory.mktemp("torch"))


@pytest.fixture
def check(warm: Shared, tmp_path: Path) -> Check:
    """Verify two texts (or files) in an empty working directory."""

    def run(original: str | Path, translated: str | Path, **options: Any) -> Report:
        paths = []
        for name, program in (("original.py", original), ("translated.py", translated)):
            if isinstance(program, str):
                (tmp_path / name).write_text(program)
                program = tmp_path / name
            paths.append(program)
        cwd = tmp_path / "cwd"
        cwd.mkdir(exist_ok=True)
        case = Case(*paths, **{"timeout": 120.0, "cwd": cwd, **options})
        return verify_case(case, warm.run)

    return run
