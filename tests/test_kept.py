"""What outlives its call in torch: gradients that are kept, left over, or listed in another order."""

from __future__ import annotations

import pytest

from torch2ms import Result, convert_source
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.findings import Tier
from torch2ms.tape.functions import flows
from torch2ms.tape.ledger.records import Records
from torch2ms.tape.model import Event, Owner

HEAD = """import random
import torch
import torch.nn.functional as F
from torch import nn, optim
data = [(torch.randn(b, 4), torch.randn(b, 1)) for b in (4, 3, 5)]
net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
"""
LOOP = """opt = optim.SGD(net.parameters(), lr=0.1)
prev, hist, last = None, [], {{}}
for x, y in data:
    {clear}
    loss = F.mse_loss(net(x), y)
    loss.backward()
    {read}
    {then}
    {use}
    opt.step()
"""
CLIP = "nn.utils.clip_grad_norm_(net.parameters(), 0.1)"
NONE, ZEROS = "opt.zero_grad()", "opt.zero_grad(set_to_none=False)"


def refused(text: str) -> list[str]:
    result: Result = convert_source(HEAD + text)
    assert not result.error
    return [f.why for f in result.findings if f.tier is Tier.REFUSED]


KEPT = [
    (NONE, "g = net[0].weight.grad", CLIP, "print(g.norm())"),
    (NONE, "gs = [p.grad for p in net.parameters()]", CLIP, "print(gs[0].norm())"),
    (NONE, "gs = {n: p.grad.detach() for n, p in net.named_parameters()}", CLIP, "print(gs['0.bias'].norm())"),
    (ZEROS, "g = net[0].weight.grad", "prev = g if prev is None else prev", "print((prev * g).sum())"),
    ("pass", "hist.append(net[2].weight.grad)", "pass", "print(hist[0].sum())"),
    (NONE, "last['w'], b = net[0].weight.grad.data, net[0].bias.grad", CLIP, "print(last)"),
]
FREE = [
    (NONE, "g = net[0].weight.grad.clone()", CLIP, "print(g.norm())"),
    (NONE, "gs = [p.grad for p in net.parameters()]\n    print(gs[0].norm())", CLIP, "pass"),
    (NONE, "g = net[0].weight.grad\n    hist.append(g)", "prev = g", "print((prev * g).sum(), hist[0].sum())"),
    (ZEROS, "hist.append(net[2].weight.grad.norm().item())", CLIP, "print(hist[0])"),
]


@pytest.mark.parametrize(("clear", "read", "then", "use"), KEPT)
def test_a_gradient_kept_without_a_copy_is_refused_where_it_changes(clear: str, read: str, then: str, use: str) -> None:
    found = refused(LOOP.format(clear=clear, read=read, then=then, use=use))
    assert any("kept without a copy" in why for why in found)


@pytest.mark.parametrize(("clear", "read", "then", "use"), FREE)
def test_a_gradient_that_stays_what_it_was_is_translated(clear: str, read: str, then: str, use: str) -> None:
    assert refused(LOOP.format(clear=clear, read=read, then=then, use=use)) == []


def test_an_optimizer_that_a_function_makes_anew_may_find_gradients() -> None:
    text = """opt = optim.SGD(net.parameters(), lr=0.1)
def run(epoch):
    global opt
    if epoch == 1:
        opt = optim.Adam(net.parameters())
    for i, (x, y) in enumerate(data):
        F.mse_loss(net(x), y).backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
for epoch in range(2):
    run(epoch)
"""
    assert any("left over from one call" in why for why in refused(text))


@pytest.mark.parametrize("change", ["ps.sort(key=len)", "ps.reverse()", "random.shuffle(ps)"])
def test_parameters_that_are_sorted_in_place_are_looked_up(change: str) -> None:
    text = f"""ps = list(net.parameters())
{change}
opt = optim.SGD(ps, lr=0.1)
for x, y in data:
    opt.zero_grad()
    F.mse_loss(net(x), y).backward()
    print([p.grad.sum() for p in net.parameters()])
    opt.step()
"""
    assert "grad_of[p]" in convert_source(HEAD + text).text


def test_the_vectors_of_spectral_norm_are_no_parameters() -> None:
    text = """from torch.nn.utils import spectral_norm as SN
critic = nn.Sequential(SN(nn.Linear(4, 1)))
for p in critic.parameters():
    p.requires_grad_(False)
print(len(list(critic.parameters())))
"""
    assert convert_source(HEAD + text).text.count("not in ('weight_u', 'weight_v')") == 2


@pytest.mark.parametrize("count", ["Net.calls += 1", "type(self).calls += 1", "self.__class__.calls += 1"])
def test_networks_that_share_a_counter_run_in_order(count: str) -> None:
    text = f"""class Net(nn.Module):
    calls = 0
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 1)
    def forward(self, x):
        {count}
        return self.fc(x) * (1 + 0.1 * (Net.calls % 3))
a, b = Net(), Net()
opt = optim.SGD(a.parameters(), lr=0.1)
for x, y in data:
    s = a(x)
    t = b(x).detach()
    loss = F.mse_loss(s, t)
    opt.zero_grad()
    loss.backward()
    opt.step()
"""
    made = convert_source(HEAD + text).text
    assert made.index("a(x)") < made.index("b(x)")


@pytest.mark.parametrize("count", ["self.calls += 1", "Net.calls += 1"])
def test_a_forward_that_counts_its_calls_does_not_run_once_more(count: str) -> None:
    text = f"""class Net(nn.Module):
    calls = 0
    def __init__(self):
        super().__init__()
        self.calls = 0
        self.fc = nn.Linear(4, 1)
    def forward(self, x):
        {count}
        return self.fc(x) / (1 + self.calls)
net = Net()
opt = optim.SGD(net.parameters(), lr=0.1)
for x, y in data:
    x = x.clone().requires_grad_(True)
    loss = F.mse_loss(net(x), y)
    grad = torch.autograd.grad(loss, x, retain_graph=True)[0]
    loss = loss + F.mse_loss(net((x + 0.1 * grad.sign()).detach()), y)
    loss.backward()
    opt.step()
    opt.zero_grad()
"""
    assert refused(text) != []


TRAINER = """import torch
from torch import nn, optim


class Trainer:
    def __init__(self, net):
        self.net = net
        self.opt = optim.SGD(self.net.parameters(), lr=0.1)

    def add(self, x):
        self.net(x).sum().backward()

    def update(self):
        self.opt.step()
        self.opt.zero_grad()


def turn_0(trainer: Trainer, x):
    trainer.add(x)
    trainer.update()
"""


def test_functions_that_lead_to_a_step_are_worked_out_when_something_new_is_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Not in every round: programs with many optimizers have thousands of them."""
    made: list[str] = []

    def counted(scope: Scope, module: ModuleInfo, events: list[Event], stored: list[Owner]) -> Records:
        made.append(scope.name)
        return Records(scope, module, events, stored=stored)

    monkeypatch.setattr(flows, "Records", counted)
    number = 40
    text = "".join(f"\n\ndef turn_{i}(trainer: Trainer, x):\n    turn_{i - 1}(trainer, x)\n" for i in range(1, number))
    assert not convert_source(TRAINER + text).error
    assert made.count("turn_0") > 0
    assert len(made) < 4 * number
