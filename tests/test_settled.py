"""Translations that need nothing more: a second conversion leaves them, and what is left of torch is marked."""

from __future__ import annotations

from typing import Any

import libcst as cst
import pytest

from tests.fixture_cases import FIXTURES
from torch2ms import convert_source
from torch2ms.analysis.program.settled import Earlier
from torch2ms.config import Config
from torch2ms.findings import Result
from torch2ms.pipeline import _checked, convert_project
from torch2ms.rewrite import apis

HEAD = "import torch\nimport mindspore as ms\nfrom mindspore import ops\n\n"
MARKED = HEAD + "# torch2ms: T2M600 torch.foo: no rule -> by hand\nx = torch.foo(1)\nz = ops.relu(ms.Tensor(1.0))\n"


def test_what_is_left_stands_under_marks() -> None:
    assert Earlier(MARKED).marked and not Earlier(MARKED).settled
    assert Earlier(MARKED.replace("\nx =", "\n\n# why\nx =")).marked
    assert Earlier(MARKED.replace("x = torch.foo(1)", "if torch.foo(1):\n    z = 1")).marked
    assert Earlier(MARKED + "for p in []:\n    if p.requires_grad:\n        'of torch'\n").marked
    assert Earlier(MARKED + "for param in []:\n    param.requires_grad = False\n").marked
    assert Earlier(MARKED + "for scheduler in []:\n    scheduler.step()\n").marked
    assert Earlier(MARKED.replace("import mindspore as ms\nfrom mindspore import ops\n", "")).marked  # all was refused
    assert Earlier(MARKED + "states = {'torch': 1}\n").marked  # in no annotation


def test_gradients_in_texts_are_none() -> None:
    told = "import mindspore as ms\n\nprint('loss.backward()')  # of x.grad\n"
    assert Earlier(told).settled
    assert Earlier(told + "print([param for param in told if param.requires_grad])\n").settled  # as MindSpore's
    assert not Earlier(told + "loss.backward()\n").settled
    assert not Earlier(told + "print(x.requires_grad)\n").settled  # of a tensor it is written in another way


def test_what_imports_nothing_of_torch_has_nothing_to_convert() -> None:
    assert Earlier("from torchreid import data\n\ndata.load()\n").apart
    assert Earlier("import pennylane as qp\n\nprint(qp.grad(qp.sin)(1.0), '.backward()')\nscheduler.step()\n").apart
    assert not Earlier("from torch import ones\n").apart
    assert not Earlier("from torchreid import x\n\nx.backward()\n").apart
    assert not Earlier("print(x.grad)\n").apart and not Earlier("print(x.requires_grad, '.step()')\n").apart


@pytest.mark.parametrize(
    "change",
    [
        ("# torch2ms: T2M600 torch.foo: no rule -> by hand\n", ""),  # somebody took the mark away
        ("x = torch.foo(1)", "w = 1; x = torch.foo(1)\ny = torch.ones(3)"),
        ("x = torch.foo(1)", "if torch.foo(1):\n    y = torch.ones(3)"),
        ("z = ops", "x.backward()\nz = ops"),
        ("z = ops", "x.requires_grad = True\nz = ops"),
        ("z = ops", "x.step()\nz = ops"),
        ("z = ops", "y: 'torch.Tensor' = x\nz = ops"),
        ("z = ops", "def f(y: list['torch.Tensor']): ...\nz = ops"),
        ("z = ops", "def f(y) -> 'torch.Tensor': ...\nz = ops"),
        ("z = ops", "z = 1  # torch2ms: ignore\nz = ops"),
        ("import torch\n", "from torch import *\n"),
        ("z = ops", "def f(:\nz = ops"),
    ],
)
def test_anything_else_is_looked_at(change: tuple[str, str]) -> None:
    assert change[0] in MARKED and not Earlier(MARKED.replace(*change)).marked


def test_marked_code_is_told_of_and_left() -> None:
    result = convert_source(MARKED)
    assert result.text == MARKED
    assert [f.why for f in result.findings] == ["marked by an earlier conversion"]


def test_statements_behind_a_semicolon_have_no_mark() -> None:
    assert not Earlier(MARKED.replace("x = torch.foo(1)", "x = 1; y = torch.ones(3)")).marked


def test_a_second_conversion_of_what_was_refused_changes_nothing() -> None:
    found = 0
    for path in sorted((FIXTURES / "limits").glob("*/expected.py")):
        text = path.read_text(encoding="utf-8")
        result = convert_project({"a.py": text}, Config())["a.py"]
        assert (result.text, result.error) == (text, ""), path
        found += Earlier(text).marked
    assert found


@pytest.mark.parametrize("refused", ["y = torch.no_such_name(1)\n", ""])
def test_a_rule_that_is_never_done_is_caught(refused: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = f"import torch\n\nx = torch.relu(torch.ones(3))\n{refused}"
    assert not convert_source(source).error
    called = apis.called

    def grows(name: str, original: cst.Call, updated: cst.Call, *rest: Any) -> cst.BaseExpression:
        made = called(name, original, updated, *rest)
        return cst.Call(updated.func, [cst.Arg(updated)]) if name == "torch.relu" else made

    monkeypatch.setattr(apis, "called", grows)
    result = convert_source(source)
    assert "would change the translation again" in result.error
    assert result.text == source


GAINED = "# torch2ms: T2M605 ops.ones -> by hand\nx = ops.ones(1)\n"


@pytest.mark.parametrize(
    ("alone", "together", "differs"),
    [
        (GAINED, "", True),
        (GAINED, "x = ops.ones(2)\n", False),  # what it is marked for is known better with the others
        ("x = ops.ones(2)\n", "x = ops.ones(2)\n", True),
        ("x = ops.ones(2)\n", "x = ops.ones(1)\n", False),  # the others keep it as it is
    ],
)
def test_a_file_among_others_is_converted_again_with_them_where_it_differs_alone(
    alone: str, together: str, differs: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "from mindspore import ops\n# of torch\n"
    monkeypatch.setattr("torch2ms.pipeline._again", lambda *rest: head + alone)
    first = Result("a.py", "import torch\n# of torch\nx = torch.ones(1)\n", head + "x = ops.ones(1)\n")
    again = {"a.py": Result("a.py", first.text, head + together)}
    result = _checked(first, Config(), frozenset(), set, (lambda: again) if together else None)
    assert ("change the translation again" in result.error) is differs
