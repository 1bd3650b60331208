"""What is written plainly before it is planned: contexts, questions, lists and closures."""

from __future__ import annotations

import pytest

from torch2ms import Result, Tier, convert_source

HEAD = """import contextlib
import torch
from torch import nn

net = nn.Linear(3, 2)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


"""


def made(text: str) -> Result:
    result = convert_source(HEAD + text)
    assert not result.error
    return result


def refused(result: Result) -> list[str]:
    return [finding.why for finding in result.findings if finding.tier is Tier.REFUSED]


AMP = """class Idle:
    def __enter__(self):
        pass

    def __exit__(self, *args):
        {leaves}


def step(x, amp):
    optimizer.zero_grad()
    with {context}:
        loss = net(x).mean()
    loss.backward()
    optimizer.step()


step(torch.rand(4, 3), False)
"""


@pytest.mark.parametrize(
    "context",
    [
        "torch.autocast('cuda') if amp else Idle()",
        "contextlib.nullcontext() if not amp else torch.autocast('cuda')",
    ],
)
def test_a_choice_of_contexts_is_an_autocast_that_may_be_off(context: str) -> None:
    result = made(AMP.format(context=context, leaves="pass"))
    assert not refused(result) and "ms.amp.auto_mixed_precision(" in result.text and "if amp" in result.text


def test_a_context_that_does_something_is_no_choice() -> None:
    assert refused(made(AMP.format(context="torch.autocast('cuda') if amp else Idle()", leaves="print(args)")))


SECOND = """def train(model, optimizer: torch.optim.Optimizer, x):
    second = hasattr(optimizer, '{name}') and optimizer.{name}
    optimizer.zero_grad()
    loss = model(x).mean()
    loss.backward(create_graph=second)
    optimizer.step()


train(net, optimizer, torch.rand(4, 3))
"""


def test_what_no_optimizer_of_torch_has_is_not_there() -> None:
    assert not refused(made(SECOND.format(name="is_second_order")))
    assert refused(made(SECOND.format(name="state")))


def test_parameters_gathered_in_a_loop_over_groups() -> None:
    text = """def norm():
    params = []
    for group in optimizer.param_groups:
        params.extend(group["params"])
    return nn.utils.clip_grad_norm_(params, 1.0)


net(torch.rand(4, 3)).mean().backward()
print(norm())
optimizer.step()
"""
    result = made(text)
    assert not refused(result) and "ops.clip_by_norm(" in result.text


CLOSURE = """class Inner:
    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, closure=None):
        self.optimizer.step(closure)


inner = Inner(optimizer)
net(torch.rand(4, 3)).mean().backward()
inner.step({given})
"""


def test_a_closure_that_nobody_gives() -> None:
    result = made(CLOSURE.format(given=""))
    assert not refused(result) and "self.optimizer(grads)" in result.text
    assert refused(made(CLOSURE.format(given="lambda: net(torch.rand(4, 3)).mean()")))


def test_frozen_copies_have_nothing_to_do_with_what_is_clipped() -> None:
    text = """import copy


class Ema:
    def __init__(self, model):
        self.ema = copy.deepcopy(model)
        for p in self.ema.parameters():
            p.requires_grad_(False)


def clip(parameters):
    nn.utils.clip_grad_norm_(parameters, 1.0)


ema = Ema({given})
net(torch.rand(4, 3)).mean().backward()
clip(net.parameters())
optimizer.step()
"""
    assert not refused(made(text.format(given="net")))


FILLS = """def point(target, other):
    for p, q in zip(target.parameters(), other.parameters()):
        {store}


other = nn.Linear(3, 2)
for _ in range(3):
    point(net, other)
    optimizer.step()
"""


@pytest.mark.parametrize(
    "store",
    [
        "p.grad = p.data - q.data",
        "if p.grad is None:\n            p.grad = torch.zeros(p.size())\n        p.grad.data.zero_()\n"
        "        p.grad.data.add_(p.data - q.data)",
        "if p.grad is None:\n            p.grad = p.data - q.data\n"
        "        else:\n            p.grad.copy_(p.data - q.data)",
    ],
)
def test_functions_that_store_gradients_are_written_out(store: str) -> None:
    result = made(FILLS.format(store=store))
    assert not refused(result) and "optimizer(grads)" in result.text and "def point" not in result.text


def test_what_adds_to_gradients_is_no_store() -> None:
    assert refused(made(FILLS.format(store="p.grad.add_(p.data - q.data)")))


NOAM = """class Noam:
    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.n = 0

    def step(self):
        self.n += 1
        for group in self.optimizer.param_groups:
            group["lr"] = 0.01 * self.n
        self.optimizer.step()

    def zero_grad(self):
        self.optimizer.zero_grad()


def train(net, opt, warm):
    base = torch.optim.Adam(net.parameters(), lr=0.01)
    {made}
    for x in data:
        opt.zero_grad()
        net(x).mean().backward()
        opt.step()
"""


@pytest.mark.parametrize("made", ["opt = Noam(base) if warm else base", "if warm:\n        opt = Noam(base)"])
def test_what_is_an_optimizer_or_an_object_around_one_is_neither(made: str) -> None:
    text = NOAM.replace("def train(net, opt, warm)", "def train(net, warm)").format(made=made)
    text = text.replace("base = ", "opt = base = ") if made.startswith("if") else text
    assert refused(convert_source("import torch\n\n\n" + text))


def test_a_function_that_is_given_optimizers_and_objects_around_them() -> None:
    given = "\n\ntrain(a, torch.optim.Adam(a.parameters()), 0)\ntrain(b, Noam(torch.optim.Adam(b.parameters())), 1)\n"
    result = convert_source("import torch\n\n\n" + NOAM.format(made="pass") + given)  # written out for each of them
    assert not refused(result) and "opt(opt_grads)" in result.text and "opt_2.optimizer(opt_2_grads)" in result.text
