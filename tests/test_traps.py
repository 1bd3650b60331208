"""Silent differences between the frameworks: each has a line here that fails if a plain renaming came back.

Every pair was measured: the text on the left of "not" runs without an error on MindSpore and gives other numbers.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.installed import skip_without
from torch2ms import Result, convert_source
from torch2ms.findings import Tier

ROOT = Path(__file__).resolve().parents[1]
HEAD = "import torch\nimport torch.nn.functional as F\nfrom torch import nn, optim\n\n"
START = """x = torch.randn(3, 4)
y = torch.randn(3, 4)
k = torch.arange(4)
im = torch.randn(1, 2, 4, 4)
net = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
"""


def converted(text: str) -> Result:
    result = convert_source(HEAD + START + text)
    assert not result.error
    return result


EXPRESSIONS = [
    # nn.Conv2d pads "same" and has no bias by default; with stride 2 the shape is right and the values are not
    ("nn.Conv2d(3, 8, 3, stride=2)", "nn.Conv2d(3, 8, 3, stride=2, pad_mode='valid', has_bias=True)"),
    ("nn.Conv2d(3, 8, 3, padding=1, bias=False)", "nn.Conv2d(3, 8, 3, pad_mode='pad', padding=1, has_bias=False)"),
    # torch's (height, width) is MindSpore's (top, bottom, left, right)
    ("nn.Conv2d(3, 8, 3, padding=(1, 2))", "nn.Conv2d(3, 8, 3, pad_mode='pad', padding=(1, 1, 2, 2), has_bias=True)"),
    # output_padding= leaves the extra row uncomputed; the uneven padding computes it
    (
        "nn.ConvTranspose2d(3, 4, 3, stride=2, padding=1, output_padding=1)",
        "nn.Conv2dTranspose(3, 4, 3, stride=2, pad_mode='pad', padding=(1, 0, 1, 0), has_bias=True)",
    ),
    # the stride of pooling is 1 by default, torch's is the kernel size
    ("nn.MaxPool2d(2)", "nn.MaxPool2d(2, 2)"),
    ("nn.AvgPool2d(3, padding=1)", "nn.AvgPool2d(3, 3, pad_mode='pad', padding=1)"),
    ("F.avg_pool2d(im, 2)", "ops.avg_pool2d(im, 2, 2)"),
    # momentum is the share of the old statistics, torch's of the new ones; outputs in training do not show it
    ("nn.BatchNorm2d(8, momentum=0.3)", "nn.BatchNorm2d(8, momentum=0.7)"),
    # epsilon is 1e-7 by default
    ("nn.LayerNorm(8)", "nn.LayerNorm((8,), epsilon=1e-05)"),
    # std and var are biased by default, in every spelling but ddof=1
    ("x.std(1)", "ops.std(x, 1, ddof=1)"),
    ("torch.var(x, 0)", "x.var(0, ddof=1)"),
    ("torch.std(x, dim=1, unbiased=False)", "ops.std(x, axis=1, ddof=0)"),
    # ops.median and ops.max of a whole tensor give tuples, torch.max of two tensors is element by element
    ("torch.median(y)", "ops.median(y.reshape(-1))[0]"),
    ("torch.max(x)", "x.max()"),
    ("torch.max(x, y)", "ops.maximum(x, y)"),
    ("x.max(1)", "ops.max(x, axis=1)"),
    # ops.unique does not sort and gives two values; ops.gather selects whole rows; ops.flatten starts at axis 1
    ("torch.unique(k)", "ops.sort(ops.unique(k)[0])[0]"),
    ("torch.gather(x, 1, k.reshape(1, 4))", "ops.gather_elements(x, 1, k.reshape(1, 4))"),
    ("torch.flatten(x)", "ops.flatten(x, start_dim=0)"),
    # meshgrid's indexing is "xy" by default
    ("torch.meshgrid(k, k)", "ops.meshgrid(k, k, indexing='ij')"),
    # the positional argument of Dropout is the share that is kept
    ("nn.Dropout(0.1)", "nn.Dropout(p=0.1)"),
    # an Embedding starts with a deviation of 0.01, torch's with 1
    ("nn.Embedding(5, 4)", "nn.Embedding(5, 4, embedding_table=Normal(1.0))"),
    # full without a dtype makes integers
    ("torch.full((2, 3), 1.5)", "ops.full((2, 3), 1.5, dtype=ms.float32)"),
    # ops.norm(ord=1) of a matrix is the matrix norm
    ("torch.norm(x, p=1)", "ops.abs(x).sum()"),
    # smooth_l1 does not reduce by default; leaky_relu's gradient at 0 is halfway to 1; GELU is the tanh approximation
    ("F.smooth_l1_loss(x, y)", "ops.smooth_l1_loss(x, y, reduction='mean')"),
    ("nn.SmoothL1Loss()", "nn.SmoothL1Loss(reduction='mean')"),
    ("F.leaky_relu(x)", "ops.where(x > 0, x, 0.01 * x)"),
    ("nn.LeakyReLU()", "LeakyReLU()"),
    ("nn.GELU()", "nn.GELU(approximate=False)"),
    # the gradient of MindSpore's SELU is wrong below zero, logsigmoid overflows
    (
        "F.selu(x)",
        "1.0507009873554805 * (ops.relu(x) + 1.6732632423543772 * (ops.exp(ops.clamp(x, max=0.0)) - 1))",
    ),
    ("F.logsigmoid(x)", "-ops.softplus(-x)"),
    # a whole factor needs recompute_scale_factor and a float
    ("F.interpolate(im, scale_factor=2)", "ops.interpolate(im, scale_factor=2.0, recompute_scale_factor=True)"),
    # torch.equal is one bool, False for other shapes; transpose of a matrix is the identity under ms.jit
    ("torch.equal(x, y)", "x.shape == y.shape and bool((x == y).all())"),
    ("x.transpose(0, 1)", "x.swapaxes(0, 1)"),
    # experimental Adam scales epsilon by the bias correction; AdamW decays by default
    ("optim.Adam(net.parameters(), lr=0.1)", "optim.AdamW(net.trainable_params(), lr=0.1, weight_decay=0.0)"),
    ("optim.SGD(net.parameters(), lr=0.1)", "optim.SGD(net.trainable_params(), lr=0.1)"),
]


@pytest.mark.parametrize(("torch", "mindspore"), EXPRESSIONS, ids=[one for one, _ in EXPRESSIONS])
def test_expressions(torch: str, mindspore: str) -> None:
    assert f"made = {mindspore}\n" in converted(f"made = {torch}\n").text


WRITTEN_OUT = [
    ("nn.Embedding(5, 4, padding_idx=0)", "PaddedEmbedding(5, 4"),  # MindSpore's padding row still gets gradients
    # torch uses the factor given, MindSpore the sizes
    ("F.interpolate(im, scale_factor=1.3, mode='bilinear')", "interpolate(im, scale_factor=1.3, mode='bilinear')"),
    ("F.interpolate(im, size=(8, 8), mode='bicubic')", "interpolate(im, size=(8, 8), mode='bicubic')"),  # 0.23 off
    ("nn.RReLU()", "RReLU()"),  # MindSpore's stays random in evaluation
]


@pytest.mark.parametrize(("text", "made"), WRITTEN_OUT, ids=[one for one, _ in WRITTEN_OUT])
def test_what_has_no_equal_is_defined(text: str, made: str) -> None:
    """The name is a definition that comes along, not MindSpore's of that name."""
    result = converted(f"made = {text}\n").text
    name = made.partition("(")[0]
    assert f"made = {made}" in result
    assert f"\nclass {name}(" in result or f"\ndef {name}(" in result


REFUSED = [
    "torch.save(nn.Linear(2, 2), 'model.pt')",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_has_no_equal_is_refused(text: str) -> None:
    result = converted(f"made = {text}\n")
    assert result.count(Tier.REFUSED) == 1
    assert "T2M6" in result.text


def test_optimizers_are_the_ones_that_update() -> None:
    """mint.optim runs in PyNative on CPU and never changes a weight."""
    names = ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "NAdam", "RAdam", "Adamax", "ASGD", "Rprop")
    for name in names:
        text = converted(f"opt = optim.{name}(net.parameters(), lr=0.1)\n").text
        assert "from mindspore.experimental import optim" in text and "mint" not in text


def test_in_place_methods_are_rebound_or_assigned() -> None:
    """They return a new tensor on CPU and leave the old one as it was."""
    text = converted("x.add_(1)\nx.mul_(2).exp_()\nw = nn.Parameter(torch.ones(3))\n"
                     "with torch.no_grad():\n    w.sub_(0.1)\n    w.data.clamp_(0, 1)\n").text  # fmt: skip
    for line in ("x = x.add(1)", "x = x.mul(2).exp()", "ops.assign(w, w.sub(0.1))", "ops.assign(w, w.clamp(0, 1))"):
        assert f"\n{line}\n" in text
    assert not re.search(r"\w_\(", text)


def test_additions_that_meet_are_safe_or_told() -> None:
    """tensor_scatter_elements(reduction='add') loses additions to one element on CPU, at random."""
    result = converted("made = x.scatter_add(0, k.reshape(1, 4), y)\n")
    told = next(finding for finding in result.findings if finding.what == "torch.Tensor.scatter_add")
    if "tensor_scatter_elements" in result.text:
        assert told.tier is Tier.ASSUMED and "no two indices meet" in told.why
    else:
        assert "ops.tensor_scatter_add(x, " in result.text


STEP = """opt = optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    opt.zero_grad()
    loss = net(x).pow(2).mean()
    loss.backward()
    for group in opt.param_groups:
        group['lr'] *= 0.5
    opt.step()
net.eval()
"""


def test_learning_rates_are_assigned() -> None:
    """`group['lr'] *= 0.5` reads back as written, and the optimizer goes on with the old rate."""
    text = converted(STEP).text
    assert "ops.assign(group['lr'], group['lr'].item() * 0.5)" in text
    assert "group['lr'] *=" not in text


def test_cells_start_in_training_and_leave_it() -> None:
    """A cell starts in evaluation: without set_train Dropout is off and BatchNorm takes its moving statistics."""
    text = converted(STEP).text
    assert text.index("net.set_train()\n") < text.index("for _ in range(3)") < text.index("net.set_train(False)")


def test_gradients_are_of_what_the_optimizer_holds() -> None:
    """get_parameters() has BatchNorm's statistics in between, trainable_params() loses what is frozen later."""
    assert "ms.value_and_grad(forward_fn, None, opt.parameters)" in converted(STEP).text


def test_buffers_and_frozen_parameters_in_zips() -> None:
    """buffers() is empty, and trainable_params() of a frozen copy, too: such loops would run zero times."""
    text = converted("""avg = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
for p in avg.parameters():
    p.requires_grad_(False)
for p, q in zip(net.parameters(), avg.parameters()):
    q.data.mul_(0.9).add_(p.data, alpha=0.1)
for p, q in zip(net.buffers(), avg.buffers()):
    q.copy_(p)
""").text
    weights, statistics = [line for line in text.splitlines() if line.startswith("for p, q in zip")]
    assert "trainable_params" not in weights and "buffers()" not in statistics
    assert weights.count("if 'moving_' not in p.name") == 2 and statistics.count("if 'moving_' in p.name") == 2
    assert "ops.assign(q, ops.add(q.mul(0.9), p * 0.1))" in text


@pytest.mark.parametrize("case", ["wgan_gp", "grad_penalty_params", "hvp", "maml", "pinn_burgers"])
def test_inner_gradients_of_second_derivatives_are_compiled(case: str) -> None:
    """In PyNative the gradient of a gradient through a matrix product is wrong, its value right."""
    result = convert_source((ROOT / f"fixtures/examples/{case}/original.py").read_text(encoding="utf-8"))
    assert "@ms.jit\n" in result.text or (result.count(Tier.REFUSED) and case != "wgan_gp")


@pytest.mark.parametrize("first, spoilt", [(1, True), (3, False)])
def test_the_first_softmax_decides(first: int, spoilt: bool) -> None:
    """On CPU the gradients of softmax are wrong behind one along a single element: its rules are no more than assumed.

    Once MindSpore has mended this, the assumption goes.
    """
    skip_without("mindspore", reason="the trap is its")
    program = f"""
import mindspore as ms, numpy as np
from mindspore import ops
ms.set_device("CPU")
cotangent = np.arange(8, dtype=np.float32).reshape(2, 4)
differentiated = ms.grad(lambda x, weights: (ops.softmax(x, axis=1) * weights).sum())
differentiated(ops.ones((2, {first})), ops.ones((2, {first})))
found = differentiated(ops.zeros((2, 4)), ms.Tensor(cotangent)).asnumpy()
print(np.allclose(found, (cotangent - cotangent.mean(axis=1, keepdims=True)) / 4, atol=1e-5))
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-1] == str(not spoilt)


def test_views_are_written_so_that_what_they_show_changes() -> None:
    """`view[...] = value` leaves the tensor as it was; `view.copy_(value)` reaches it, and its gradient is wrong.

    Once MindSpore has mended the gradient, `whole` of rewrite/inplace/seen.py goes.
    """
    text = converted(
        "def forward(x):\n    h = net(x)\n    flat = h.view(-1)\n    flat.mul_(2.0)\n    return h.pow(2).mean()\n"
        "opt = optim.SGD(net.parameters(), lr=0.1)\nloss = forward(x)\nloss.backward()\nopt.step()\n"
    ).text
    assert "flat = flat.mul(2.0)\n    h = flat.view(h.shape)\n" in text
    skip_without("mindspore", reason="the trap is its")
    program = """
import mindspore as ms, numpy as np
from mindspore import ops
ms.set_device("CPU")
def run(write):
    def forward(w):
        h = w * w
        write(h.view(-1))
        return h.sum()
    return ms.value_and_grad(forward)(ms.Tensor(np.array([[1, 2], [3, 4]], dtype=np.float32)))
def indexed(view):
    view[...] = view.mul(2.0)
loss, _ = run(indexed)
copied, gradient = run(lambda view: view.copy_(view.mul(2.0)))
print(loss == 30, copied == 60, gradient.asnumpy().sum() == 40)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.split()[-3:] == ["True", "True", "False"]
