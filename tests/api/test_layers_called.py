"""Layers and criteria as objects: called where they are made, asked for their methods, their files and buffers."""

from __future__ import annotations

import pytest

from torch2ms import convert_source
from torch2ms.findings import Tier

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"
NET = """class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer(tensor=torch.ones(3), name="scale")

    def forward(self, x):
        return self.norm(x) * self.scale


"""


def converted(text: str) -> tuple[str, list[str]]:
    result = convert_source(HEAD + text, path="program.py")
    assert not result.error, result.error
    return result.text, [finding.code for finding in result.findings if finding.tier is Tier.REFUSED]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (NET + "y = Net()(torch.ones(2, 3))", "y = Net().set_train()(ops.ones((2, 3)))"),
        ("x = torch.ones(2, 3)\ny = nn.Dropout(0.5).forward(x)", "y = nn.Dropout(p=0.5).set_train().construct(x)"),
        ("loss = nn.CrossEntropyLoss(label_smoothing=0.1)\nloss.eval()\ny = loss.forward(target=t, input=x)",
         "y = loss(x, t)"),
        ("opt = torch.optim.SGD(m.parameters(), 0.1)\nfor group in opt.param_groups:\n    group['dampening'] = 0",
         "    group['dampening'] = 0.0"),
        ("x = torch.ones(2)\ny = F.relu(inplace=True, input=x)\nprint(x)", "x = y"),  # one tensor
        ("w = torch.empty(2, 3)\nnn.init.ones_(*[w])", "w = initializer('ones', w.shape, w.dtype).init_data()"),
        (NET + "net = Net()\nfor p in net.parameters():\n    p.requires_grad = False",
         "for p in [p for p in net.get_parameters() if 'moving_' not in p.name "
         "and p.name.rpartition('.')[2] != 'scale']:"),
        (NET, "        self.scale = ms.Parameter(ops.ones(3), name='scale', requires_grad=False)"),
        ("with open('a', 'rb') as file:\n    state = torch.load(file)", "    state = load_object(file)"),
        ("a, b = torch.load('a.bin')", "a, b = load_object('a.bin')"),
        ("net = nn.Linear(2, 2)\noptimizer = torch.optim.SGD(net.named_parameters(), lr=0.1)",
         "optimizer = optim.SGD(net.trainable_params(), lr=0.1)"),
        ("print(nn.Conv1d(2, 4, 3).weight.shape)\nconv = nn.Conv1d(2, 4, 3)\nshape = conv.weight.shape",
         "shape = conv.weight.squeeze(2).shape"),
        ("with torch.no_grad():\n    recorded = torch.is_grad_enabled()", "recorded = False"),
    ],
)  # fmt: skip
def test_text(text: str, line: str) -> None:
    made, refused = converted(text + "\n")
    assert not refused, made
    assert line in made.splitlines(), made


@pytest.mark.parametrize(
    "text",
    [
        "net = nn.Linear(2, 2)\nnet = net.to(torch.ones(1, dtype=torch.double))",
        "layer = nn.BatchNorm2d(3)\nlayer.reset_running_stats()",
        "net = nn.Linear(2, 2)\nparts = net._buffers",
        "def ask():\n    return torch.is_grad_enabled()\nwith torch.no_grad():\n    ask()",
        "import copy\nopt = torch.optim.SGD(nn.Linear(2, 2).parameters(), 0.1)\nkept = copy.deepcopy(opt)",
        "def twins(a, b):\n    one, two = torch.optim.Adam(a.parameters()), torch.optim.Adam(b.parameters())\n"
        "    two.load_state_dict(one.state_dict())\n    return one, two",
    ],
)
def test_refused(text: str) -> None:
    assert converted(text + "\n")[1]


@pytest.mark.parametrize(
    "text",
    [
        "def f(x, c):\n    y = x if c else F.relu_(x)\n    return y, x",
        "def f(xs):\n    ys = [F.relu_(x) for x in xs]\n    return ys, xs",
        "def f(x):\n    act = lambda: F.relu(x, inplace=True)\n    return act, x",
    ],
)
def test_an_activation_that_may_not_happen_is_refused_where_its_tensor_is_used_again(text: str) -> None:
    assert converted(text)[1] == ["T2M614"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def f(x, c):\n    return F.relu_(x) if c else x", "    return ops.relu(x) if c else x"),
        ("act = lambda x: F.relu(x, inplace=True)", "act = lambda x: ops.relu(x)"),
        ("def f(x):\n    return x.exp() + F.relu_(x)", "    return x.exp() + ops.relu(x)"),
        ("def f(x):\n    return x + F.relu_(x)", "    return ops.relu(x) + ops.relu(x)"),
    ],
)
def test_what_is_read_before_an_activation_in_place_is_the_old_tensor(text: str, line: str) -> None:
    made, refused = converted(text)
    assert line in made.splitlines() and not refused


ACTING = """class Net(nn.Module):
    def act(self, x):
        return {body}

    def forward(self, x):
        y = x * 2
        return self.act(y) + y


class Other(nn.Module):
    def act(self, x):
        return x * 3
"""


@pytest.mark.parametrize(
    ("body", "end", "marks"),
    [
        ("F.relu(x, inplace=True)", "self.act(y) + y", ["T2M614"]),  # which `act` it is cannot be told by its name
        ("x.exp()", "self.act(y) + y", []),
    ],
)
def test_methods_that_activate_in_place(body: str, end: str, marks: list[str]) -> None:
    made, refused = converted(ACTING.format(body=body))
    assert refused == marks and end in made
    alone, refused = converted(ACTING.format(body=body).partition("\n\nclass Other")[0])
    assert not refused and ("self.act(y) + ops.relu(y)" in alone) is bool(marks)


def test_settings_that_callers_do_not_know() -> None:
    text = ACTING.format(body="F.leaky_relu(x, self.slope, inplace=True)").partition("\n\nclass Other")[0]
    assert converted(text)[1] == ["T2M614"]
