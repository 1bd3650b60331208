"""Distributions of a program's own: what they hand to torch's `Distribution`, which is written out."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source

PROGRAM = """import torch
from torch.distributions import Distribution, Normal


class Squashed(Distribution):
    def __init__(self, loc, scale):
        self.loc, self.base = loc, Normal(loc, scale)
        super().__init__({given})

    def rsample(self, sample_shape=torch.Size()):
        return torch.tanh(self.base.rsample(sample_shape))


net = torch.nn.Linear(3, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
for _ in range(3):
    made = Squashed(net(torch.ones(4, 3)), torch.ones(4, 2))
    loss = made.rsample({shape}).sum()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("given", "shape", "refused"),
    [
        ("validate_args=False", "", False),
        ("self.base.batch_shape, self.base.event_shape, validate_args=False", "", False),
        ("validate_args=False", "made.batch_shape", False),
        ("torch.Size([4]), torch.Size([2])", "made.batch_shape", True),  # the written out class sees (4, 2)
    ],
)
def test_shapes_that_a_distribution_is_told(given: str, shape: str, refused: bool) -> None:
    result = convert_source(PROGRAM.format(given=given, shape=shape))
    assert not result.error
    assert ("super().__init__()" in result.text) is not refused
    assert any(f.code == "T2M605" and f.tier is Tier.REFUSED for f in result.findings) is refused
