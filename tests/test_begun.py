"""Networks that a registry makes begin in training mode, but for what they are given."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source

PROGRAM = """\
import torch
from torch import nn

MODELS = {{}}


def register(cls):
    MODELS[cls.__name__] = cls
    return cls


@register
class Head(nn.Module):
    def __init__(self, {given}):
        super().__init__()
        {kept}
        self.norm = nn.BatchNorm1d(8)

    def forward(self, x):
        return self.norm({used}(x))


def build(name, *args):
    return MODELS[name](*args)


net = build("Head", {value})
"""


@pytest.mark.parametrize(
    ("given", "kept", "used", "value", "tier"),
    [
        ("width", "self.fc = nn.Linear(4, width)", "self.fc", "8", Tier.EXACT),
        ("backbone", "self.backbone = backbone", "self.backbone", "torch.load('b')", Tier.ASSUMED),
        ("part", "self.body = nn.Sequential(part, nn.ReLU())", "self.body", "torch.load('b')", Tier.ASSUMED),
        ("width, act=nn.ReLU", "self.body = nn.Sequential(nn.Linear(4, width), act())", "self.body", "8", Tier.EXACT),
    ],
)
def test_what_it_is_given_keeps_its_mode(given: str, kept: str, used: str, value: str, tier: Tier) -> None:
    result = convert_source(PROGRAM.format(given=given, kept=kept, used=used, value=value))
    assert [f.tier for f in result.findings if f.what == "new module"] == [tier]
    assert ("self.set_train()" in result.text) is (tier is Tier.EXACT)
