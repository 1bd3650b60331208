"""Settings that a function is handed in a dict, and calls that hand on whatever they get."""

from __future__ import annotations

from torch2ms import Tier, convert_source

ADJUST = """\
import torch


def adjust(optimizer, epoch, {name}):
    lr = {name}["lr"]
    for milestone in {name}["schedule"]:
        lr *= 0.1 if epoch >= milestone else 1.0
    for group in optimizer.param_groups:
        group["lr"] = lr
    return lr


given = {{"lr": 0.06, "schedule": [1, 2]}}
net = torch.nn.Linear(3, 2)
print(adjust(torch.optim.SGD(net.parameters(), given["lr"]), 1, given))
"""

HANDING = """\
from torch import nn


class Residual(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x, *args, **kwargs):
        return self.fn(x, *args, **kwargs) + x


net = Residual(nn.Conv2d(2, 2, 1))
"""


def test_a_number_of_the_settings_is_no_tensor() -> None:
    text = convert_source(ADJUST.format(name="args")).text
    assert "        lr *= 0.1 if epoch >= milestone else 1.0\n" in text and 'ops.assign(group["lr"], lr)' in text


def test_layers_get_what_is_handed_on() -> None:
    result = convert_source(HANDING)
    assert "return self.fn(x, *args, **kwargs) + x" in result.text
    assert all(f.tier is not Tier.REFUSED for f in result.findings)
