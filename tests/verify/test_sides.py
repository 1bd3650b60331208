"""What happens when a program does something other than train: crash, hang, leave early, print, change directory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.verify.hand_written import PAIRS
from torch2ms.verify import Case, assert_same_gradients, cli_table, verify, verify_many
from torch2ms.verify.converted import convert_folder

TORCH = """\
import torch
w = torch.tensor([1.0, 2.0], requires_grad=True)
opt = torch.optim.SGD([w], lr=0.1)
for i in range(4):
    opt.zero_grad()
    loss = (w ** 2).sum()
    loss.backward()
    opt.step()
    print('loss', loss.item())
"""
MINDSPORE = """\
import mindspore as ms
from mindspore.experimental import optim
w = ms.Parameter(ms.Tensor([1.0, 2.0]), name='w')
opt = optim.SGD([w], lr=0.1)
grad_fn = ms.value_and_grad(lambda: (w ** 2).sum(), None, opt.parameters)
for i in range(4):
    loss, grads = grad_fn()
    opt(grads)
    print('loss', loss.item())
"""


def test_the_small_pair_agrees(check):
    report = check(TORCH, MINDSPORE)
    assert report.agrees, cli_table(report)
    assert [step.loss_torch for step in report.steps] == [step.loss_mindspore for step in report.steps]
    assert report.compared == {"loss": 4, "gradient": 4, "weight": 4, "variable": 2, "printed lines": 4}


def test_a_leaf_may_be_frozen_when_its_graph_is_there(check):
    torch = TORCH.replace("opt =", "b = torch.ones(2, requires_grad=True)\nopt =")
    torch = torch.replace("(w ** 2).sum()", "(w ** 2 + b).sum()\n    b.requires_grad = False")
    report = check(torch, MINDSPORE.replace("(w ** 2).sum()", "(w ** 2 + 1.0).sum()"))
    assert report.agrees, cli_table(report)


def test_what_graph_mode_cannot_compile_leaves_nothing_in_the_users_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.py").write_text(TORCH)
    (tmp_path / "b.py").write_text(
        "import mindspore as ms\n\n@ms.jit\ndef f(x):\n    return x.no_such_method()\n\nf(ms.Tensor([1.0]))\n"
    )
    report = verify(tmp_path / "a.py", tmp_path / "b.py", mode="graph")
    assert report.verdict == "not run"
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["a.py", "b.py"]


@pytest.mark.parametrize("side", ["torch", "mindspore"])
def test_a_crash_is_not_run_and_says_where(side, check):
    programs = {"torch": TORCH, "mindspore": MINDSPORE}
    programs[side] += "\nraise KeyError('lost')\n"
    report = check(programs["torch"], programs["mindspore"])
    assert report.verdict == "not run" and report.exit_code == 2
    assert report.reason.startswith(f"{side} side: KeyError: 'lost'") and "raise KeyError" in report.reason


def test_a_hang_is_ended(check):
    started = time.monotonic()
    report = check(TORCH, "import time\ntime.sleep(600)\n", timeout=3.0)
    assert report.reason == "mindspore side: did not finish within 3 s"
    assert time.monotonic() - started < 60


def test_an_early_exit_is_not_a_pass(check):
    report = check(TORCH, MINDSPORE.replace("for i", "import os; os._exit(0)\nfor i"))
    assert report.exit_code == 2 and "exit code 0" in report.reason
    report = check(TORCH, MINDSPORE + "\nimport sys; sys.exit(3)\n")
    assert report.reason == "mindspore side: the program exited with 3"
    assert check(TORCH + "\nimport sys; sys.exit(0)\n", MINDSPORE + "\nraise SystemExit\n").agrees


def test_a_killed_side_names_the_signal(check):
    report = check(TORCH, "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    assert report.reason == "mindspore side: was killed by signal SIGSEGV"


def test_nothing_compared_is_a_failure(check):
    report = check("import torch\n", "import mindspore\n")
    assert report.verdict == "differ" and report.problems[0].what == "nothing to compare"


def test_printed_numbers_count_unless_they_vary_by_themselves(check):
    assert check("import torch\nprint('n', 3)\n", "print('n', 3)\n").agrees
    report = check(TORCH + "print('accuracy', 0.5)\n", MINDSPORE + "print('accuracy', 0.25)\n")
    assert [p.what for p in report.problems] == ["printed line 5"]
    # several: two runs may print one number that is the same within the tolerance
    chance = "import os\nprint('address', *(int.from_bytes(os.urandom(6), 'big') for _ in range(4)))\n"
    report = check(TORCH + chance, MINDSPORE + chance)
    assert report.agrees and any("printed line 5 varies" in note for note in report.notes)


def test_numbers_that_one_side_alone_prints_are_a_difference(check):
    report = check(TORCH + "print('no gradient', 1)\n", MINDSPORE)
    assert report.verdict == "differ"
    assert [p.text for p in report.problems] == ["torch printed 5 lines with numbers, mindspore 4"]
    chance = "import os\nfor _ in range(int.from_bytes(os.urandom(2), 'big')): print(3)\n"
    report = check(TORCH + chance, MINDSPORE)
    assert report.agrees and any("printed lines varies by itself" in note for note in report.notes)
    report = check(TORCH + "print([torch.ones(2)])\n", MINDSPORE)  # frameworks write these in their own ways
    assert report.agrees and any("torch printed 5 lines" in note for note in report.notes)


def test_initial_weights_alone_prove_nothing(check):
    report = check("import torch\nnet = torch.nn.Linear(2, 2)\n", "from mindspore import nn\nnet = nn.Dense(2, 2)\n")
    assert report.verdict == "differ" and report.problems[0].what == "nothing to compare"


def test_large_tensors_are_sampled(check):
    torch, mindspore = TORCH.replace("[1.0, 2.0]", "[1.0] * 600000"), MINDSPORE.replace("[1.0, 2.0]", "[1.0] * 600000")
    report = check(torch, mindspore)
    assert report.agrees and any("evenly spaced" in note for note in report.notes)
    assert check(torch, mindspore.replace("lr=0.1", "lr=0.11")).verdict == "differ"


def test_graph_mode(check):
    pair = PAIRS["train_canonical"]
    report = check(pair.original, pair.translated, mode="graph")
    assert report.agrees and report.compared["loss"] == 12, cli_table(report)


def test_missing_result_names_differ(check):
    report = check(TORCH + "RESULT = {'a': 1.0, 'b': 2.0}\n", MINDSPORE + "RESULT = {'a': 1.0}\n")
    assert [p.what for p in report.problems] == ["RESULT['b']"]


def test_nan_in_the_same_place_is_equal_and_pointed_out(check):
    nan = "RESULT = {'x': [float('nan'), 1.0]}\n"
    report = check(TORCH + nan, MINDSPORE + nan)
    assert report.agrees and any("NaN" in note for note in report.notes)
    report = check(TORCH + nan, MINDSPORE + "RESULT = {'x': [1.0, 1.0]}\n")
    assert report.problems[0].text == "1 NaN in torch, 0 in mindspore"


def test_steps_stop_both_sides(check):
    report = check(TORCH + "\nraise KeyError\n", MINDSPORE + "\nraise KeyError\n", steps=2)
    assert report.agrees and len(report.steps) == 2


def test_both_sides_get_arguments_and_directory(check, tmp_path):
    (tmp_path / "cwd").mkdir()
    (tmp_path / "cwd" / "rate.txt").write_text("0.1")
    head = "import sys\nrate = float(open('rate.txt').read()) * float(sys.argv[1])\nimport os; os.chdir('/')\n"
    report = check(
        head + TORCH.replace("lr=0.1", "lr=rate"), head + MINDSPORE.replace("lr=0.1", "lr=rate"), argv=["2.0"]
    )
    assert report.agrees, cli_table(report)


def test_programs_import_their_neighbours(check, tmp_path):
    (tmp_path / "neighbour.py").write_text("RATE = 0.1\n")
    (tmp_path / "torch.py").write_text("raise ImportError('this file must not shadow the package')\n")
    head = "from neighbour import RATE\n"
    report = check(head + TORCH.replace("lr=0.1", "lr=RATE"), head + MINDSPORE.replace("lr=0.1", "lr=RATE"))
    assert report.agrees, cli_table(report)


def test_no_process_is_left(check, tmp_path):
    mark = tmp_path / "pid"
    leave = f"import subprocess\nopen({str(mark)!r}, 'w').write(str(subprocess.Popen(['sleep', '300']).pid))\n"
    assert check(TORCH, leave + MINDSPORE).agrees
    time.sleep(0.2)
    status = Path(f"/proc/{int(mark.read_text())}/stat")
    assert not status.exists() or status.read_text().split(")")[1].split()[0] == "Z"


def test_one_pair_in_processes_of_its_own(tmp_path):
    """The path without warm processes: `verify` and `assert_same_gradients` as a user calls them."""
    (tmp_path / "a.py").write_text(TORCH)
    (tmp_path / "b.py").write_text(MINDSPORE)
    assert_same_gradients(tmp_path / "a.py", tmp_path / "b.py", cwd=tmp_path)
    (tmp_path / "b.py").write_text(MINDSPORE.replace("lr=0.1", "lr=0.2"))
    with pytest.raises(AssertionError, match="differ: first at step 1, weight w"):
        assert_same_gradients(tmp_path / "a.py", tmp_path / "b.py", cwd=tmp_path)
    report = verify(tmp_path / "a.py", tmp_path / "missing.py")
    assert report.exit_code == 2 and "no such file" in report.reason


def test_a_missing_device_is_not_run(tmp_path):
    (tmp_path / "a.py").write_text(TORCH)
    (tmp_path / "b.py").write_text(MINDSPORE)
    report = verify(tmp_path / "a.py", tmp_path / "b.py", device="Ascend")
    assert report.verdict == "not run" and "Ascend" in report.reason


def test_many_pairs_keep_their_order(tmp_path):
    cases = [Case(PAIRS[n].original, PAIRS[n].translated) for n in ("leaf_scalars", "manual_sgd")]
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    reports = verify_many([cases[0], Case(cases[0].original, broken), cases[1]])
    assert [report.verdict for report in reports] == ["agree", "not run", "agree"]


def test_importing_the_harness_imports_no_framework():
    code = (
        "import sys, torch2ms.verify, torch2ms.verify.cli; "
        "raise SystemExit(any(m in sys.modules for m in ('torch', 'mindspore')))"
    )
    root = Path(__file__).parent.parent.parent
    assert subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": str(root)}).returncode == 0


def test_chaos_is_compared_as_far_as_torch_agrees_with_itself(check):
    torch = (
        "import torch\nw = torch.tensor([0.4], requires_grad=True)\nopt = torch.optim.SGD([w], lr=1e-3)\n"
        "for i in range(40):\n    x = torch.sigmoid(w)\n    for _ in range(i):\n        x = 3.99 * x * (1 - x)\n"
        "    opt.zero_grad()\n    loss = x.sum()\n    loss.backward()\n    w.grad.clamp_(-1, 1)\n    opt.step()\n"
    )
    mindspore = (
        "import mindspore as ms\nfrom mindspore import ops\nfrom mindspore.experimental import optim\n"
        "w = ms.Parameter(ms.Tensor([0.4]), name='w')\nopt = optim.SGD([w], lr=1e-3)\n"
        "def forward_fn(i):\n    x = ops.sigmoid(w)\n    for _ in range(i):\n        x = 3.99 * x * (1 - x)\n"
        "    return x.sum()\n"
        "grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters)\n"
        "for i in range(40):\n    loss, grads = grad_fn(i)\n    opt(tuple(g.clamp(-1, 1) for g in grads))\n"
    )
    report = check(torch, mindspore)
    assert report.agrees and 3 < len(report.steps) < 40, cli_table(report)
    assert any("only the first" in note for note in report.notes)
    wrong = check(torch, mindspore.replace("lr=1e-3", "lr=2e-3"))
    assert wrong.verdict == "differ" and wrong.problems[0].step == 1, cli_table(wrong)


def test_what_mindspores_own_kernels_lose_is_told_and_is_no_excuse_for_more(check):
    """A saturated `tanh` is off by 1e-4 on MindSpore's CPU, which is many times its slope there."""
    torch = (
        "import numpy as np\nimport torch\nx = np.random.RandomState(0).randn(24, 5).astype(np.float32) * 9\n"
        "w = torch.tensor(x[:5, :3] / 9, requires_grad=True)\nopt = torch.optim.Adam([w], lr=1e-2)\n"
        "for i in range(5):\n    opt.zero_grad()\n    loss = (torch.tanh(torch.tensor(x) @ w).mean(1) ** 2).sum()\n"
        "    loss.backward()\n    opt.step()\n"
    )
    mindspore = (
        "import mindspore as ms\nimport numpy as np\nfrom mindspore import ops\n"
        "from mindspore.experimental import optim\n"
        "x = np.random.RandomState(0).randn(24, 5).astype(np.float32) * 9\n"
        "w = ms.Parameter(ms.Tensor(x[:5, :3] / 9), name='w')\nopt = optim.Adam([w], lr=1e-2)\n"
        "grad_fn = ms.value_and_grad(\n"
        "    lambda: (ops.tanh(ops.matmul(ms.Tensor(x), w)).mean(1) ** 2).sum(), None, opt.parameters)\n"
        "for i in range(5):\n    loss, grads = grad_fn()\n    opt(grads)\n"
    )
    report = check(torch, mindspore)
    told = [note for note in report.notes if "agrees with tanh computed in float64" in note]
    assert report.agrees and len(told) == 1 and "first apart at step" in told[0], cli_table(report)
    mistakes = (("lr=1e-2", "lr=1.1e-2"), (".mean(1)", ".sum(1) / 3.002"), ("ops.tanh(", "1.0005 * ops.tanh("))
    for right, wrong in mistakes:
        assert check(torch, mindspore.replace(right, wrong)).verdict == "differ", wrong


def test_a_tiny_learning_rate_is_no_excuse(check):
    """The updates are smaller than any tolerance of the weights, and than the disturbance that measures chaos."""
    torch, mindspore = (text.replace("lr=0.1", "lr=1e-6, momentum=0.5") for text in (TORCH, MINDSPORE))
    assert check(torch, mindspore).agrees
    report = check(torch, mindspore.replace("momentum=0.5", "momentum=0.0"))
    assert report.verdict == "differ" and report.problems[0].step in (2, 3), cli_table(report)


def test_refusals_are_told_of_files_that_the_program_imports(tmp_path, capsys):
    refused = "import torch\n\n\ndef back(loss):\n    loss.backward()\n"
    for name, text in {"helper.py": refused, "other.py": refused, "main.py": "import helper\n" + TORCH}.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "out").mkdir()
    convert_folder(tmp_path / "main.py", tmp_path / "out")
    said = capsys.readouterr().err
    assert "helper.py: 1 construct(s) refused" in said
    assert "other.py" not in said
