"""What cannot be seen in the files that are converted is told with the finding that rests on it."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source

TWO = """import torch
from losses import both


def train(loader, one, opt_one, two, opt_two):
    for x, y in loader:
        first, second = both(one(x), two(x), y)
        opt_one.zero_grad()
        first.backward()
        opt_one.step()
        opt_two.zero_grad()
        second.backward()
        opt_two.step()
"""
BETWEEN = """import torch


def train(net, opt, loader, after, sched=None):
    for x, y in loader:
        opt.zero_grad()
        loss = (net(x) - y).abs().mean()
        loss.backward()
        {}
        opt.step()
"""
LEAVES_ALONE = "which is not seen, leaves the gradients alone"


def backward(source: str) -> tuple[Tier, str]:
    """The tier of the first backward call, and why."""
    result = convert_source(source)
    assert not result.error, result.error
    found = next(f for f in result.findings if f.what == "backward call")
    return found.tier, found.why


def test_networks_that_run_twice_are_assumed_to_give_the_same() -> None:
    tier, why = backward(TWO)
    assert tier is Tier.ASSUMED
    assert "`one`, `two` draw no random numbers and keep no running values" in why


@pytest.mark.parametrize("call", ["after(net)", "after(loss, optimizer=opt)", "after.step()"])
def test_callbacks_between_backward_and_step_are_assumed_to_look_on(call: str) -> None:
    tier, why = backward(BETWEEN.format(call))
    assert tier is Tier.ASSUMED
    assert LEAVES_ALONE in why


@pytest.mark.parametrize("call", ["after(loss)", "print(net)", "sched.step()", "len(loader)"])
def test_what_is_not_given_networks_is_no_concern(call: str) -> None:
    tier, why = backward(BETWEEN.format(call))
    assert tier is Tier.EXACT
    assert LEAVES_ALONE not in why


SETUP = """import torch


class Agent:
    def setup(self):
        self.log_alpha, self.opt = None, None
        if self.tuned:
            self.log_alpha = torch.zeros(1).requires_grad_(True)
            self.opt = torch.optim.Adam([self.log_alpha], lr=0.05)

    def train(self, log_probs):
        for log_prob in log_probs:
            loss = None
            if self.opt is not None and self.log_alpha is not None:
                loss = -(self.log_alpha * log_prob.detach()).mean()
            if loss is not None and self.opt is not None:
                self.opt.zero_grad()
                loss.backward()
                self.opt.step()
"""


def test_what_a_method_sets_up_is_there_at_every_step_or_at_none() -> None:
    tier, why = backward(SETUP)
    assert tier is Tier.ASSUMED
    assert "`self.opt is not None and self.log_alpha is not None` is the same at every step of `self.opt`" in why


METHODS = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.extra = nn.Linear(3, 3)

    def forward(self, x, deep):
        h = torch.tanh(self.a(x))
        if deep:
            h = h + self.extra(h)
        return h


class Trainer:
    def __init__(self):
        self.net = Net()
        self.opt = torch.optim.Adam(self.net.parameters(), lr=0.05)

    def loss(self, x, deep):
        return self.net(x, deep).pow(2).mean()

    def step(self, x, deep):
        self.opt.zero_grad()
        loss = self.loss(x, deep)
        loss.backward()
        self.opt.step()
        return loss.item()


torch.manual_seed(0)
trainer = Trainer()
for k in range(5):
    print(trainer.step(torch.randn(4, 3), k % 2 == 0))
"""


def test_a_method_that_runs_the_network_leaves_layers_out_as_its_caller_would() -> None:
    (event,) = [f for f in convert_source(METHODS).findings if f.what == "backward call"]
    assert "leaves alone the layers that do not run" in event.why
    same = convert_source(METHODS.replace("k % 2 == 0", "True"))
    (event,) = [f for f in same.findings if f.what == "backward call"]
    assert event.tier is Tier.ASSUMED and "leaves alone" not in event.why, event.why


PICKING = """\
import torch
from torch import nn


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 3)
        self.head = nn.Linear(3, 1)

    def forward(self, x):
        return self.head(self.body(x))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner{layer}(x)


class Engine:
    def __init__(self):
        self.opt = torch.optim.Adam(self.model.parameters(), lr=0.1, weight_decay=0.01)

    def step(self, x):
        self.opt.zero_grad()
        loss = self.model(x).pow(2).mean()
        loss.backward()
        self.opt.step()


class First(Engine):
    def __init__(self):
        self.model = Outer()
        super().__init__()


class Second(Engine):
    def __init__(self):
        self.model = Inner()
        super().__init__()
"""


def test_a_network_that_runs_some_layers_of_another_may_leave_parameters_out() -> None:
    (event,) = [f for f in convert_source(PICKING.format(layer=".body")).findings if f.what == "backward call"]
    assert event.tier is Tier.ASSUMED and "every parameter of the optimizer takes part" in event.why
    (event,) = [f for f in convert_source(PICKING.format(layer="")).findings if f.what == "backward call"]
    assert event.tier is Tier.EXACT, event.why


MAYBE = """\
import torch


def run(model, x, optimizer=None):
    for part in x:
        if optimizer is not None:
            optimizer.zero_grad()
        model(part).mean().backward()
        if optimizer is not None:
            optimizer.step()

"""


def test_an_optimizer_that_may_be_none_is_there_where_gradients_are_taken() -> None:
    result = convert_source(MAYBE)
    (event,) = [f for f in result.findings if f.code == "T2M101"]
    assert event.tier is Tier.ASSUMED and "`optimizer` is there where gradients are taken" in event.why


MASKED = """\
import torch


class Influence:
    def gather(self, rows):
        {}
        found = []
        for row in rows:
            loss = self.model(**row)["loss"]
            first = torch.autograd.grad(loss, list(self.model.parameters()), retain_graph=True)
            scores = torch.autograd.grad(loss, list(self.tail.parameters()))
            found.append((first, scores, loss.item()))
        return found
"""


@pytest.mark.parametrize(("mode", "tier"), [("pass", Tier.ASSUMED), ("self.model.train()", Tier.REFUSED)])
def test_a_network_that_is_not_seen_runs_again_unless_it_is_put_into_training_mode(mode: str, tier: Tier) -> None:
    events = [f for f in convert_source(MASKED.format(mode)).findings if f.what == "torch.autograd.grad"]
    assert tier in {f.tier for f in events if "same values twice" in f.why or "running values" in f.why}, events


CURVATURE = """\
import torch
from cherry import hessian_vector_product


def step(policy, surrogate):
    loss, kl = surrogate(policy), policy(torch.ones(2, 3)).pow(2).mean()
    total = loss + kl
    grad = torch.autograd.grad(total, policy.parameters(), retain_graph=True)
    return grad, hessian_vector_product(kl, {})
"""


@pytest.mark.parametrize(("given", "refused"), [("policy.parameters()", True), ("damping", False)])
def test_a_graph_that_is_kept_may_be_for_a_function_that_is_given_weights(given: str, refused: bool) -> None:
    events = [f for f in convert_source(CURVATURE.format(given)).findings if f.what == "torch.autograd.grad"]
    assert [f.tier is Tier.REFUSED for f in events] == [refused], events


def test_a_flag_that_is_off_by_default_is_no_optimizer() -> None:
    source = CURVATURE.split("def step")[0] + (
        "\n\nclass Book(torch.nn.Module):\n    def __init__(self, table, update_optimizer=False):\n"
        "        super().__init__()\n        self.table, self.update_optimizer = table, update_optimizer\n\n"
        "    def forward(self, x):\n        loss = (self.table(x) - x).pow(2).mean()\n        loss.backward()\n"
        "        if not self.update_optimizer:\n            self.renew()\n        return loss\n"
    )
    (event,) = [f for f in convert_source(source).findings if f.what == "backward call"]
    assert event.tier is Tier.REFUSED and "grads" not in convert_source(source).text


HEADS = """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.one, self.two = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.one(h), self.two(h)


net = Heads()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in torch.ones(4, 2, 3):
    a, b = net(x)
    found = []
    losses = [{}.mean(), {}.mean()]
    for loss in losses:
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        for p in net.parameters():
            if p.grad is None:
                found.append(0)
                continue
            found.append(1)
    print(found)
"""


@pytest.mark.parametrize(
    ("first", "second", "differ"), [("a", "b", True), ("a", "(a + 1)", True), ("(a + b)", "(a * b)", False)]
)
def test_losses_in_a_list_may_reach_different_heads_or_leave_one_out(first: str, second: str, differ: bool) -> None:
    asked = [f for f in convert_source(HEADS.format(first, second)).findings if "zero throughout" in f.why]
    assert bool(asked) is differ and all(f.tier is Tier.ASSUMED for f in asked), asked


def test_gradients_that_stay_as_zeros_are_not_told_by_their_value() -> None:
    source = HEADS.format("a", "b").replace("zero_grad()", "zero_grad(set_to_none=False)")
    assert any("asks which parameters" in f.why for f in convert_source(source).findings)


def test_a_function_that_chooses_between_networks_is_told() -> None:
    """Which of them takes part hangs on what it is given: an optimizer that decays moves what has no gradient."""
    source = """import torch
import torch.nn as nn

first, second = nn.Linear(3, 2), nn.Linear(3, 2)
opt = torch.optim.AdamW(first.parameters(), lr=0.1)


def loss_of(first, second, x, flag):
    if flag:
        out = first(x)
    else:
        out = second(x)
    return out.pow(2).mean()


for i in range(3):
    loss = loss_of(first, second, torch.randn(4, 3), i != 1)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    tier, why = backward(source)
    assert tier is Tier.ASSUMED and "every parameter of the optimizer takes part in the loss" in why
    branches = "    if flag:\n        out = first(x)\n    else:\n        out = second(x)\n"
    assert backward(source.replace(branches, "    out = first(x)\n"))[0] is Tier.EXACT
