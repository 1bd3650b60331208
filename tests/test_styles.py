"""Training cells, compiled forwards, and the options that decide over steps."""

from __future__ import annotations

import textwrap
from typing import Any

import pytest

from torch2ms import Config, Tier, convert_source

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""
LOOP = """
for x, y in data:
    opt.zero_grad()
    {forward}
    loss.backward()
    {between}
    opt.step()
    {after}
"""


def convert(body: str, head: str = HEAD, **options: Any) -> tuple[str, dict[str, str], list[Tier]]:
    """The translation, why each code was reported last, and the tiers of the backward calls."""
    result = convert_source(head + textwrap.dedent(body), Config(**options), path="program.py")
    assert not result.error
    tiers = [f.tier for f in result.findings if f.code == "T2M101"]
    return result.text, {f.code: f.why for f in result.findings}, tiers


def loop(forward: str = "loss = F.mse_loss(net(x), y)", between: str = "pass", after: str = "pass") -> str:
    return LOOP.format(forward=forward, between=between, after=after)


# --- training cells


@pytest.mark.parametrize(
    ("between", "after", "reason"),
    [
        ("n = nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "print(n)", "are looked at"),
        ("print(net(x))", "pass", "may have to run before the update"),
        ("if x is None: continue", "pass", "may have to run before the update"),
        ("loss = loss + net.weight.sum()", "pass", "may have to run before the update"),
    ],
)
def test_a_step_that_keeps_the_functional_form(between: str, after: str, reason: str) -> None:
    text, why, _ = convert(loop(between=between, after=after), style="cell")
    assert "TrainOneStepCell" not in text and "grad_fn(" in text
    assert "not a training cell" in why["T2M101"] and reason in why["T2M101"]


def test_what_only_looks_at_values_may_stand_before_the_step() -> None:
    text, _, _ = convert(loop(between="total = loss.item()"), style="cell")
    assert "loss = train_step(x, y)\n    total = loss.item()" in text


def test_names_of_cells_are_not_taken() -> None:
    body = "training = 0.5\n" + loop("loss = F.mse_loss(net(x), y) * training")
    assert "`training` means something else in a cell" in convert(body, style="cell")[1]["T2M101"]


def test_a_loss_without_a_name_and_its_parts() -> None:
    body = loop("loss = F.mse_loss(net(x), y)", after="print(loss.item())").replace("loss.back", "(loss / 2).back")
    text, _, _ = convert(body, style="cell")
    assert "return loss / 2, loss" in text.replace("(loss / 2)", "loss / 2")
    assert "(value, loss), grads = self.value_and_grad(x, y)" in text
    assert "_, loss = train_step(x, y)" in text


# --- compiled forwards

NET = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(4, 2)
        self.scale = 2.0

    def forward(self, x):
        {forward}
        return x


net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def compiled(body: str, forward: str = "x = self.lin(x)") -> str:
    """Why the forward is not compiled, "" if it is."""
    text, why, _ = convert(body, NET.format(forward=forward), jit=True)
    reason = why["T2M101"].partition("not compiled: ")[2]
    assert ("@ms.jit" in text) is not bool(reason)
    return reason


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        ("x = self.lin(x)", ""),
        ("x = self.lin(x) if self.scale > 1 else x", ""),
        ("x = torch.cat([self.lin(x), x], 1)[:, :2] * self.scale", ""),
        ("x = self.lin(x) if x.sum() > 0 else x", "branches on what may be a tensor"),
        ("print(x); x = self.lin(x)", "it calls `print`"),
        ("x = self.lin(x) * x.mean().item()", "takes numbers out of a tensor"),
        ("self.last = x; x = self.lin(x)", "writes an attribute"),
        ("x = self.lin(x); x[0] = 0", "writes an attribute or an element"),
        ("x = self.lin(x).relu_()", "in place"),
        ("x = self.lin(x) + sum(p.norm() for p in self.parameters())", "it calls `sum`"),
        ("x = (lambda v: self.lin(v))(x)", "is not seen"),
        ("x = nn.Linear(4, 2)(x)", "it makes a layer"),
        ("x = self.lin(x) + len(f'{x.shape}')", "FormattedString"),
    ],
)
def test_what_a_forward_may_hold(forward: str, reason: str) -> None:
    found = compiled(loop(), forward)
    assert reason in found and bool(reason) == bool(found)


@pytest.mark.parametrize(
    ("after", "reason"),
    [
        ("pass", ""),
        ("net.scale = net.scale * 0.9", "the attribute `scale` may change"),
        ("net.load_state_dict(best)", "`load_state_dict` may change the network"),
        ("net.eval(); print(net(x))", "another mode"),
        ("net.eval(); print(net(x)); net.train()", "another mode"),
        ("nn.init.zeros_(net.lin.bias)", "may change the network"),
    ],
)
def test_what_the_loop_may_do(after: str, reason: str) -> None:
    found = compiled(loop(after=after), "x = self.lin(x) * self.scale")
    assert reason in found and bool(reason) == bool(found)


def test_training_mode_at_the_head_of_the_loop() -> None:
    inner = textwrap.indent(loop(), "    ")
    epochs = "for epoch in range(3):\n    {}\n" + inner + "\n    net.eval()\n    print(net(x))\n"
    assert not compiled(epochs.format("net.train()"))
    assert "another mode" in compiled(epochs.format("pass"))


def test_a_number_that_changes_is_no_argument() -> None:
    body = "weight = 1.0\n" + loop("loss = F.mse_loss(net(x), y) * weight", after="weight = weight * 0.5")
    assert "its argument `weight` is no tensor" in compiled(body)


def test_a_number_that_stays_is_captured() -> None:
    assert not compiled("weight = 0.5\n" + loop("loss = F.mse_loss(net(x), y) * weight"))


def test_a_loss_with_arguments_is_not_compiled() -> None:
    """`partial(ops.cross_entropy, ...)` has no gradient in compiled code."""
    body = "crit = nn.CrossEntropyLoss({})\n" + loop("loss = crit(net(x), y)")
    assert not compiled(body.format(""))
    assert "CrossEntropyLoss" in compiled(body.format("label_smoothing=0.1"))


def test_what_is_played_back_later_is_not_compiled() -> None:
    body = """
    for x in data:
        y = net(x)
        opt.zero_grad()
        y.backward(x[:, :2])
        opt.step()
    """
    text, why, _ = convert(body, jit=True)
    assert "ms.vjp(" in text and "@ms.jit" not in text
    assert "not compiled: ms.vjp records it step by step" in why["T2M101"]


def test_two_networks_are_not_compiled_together() -> None:
    body = "other = nn.Linear(4, 2)\n" + loop("loss = F.mse_loss(net(x), other(x))")
    assert "several networks" in compiled(body)


# --- targets, and what callers left behind


@pytest.mark.parametrize("target", ["2.7", "2.8", "2.9", "2.10"])
def test_a_cotangent_of_ones_own(target: str) -> None:
    body = """
    w = torch.ones(3, requires_grad=True)
    v = torch.tensor([1.0, 0.5, 0.0])
    y = w * 2
    y.backward(v)
    print(w.grad)
    """
    text, _, _ = convert(body, target=target)
    assert ("ms.vjp(" in text) is (target in ("2.9", "2.10"))
    assert ("(y * v).sum()" in text) is (target in ("2.7", "2.8"))


@pytest.mark.parametrize(("target", "fits"), [("2.7", False), ("2.8", False), ("2.9", True), ("2.10", True)])
def test_a_forward_that_is_played_back_later(target: str, fits: bool) -> None:
    body = """
    G, D = nn.Linear(3, 4), nn.Linear(4, 1)
    opt_G = torch.optim.SGD(G.parameters(), lr=0.1)
    opt_D = torch.optim.SGD(D.parameters(), lr=0.1)
    for z in noise:
        fake = G(z)
        opt_D.zero_grad()
        loss_D = D(fake.detach()).mean()
        loss_D.backward()
        opt_D.step()
        opt_G.zero_grad()
        loss_G = -D(fake).mean()
        loss_G.backward()
        opt_G.step()
    """
    text, why, _ = convert(body, target=target)
    assert ("ms.vjp(" in text) is fits
    assert ("T2M110" in why) is not fits


def test_gradients_of_callers_are_cleared_if_the_user_says_so() -> None:
    body = """
    def update(net, opt, x):
        loss = net(x).sum()
        loss.backward()
        opt.step()
    """
    text, why, _ = convert(body)
    assert "left over from one call" in why["T2M110"]
    text, why, tiers = convert(body, assume_cleared=True)
    assert "grads = ms.value_and_grad(" in text and tiers == [Tier.ASSUMED]
    assert "the gradients of `opt` are clear when the function is called" in why["T2M101"]


def test_the_option_changes_nothing_where_gradients_are_cleared() -> None:
    body = """
    def update(net, opt, x):
        opt.zero_grad()
        loss = net(x).sum()
        loss.backward()
        opt.step()
    """
    assert convert(body, assume_cleared=True) == convert(body)
