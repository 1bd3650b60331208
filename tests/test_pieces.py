"""Long files are parsed piece by piece, and give the tree of the whole."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from torch2ms import parsing
from torch2ms.parsing import parse
from torch2ms.pieces import LENGTH, parse_in_pieces

ROOT = Path(__file__).resolve().parents[1]
AWKWARD = [
    "x = 1\n\n\n# about y\ny = 2\nz = 3\n",
    "def f():\n    return 1\n    # the end of f\n\nx = 1\ny = 2\n",
    "x = 1; y = 2\nz = 3; \\\n  w = 4\n",
    "@first\n@second(1)\nclass A: pass\n\f\n@third\ndef f(): ...\n",
    "'doc'\n# header\n\nimport a\n\nx = [\n1,\n]\ns = '''\nx = 1\n'''\nt = 1  # behind\n \t\nu = 2",
    "if a:\n  x = 1\nelse:\n  x = 2\ntry:\n  y = 1\nfinally:\n  y = 2\n  # inside\n# at the end\n",
    "a = 1\r\nif a:\r\n\tb = 2\r\n\r\nc = 3\r\n",
    "\n\n  \nx = 1\ny = 2\n\n\n",
]


@pytest.mark.parametrize("text", AWKWARD)
def test_awkward_layout(text: str) -> None:
    made = parse_in_pieces(text, 1)
    assert made is not None and made.deep_equals(cst.parse_module(text)) and made.code == text


@pytest.mark.parametrize(
    "text",
    ["x = 1\ny = 2\r\nz = 3\r\n", "if a:\n  x = 1\nif b:\n    y = 1\n", "x = (\n", "x = 1\n# about y\ny = 2\n", ""],
)
def test_what_has_to_be_parsed_as_a_whole_is(text: str) -> None:
    assert parse_in_pieces(text, 1) is None


def test_programs_have_the_same_tree() -> None:
    paths = sorted((ROOT / "fixtures").glob("*/*/original.py"))[::10]
    cut = 0
    for path in paths:
        text = path.read_text(encoding="utf-8")
        made = parse_in_pieces(text, 40)
        cut += made is not None
        assert made is None or made.deep_equals(cst.parse_module(text)), path
    assert cut > len(paths) / 2


def test_a_long_file_is_parsed_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []
    whole = cst.parse_module

    def watched(text: str) -> cst.Module:
        given.append(len(text))
        return whole(text)

    monkeypatch.setattr(cst, "parse_module", watched)
    text = "def f(x):\n    return x\n\n\n" * (3 * LENGTH // 25)
    assert parse(text).code == text
    assert len(given) == 3 and max(given) < 1.1 * LENGTH


def test_nodes_are_asked_again_after_a_parse() -> None:
    with pytest.raises(cst.ParserSyntaxError):
        parse("x = (")
    with parsing.unasked():
        with parsing.unasked():
            cst.Name("")
        cst.Name("")
    with pytest.raises(cst.CSTValidationError):
        cst.Name("")
