"""One warm process per framework for all tests of the harness: a pair then takes a second instead of seven."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from torch2ms.verify.reporting.report import Report
from torch2ms.verify.runner import Case, verify_case
from torch2ms.verify.sides.warm import Pair, warm_pair

Check = Callable[..., Report]


MISSING = [name for name in ("torch", "mindspore") if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where a framework is not installed only the arithmetic can be tested."""
    for item in items:
        here = item.path.parent == Path(__file__).parent and item.path.name != "test_numbers.py"
        if here and MISSING:
            item.add_marker(pytest.mark.skip(reason=f"runs programs on both sides: {', '.join(MISSING)} not installed"))


@pytest.fixture(scope="session")
def warm() -> Iterator[Pair]:
    with warm_pair() as pair:
        yield pair


@pytest.fixture
def check(warm: Pair, tmp_path: Path) -> Check:
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
