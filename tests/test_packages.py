"""Packages that work on torch, when they are what is converted: their own names are not those of a foreign library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from torch2ms.config import Config
from torch2ms.findings import Tier
from torch2ms.packages import around
from torch2ms.pipeline import convert_project

FILES = {
    "captum/__init__.py": "",
    "captum/nn/__init__.py": "from captum.nn.layers import Gate\nfrom captum.nn.layers import gate as gate\n",
    "captum/nn/layers.py": """\
import torch


class Gate(torch.nn.Module):
    def forward(self, x):
        return gate(x)


def gate(x):
    return torch.sigmoid(x) * x
""",
    "captum/use.py": """\
import torch

import captum.nn as cnn
from captum.nn import Gate

net = Gate()
print(net(torch.ones(2)), cnn.gate(torch.ones(2)))
""",
}
USE = """\
from mindspore import ops

import captum.nn as cnn
from captum.nn import Gate

net = Gate()
net.set_train()
print(net(ops.ones(2)), cnn.gate(ops.ones(2)))
"""


def test_a_package_may_import_itself() -> None:
    results = convert_project(FILES, Config())
    assert results["captum/use.py"].text == USE
    assert not results["captum/nn/__init__.py"].changed
    assert not any(result.count(Tier.REFUSED) for result in results.values())


def test_others_that_import_it_are_marked() -> None:
    result = convert_project({"use.py": FILES["captum/use.py"]}, Config())["use.py"]
    assert [f.what for f in result.findings if f.tier is Tier.REFUSED] == ["captum.nn.Gate", "captum.nn.gate"]


def test_one_file_of_a_package_is_known_by_the_folders_around_it(tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    file = tmp_path / "captum" / "nn" / "__init__.py"
    command = [sys.executable, "-m", "torch2ms", "convert", "--diff", str(file)]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "T2M" not in output and "-from" not in output


def test_torch_stays_what_it_is() -> None:
    assert around(["torch/optim/adam.py", "repo/captum/a/b.py"], lambda path: True) == ("captum",)
    assert around(["repo/captum/a/b.py"], lambda path: path == "repo/captum/a/__init__.py") == ()
