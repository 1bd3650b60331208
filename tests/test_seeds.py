"""The numbers printed in the documents that the project came from, computed by the accepted translations."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SEEDS = Path(__file__).parent.parent / "fixtures" / "seeds"
RUN = """
import json, runpy, sys
import numpy as np
result = runpy.run_path(sys.argv[1], run_name="__main__")["RESULT"]
print("RESULT", json.dumps({k: np.asarray(v).tolist() for k, v in result.items()}))
"""


def result_of(case: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(SEEDS / case / "expected.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-800:]
    return json.loads(next(line for line in done.stdout.splitlines() if line.startswith("RESULT "))[7:])


def test_gradient_of_the_first_factor() -> None:
    assert result_of("guide_matmul_inputs")["output"] == [pytest.approx([1.41, 1.6, 6.6], rel=1e-6)] * 2


def test_rows_of_the_table() -> None:
    rows = result_of("guide_table")
    assert (rows["loss"], rows["logits"]) == (1.0, 20.0)
    assert rows["1"] == rows["3x"] == rows["6x"] == [[4.0, 6.0, 8.0]]
    assert rows["2"] == rows["3y"] == rows["6y"] == -2.0
    assert rows["4"] == rows["6w"] == [[2.0, 4.0, 6.0]]
    assert rows["7"] == [[6.0, 9.0, 12.0]]


@pytest.mark.parametrize(
    ("case", "wanted"),
    [
        ("gradient_guide_q1_2", ["x.grad before backward None", "z 3.0", "x.grad 2.0", "y.grad 1.0"]),
        ("diff_grad_1", ["12.0 4.0"]),
    ],
)
def test_printed_numbers(case: str, wanted: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, str(SEEDS / case / "expected.py")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-800:]
    for line in wanted:
        assert line in done.stdout


def test_loss_scale() -> None:
    result = result_of("guide_loss_scale")
    assert (result["loss"], result["scaled"]) == (1.0, 1024.0)
    assert (result["grad"], result["unscaled"]) == ([[2048.0, 4096.0, 6144.0]], [[2.0, 4.0, 6.0]])
    assert result["finite"] is True
