"""Layers without a gradient at some steps, or at all: torch's optimizer skips them, and MindSpore's is made to."""

from __future__ import annotations

import textwrap

import pytest

from torch2ms import Finding, Tier, convert_source

PROGRAM = """\
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(4, 3)
        self.b = nn.Linear(4, 3)
        self.side = nn.Linear(3, 3)
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])

    def forward(self, x, name="a"):
{forward}

net = Net()
flag = True
opt = torch.optim.{optimizer}
data = [(torch.randn(5, 4), torch.randint(0, 3, (5,)), "ab"[k % 2]) for k in range(6)]
for i, (x, y, name) in enumerate(data):
    opt.zero_grad()
{loop}
    loss = F.cross_entropy(out, y)
    loss.backward()
    opt.step()
"""
ADAM = "Adam(net.parameters(), lr=0.05)"
DECAY = "AdamW(net.parameters(), lr=0.05, weight_decay=0.1)"
ALL = "h = self.a(x)\nfor layer in self.layers:\n    h = layer(h)\nh = self.side(h)\n"


LEFT_ALONE = "the optimizer leaves alone the layers that do not run"


def converted(forward: str, loop: str, optimizer: str) -> tuple[str, Finding]:
    forward, loop = textwrap.indent(forward, " " * 8), textwrap.indent(loop, " " * 4)
    result = convert_source(PROGRAM.format(forward=forward, loop=loop, optimizer=optimizer))
    assert not result.error
    return result.text, next(f for f in result.findings if f.code in ("T2M101", "T2M110"))


def tier(forward: str, loop: str, optimizer: str) -> tuple[Tier, str]:
    found = converted(forward, loop, optimizer)[1]
    return found.tier, found.why


def translated(forward: str, loop: str, optimizer: str) -> tuple[str, str]:
    text, found = converted(forward, loop, optimizer)
    assert found.tier is not Tier.REFUSED
    return text, found.why


@pytest.mark.parametrize(
    "loop",
    [
        "both = [net.a, net.b]\nout = both[i % 2](x)",
        "out = [net.a, net.b][i % 2](x)",
        "out = getattr(net, name)(x)",
        "layer = getattr(net, name)\nout = layer(x)",
        "out = net(x) if i % 3 else net.side(net.a(x))",
        "out = net.a(x)\nout = out + net.b(x) if i > 2 else out",
        "out = net.a(x)\nif i % 2:\n    out = net.side(out)",
        "out = net.a(x)\nmatch i % 2:\n    case 0:\n        out = net.side(out)",
        "out = net.a(x)\nfor k in range(i % 3):\n    out = net.layers[k](out)",
        "out = net.a(x)\nfor layer in net.layers[: i % 3]:\n    out = layer(out)",
    ],
)
def test_layers_that_a_step_picks_are_not_those_of_the_next(loop: str) -> None:
    assert LEFT_ALONE in tier("return self.b(x)", loop, ADAM)[1]
    found, why = tier("return self.b(x)", loop, "SGD(net.parameters(), lr=0.05)")
    assert found is not Tier.REFUSED and LEFT_ALONE not in why


@pytest.mark.parametrize(
    "forward",
    [
        'return {"a": self.a, "b": self.b}[name](x)',
        'layers = {"a": self.a, "b": self.b}\nlayer = layers[name]\nreturn layer(x)',
        "return getattr(self, name)(x)",
    ],
)
def test_layers_that_a_forward_picks(forward: str) -> None:
    text, why = translated(forward, "out = net(x, name)", ADAM)
    assert LEFT_ALONE in why and "opt.parameters), net.a, net.b" in text  # and all others, where any name may come
    found, why = tier(forward, 'out = net(x, "a")', ADAM)
    assert found is not Tier.REFUSED and LEFT_ALONE not in why


@pytest.mark.parametrize(
    "loop",
    [
        "out = net.a(x) if flag else net.b(x)",
        "out = net.a(x)\nfor k in range(len(net.layers)):\n    out = net.layers[k](out)",
        "out = net(x) if i % 2 else net(x * 2)",
        "out = net.a(x) if i % 2 else net.b(x)\nout = out + net.a(x) * net.b(x)",
    ],
)
def test_what_runs_at_every_step_is_trained(loop: str) -> None:
    assert tier("return self.b(x)", loop, ADAM)[0] is not Tier.REFUSED


@pytest.mark.parametrize(
    ("forward", "loop"),
    [
        (ALL + "self.seen = self.b(x)\nreturn h", "out = net(x)"),
        (ALL + "return h, self.b(x)", "out = net(x)[0]"),
        (ALL + "return h, self.b(x)", "out, aux = net(x)\nprint(aux)"),
        (ALL + 'return {"out": h, "aux": self.b(x)}', 'res = net(x)\nout = res["out"]'),
    ],
)
def test_heads_that_no_loss_depends_on_would_decay(forward: str, loop: str) -> None:
    text, why = translated(forward, loop, DECAY)
    assert LEFT_ALONE in why and "), net.b)" in text
    found, why = tier(forward, loop, DECAY.replace(", weight_decay=0.1", ", weight_decay=0.0"))
    assert found is not Tier.REFUSED and LEFT_ALONE not in why


@pytest.mark.parametrize(
    ("forward", "loop"),
    [
        (ALL + "self.seen = self.b(x)\nreturn h", "out = net(x) + net.seen"),
        (ALL + "return h, self.b(x)", "out = sum(net(x))"),
        (ALL + "return h, self.b(x)", "out = 0\nfor o in net(x):\n    out = out + o"),
        (ALL + 'outs = {}\nouts["h"] = h\nouts["b"] = self.b(x)\nreturn outs', "out = sum(net(x).values())"),
        (ALL + "f = lambda z: self.b(z)\nreturn h + f(x)", "out = net(x)"),
        (ALL + "return h + F.linear(x, self.b.weight)", "out = net(x)"),
        (ALL + "for m in (self.b,):\n    h = h + m(x)\nreturn h", "out = net(x)"),
        (ALL + "h = h.clone()\nh[:, 0] += self.b(x)[:, 0]\nreturn h", "out = net(x)"),
    ],
)
def test_what_a_loss_depends_on_may_decay(forward: str, loop: str) -> None:
    found, why = tier(forward, loop, DECAY)
    assert found is not Tier.REFUSED and LEFT_ALONE not in why


def test_items_of_a_network_that_are_never_run_would_decay() -> None:
    program = (
        "import torch\nfrom torch import nn\n\n"
        "net = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 6), nn.Linear(6, 3))\n"
        "opt = torch.optim.SGD(net.parameters(), lr=0.1, weight_decay=0.1)\n"
        "x = torch.randn(5, 4)\nfor _ in range(3):\n    opt.zero_grad()\n"
        "    loss = {}.pow(2).mean()\n    loss.backward()\n    opt.step()\n"
    )
    refused = [f.why for f in convert_source(program.format("net[2](net[0](x))")).findings if f.tier is Tier.REFUSED]
    assert refused and "`net[1]`" in refused[0]
    for run in ("net(x)", "net[2](net[1](net[0](x)))", "net[1:](net[0](x))"):
        assert all(f.tier is not Tier.REFUSED for f in convert_source(program.format(run)).findings)


@pytest.mark.parametrize(
    ("second", "left"), [("later = torch.optim.Adam(net.parameters(), lr=0.1)", False), ("", True)]
)
def test_what_other_losses_left_in_averages_moves_a_head(second: str, left: bool) -> None:
    stepping = "later" if second else "opt"
    program = f"""\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 4), nn.Linear(8, 3)

    def forward(self, x):
        h = self.body(x)
        return self.first(h), self.last(h)


net = Net()
opt = torch.optim.Adam(net.parameters(), lr=0.1)
for x in torch.ones(3, 6, 4):
    r, _ = net(x)
    opt.zero_grad()
    r.pow(2).mean().backward()
    opt.step()
{second}
for x in torch.ones(3, 6, 4):
    _, c = net(x)
    {stepping}.zero_grad()
    c.pow(2).mean().backward()
    {stepping}.step()
"""
    result = convert_source(program)
    assert all(f.tier is not Tier.REFUSED for f in result.findings)
    assert ("opt.parameters), net.first)" in result.text) is left


@pytest.mark.parametrize(("counted", "left"), [("self.count += 1", True), ("pass", False)])
def test_conditions_of_attributes_change_where_methods_bind_them(counted: str, left: bool) -> None:
    program = f"""\
import torch
from torch import nn


class Trainer:
    def __init__(self):
        self.first, self.second = nn.Linear(4, 3), nn.Linear(4, 3)
        self.opt = torch.optim.Adam([*self.first.parameters(), *self.second.parameters()], lr=0.1)
        self.count = 0

    def step(self, x):
        {counted}
        out = self.first(x)
        if self.count % 2:
            out = out + self.second(x)
        loss = out.pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()


trainer = Trainer()
for x in torch.ones(3, 6, 4):
    trainer.step(x)
"""
    findings = convert_source(program).findings
    assert all(f.tier is not Tier.REFUSED for f in findings)
    assert any(LEFT_ALONE in f.why for f in findings) is left


def test_a_tensor_that_is_made_to_be_filled_keeps_its_whole_shape() -> None:
    source = "import torch\nfrom torch import nn\nn = 3\nq = nn.init.orthogonal_(torch.randn(n, 2 * n))\n"
    text = convert_source(source).text
    assert "q = initializer(Orthogonal(), (n, 2 * n)).init_data()" in text
