"""Right translations agree, and what was compared is what the program has."""

from __future__ import annotations

import pytest

from tests.verify.hand_written import PAIRS
from torch2ms.verify import cli_table

WITHOUT_OPTIMIZER = {"leaf_scalars", "manual_sgd", "vjp_cotangent"}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=lambda pair: pair.name)
def test_a_right_translation_agrees(pair, check):
    report = check(pair.original, pair.translated)
    assert report.agrees, cli_table(report)
    assert report.compared["gradient"] > 0 and report.compared["result"] > 0
    assert bool(report.steps) == (pair.name not in WITHOUT_OPTIMIZER)


def test_every_kind_of_draw_is_replayed_and_noise_is_told_apart(check):
    pair = PAIRS["all_draws"]
    report = check(pair.original, pair.translated)
    assert report.agrees, cli_table(report)
    assert "35 random draws replayed" in report.notes
    assert [text.partition(":")[0] for text in report.noise] == ["conv.bias"]
    assert report.compared["buffer"] == 2 * (len(report.steps) + 1)


def test_a_gradient_that_is_noise_in_a_part_is_compared_in_the_rest(check, tmp_path):
    pair = PAIRS["attention_bias"]
    report = check(pair.original, pair.translated)
    assert report.agrees, cli_table(report)
    assert [text.partition(" (")[0] for text in report.noise] == ["attention.in_proj_bias: a part of its gradient"]
    wrong = tmp_path / "wrong.py"
    right = pair.translated.read_text()
    wrong.write_text(
        right.replace(
            "grads = grad_fn(x, target)",
            "grads = grad_fn(x, target)\n    grads = [g * (g.shape != (24,)) for g in grads]",
        )
    )
    report = check(pair.original, wrong)
    assert report.verdict == "differ" and "in_proj_bias" in report.problems[0].what, cli_table(report)
