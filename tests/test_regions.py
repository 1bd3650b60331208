"""What is made outside of a loop: a graph that every turn would need, or a value of unseen origin."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source

PROGRAM = """\
import torch
from torch import nn
import torch.nn.functional as F
from elsewhere import make

model = nn.Linear(3, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def train(x, y):
    code = {made}
    for _ in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(model(x) + {used}, y)
        {backward}
        optimizer.step()
"""


def tiers(made: str, used: str = "code", backward: str = "loss.backward()") -> tuple[Tier, str]:
    result = convert_source(PROGRAM.format(made=made, used=used, backward=backward))
    assert not result.error
    (found,) = [f for f in result.findings if f.code in ("T2M101", "T2M110")]
    return found.tier, found.why


def test_what_is_of_unseen_origin_is_assumed_to_hold_no_graph() -> None:
    tier, why = tiers("make(model)(3)")
    assert tier is Tier.ASSUMED and "brings no graph along (`code`)" in why
    assert "brings no graph" not in tiers("torch.ones(2)")[1]
    assert "brings no graph" not in tiers("make(model)(3).ndim")[1]


@pytest.mark.parametrize(
    "made, used, backward",
    [
        ("model(x).mean()", "code", "loss.backward()"),  # a graph: PyTorch goes through it each time, if it can
        ("torch.cat([model.weight.mean(1)])", "code", "loss.backward()"),
        ("make(model)(3)", "code", "loss.backward(retain_graph=True)"),
        ("make(model)(3)", "code", "if y.sum() > 0: loss.backward()"),  # perhaps once
        ("make(model)(3)", "code", "loss.backward(); break"),
    ],
)
def test_a_graph_made_outside_is_not_left_out(made: str, used: str, backward: str) -> None:
    assert tiers(made, used, backward)[0] is Tier.REFUSED


@pytest.mark.parametrize(
    ("handled", "tier"),
    [
        ("break", Tier.EXACT),
        ("batches = iter(loader); x, y = next(batches)", Tier.EXACT),
        ("batches = iter(loader); y = y + 1", Tier.REFUSED),  # what the network made in the turn before goes in again
    ],
)
def test_what_a_turn_binds_in_any_case_is_not_carried_over(handled: str, tier: Tier) -> None:
    source = f"""\
import torch
from torch import nn
import torch.nn.functional as F

net = nn.Linear(3, 3)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


def train(loader, steps):
    batches = iter(loader)
    for _ in range(steps):
        try:
            x, y = next(batches)
        except StopIteration:
            {handled}
        x = net(x)
        loss = F.mse_loss(x, y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""
    found = {f.code: f for f in convert_source(source).findings}
    event = found.get("T2M101") or found["T2M110"]
    assert event.tier is tier and ("brings a graph along" in event.why) is (tier is Tier.REFUSED)


@pytest.mark.parametrize(
    ("clipped", "left_out"),
    [
        ("decoder.parameters()", True),
        ("[*encoder.parameters(), *decoder.parameters()]", False),  # with what nobody clears while it is None
    ],
)
def test_gradients_of_an_optimizer_that_is_none_are_left_out_where_nobody_looks(clipped: str, left_out: bool) -> None:
    source = f"""\
import torch
from torch import nn

encoder, decoder = nn.Linear(3, 3), nn.Linear(3, 2)
encoder_optimizer = torch.optim.SGD(encoder.parameters(), lr=0.1) if input() else None
decoder_optimizer = torch.optim.SGD(decoder.parameters(), lr=0.1)
for x in torch.ones(4, 2, 3):
    decoder_optimizer.zero_grad()
    if encoder_optimizer is not None:
        encoder_optimizer.zero_grad()
    decoder(encoder(x)).sum().backward()
    nn.utils.clip_grad_norm_({clipped}, 1.0)
    decoder_optimizer.step()
    if encoder_optimizer is not None:
        encoder_optimizer.step()
"""
    result = convert_source(source)
    assert ("encoder_optimizer.parameters if encoder_optimizer is not None" in result.text) is left_out
    assert any("may be None, and its gradients" in f.why for f in result.findings) is not left_out


def test_a_clip_of_the_whole_is_no_clip_of_a_part() -> None:
    source = """\
import torch
from torch import nn

model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))
optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
for x in torch.randn(3, 5, 3):
    optimizer.zero_grad()
    model(x).pow(2).mean().backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
"""
    refused = [f.why for f in convert_source(source).findings if f.tier is Tier.REFUSED]
    assert refused == ["it clips other parameters than those of the optimizer"]


def test_a_network_is_switched_before_it_runs() -> None:
    """A record that is made first and filled later stands around the switch: the forward does not pass it."""
    result = convert_source(
        "import torch\nfrom torch import nn\n\n\nclass Trainer:\n    def __init__(self, net, optimizer):\n"
        "        self.net, self.optimizer = net, optimizer\n\n    def step(self, x):\n        output = {'image': x}\n"
        "        self.net.train()\n        self.optimizer.zero_grad()\n        output['pred'] = self.net(x)\n"
        "        output['loss'] = output['pred'].pow(2).mean()\n        output['loss'].backward()\n"
        "        self.optimizer.step()\n        return output\n\n\nnet = nn.Linear(2, 2)\n"
        "Trainer(net, torch.optim.SGD(net.parameters(), lr=0.1)).step(torch.rand(3, 2))\n"
    )
    text = result.text
    assert not result.error and "ms.value_and_grad(" in text
    assert text.index("self.net.set_train()") < text.index("ms.value_and_grad(")


NETWORK = """import torch
from elsewhere import make

net = make()
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for x in batches:
    loss = net(x).mean()
    optimizer.zero_grad()
    loss.backward()
    {between}
    optimizer.step()
"""


@pytest.mark.parametrize(
    ("between", "tier"),
    [
        ("net.reduce_gradients()", Tier.REFUSED),
        ("if config.distributed:\n        net.reduce_gradients()", Tier.ASSUMED),
    ],
)
def test_methods_of_networks_that_are_not_seen_may_use_gradients(between: str, tier: Tier) -> None:
    findings = convert_source(NETWORK.format(between=between)).findings
    assert any(f.tier is tier and "net.reduce_gradients" in f.why for f in findings)


SCALES = """import torch
import torch.nn as nn

torch.manual_seed(0)


class SINIFGSM:
    def __init__(self, model, eps=8/255, alpha=2/255, steps=4, decay=1.0, m=3):
        self.model = model
        self.eps, self.alpha, self.steps, self.decay, self.m = eps, alpha, steps, decay, m
        self.device = 'cpu'

    def __call__(self, images, labels):
        images = images.clone().detach().to(self.device)
        labels = labels.clone().detach().to(self.device)
        momentum = torch.zeros_like(images).detach().to(self.device)
        loss = nn.CrossEntropyLoss()
        adv_images = images.clone().detach()
        for _ in range(self.steps):
            adv_images.requires_grad = True
            nes_image = adv_images + self.decay * self.alpha * momentum
            adv_grad = torch.zeros_like(images).detach().to(self.device)
            for i in torch.arange(self.m):
                nes_images = nes_image / torch.pow(2, i)
                outputs = self.model(nes_images)
                cost = loss(outputs, labels)
                adv_grad += torch.autograd.grad(cost, adv_images, retain_graph=True, create_graph=False)[0]
                {end}
            adv_grad = adv_grad / self.m
            grad = self.decay * momentum + adv_grad / torch.mean(torch.abs(adv_grad), dim=(1, 2, 3), keepdim=True)
            momentum = grad
            adv_images = adv_images.detach() + self.alpha * grad.sign()
            delta = torch.clamp(adv_images - images, min=-self.eps, max=self.eps)
            adv_images = torch.clamp(images + delta, min=0, max=1).detach()
        return adv_images


model = nn.Sequential(nn.Flatten(), nn.Linear(3 * 4 * 4, 10), nn.Tanh(), nn.Linear(10, 4))
print(SINIFGSM(model)(torch.rand(6, 3, 4, 4), torch.randint(0, 4, (6,))))
"""


@pytest.mark.parametrize(("end", "told"), [("pass", True), ("momentum = momentum + adv_grad", False)])
def test_gradients_at_tensors_are_repeated_where_nothing_changes_what_the_forward_uses(end: str, told: bool) -> None:
    text = convert_source(SCALES.format(end=end)).text
    assert ("ms.grad(forward_cost)(adv_images, i)" in text) is told
    assert ("torch.autograd.grad" in text) is not told


@pytest.mark.parametrize(("again", "tier"), [("total = total + g", Tier.REFUSED), ("x = (x - g).detach()", Tier.EXACT)])
def test_what_is_made_of_an_input_before_it_begins_to_require_gradients(again: str, tier: Tier) -> None:
    """In a second turn `a` has a graph if `x` is the tensor of the first one."""
    text = (
        "import torch\nfrom torch import nn\n\nnet = nn.Linear(4, 3)\n\n\ndef f(total):\n    x = torch.ones(2, 4)\n"
        "    for _ in range(3):\n        a = net(x).tanh()\n        x.requires_grad_()\n"
        "        out = (net(x) * a).sum()\n"
        f"        g = torch.autograd.grad(out, x)[0]\n        {again}\n    return x, total\n"
    )
    found = [f.tier for f in convert_source(text).findings if f.what == "torch.autograd.grad"]
    assert found == [tier]


ROWS = """\
import torch
from torch import nn


class Other(nn.Module):
    def __init__(self):
        super().__init__()
        self.drop = nn.Dropout(0.5)

    def forward(self, x):
        return self.drop(x)


class Attack:
    def __init__(self, model):
        self.model = {made}

    def logits(self, x):
        return self.model(x)

    def rows(self, image):
        image = image.clone().detach().requires_grad_(True)
        output = self.logits(image)
        rows = []
        for k in range(output.shape[1]):
            {turn}
        return torch.stack(rows)
"""


OF_IMAGE = """image.grad = None
            output[0, k].backward(retain_graph=True)
            rows.append(image.grad.clone())"""
OF_WEIGHT = """self.model.zero_grad()
            output[0, k].backward(retain_graph=True)
            rows.append(self.model.weight.grad.clone())"""


@pytest.mark.parametrize(
    ("made", "turn", "tier"),
    [
        ("model", OF_IMAGE, Tier.ASSUMED),
        ("Other()", OF_IMAGE, Tier.REFUSED),
        ("model", OF_WEIGHT, Tier.REFUSED),  # what is trained is in training mode, as a rule
    ],
)
def test_a_network_that_is_not_seen_may_run_again_where_others_draw(made: str, turn: str, tier: Tier) -> None:
    result = convert_source(ROWS.format(made=made, turn=turn))
    (event,) = [f for f in result.findings if f.code in ("T2M101", "T2M110")]
    assert event.tier is tier, event.why
    assert ("`self.model` draws no random numbers and keeps no running values" in event.why) is (tier is Tier.ASSUMED)


YIELDING = """\
from contextlib import contextmanager
import torch
from torch import nn

net = nn.Linear(3, 3)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


{decorator}
def made(flag=False):
    with {mode}:
        for k in range(3):
            yield net(torch.ones(2, 3))


{use}
"""
LOOP = """\
for target in made():
    loss = (net(target) - 1).pow(2).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("decorator", "mode", "use", "marked"),
    [
        ("", "torch.no_grad()", LOOP, True),
        ("", "torch.no_grad()", LOOP.replace("in made()", "in list(made())"), False),
        ("", "torch.enable_grad()", LOOP, False),
        ("", "torch.no_grad()", f"print([m.sum().item() for m in made()])\n{LOOP.replace('made()', '[]')}", False),
        ("@contextmanager", "torch.no_grad()", "with made() as m:\n    print(m)", False),
        ("@contextmanager", "torch.set_grad_enabled(flag)", "with made() as m:\n    print(m)", True),
    ],
)
def test_a_yield_without_gradients_is_marked_where_its_mode_matters(
    decorator: str, mode: str, use: str, marked: bool
) -> None:
    result = convert_source(YIELDING.format(decorator=decorator, mode=mode, use=use))
    assert not result.error
    assert ("T2M310" in {f.code for f in result.findings}) is marked


CAPTURING = """\
import torch
from torch import nn
import torch.nn.functional as F

net = nn.Linear(3, 1)
opt = torch.optim.SGD(net.parameters(), lr=0.1)


def crit(out):
    return scale * F.mse_loss(out, {read})


for x, y in []:
    scale = 1.0
    out = net(x)
    {between}
    opt.zero_grad()
    loss = crit(out)
    loss.backward()
    opt.step()
"""


@pytest.mark.parametrize(
    ("read", "between", "refused"),
    [
        ("y", "scale = 0.5", False),  # before the forward, where the function finds it
        ("y", "other = crit(out)\n    scale = 0.5\n    out = out + other", True),
        ("half", "half = net(y)", True),  # it has a graph, and the function would find the one of the turn before
        ("half", "half = net(y).detach()", True),
        ("half", "half = y / 2", False),
    ],
)
def test_what_called_functions_read_of_names_around_them_is_bound_where_they_find_it(
    read: str, between: str, refused: bool
) -> None:
    result = convert_source(CAPTURING.format(read=read, between=between))
    assert not result.error
    assert ("T2M110" in {f.code for f in result.findings}) is refused


def test_a_decorator_reads_what_it_is_given_and_a_default_is_made_once() -> None:
    text = CAPTURING.replace("def crit(out):", "@scaled(by)\ndef crit(out, mean=torch.zeros(1)):\n    mean += 0.1")
    between = "other = crit(out)\n    by['v'] *= 0.5\n    out = out + other"
    result = convert_source(text.format(read="mean", between=between).replace("net =", "by = {'v': 1.0}\nnet =", 1))
    assert "other = crit(out)\n    by['v'] *= 0.5\n    out = out + other\n    loss = crit(out)" in result.text
    assert "mean[()] = mean + 0.1" in result.text
