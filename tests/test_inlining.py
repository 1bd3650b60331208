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
    assert "slope = 3.0" in result.text and "slope_2 = u_gradient(net)(x)" in result.text


def test_a_cache_of_the_user_keeps_its_name() -> None:
    result = made(f"cache = {{}}\n{GRADIENT}", "loss = gradient(u, x).pow(2).mean() + u.mean()")
    assert "import cache as ms_cache" in result.text and "\n@ms_cache\ndef u_gradient(net):" in result.text, result.text


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


CONTROLLER = """class Controller:
    def __init__(self, optimizer):
        self.inner = optimizer

    def backward(self, loss, retain=False):
        # the loss of one batch
        loss.backward(retain_graph=retain)

    def step(self):
        self.inner.step()

    def zero_grad(self):
        self.inner.zero_grad()


"""
CONTROLLED = """control = Controller(optimizer)
for _ in range(3):
    control.zero_grad()
    loss = net(torch.rand(5, 2)).mean()
    {call}
    control.step()
"""


def test_the_backward_call_of_an_object_stands_where_it_is_called() -> None:
    result = convert_source(HEAD + CONTROLLER + CONTROLLED.format(call="control.backward(loss)"))
    assert not refused(result) and not result.error
    assert "def backward" not in result.text and "ms.value_and_grad(" in result.text
    assert result.text.count("# the loss of one batch") == 1


@pytest.mark.parametrize("call", ["send(control.backward, loss)", "getattr(control, 'backward')(loss)"])
def test_a_method_that_something_else_names_stays(call: str) -> None:
    result = convert_source(HEAD + CONTROLLER + CONTROLLED.format(call=call))
    assert refused(result) and "def backward" in result.text


def test_what_callers_do_not_read_is_not_computed() -> None:
    scaler = """class Scaler:
    def __call__(self, loss, optimizer, limit=None, create_graph=False):
        loss.backward(create_graph=create_graph)
        if limit is not None:
            norm = torch.nn.utils.clip_grad_norm_(net.parameters(), limit)
        else:
            norm = None
        optimizer.step()
        return norm


"""
    use = """scale = Scaler()
for _ in range(3):
    optimizer.zero_grad()
    {call}(net(torch.rand(5, 2)).mean(), optimizer, {limit})
"""
    result = convert_source(HEAD + scaler + use.format(call="scale", limit="1.0"))
    assert not refused(result) and "ops.clip_by_norm(grads, 1.0)" in result.text and "norm =" not in result.text
    result = convert_source(HEAD + scaler + use.format(call="norm = scale", limit="1.0") + "    print(norm)\n")
    assert not refused(result) and "norm = " in result.text


COUNTING = """import torch

class Controller:
    def __init__(self, params):
        self.inner = torch.optim.SGD(params, lr=0.1)
        self.cleared = 0

    def zero_grad(self):
        self.inner.zero_grad()
        {more}

    def step(self):
        self.inner.step()

net = torch.nn.Linear(3, 2)
control = Controller(net.parameters())
for _ in range(3):
    control.zero_grad()
    loss = net(torch.rand(4, 3)).mean()
    loss.backward()
    control.step()
"""


@pytest.mark.parametrize(("more", "called"), [("self.cleared += 1", True), ("pass", False)])
def test_a_method_that_does_more_than_clear_is_called_for_the_rest(more: str, called: bool) -> None:
    result = convert_source(COUNTING.format(more=more))
    assert not [f for f in result.findings if f.tier is Tier.REFUSED]
    assert ("control.zero_grad()" in result.text) is called


def test_a_multiple_of_what_is_handed_is_handed_on_too() -> None:
    scaled = CONTROLLER.replace("        loss.backward(", "        scaled = loss * 8.0\n        scaled.backward(")
    result = convert_source(HEAD + scaled + CONTROLLED.format(call="control.backward(loss)"))
    assert not refused(result) and "def backward" not in result.text and "scaled = loss * 8.0" in result.text


MANAGER = """from contextlib import contextmanager


@contextmanager
def stepping(optimizer):
    optimizer.zero_grad()
    yield
    optimizer.step()
"""
MANAGED = """

def train(optimizer, other):
    for x in torch.ones(4, 3, 2):
        with stepping(optimizer):
            loss = net(x).mean()
            {use}
            loss.backward()
"""


@pytest.mark.parametrize(
    ("use", "written"),
    [
        ("print(loss)", True),
        ("optimizer = other", False),  # the end of the block means the former one
        ("if loss < 0: break", False),  # no step is made then, and none would be left out
        ("return loss", False),
    ],
)
def test_a_context_manager_is_written_around_blocks_that_end_where_they_end(use: str, written: bool) -> None:
    result = convert_source(HEAD + MANAGER + MANAGED.format(use=use))
    assert bool(refused(result)) is not written
    assert ("def stepping" in result.text) is not written, result.text


@pytest.mark.parametrize("change", ["    if optimizer:\n        yield", "    for _ in (1,):\n        yield"])
def test_a_context_manager_that_yields_at_times_stays(change: str) -> None:
    result = convert_source(HEAD + MANAGER.replace("    yield", change) + MANAGED.format(use="print(loss)"))
    assert refused(result) and "def stepping" in result.text


@pytest.mark.parametrize(("name", "written"), [("other", True), ("limit", False)])
def test_variables_of_the_caller_do_not_take_the_names_of_a_body(name: str, written: bool) -> None:
    manager = MANAGER.replace("    yield\n", "    yield\n    print(limit)\n")
    managed = MANAGED.format(use=f"{name} = 5.0")
    assert ("def stepping" in convert_source(f"limit = 1.0\n{HEAD}{manager}{managed}").text) is not written
