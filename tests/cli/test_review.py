"""Conversions in parts: hunk by hunk, in two steps, and around code that comments leave alone."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from subprocess import CompletedProcess
from zlib import crc32

import pytest

from tests.fixture_cases import FIXTURES, FixtureCase, all_cases
from tests.splits import counted
from torch2ms import Tier, convert_source
from torch2ms.pipeline import convert_project

Run = Callable[..., CompletedProcess[bytes]]
SMALL = """import torch
import torch.nn as nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 2)

    def forward(self, x):
        return self.fc(x)


def relu(x):
    return torch.relu(x)


def train(net, data):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for x, y in data:
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
"""


@pytest.fixture
def engine() -> None:
    """The real one: these tests are about what it makes of the parts."""


# --- comments


def left(source: str) -> tuple[str, list[str]]:
    result = convert_source(source)
    assert result.error == ""
    again = convert_source(result.text)
    assert (again.text, again.error) == (result.text, "")
    return result.text, [finding.code for finding in result.findings if finding.tier is Tier.REFUSED]


def test_what_is_between_off_and_on_stays() -> None:
    head, function, tail = SMALL.partition("def relu(x):\n    return torch.relu(x)\n")
    text, refused = left(f"{head}# torch2ms: off\n{function}# torch2ms: on\n{tail}")
    assert refused == []
    assert "# torch2ms: off\ndef relu(x):\n    return torch.relu(x)\n# torch2ms: on\n" in text
    assert text.startswith("import torch\n") and "import torch.nn" not in text
    assert "class Net(nn.Cell):" in text and "loss, grads = grad_fn(x, y)" in text


def test_a_name_that_stays_keeps_its_meaning() -> None:
    text, _ = left(
        SMALL.replace("class Net(nn.Module):", "class Net(nn.Module):  # torch2ms: off") + "\nact = nn.ReLU()\n"
    )
    assert "class Net(nn.Module):  # torch2ms: off" in text and "self.fc = nn.Linear(3, 2)" in text
    assert "import torch.nn as nn" in text
    assert "from mindspore import nn as ms_nn, ops" in text and "act = ms_nn.ReLU()" in text


def test_off_reaches_to_the_end_where_nothing_ends_it() -> None:
    source = "# torch2ms: off\n" + SMALL
    assert left(source) == (source, [])


def test_gradient_code_is_left_whole() -> None:
    text, refused = left(SMALL.replace(".mean()", ".mean()  # torch2ms: off"))
    assert "        loss = ((net(x) - y) ** 2).mean()  # torch2ms: off\n" in text
    assert refused == ["T2M112", "T2M110", "T2M113"] and text.count("# torch2ms: T2M1") == 3
    text, refused = left(SMALL.replace("        loss.backward()", "        loss.backward()  # torch2ms: off"))
    assert "        loss.backward()  # torch2ms: off\n" in text and refused == ["T2M112", "T2M113"]


def test_a_gradient_mode_block_with_code_that_stays_is_not_dissolved() -> None:
    source = "import torch\nwith torch.no_grad():\n    y = torch.relu(x)  # torch2ms: off\n    z = torch.tanh(x)\n"
    text, refused = left(source)
    assert "with torch.no_grad():\n    y = torch.relu(x)  # torch2ms: off\n    z = ops.tanh(x)\n" in text
    assert refused == ["T2M600"]


@pytest.mark.parametrize("case", all_cases()[::9], ids=lambda case: case.name)
def test_any_statement_can_be_left_alone(case: FixtureCase) -> None:
    """Whatever is switched off stands in the output as it stood, and the rest still passes the self-check."""
    draw = random.Random(case.name)
    sources = case.texts("original")
    path = draw.choice(sorted(sources))
    tree = ast.parse(sources[path])
    candidates = [
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Import, ast.ImportFrom))
    ]
    for node in draw.sample(candidates, min(3, len(candidates))):
        config = replace(case.config, off=((path, (node.lineno,)),))
        result = convert_project(sources, config)[path]
        assert result.error == ""
        kept = {line.strip() for line in result.text.splitlines()}
        wanted = sources[path].splitlines()[node.lineno - 1 : node.end_lineno]
        assert [line for line in wanted if line.strip() and line.strip() not in kept and ";" not in line] == [], (
            node.lineno
        )


@pytest.mark.parametrize("comment", ["ignore[T2M600]", "ignore[T2M6]", "ignore[T2M101, T2M600]", "ignore"])
def test_an_acknowledged_refusal_gets_no_mark(run: Run, tmp_path: Path, comment: str) -> None:
    line = "torch.no_such_name(x)"
    for source in (
        f"import torch\ny = {line}  # torch2ms: {comment}\n",
        f"import torch\n# torch2ms: {comment}\ny = {line}\n",
    ):
        assert left(source) == (source, [])
        (tmp_path / "a.py").write_text(source)
        assert run("convert", "--check", "a.py").returncode == 0
    other, refused = left(f"import torch\ny = {line}  # torch2ms: ignore[T2M101]\n")
    assert "# torch2ms: T2M600 torch.no_such_name" in other and refused == ["T2M600"]


def test_an_ignored_code_is_still_translated() -> None:
    result = convert_source("import torch\ny = torch.relu(x)  # torch2ms: ignore[T2M6]\n")
    assert "ops.relu(x)" in result.text and result.findings == ()


# --- two steps


SPLIT = 136  # files of a sixth of the fixtures that split, counted on 30 November


def test_two_steps_add_up() -> None:
    """A sixth of the fixtures, by their names: the same ones, whichever are added (`python -m tests.splits`: all).

    Files that split go on to split; how many others there are says what is among the fixtures.
    """
    changed, waiting = counted(case for case in all_cases() if crc32(case.name.encode()) % 6 == 0)
    assert changed - len(waiting) >= SPLIT, waiting


def test_two_steps_from_the_command_line(run: Run, tmp_path: Path) -> None:
    (tmp_path / "whole.py").write_text(SMALL)
    (tmp_path / "steps.py").write_text(SMALL)
    assert run("convert", "--in-place", "whole.py").returncode == 0
    assert run("convert", "--in-place", "--select", "modules", "steps.py").returncode == 0
    between = (tmp_path / "steps.py").read_text()
    assert "import torch" not in between and "class Net(nn.Cell):" in between
    assert "        loss.backward()\n        opt.step()\n" in between and "# torch2ms:" not in between
    assert run("convert", "--in-place", "--select", "autograd", "steps.py").returncode == 0
    assert (tmp_path / "steps.py").read_text() == (tmp_path / "whole.py").read_text() != between


def test_a_file_that_does_not_split_waits_for_the_second_step(run: Run, tmp_path: Path) -> None:
    source = (FIXTURES / "autograd_grad/several_inputs/original.py").read_text()
    (tmp_path / "a.py").write_text(source)
    done = run("convert", "-v", "--in-place", "--select", "modules", "a.py")
    assert (tmp_path / "a.py").read_text() == source and b"T2M960" in done.stderr


@pytest.mark.parametrize(
    "words", [["--select", "modules", "--select", "autograd"], ["--select", "module"], ["--ignore", "E501"]]
)
def test_select_knows_its_words(run: Run, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "a.py").write_text(SMALL)
    assert run("convert", "--check", *words, "a.py").returncode == 2


# --- hunk by hunk


def ask(run: Run, tmp_path: Path, answers: str, source: str = SMALL) -> tuple[str, str]:
    (tmp_path / "a.py").write_text(source)
    done = run("convert", "-i", "--in-place", "a.py", stdin="".join(f"{a}\n" for a in answers).encode())
    assert done.returncode == 0, done.stderr
    return (tmp_path / "a.py").read_text(), done.stdout.decode()


def test_taking_everything_is_the_conversion(run: Run, tmp_path: Path) -> None:
    whole = convert_source(SMALL).text
    assert ask(run, tmp_path, "yyyyy")[0] == whole
    assert ask(run, tmp_path, "a")[0] == whole
    assert ask(run, tmp_path, "?xa")[0] == whole


@pytest.mark.parametrize("answers", ["nnnnn", "d", "q", ""])
def test_declining_everything_changes_nothing(run: Run, tmp_path: Path, answers: str) -> None:
    assert ask(run, tmp_path, answers)[0] == SMALL


def test_a_declined_function_stays_and_imports_follow(run: Run, tmp_path: Path) -> None:
    text, shown = ask(run, tmp_path, "yyyny")
    assert "def relu(x):\n    return torch.relu(x)\n" in text and text.startswith("import torch\n")
    assert "class Net(nn.Cell):" in text and "loss, grads = grad_fn(x, y)" in text
    assert "Write this" not in shown and "T2M501 exact line 5: nn.Module: nn.Cell" in shown


def test_what_declining_changes_elsewhere_is_shown_first(run: Run, tmp_path: Path) -> None:
    text, shown = ask(run, tmp_path, "nyyyyy")  # the class line: with it goes all of the class
    assert "With what you left as it is, a.py becomes:" in shown
    assert "class Net(nn.Module):" in text and "nn.Linear(3, 2)" in text and "grad_fn" in text
    assert ask(run, tmp_path, "nyyyyn")[0] == SMALL


def test_a_hunk_can_be_split(run: Run, tmp_path: Path) -> None:
    source = "import torch\n\n\ndef f(x):\n    a = torch.relu(x)\n    b = 1\n    return torch.tanh(a)\n"
    text, _ = ask(run, tmp_path, "sny", source)
    assert "a = torch.relu(x)" in text and "ops.tanh(a)" in text


@pytest.mark.parametrize("mode", [["--check"], ["--diff"]])
def test_asking_excludes_modes_that_do_not_write(run: Run, tmp_path: Path, mode: list[str]) -> None:
    (tmp_path / "a.py").write_text(SMALL)
    assert run("convert", "-i", *mode, "a.py").returncode == 2
    assert run("convert", "-i", "-").returncode == 2
