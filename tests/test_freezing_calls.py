"""Parameters that somebody freezes in the middle of a training: however the function is called, the optimizer knows."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source

PROGRAM = """\
import functools
import torch
import torch.nn as nn


def freeze(net):
    for p in net[0].parameters():
        p.requires_grad = False


{definitions}


def train(net, given, xs, ys):
    opt = torch.optim.Adam(net.parameters(), lr=0.05)
    for step in range(4):
        opt.zero_grad()
        loss = nn.functional.mse_loss(net(xs), ys)
        loss.backward()
        opt.step()
        {call}
        print(step, loss.item())


net = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
{made}
train(net, {given}, torch.ones(6, 4), torch.ones(6, 2))
"""

KEPT = """\
class Kept:
    def __init__(self, hook):
        self.hook = hook
        self.table = {"stop": self.stop}

    def stop(self, net):
        freeze(net)

    def after(self, net):
        self.hook(net)

    def look_up(self, name, net):
        self.table[name](net)

    @property
    def state(self):
        freeze(net)
        return 1

    @property
    def stopped(self):
        return True

    @stopped.setter
    def stopped(self, value):
        freeze(net)
"""
REGISTERED = """\
REGISTRY = {}


def register(fn):
    REGISTRY[fn.__name__] = fn
    return fn


@register
def stop(net):
    freeze(net)
"""
INNER = """\
def hook_of(net):
    def hook():
        freeze(net)
    return hook


def run(hooks, net):
    for hook in hooks:
        hook(net)


def then_freezing(fn):
    def wrapper(net):
        freeze(net)
        return fn(net)
    return wrapper


@then_freezing
def measure(net):
    return 0
"""
EVENTS = """\
class Engine:
    def __init__(self):
        self.handlers = []

    def on(self, fn, *args):
        self.handlers.append((fn, args))

    def fire(self):
        for fn, args in self.handlers:
            fn(*args)
"""
GONE = """\
def smooth(x):
    layer = nn.Linear(4, 4, bias=False)
    nn.init.eye_(layer.weight)
    layer.weight.requires_grad = False
    layer = layer.to(x.device)
    return layer(x)


def gaze(x):
    layer = nn.Linear(4, 4)
    for p in layer.parameters():
        p.requires_grad = False
    return layer(x)


def kept(x):
    layer = nn.Linear(4, 4)
    layer.requires_grad_(False)
    return layer, layer(x)


def aliased(net):
    layers = nn.Sequential(net[0], nn.ReLU())
    for p in layers.parameters():
        p.requires_grad = False
    return layers(torch.ones(1, 4))
"""

FREEZING = {
    "a function in a list": ("", "for hook in given: hook(net)", "[freeze]", ""),
    "a lambda": ("", "given()", "lambda: freeze(net)", ""),
    "a partial": ("", "given()", "given", "given = functools.partial(freeze, net)"),
    "partials in a list": ("", "for hook in given: hook()", "[functools.partial(freeze, net)]", ""),
    "an attribute": (KEPT, "given.after(net)", "Kept(freeze)", ""),
    "a table of methods": (KEPT, "given.look_up('stop', net)", "Kept(None)", ""),
    "a name that is put together": (KEPT, "getattr(given, 'st' + 'op')(net)", "Kept(None)", ""),
    "a property": (KEPT, "state = given.state", "Kept(None)", ""),
    "a property that is set": (KEPT, "given.stopped = True", "Kept(None)", ""),
    "a registry": (REGISTERED, "REGISTRY[given](net)", "'stop'", ""),
    "a closure": (INNER, "given()", "hook_of(net)", ""),
    "a function that runs hooks": (INNER, "run(given, net)", "[freeze]", ""),
    "a decorator": (INNER, "measure(net)", "0", ""),
    "handlers of events": (EVENTS, "given.fire()", "given", "given = Engine()\ngiven.on(freeze, net)"),
    "a network around another": (GONE, "aliased(net)", "0", ""),
}


def told(definitions: str, call: str, given: str, made: str) -> tuple[bool, bool]:
    """The optimizer leaves alone what is frozen; something is refused."""
    result = convert_source(PROGRAM.format(definitions=definitions, call=call, given=given, made=made))
    return "skip_frozen(optim.Adam" in result.text, any(f.tier is Tier.REFUSED for f in result.findings)


@pytest.mark.parametrize("way", FREEZING)
def test_what_is_frozen_stays_as_it_is(way: str) -> None:
    assert told(*FREEZING[way]) in [(True, False), (False, True)]


@pytest.mark.parametrize("call", ["smooth(xs)", "gaze(xs)", "given(xs)", "more = kept(xs)"])
def test_a_layer_that_is_new_is_none_of_the_optimizers(call: str) -> None:
    assert told(GONE.split("def aliased")[0], call, "smooth", "") == (False, False)
