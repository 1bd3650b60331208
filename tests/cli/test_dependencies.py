"""Dependency files: what is edited, and what must stay untouched."""

from __future__ import annotations

import configparser
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
import tomllib

from torch2ms import convert_source
from torch2ms.dependencies import Wish, beside, edit, is_dependency_file, still_imported

Run = Callable[..., CompletedProcess[bytes]]
GONE = Wish(frozenset({"torch", "torchvision"}), "2.10")
KEPT = Wish(frozenset(), "2.10")


@pytest.mark.parametrize(
    ("line", "gone", "kept"),
    [
        ("torch", "mindspore>=2.10", "torch\nmindspore>=2.10"),
        ("torch==2.1.0+cu118", "mindspore>=2.10", "torch==2.1.0+cu118\nmindspore>=2.10"),
        ("torch >= 1.8, < 3  # engine", "mindspore>=2.10  # engine", "torch >= 1.8, < 3  # engine\nmindspore>=2.10"),
        (
            'torch~=2.0; python_version > "3.8"',
            'mindspore>=2.10; python_version > "3.8"',
            'torch~=2.0; python_version > "3.8"\nmindspore>=2.10; python_version > "3.8"',
        ),
        ("torch @ https://host/torch.whl", "mindspore>=2.10", "torch @ https://host/torch.whl\nmindspore>=2.10"),
        ("  torch[opt]>=2", "  mindspore>=2.10", "  torch[opt]>=2\n  mindspore>=2.10"),
        ("torchvision>=0.15\nnumpy", "numpy", "torchvision>=0.15\nnumpy"),
        ("torchvision  # data\nnumpy", "# data\nnumpy", "torchvision  # data\nnumpy"),
    ],
)
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_requirement_lines(line: str, gone: str, kept: str, newline: str) -> None:
    for wish, expected in ((GONE, gone), (KEPT, kept)):
        source = f"numpy\n{line}\n".replace("\n", newline)
        assert edit("requirements.txt", source, wish).text == f"numpy\n{expected}\n".replace("\n", newline)
    assert edit("requirements.txt", line.split("\n")[0], GONE).error == ""


@pytest.mark.parametrize(
    "line",
    [
        "torchmetrics>=1",
        "pytorch-lightning",
        "torch-geometric==2",
        "torch.utils",
        "# torch",
        "-r torch.txt",
        "--extra-index-url https://download.pytorch.org/whl/cu118",
        "git+https://github.com/pytorch/pytorch.git",
        "./torch",
        "mindspore\ntorch",
    ],
)
def test_lines_that_are_something_else(line: str) -> None:
    result = edit("requirements.txt", f"{line}\n", GONE)
    assert (result.text, result.findings) == (f"{line}\n", ())


@pytest.mark.parametrize("line", ["torch==2.0 --hash=sha256:abc", "torch==2.0 \\\n    --hash=sha256:abc"])
def test_lines_for_a_person(line: str) -> None:
    result = edit("requirements.txt", f"{line}\n", GONE)
    assert result.text == f"{line}\n"
    assert [finding.code for finding in result.findings] == ["T2M951"]


PYPROJECT = """\
[project]
name = "torch"
keywords = ["torch"]
dependencies = [
    "numpy",
    "torch>=2",  # engine ]
    "torchmetrics",
    "torchvision"
]
[project.optional-dependencies]
a = ["x", 'torch', "y"]  # "torch"
b = ["torchvision"]
c = ["x[torch]", "torchvision"]
[dependency-groups]
dev = ["torch; python_version<'3.9'", {include-group = "x"}]
[tool.x]
y = ["torch"]
"""


def test_pyproject_tables_and_nothing_else() -> None:
    result = edit("pyproject.toml", PYPROJECT, GONE)
    before, after = tomllib.loads(PYPROJECT), tomllib.loads(result.text)
    assert after["project"]["dependencies"] == ["numpy", "mindspore>=2.10", "torchmetrics"]
    assert after["project"]["optional-dependencies"] == {"a": ["x", "mindspore>=2.10", "y"], "b": [], "c": ["x[torch]"]}
    assert after["dependency-groups"]["dev"] == ["mindspore>=2.10; python_version<'3.9'", {"include-group": "x"}]
    assert (after["project"]["name"], after["tool"]) == (before["project"]["name"], before["tool"])
    assert '    "mindspore>=2.10",  # engine ]\n    "torchmetrics",\n]\n' in result.text
    kept = tomllib.loads(edit("pyproject.toml", PYPROJECT, KEPT).text)["project"]["dependencies"]
    assert kept == ["numpy", "torch>=2", "mindspore>=2.10", "torchmetrics", "torchvision"]
    assert {finding.code for finding in result.findings} == {"T2M950"}


def poetry(body: str, table: str = "tool.poetry.dependencies") -> str:
    return f'[tool.poetry]\nname = "x"\n\n[{table}]\npython = "^3.10"\n{body}\n\n[tool.other]\ntorch = "1"\n'


@pytest.mark.parametrize("table", ["dependencies", "dev-dependencies", "group.train.dependencies"])
@pytest.mark.parametrize(
    ("line", "gone", "kept"),
    [
        ('torch = "^2.0"', 'mindspore = ">=2.10"', 'torch = "^2.0"\nmindspore = ">=2.10"'),
        ("torch='*'  # engine", 'mindspore=">=2.10"  # engine', "torch='*'  # engine\nmindspore=\">=2.10\"  # engine"),
        (
            """torch = { version = "^2", optional = true, markers = "sys_platform == 'linux'" }""",
            """mindspore = { version = ">=2.10", optional = true, markers = "sys_platform == 'linux'" }""",
            """torch = { version = "^2", optional = true, markers = "sys_platform == 'linux'" }
mindspore = { version = ">=2.10", optional = true, markers = "sys_platform == 'linux'" }""",
        ),
        ('torchvision = "*"\nnumpy = "*"', 'numpy = "*"', 'torchvision = "*"\nnumpy = "*"'),
        ('torchmetrics = "1"', 'torchmetrics = "1"', 'torchmetrics = "1"'),
    ],
)
def test_poetry(table: str, line: str, gone: str, kept: str) -> None:
    for wish, expected in ((GONE, gone), (KEPT, kept)):
        result = edit("pyproject.toml", poetry(line, f"tool.poetry.{table}"), wish)
        assert result.text == poetry(expected, f"tool.poetry.{table}") and not result.error
        tomllib.loads(result.text)


@pytest.mark.parametrize(
    "line",
    ['torch = {git = "https://x", version = "1"}', 'torch = {url = "x"}', 'torch = ["1"]', 'torch.version = "1"'],
)
def test_what_of_poetry_is_for_a_person(line: str) -> None:
    result = edit("pyproject.toml", poetry(line), GONE)
    assert result.text == poetry(line)
    assert [finding.code for finding in result.findings] == (["T2M951"] if "torch =" in line else [])


def test_broken_toml_is_an_error() -> None:
    assert "not valid TOML" in edit("pyproject.toml", "torch = [", GONE).error


SETUP = """# -*- torch -*-
from setuptools import setup

TORCH = "torch is not a requirement here"
setup(
    name="torch",
    install_requires=[
        "numpy",
        'torch>=1.8; python_version > "3.8"',  # engine
        "torchvision",
    ],
    extras_require={"é": ["torch", "torchmetrics"], "none": ["torchvision"]},
)
"""


def test_setup_py() -> None:
    result = edit("setup.py", SETUP, GONE)
    expected = SETUP.replace("'torch>=1.8; python", "'mindspore>=2.10; python").replace('        "torchvision",\n', "")
    expected = expected.replace('["torch", "torchm', '["mindspore>=2.10", "torchm').replace('["torchvision"]', "[]")
    assert result.text == expected
    assert [finding.code for finding in result.findings] == ["T2M950"] * 4
    both = edit("setup.py", SETUP, KEPT).text
    assert '"torch", "mindspore>=2.10", "torchmetrics"' in both and '        "torchvision",\n' in both
    assert edit("setup.py", expected, GONE).text == expected


def test_setup_py_that_builds_with_torch_is_for_a_person(run: Run, tmp_path: Path) -> None:
    text = "from torch.utils import cpp_extension\n" + SETUP
    assert edit("setup.py", text, GONE).text == text
    (tmp_path / "src").mkdir()
    (tmp_path / "src/setup.py").write_text(text)
    (tmp_path / "src/requirements.txt").write_text("torch\n")
    (tmp_path / "src/a.py").write_text("import torch as t\nx = t.relu(1)\n")
    done = run("convert", "--in-place", "src")
    assert (tmp_path / "src/setup.py").read_text() == text and b"T2M951" in done.stderr
    assert (tmp_path / "src/requirements.txt").read_text() == "torch\nmindspore>=2.10\n"


def test_setup_cfg() -> None:
    text = """\
[metadata]
name = torch
[options]
packages = torch
install_requires =
    numpy
    torch>=1.8
[options.extras_require]
a = torchvision
b = torch
"""
    new = configparser.ConfigParser()
    new.read_string(edit("setup.cfg", text, GONE).text)
    assert new["options"]["install_requires"].split() == ["numpy", "mindspore>=2.10"]
    assert dict(new["options.extras_require"]) == {"a": "", "b": "mindspore>=2.10"}
    assert (new["metadata"]["name"], new["options"]["packages"]) == ("torch", "torch")
    new.read_string(edit("setup.cfg", text, KEPT).text)
    assert new["options.extras_require"]["b"].split() == ["torch", "mindspore>=2.10"]


def test_conda_environment() -> None:
    text = """\
channels:
  - pytorch
dependencies:
  - pytorch::pytorch=2.1
  - pip:
    - torch==2.1  # pip
  - torchvision
"""
    result = edit("environment.yml", text, GONE)
    assert result.text == text.replace("torch==2.1", "mindspore>=2.10")
    assert [(finding.code, finding.line) for finding in result.findings] == [
        ("T2M951", 4),
        ("T2M950", 6),
        ("T2M951", 7),
    ]


def test_names_of_dependency_files() -> None:
    for name in (
        "requirements.txt",
        "requirements-dev.in",
        "dev-requirements.txt",
        "requirements/base.txt",
        "setup.cfg",
    ):
        assert is_dependency_file(name), name
    for name in ("notes.txt", "torch.txt", "config.yaml", "package.json"):
        assert not is_dependency_file(name), name


def test_imports_that_keep_torch() -> None:
    assert still_imported("import os, torch") == still_imported("x\n  from torch.nn import y") == {"torch"}
    assert still_imported("import torchmetrics\nfrom mytorch import torch_x\nimport mindspore as ms") == set()


def test_files_follow_the_code_of_the_project(run: Run, tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_text("import torch as t\nt.relu(1)\n")
    (tmp_path / "src/requirements.txt").write_text("torch>=2\n")
    assert run("convert", "src").returncode == 0
    assert (tmp_path / "src_ms/requirements.txt").read_text() == "mindspore>=2.10\n"
    (tmp_path / "src/b.py").write_text("import torch\nrefuse_me = torch\n")
    assert run("convert", "src", "-o", "out").returncode == 0
    assert (tmp_path / "out/requirements.txt").read_text() == "torch>=2\nmindspore>=2.10\n"
    assert run("convert", "--in-place", "src").returncode == 0
    assert run("convert", "--in-place", "src").returncode == 0
    assert (tmp_path / "src/requirements.txt").read_text() == "torch>=2\nmindspore>=2.10\n"


def test_what_definitions_import_enters_as_well() -> None:
    text = convert_source("from torch.utils.tensorboard import SummaryWriter\nw = SummaryWriter()\n").text
    assert beside(text) == {"tensorboardX"} and not beside("import tensorboardX\n")
    wish = Wish(GONE.remove, "2.10", ("tensorboardX",))
    assert edit("requirements.txt", "torch>=2\ntensorboard\n", wish).text == (
        "mindspore>=2.10\ntensorboardX>=2.6\ntensorboard\n"
    )
    assert edit("requirements.txt", "torch\ntensorboardX==2.5\n", wish).text == "mindspore>=2.10\ntensorboardX==2.5\n"
    made = edit("pyproject.toml", poetry('torch = "^2"', "tool.poetry.dependencies"), wish).text
    assert 'mindspore = ">=2.10"\ntensorboardX = ">=2.6"\n' in made
