"""What is observed without a change in the program: buffers, variables, modules; and that nothing is no pass."""

from __future__ import annotations

import pytest

from torch2ms.verify import cli_table
from torch2ms.verify.sides.process import Job

TORCH = """\
import torch
from torch import nn

class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))
        self.register_buffer("mean", torch.zeros(4))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.detach().mean(0)
        return (x - self.mean) * self.scale

def main():
    model = nn.Sequential(nn.Linear(3, 4, bias=False), nn.BatchNorm1d(4), nn.ReLU(), Norm())
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(8, 3)
    for i in range(3):
        opt.zero_grad()
        loss = (model(x) ** 3).mean()
        loss.backward()
        opt.step()
    return loss.item()

final = main()
"""
MINDSPORE = """\
import mindspore as ms
from mindspore import nn, ops
from mindspore.experimental import optim

class Norm(nn.Cell):
    def __init__(self):
        super().__init__()
        self.scale = ms.Parameter(ops.ones(4))
        self.mean = ms.Parameter(ops.zeros(4), name="mean", requires_grad=False)

    def construct(self, x):
        self.mean = 0.9 * self.mean + 0.1 * ops.stop_gradient(x).mean(0)
        return (x - self.mean) * self.scale

def main():
    model = nn.SequentialCell(nn.Dense(3, 4, has_bias=False), nn.BatchNorm1d(4), nn.ReLU(), Norm())
    model.set_train()
    opt = optim.SGD(model.trainable_params(), lr=0.1)
    x = ops.randn(8, 3)
    grad_fn = ms.value_and_grad(lambda: (model(x) ** 3).mean(), None, opt.parameters)
    for i in range(3):
        loss, grads = grad_fn()
        opt(grads)
    return loss.item()

final = main()
"""


def test_modules_that_main_lets_go_of_are_compared(check):
    report = check(TORCH, MINDSPORE)
    assert report.agrees, cli_table(report)
    assert report.compared["buffer"] == 3 * (3 + 1) and report.compared["final weight"] == 4


@pytest.mark.parametrize(
    "old, new, named",
    [
        ("0.1 * ops", "0.11 * ops", "buffer mean"),
        ("nn.BatchNorm1d(4)", "nn.BatchNorm1d(4, momentum=0.1)", "buffer running_mean"),
        ("return (x - self.mean)", "return (x - 0 * self.mean)", "gradient"),
    ],
)
def test_a_wrong_buffer_is_found_at_its_first_step(old, new, named, check):
    assert old in MINDSPORE
    report = check(TORCH, MINDSPORE.replace(old, new))
    assert report.problems and report.problems[0].step == 1 and any(named in p.what for p in report.problems)


def test_a_buffer_that_is_lost_is_named(check):
    lost = MINDSPORE.replace('ms.Parameter(ops.zeros(4), name="mean", requires_grad=False)', "0.0")
    lost = lost.replace("self.mean = 0.9 * self.mean + 0.1", "mean = 0.1").replace("x - self.mean", "x - mean")
    report = check(TORCH, lost)
    assert any("changes in torch and is not found in mindspore" in p.text for p in report.problems)


def test_what_only_mindspore_updates_is_named(check):
    more = MINDSPORE.replace("model.trainable_params()", "model.trainable_params()[:-1]")
    report = check(TORCH.replace("model.parameters()", "list(model.parameters())[:-1]"), MINDSPORE)
    assert "is updated by mindspore's optimizer only" in cli_table(report)
    assert "is updated by torch's optimizer only" in cli_table(check(TORCH, more))


def test_weights_have_the_name_of_their_network_under_an_optimizer_of_the_program(warm, tmp_path):
    program = MINDSPORE.replace("class Norm", "class Descent(optim.SGD):\n    pass\n\nclass Norm")
    (tmp_path / "p.py").write_text(program.replace("opt = optim.SGD", "opt = Descent"))
    outcome = warm.run(Job("mindspore", tmp_path / "p.py"), tmp_path)
    assert outcome.trace is not None, outcome.problem
    names = [entry["own"] for entry in outcome.trace.of("step")[0]["parameters"]]
    assert "Norm#0.scale" in names and not any(name.startswith("Descent") for name in names)


def test_a_gradient_nobody_compares_is_no_pass(check):
    torch = "import torch\nw = torch.ones(2, requires_grad=True)\n(w * 2).sum().backward()\nprint('sum', 3.0)\n"
    report = check(torch, "import mindspore as ms\nw = ms.ops.ones(2)\nprint('sum', 3.0)\n")
    assert report.verdict == "differ" and report.problems[0].what == "gradients"


def test_variables_count_where_nothing_else_does_or_where_asked(check):
    torch, mindspore = "import torch\ny = torch.ones(2) * {}\n", "from mindspore import ops\ny = ops.ones(2) * {}\n"
    assert check(torch.format(2), mindspore.format(2)).compared == {"variable": 1}
    assert check(torch.format(2), mindspore.format(3)).problems[0].what == "variable y"
    other = MINDSPORE + "final = 7.0\n"
    report = check(TORCH, other)
    assert report.agrees and any("variable final differs at the end" in note for note in report.notes)
    assert check(TORCH, other, results=["final"]).problems[0].what == "variable final"
    assert check(TORCH, MINDSPORE, results=["final"]).compared["result"] == 1
    assert check(TORCH, MINDSPORE, results=["finale"]).verdict == "differ"


def test_a_variable_that_varies_by_itself_is_noted(check):
    clock = "import os\nstamp = int.from_bytes(os.urandom(2), 'big')\n"
    report = check(TORCH + clock, MINDSPORE + clock, results=["stamp"])
    assert report.agrees and any("variable stamp varies by itself" in note for note in report.notes)


def test_float64_tells_which_side_drifts(check):
    report = check(TORCH, MINDSPORE.replace("lr=0.1", "lr=0.2"))
    text = next(p.text for p in report.problems if p.what.startswith("weight"))
    torch, mindspore = (float(part.rpartition(" ")[2].rstrip(")")) for part in text.rpartition("torch")[2].split(","))
    assert torch < 1e-6 < 1e-4 < mindspore
    report = check(TORCH, MINDSPORE, float64=True)
    assert report.agrees and max(report.exact["gradient"]) < 1e-5


def test_both_modes(check):
    report = check(TORCH, MINDSPORE, mode="both")
    assert [part.mode for part in (report, *report.also)] == ["pynative", "graph"]
    assert report.verdict == "agree" and "mode graph" in cli_table(report)


def test_numpy_streams_are_watched_and_generators_without_a_seed_are_alike(check):
    head = "import numpy as np\nnp.random.rand()\nrng = np.random.default_rng()\nRESULT = {'x': rng.random(3)}\n"
    report = check(head + TORCH, head + MINDSPORE)
    assert report.agrees and report.compared["result"] == 1 and not any("NumPy" in note for note in report.notes)
    report = check(head + TORCH, head + "np.random.rand()\n" + MINDSPORE)
    assert any("NumPy: the sides have not drawn equally often from step 1 on" in note for note in report.notes)
