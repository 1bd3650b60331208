"""What the processes of one run of the tests share: a folder that is gone afterwards."""

from __future__ import annotations

import os
import tempfile

import pytest

from tests.fixture_cases import SHARED


def pytest_configure(config: pytest.Config) -> None:
    """The first process makes the folder; the workers that it starts find it named in their environment."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for numbers this few take five times the time
    if SHARED not in os.environ:
        folder = tempfile.TemporaryDirectory(prefix="torch2ms-tests-")
        os.environ[SHARED] = folder.name
        config.add_cleanup(lambda: os.environ.pop(SHARED, None))
        config.add_cleanup(folder.cleanup)
