"""For the test suites of translated projects: `@pytest.mark.same_gradients("train.py", "train_ms.py", steps=5)`.

The paths are relative to the test file; without the second the program's folder is converted. The keywords are those of
`torch2ms.verify.verify`. A test that asks for the fixture `same_gradients` gets the report.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from torch2ms.verify import Report

MARKER = "same_gradients"
NEEDED = ("numpy", "torch", "mindspore")


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    text = "the PyTorch program and its MindSpore translation give the same losses, gradients and weights"
    config.addinivalue_line("markers", f"{MARKER}(original, translated=None, **options): {text}")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Verify for a marked test that does not ask for the report itself."""
    marker = pyfuncitem.get_closest_marker(MARKER)
    if marker is not None and MARKER not in pyfuncitem.fixturenames:
        _verified(marker, pyfuncitem.path.parent)


@pytest.fixture
def same_gradients(request: pytest.FixtureRequest) -> Report:
    """The report of the verification that the test's marker describes; the test fails before if the sides differ."""
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        raise pytest.UsageError(f"{request.node.nodeid} uses same_gradients and has no marker of that name")
    return _verified(marker, request.path.parent)


def _verified(marker: pytest.Mark, folder: Path) -> Report:
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"verification needs {', '.join(missing)}: pip install 'torch2ms[verify]'")
    from torch2ms.verify import cli_table
    from torch2ms.verify.converted import translation
    from torch2ms.verify.runner import verify

    original, translated, options = _arguments(*marker.args, **marker.kwargs)
    with translation(folder / original, folder / translated if translated else None) as other:
        report = verify(folder / original, other, **{"cwd": folder, **options})
    if report.verdict == "not run" and "is not available" in report.reason:
        pytest.skip(f"not run: {report.reason}")
    if not report.agrees:
        pytest.fail(cli_table(report), pytrace=False)
    return report


def _arguments(original: str, translated: str | None = None, **options: Any) -> tuple[str, str | None, dict[str, Any]]:
    return original, translated, options
