"""The pytest marker, as a team uses it in its own repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.verify.hand_written import PAIRS

ROOT = Path(__file__).parent.parent.parent
PAIR = PAIRS["train_script"]
SUITE = """\
import pytest

from tests.verify.hand_written import PAIRS

@pytest.mark.same_gradients("train.py", "train_ms.py", steps=3)
def test_training_is_the_same(same_gradients):
    assert same_gradients.compared["gradient"] >= 6

@pytest.mark.same_gradients("train.py", steps=2)
def test_the_converted_program_is_the_same():
    pass

@pytest.mark.same_gradients("train.py", "wrong.py", steps=2)
def test_a_wrong_translation_fails():
    pass

@pytest.mark.same_gradients("train.py", "train_ms.py", device="Ascend")
def test_on_the_device():
    pass

def test_without_marker(same_gradients):
    pass
"""


def test_the_marker(tmp_path):
    (tmp_path / "test_port.py").write_text(SUITE)
    shutil.copy(PAIR.original, tmp_path / "train.py")
    translated = PAIR.translated.read_text()
    (tmp_path / "train_ms.py").write_text(translated)
    (tmp_path / "wrong.py").write_text(translated.replace("lr=1e-2", "lr=2e-2"))
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "torch2ms.pytest_plugin", "--strict-markers", "-rA", "-q", tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        cwd=tmp_path.parent,
        capture_output=True,
        text=True,
    )
    for outcome, name in (
        ("PASSED", "test_training_is_the_same"),
        ("PASSED", "test_the_converted_program_is_the_same"),
        ("FAILED", "test_a_wrong_translation_fails"),
        ("ERROR", "test_without_marker"),
    ):
        assert f"{outcome} {tmp_path.name}/test_port.py::{name}" in done.stdout, done.stdout + done.stderr
    assert "differ: first at step 1, weight 0.weight" in done.stdout
    assert "device Ascend is not available" in done.stdout and "1 skipped" in done.stdout
