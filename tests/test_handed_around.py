"""What programs of several files hand around: settings, agents, classes by name, layers with whatever they get."""

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


def test_names_of_classes_that_are_looked_up_are_marked() -> None:
    looked_up = "from importlib import import_module\n\nCONFIG = {'_target_': 'torch.optim.AdamW', 'lr': 0.1}\n"
    result = convert_source(looked_up + "print(import_module(CONFIG['_target_'].rpartition('.')[0]))\n")
    assert [f.code for f in result.findings if f.tier is Tier.REFUSED] == ["T2M608"]
    assert not convert_source("import torch\n\nprint('torch.optim.AdamW', torch.ones(2))\n").findings[1:]


def test_one_of_the_agents_acts() -> None:
    text = """\
import torch
import torch.nn.functional as F
from torch import nn


class Agent:
    def __init__(self):
        self.actor = nn.Linear(3, 2)
        self.critic = nn.Linear(10, 1)
        self.optimizer = torch.optim.Adam(self.actor.parameters())


class Agents:
    def __init__(self, n):
        self.agents = [Agent() for _ in range(n)]

    def update(self, obs, acts):
        for i, agent in enumerate(self.agents):
            mine = [agent.actor(obs[i]) if j == i else acts[j] for j in range(len(acts))]
            loss = agent.critic(torch.cat(mine, 1)).mean()
            agent.optimizer.zero_grad()
            loss.backward()
            agent.optimizer.step()
"""
    findings = convert_source(text).findings
    assert all(f.tier is not Tier.REFUSED for f in findings)
    assert any("`j == i` holds once in each list" in f.why for f in findings)


KEPT = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(3, 2)
        self.h = None

    def encode(self, x):
        self.h = self.body(x)

    def loss(self):
        return self.h.pow(2).mean()


class Trainer:
    def __init__(self, model):
        self.net = model
        self.optimizer = torch.optim.Adam(self.net.parameters())

    def collect(self, x):
        self.net.encode(x)

    def update(self, x):
        {first}
        loss = self.net.loss()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


trainer = Trainer(Net())
"""


def test_what_a_network_keeps_is_made_in_the_forward_or_refused() -> None:
    text = convert_source(KEPT.format(first="self.net.encode(x)")).text
    assert "        def forward_fn():\n            self.net.encode(x)\n            loss = self.net.loss()\n" in text
    refused = [f for f in convert_source(KEPT.format(first="pass")).findings if f.tier is Tier.REFUSED]
    assert any("`self.net.h` brings a graph along" in f.why for f in refused)


UNSEEN_BASE = """\
import torch
from torch import nn
from .base import BaseModel, SegmentationNetwork


class UNet(SegmentationNetwork):
    def __init__(self, width):
        super().__init__()
        self.encoder = nn.Linear(6, width)
        self.decoder = nn.Linear(width, 2)

    def forward(self, x):
        return self.decoder(torch.tanh(self.encoder(x)))


class Trained(BaseModel):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.criterion = nn.MSELoss()

    def forward(self):
        self.out = self.net(self.data)


unet = UNet(8).cuda()
optimizer = torch.optim.SGD(unet.parameters(), lr=0.1)
x, y = torch.rand(16, 6), torch.rand(16, 2)
for _ in range(5):
    optimizer.zero_grad()
    hidden = unet.encoder(x)
    loss = (unet.decoder(hidden) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
"""


def test_a_class_above_that_is_not_seen_leaves_a_network_a_network() -> None:
    """What runs in front of the loss is part of the gradient function: the object was taken for a tensor there."""
    text = convert_source(UNSEEN_BASE).text
    inside = text.partition("def forward_fn():\n")[2].partition("return loss")[0]
    assert "    hidden = unet.encoder(x)\n" in inside
    assert "    def construct(self, x):" in text  # it has layers
    assert "    def forward(self):" in text  # a loss and no input: no network
