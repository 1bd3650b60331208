"""What is known of a project whose modules were rewritten: the same, whether runs are played again or made anew."""

from __future__ import annotations

from typing import Any

import pytest

from tests.fixture_cases import FixtureCase, all_cases
from torch2ms.analysis import infer as inference
from torch2ms.analysis.infer import infer
from torch2ms.analysis.program.project import Plain, Project
from torch2ms.parsing import parse, unasked
from torch2ms.wrappers import understood

PACKAGES = [case for case in all_cases() if len(case.files("original")) > 1]


def read(texts: dict[str, str]) -> Project:
    project = Project()
    for path, text in texts.items():
        project.add(path, parse(text), text)
    return project


def known(project: Project) -> dict[str, Any]:
    """Everything inferred, by names and positions that a second inference has as well."""
    found: dict[str, Any] = {}
    for name, module in project.modules.items():
        found[name] = [module.value(node) for node in module.nodes]
        found[f"{name}:places"] = [stmt.out for scope in module.scope.walk() for stmt in scope.body.walk()]
        for number, info in enumerate(module.functions.values()):
            found[f"{name}:{number}:{info.name}"] = (info.args, info.returns)
        for cls in module.classes.values():
            found[f"{name}:{cls.scope.name}"] = (cls.kind, cls.attrs, [c.qualified for c in cls.lineage()])
    return found


def anew(project: Project) -> dict[str, Any]:
    """What an inference that remembers nothing makes of the same trees."""
    fresh = Project(held=project.held)
    for module in project.modules.values():
        fresh.add(
            module.path, module.tree, module.source, module.directives.off, module.plain, module.lines, module.annotated
        )
    infer(fresh)
    return known(fresh)


@pytest.mark.parametrize("case", PACKAGES, ids=lambda case: case.name)
def test_runs_that_are_played_again_give_what_new_ones_give(case: FixtureCase) -> None:
    with unasked():
        project = understood(read(case.texts("original")))
        assert known(project) == anew(project)


PACKAGE = {
    "nets.py": "import torch\n\n\nclass Net(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.fc = torch.nn.Linear(2, 1)\n\n    def forward(self, x):\n        return self.fc(x)\n",
    "steps.py": "def step(net, opt, x):\n    loss = net(x).mean()\n    opt.zero_grad()\n    loss.backward()\n"
    "    opt.step()\n    return loss\n",
    "other.py": "import torch\n\n\ndef apart(x):\n    return torch.relu(x).sum()\n\n\n"
    "def twice(x):\n    return 2 * apart(x)\n",
    "main.py": "import torch\n\nfrom nets import Net\nfrom steps import step\n\nnet = Net()\n"
    "opt = torch.optim.SGD(net.parameters(), lr=0.1)\nfor i in range(3):\n    step(net, opt, torch.ones(4, 2))\n",
}


def rewritten(project: Project, path: str, text: str) -> Project:
    """The project with another tree for one of its modules."""
    module = next(m for m in project.modules.values() if m.path == path)
    lines = [(1, 1)] * len(module.lines) * 2
    return project.rewritten({module.name: Plain(parse(text), lines, [], {})})


def test_what_is_apart_from_a_change_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    run = inference._Inference.new_run
    monkeypatch.setattr(
        inference._Inference, "new_run", lambda self, *of: (ran.append(of[1].path), run(self, *of))[1]
    )
    project = read(PACKAGE)
    infer(project)
    assert {*ran} == {*PACKAGE}
    ran.clear()
    project = rewritten(project, "steps.py", PACKAGE["steps.py"].replace("return loss", "return loss.item()"))
    infer(project)
    assert {*ran} == {"steps.py", "main.py"}
    assert known(project) == anew(project)


def test_what_a_change_tells_others_reaches_them() -> None:
    project = read(PACKAGE)
    infer(project)
    project = rewritten(project, "main.py", PACKAGE["main.py"].replace("torch.ones(4, 2)", "[1, 2]"))
    infer(project)
    (step,) = project.modules["steps"].functions.values()
    assert step.args["x"].kind == "list"
    assert known(project) == anew(project)


NEW = "\n\ndef relu(x):\n    return [x]\n\n\nclass Base:\n    def read(self):\n        return [1]\n"
TAKING = {
    "by its name": {"late.py": "from steps import relu\n\ny = relu(1)\n"},
    "of the module": {"late.py": "import steps as s\n\ny = s.relu(1)\n"},
    "all names": {"late.py": "from steps import *\n\ny = relu(1)\n"},
    "by its text": {"late.py": "import steps\n\nheld = steps\ny = held.relu(1)\nz = getattr(steps, 'relu')(1)\n"},
    "through another module": {
        "middle.py": "from steps import relu as kept\n", "late.py": "from middle import kept\n\ny = kept(1)\n",
    },
    "a class above": {
        "middle.py": "from steps import Base as Kept\n",
        "owner.py": "from middle import Kept\n\n\nclass Own(Kept):\n    pass\n",
        "late.py": "from owner import Own\n\ny = Own().read()\n",
    },
}  # fmt: skip


@pytest.mark.parametrize("way", TAKING)
def test_a_name_that_a_change_brings_reaches_who_takes_it(way: str) -> None:
    project = read(PACKAGE | TAKING[way])
    infer(project)
    project = rewritten(project, "steps.py", PACKAGE["steps.py"] + NEW)
    infer(project)
    assert project.modules["late"].env["y"].kind == "list"
    assert "other" not in project.changed and not project.renamed, "it says `torch.relu`"
    assert known(project) == anew(project)


CHAIN = """import torch
from torch import nn


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(2, 2)

    def forward(self, x):
        return self.linear(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Layer(), Layer()

    def forward(self, x):
        return self.second(self.first(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = Block(), Block()

    def forward(self, x):
        return self.two(self.one(x))
"""


def test_parts_of_one_network_are_no_parts_of_the_next() -> None:
    """What went through one part before the other is known by the input of the other: places do not multiply."""
    with unasked():
        module = understood(read({"net.py": CHAIN})).modules["net"]
    forward = module.classes["Net"].method("forward")
    assert forward is not None and forward.returns is not None
    blocks = [f"self.{block}" for block in ("one", "two")]
    layers = [f"{block}.{layer}" for block in blocks for layer in ("first", "second")]
    assert forward.returns.deps == {"@x", *blocks, *layers, *(f"{layer}.linear" for layer in layers)}


DIAMOND = """import torch


class Base:
    def made(self):
        return 1

class Left(Base):
    pass

class Right(Base):
    def made(self):
        return torch.ones(2)

class Both(Left, Right):
    pass

held = Both().made()
"""


def test_a_base_that_two_bases_share_is_looked_at_after_both() -> None:
    project = read({"a.py": DIAMOND})
    infer(project)
    module = project.modules["a"]
    assert [c.scope.name for c in module.classes["Both"].lineage()] == ["Both", "Left", "Right", "Base"]
    assert module.env.get("held").kind == "tensor"  # type: ignore[union-attr]


def test_diamonds_above_each_other_do_not_double_the_work() -> None:
    level = "\nclass L{0}(B{0}):\n    pass\nclass R{0}(B{0}):\n    pass\nclass B{1}(L{0}, R{0}):\n    pass\n"
    levels = "".join(level.format(n, n + 1) for n in range(30))
    project = read({"a.py": f"import torch\nclass B0(torch.nn.Module):\n    pass\n{levels}"})
    infer(project)
    classes = project.modules["a"].classes
    assert len(classes["B30"].lineage()) == 91 and len(classes["B0"].below()) == 90
    assert classes["B30"].kind == "module"
