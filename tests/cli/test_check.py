"""The self-check: what it lets pass, and each thing that it must stop."""

from __future__ import annotations

import pytest

from torch2ms.check import Names, check_output, comments, lost_comments, marks
from torch2ms.findings import Finding, Tier

SOURCE = '"""Doc."""\nimport torch  # engine\n\n# add\ny = torch.add(1, 2)  # sum\n'
GOOD = '"""Doc."""\nimport mindspore as ms  # engine\n\n# add\ny = ms.ops.add(1, 2)  # sum\n'
REFUSED = Finding("T2M600", Tier.REFUSED, "torch.add")


def same(text: str) -> str:
    return text


def test_good_translation_passes() -> None:
    assert check_output(SOURCE, GOOD, [], same) == ""


def test_unchanged_text_is_not_even_parsed() -> None:
    assert check_output("x = (", "x = (", [], same) == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "x = (\n", "not valid Python: line 6"),
        (GOOD + "return 1\n", "not valid Python: line 6: 'return' outside function"),
        (GOOD + "x = '\0'\n", "not valid Python"),
        (GOOD + "from __future__ import annotations\n", "not valid Python"),
        (GOOD.replace("  # engine", ""), "lose the comment '# engine'"),
        (GOOD.replace("  # sum", "").replace("# add\n", ""), "and 1 more"),
        ("import os\n" + GOOD, "module docstring"),
        (GOOD.replace("import mindspore as ms", "pass"), "uses ms, which nothing defines"),
        (GOOD + "import torch.nn as nn\n", "still uses torch.nn (its line 6)"),
        (GOOD + "from torchvision.transforms import Compose\n", "still uses torchvision.transforms"),
        (GOOD + "def f():\n    from torch import nn\n", "still uses torch (its line 7)"),
    ],
)
def test_faults_are_named(text: str, message: str) -> None:
    assert message in check_output(SOURCE, text, [], same)


def test_torch_may_stay_where_a_refusal_or_a_mark_says_so() -> None:
    left = GOOD + "import torch\n"
    assert check_output(SOURCE, left, [], same)
    assert check_output(SOURCE, left, [REFUSED], same) == ""
    assert check_output(SOURCE, GOOD + f"{REFUSED.mark}\nimport torch\n", [], same) == ""
    assert check_output(SOURCE, GOOD + "import torch  # torch2ms: ignore[T2M600]\n", [], same) == ""


def test_torch_in_text_is_no_use_of_torch() -> None:
    assert check_output(SOURCE, GOOD + "print('import torch')  # torch.add\n", [], same) == ""


def test_second_conversion_must_change_nothing() -> None:
    text = GOOD + "# torch2ms\n"
    message = check_output(SOURCE, text, [], lambda text: text + "# again\n")
    assert "a second conversion would change the translation again (its line 7 becomes: # again)" in message

    def fails(text: str) -> str:
        raise KeyError("x")

    assert "a second conversion fails: KeyError: 'x'" in check_output(SOURCE, text, [], fails)
    assert check_output(SOURCE, GOOD, [], fails) == ""  # a file without the word is not looked into


def test_comments_may_move_and_come_together_but_count() -> None:
    assert lost_comments("x = 1  # a\ny = 2  # b\n", "x, y = 1, 2  # a # b\n") == []
    assert lost_comments("x = 1  # a\ny = 2  # a\n", "x, y = 1, 2  # a\n") == ["# a"]
    assert lost_comments("x = '# no comment'\n", "x = 1\n") == []
    assert lost_comments("# torch2ms: T2M600 thing -> do\nx = 1\n", "x = 1\n") == []
    assert lost_comments("x = 1  # a\r\n", "x = 1  # a\n") == []


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_comments_are_found_with_every_line_end(newline: str) -> None:
    assert list(comments(newline.join(["x = 1  # a", "# b", ""]))) == [(1, "# a"), (2, "# b")]


def test_marks() -> None:
    text = "# torch2ms: T2M101 a -> b\nx = '# torch2ms: T2M101'\ny = 1  # torch2ms: ignore[T2M101]\n"
    assert marks(text) == [1]


@pytest.mark.parametrize(
    "text",
    [
        "import a.b\na.b",
        "for i, (j, *k) in []: i, j, k",
        "with x() as y, z() as (v, w): y, v, w\ndef x(): pass\nclass z: pass",
        "def f(a, /, b, *c, d, **e): a, b, c, d, e, f",
        "lambda q: q",
        "[u for u in [] if (v := u)]; v",
        "try: pass\nexcept ValueError as e: e",
        "match 1:\n case {'a': b, **c}: b, c\n case [d, *e] | A(d, e): d, e\n case f: f\nA = int",
        "def f():\n global g\n g = 1\ng",
        "from x import *\nanything",
        "__name__, __file__, print",
    ],
)
def test_names_that_something_binds(text: str) -> None:
    import ast

    assert Names(ast.parse(text)).undefined == set()


def test_a_banner_of_comments_takes_no_time() -> None:
    banner = "#" * 5000 + "\n" + "# #" * 500 + "\n"
    assert check_output(banner + "import torch\n", banner + "import mindspore\n", [], str) == ""
