"""Names of torch that come through another module of the project: `from .common import torch, nn`."""

from __future__ import annotations

import pytest

from torch2ms.config import Config
from torch2ms.findings import Tier
from torch2ms.pipeline import convert_project

COMMON = """\
import torch
import torch.nn as nn
import torch.nn.functional as F

__all__ = ["torch", "F"]
"""
STEP = "from p.common import nn as layers\n\nfrom . import *\n"


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("from p.common import F\ny = F.relu(x)", ["y = ops.relu(x)"]),
        ("from p.step import layers as L\ny = L.Linear(2, 3)", ["y = nn.Dense(2, 3)"]),
        ("from .common import *\ny = F.relu(torch.ones(2))", ["y = ops.relu(ops.ones(2))"]),
        ("from .common import *\ny = nn.Linear(2, 3)", ["y = nn.Linear(2, 3)"]),  # it is not in __all__
        ("import p.common as c\ny = c.F.relu(c.torch.ones(2))", ["y = ops.relu(ops.ones(2))"]),
        ("import p.common\nF = 3\ny = p.common.F.relu(p.common.torch.ones(F))", ["y = ops.relu(ops.ones(F))"]),
        ("def f(x):\n    from p.common import F, COUNT\n    return F.relu(x) * COUNT",
         ["    from p.common import COUNT", "    return ops.relu(x) * COUNT"]),
        ("from .backend import torch, ON\ny = torch.as_tensor(x)", ["from .backend import ON", "y = ms.tensor(x)"]),
        ("from .interfaces import torch\ny = torch.execute(x)", ["from .interfaces import torch"]),
    ],
)  # fmt: skip
def test_they_are_translated_where_they_are_used(text: str, lines: list[str]) -> None:
    files = {"p/__init__.py": "", "p/common.py": COMMON, "p/step.py": STEP, "p/use.py": text + "\n"}
    made = convert_project(files, Config())["p/use.py"]
    assert not made.error
    assert set(lines) <= set(made.text.splitlines()), made.text


def test_what_stays_of_torch_is_imported_from_torch() -> None:
    text = "from p.common import torch\nq = torch.sspaddmm(x)\n"
    files = {"p/__init__.py": "", "p/common.py": COMMON, "p/use.py": text}
    made = convert_project(files, Config())["p/use.py"]
    assert "import torch" in made.text.splitlines() and made.count(Tier.REFUSED) == 1


def test_a_name_that_was_bound_anew_is_that_of_the_module() -> None:
    common = "from functools import partial\nfrom torch.optim import SGD\n\nSGD = partial(SGD, momentum=0.9)\n"
    use = "from p.common import SGD\nopt = SGD(parts, lr=0.1)\n"
    files = {"p/__init__.py": "", "p/common.py": common, "p/use.py": use}
    assert convert_project(files, Config())["p/use.py"].text == files["p/use.py"]
