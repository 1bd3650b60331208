"""Arguments that a call spreads: written out where it is seen what they are."""

from __future__ import annotations

import pytest

from torch2ms import convert_source
from torch2ms.findings import Tier

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n"


def converted(text: str) -> tuple[str, list[str]]:
    result = convert_source(HEAD + text, path="program.py")
    return result.text, [finding.code for finding in result.findings if finding.tier is Tier.REFUSED]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("pool = nn.AvgPool2d(*[3, 2, 1])", "pool = nn.AvgPool2d(3, 2, pad_mode='pad', padding=1)"),
        ("pool = nn.AvgPool2d(**{'kernel_size': 2, 'ceil_mode': True})",
         "pool = nn.AvgPool2d(2, 2, pad_mode='pad', ceil_mode=True)"),
        ("sizes = (3, 5, 2)\nconv = nn.Conv2d(*sizes)",
         "conv = nn.Conv2d(sizes[0], sizes[1], sizes[2], pad_mode='valid', has_bias=True)"),
        ("options = dict(bias=False)\nconv = nn.Conv2d(3, 5, 2, **options)",
         "conv = nn.Conv2d(3, 5, 2, pad_mode='valid', has_bias=options['bias'])"),
        ("x = torch.ones(2)\nargs = (x, 0.2, True)\nF.leaky_relu(*args)", "x = ops.where(x > 0, x, 0.2 * x)"),
        ("x = torch.ones(2)\nc = torch.empty(2)\nkwargs = {'out': c}\ny = torch.exp(x, **kwargs)", "c = ops.exp(x)"),
        ("x = torch.ones(2)\nc = torch.empty(2)\nkwargs = {'out': c}\ny = torch.exp(x, **kwargs)", "y = c"),
        ("x = torch.ones(2)\nflag = True\ny = F.relu(x, flag)", "x = y"),
        ("x = torch.ones(2)\nargs = (2, )\nx.add_(*args)", "x = x.add(2)"),
        ("a = torch.tensor([1, 2])\ny = torch.special.gammainc(input=a, other=torch.ones(2))",
         "y = lower_gamma(a.astype(ms.float32), ops.ones(2))"),
        ("w = torch.ones(2)\nn = torch.tensor([3, 1])\ny = torch.addr(n, w, w)",
         "y = ops.addr(n.astype(ms.float32), w, w)"),
        ("legacy = None\nloss = nn.MSELoss(legacy, legacy, 'sum')", "loss = nn.MSELoss(reduction='sum')"),
        ("f = F.hardtanh\ny = f(torch.ones(2), -1.0, 0.5, False)", "y = hardtanh(ops.ones(2), -1.0, 0.5)"),
        ("size = ((2, 3),)\ny = torch.zeros(*size, dtype=torch.float64)", "y = ops.zeros(size[0], dtype=ms.float64)"),
        ("x = torch.ones(2, 3)\ny = torch.nonzero(x, as_tuple=2 > 1)", "y = ops.unbind(ops.nonzero(x), 1)"),
        ("shape = (1, 3)\ny = torch.ones(2, 3).view(2, *shape)", "y = ops.ones((2, 3)).view(2, *shape)"),
    ],
)  # fmt: skip
def test_what_is_seen_is_written_out(text: str, line: str) -> None:
    made, refused = converted(text + "\n")
    assert not refused
    assert line in made.splitlines()


def test_two_tensors_are_no_tensor_and_its_dimension() -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.a = nn.Linear(2, 1)\n\n"
    pair = "    def forward(self, x):\n        return self.a(x), self.a(-x)\n\ntwins = Twins()\nx = torch.ones(3, 2)\n"
    net = f"class Twins(nn.Module):\n{init}"
    made, refused = converted(f"{net}{pair}y = torch.min(*twins(x))\n")
    assert not refused and "y = ops.minimum(*twins(x))" in made.splitlines()
    assert converted(f"{net}{pair.replace('self.a(-x)', '0')}y = torch.max(*twins(x))\n")[1] == ["T2M606"]
    assert converted("def low(pair):\n    return torch.min(*pair)\n")[1] == ["T2M606"]


@pytest.mark.parametrize(
    "text",
    [
        "sizes = [3, 2]\nsizes.append(1)\npool = nn.AvgPool2d(*sizes)",
        "def pool(sizes):\n    return nn.AvgPool2d(*sizes)",
        "sizes = (3, 2)\nif len(sizes) > 1:\n    sizes = (2, 2)\npool = nn.AvgPool2d(*sizes)",
    ],
)
def test_what_may_change_is_not(text: str) -> None:
    made, refused = converted(text + "\n")
    assert not refused and "pool_cell(nn.AvgPool2d, *sizes)" in made, made


def test_a_change_in_place_behind_a_star_is_refused() -> None:
    made, refused = converted("x = torch.ones(2)\ny = F.relu(**{'input': x, 'inplace': True})\nprint(x)\n")
    assert refused == ["T2M606"], made


@pytest.mark.parametrize(
    "text",
    [
        "x = torch.ones(2)\nkwargs = {'out': x}\ntorch.exp(**kwargs, input=x)\nprint(kwargs['out'])",
        "x = torch.ones(2)\nargs = (x, True)\nargs = (x, False)\nF.relu(*args)",
        "x = torch.ones(2)\nargs = (x, True)\nx = x + 1\nF.relu(*args)",
    ],
)
def test_what_may_have_changed_by_then_is_not_written_out(text: str) -> None:
    made, refused = converted(text + "\n")
    assert refused or "ops.relu(x)" not in made, made
