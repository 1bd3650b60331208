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
