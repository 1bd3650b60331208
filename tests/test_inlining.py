"""Functions that differentiate what callers made: where they are written out, and where they stay."""

from __future__ import annotations

import pytest

from torch2ms import Result, Tier, convert_source
from torch2ms.config import Config
from torch2ms.pipeline import convert_project

HEAD = """import torch

net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)


"""
LOOP = """

for _ in range(3):
    x = torch.rand(5, 2, requires_grad=True)
    u = net(x)
    {use}
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
GRADIENT = """def gradient(y, x, weights=None):
    # the slope of y
    if weights is None:
        weights = torch.ones_like(y)
    slope = torch.autograd.grad(y, x, weights, create_graph=True)[0]
    return slope
"""


def made(definition: str, use: str) -> Result:
    return convert_source(HEAD + definition + LOOP.format(use=use))


def refused(result: Result) -> list[str]:
    return [finding.why for finding in result.findings if finding.tier is Tier.REFUSED]


def test_the_definition_goes_and_its_comments_stay() -> None:
    result = made(GRADIENT, "loss = gradient(u, x).pow(2).mean() + u.mean()")
    assert not refused(result) and not result.error
    assert "def gradient" not in result.text and "# the slope of y" in result.text
    assert any(f.code == "T2M203" for f in result.findings)


def test_a_name_of_the_caller_is_not_taken() -> None:
    result = made(GRADIENT, "slope = 3.0\n    loss = slope * gradient(u, x).pow(2).mean() + u.mean()")
    assert not refused(result)
    assert "slope = 3.0" in result.text and "slope_2 = u_gradient(x, net)" in result.text


@pytest.mark.parametrize(
    "definition",
    [
        GRADIENT.replace("    return slope", "    if slope.sum() > 0:\n        return slope\n    return -slope"),
        "def gradient(*args):\n    return torch.autograd.grad(*args, create_graph=True)[0]\n",
    ],
    ids=["two returns", "any arguments"],
)
def test_what_cannot_be_written_out_is_refused(definition: str) -> None:
    assert refused(made(definition, "loss = gradient(u, x).pow(2).mean() + u.mean()"))


def test_a_function_that_is_handed_around_keeps_its_definition() -> None:
    result = made(GRADIENT, "loss = gradient(u, x).pow(2).mean() + u.mean()\n    print(gradient)")
    assert "def gradient" in result.text
    assert any("made by the caller" in why for why in refused(result))


def test_an_earlier_value_is_not_differentiated() -> None:
    derived = "g = torch.autograd.grad(y.sum(), x, create_graph=True)[0]"
    use = ["y = u * scale", "scale = scale + 1", derived, "loss = g.pow(2).mean() + y.mean()"]
    result = made("scale = 1.0\n", "\n    ".join(use))
    assert any("changes between its forward and the call" in why for why in refused(result))


def test_a_function_of_another_file_goes_with_its_import() -> None:
    operators = "import torch\n\n\n" + GRADIENT
    main = HEAD.replace("import torch\n", "import torch\nfrom operators import gradient\n")
    main += LOOP.format(use="loss = gradient(u, x).pow(2).mean() + u.mean()")
    results = convert_project({"operators.py": operators, "main.py": main}, Config())
    assert not any(refused(result) for result in results.values())
    assert "gradient" not in results["operators.py"].text
    assert "from operators" not in results["main.py"].text
