"""The command: exit codes, table, JSON, arguments for the program, conversion on the way."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from tests.fixture_cases import FIXTURES
from tests.verify.hand_written import PAIRS
from torch2ms.verify.cli import verify
from torch2ms.verify.reporting.report import Problem, Report, Step, Worst, cli_table


def call(*arguments: object):
    return CliRunner().invoke(verify, [str(argument) for argument in arguments])


def test_agreement_is_exit_code_0_and_json_is_written(tmp_path):
    pair = PAIRS["train_script"]
    done = call(pair.original, pair.translated, "--steps", 3, "--json", tmp_path / "report.json")
    assert done.exit_code == 0, done.output
    assert "executes" in done.stderr and done.output.rstrip().endswith("agree")
    document = json.loads((tmp_path / "report.json").read_text())
    assert document["verdict"] == "agree" and len(document["steps"]) == 3 and len(document["sources"]["torch"]) == 64


def test_the_options_of_a_conversion_reach_it(tmp_path):
    import shutil

    shutil.copy(FIXTURES / "cell" / "with_loss_cell" / "original.py", tmp_path / "train.py")
    done = call(tmp_path / "train.py", "--style", "cell", "--jit", "--mode", "pynative", "--json", "-")
    assert done.exit_code == 0, done.output
    assert '"verdict": "agree"' in done.output


def test_difference_is_exit_code_1(tmp_path):
    translated = tmp_path / "translated.py"
    translated.write_text((PAIRS["train_script"].translated).read_text().replace("lr=1e-2", "lr=1e-3"))
    done = call(PAIRS["train_script"].original, translated)
    assert done.exit_code == 1 and "differ: first at step 1, weight 0.weight" in done.output


def test_a_side_that_cannot_run_is_exit_code_2(tmp_path):
    (tmp_path / "broken.py").write_text("import torch\ntorch.zeros(2) @ torch.zeros(3)\n")
    done = call(tmp_path / "broken.py", PAIRS["train_script"].translated)
    assert done.exit_code == 2 and "not run: torch side: RuntimeError" in done.output


def test_arguments_after_two_dashes_reach_both_programs(tmp_path):
    for name, module in (("a.py", "torch"), ("b.py", "mindspore")):
        text = f"import sys, {module}\nassert sys.argv[1] == '--rate'\nRESULT = {{'x': float(sys.argv[2])}}\n"
        (tmp_path / name).write_text(text)
    done = call(tmp_path / "a.py", tmp_path / "b.py", "--", "--rate", "0.5")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("verdict, code", [("agree", 0), ("differ", 1), ("not run", 2)])
def test_exit_codes(verdict, code):
    assert Report("a", "b", verdict).exit_code == code


def test_the_table_names_the_first_divergence_and_shortens_long_runs():
    report = Report("a.py", "b.py", "differ")
    report.steps = [Step(i, "SGD", 1.0, 1.0, Worst("w", float("nan"), 0.1)) for i in range(1, 101)]
    report.problems = [Problem("gradient w", "max abs 1", 7), *[Problem("weight w", "max abs 1", 8)] * 20]
    table = cli_table(report)
    assert "differ: first at step 7, gradient w" in table and "and 13 more" in table
    assert len(table.splitlines()) < 60
    assert json.loads(report.to_json())["steps"][0]["gradient"]["max_abs"] == "nan"


def test_a_recording_is_replayed_without_torch(tmp_path):
    pair = PAIRS["all_draws"]
    recording = tmp_path / "torch.zip"
    done = call(pair.original, "--record", recording)
    assert done.exit_code == 0 and "recorded" in done.output, done.output
    done = call(pair.translated, "--replay", recording, "--html", tmp_path / "report.html")
    assert done.exit_code == 0 and "noise: conv.bias" in done.output, done.output
    page = (tmp_path / "report.html").read_text()
    assert page.count("<polyline") == 4 and "<rect" in page and "conv.bias" in page and "http" not in page
    wrong = tmp_path / "wrong.py"
    wrong.write_text((pair.translated).read_text().replace("lr=1e-2", "lr=2e-2"))
    assert call(wrong, "--replay", recording).exit_code == 1
    (tmp_path / "torch.zip").write_bytes(b"nothing")
    assert call(wrong, "--replay", recording).exit_code == 2


def test_without_a_translation_the_folder_is_converted(tmp_path):
    (tmp_path / "data.txt").write_text("2.0")
    (tmp_path / "rates.py").write_text("RATE = 0.1\n")
    (tmp_path / "old.py").write_text("import torch\nprint 'of another Python'\n")  # nobody needs it
    (tmp_path / "train.py").write_text(
        "import os\nimport torch\nfrom rates import RATE\n"
        "x = torch.tensor([float(open(os.path.join(os.path.dirname(__file__), 'data.txt')).read())])\n"
        "model = torch.nn.Linear(1, 1)\noptimizer = torch.optim.SGD(model.parameters(), lr=RATE)\n"
        "for step in range(3):\n    optimizer.zero_grad()\n    loss = (model(x) - 1).pow(2).mean()\n"
        "    loss.backward()\n    optimizer.step()\n"
    )
    done = call(tmp_path / "train.py")
    assert done.exit_code == 0, done.output + done.stderr
    assert "6 gradient, 6 weight" in done.output
