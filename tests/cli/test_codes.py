"""Every code that the program can utter is explained, and every explanation is complete."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from torch2ms.codes import BLOCKS, CodeError, all_codes, find_code, read_codes
from torch2ms.config import Config

ROOT = Path(__file__).resolve().parents[2]
CODE = re.compile(r"\bT2M\d{3}\b")


def uttered() -> dict[str, str]:
    """Codes in the string constants of the program and in the rule tables, with a place for each."""
    found = {}
    for path in (ROOT / "torch2ms").rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        documentation = {id(n.body[0].value) for n in ast.walk(tree) if _has_docstring(n)}  # type: ignore[attr-defined]
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
                found.update({code: f"{path.name}:{node.lineno}" for code in CODE.findall(node.value)})
    for path in (ROOT / "rules").rglob("*.toml"):
        if path.parent.name != "codes":
            found.update({code: path.name for code in CODE.findall(path.read_text(encoding="utf-8"))})
    return found


def _has_docstring(node: ast.AST) -> bool:
    kinds = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return isinstance(node, kinds) and ast.get_docstring(node, clean=False) is not None


def test_every_code_has_an_entry() -> None:
    missing = {code: place for code, place in uttered().items() if code not in all_codes()}
    assert missing == {}


def test_entries_are_complete() -> None:
    codes = all_codes()
    assert len({entry.name for entry in codes.values()}) == len(codes)
    for code, entry in codes.items():
        assert CODE.fullmatch(code) and code[3] in BLOCKS
        assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", entry.name), code
        assert entry.summary.endswith(".") and len(entry.summary) <= 100, code
        assert entry.why, code
        assert bool(entry.before) == bool(entry.after), code


def test_examples_are_python() -> None:
    for entry in all_codes().values():
        for text in (entry.before, entry.after):
            ast.parse(text)


def test_lookup_by_number_and_name() -> None:
    assert find_code("t2m600") is find_code("600") is find_code("no-rule") is all_codes()["T2M600"]
    with pytest.raises(CodeError, match="near it: .*T2M601"):
        find_code("T2M6011")


def test_explain_prints_the_page(run: Callable[..., CompletedProcess[bytes]]) -> None:
    page = run("explain", "T2M602").stdout.decode()
    assert page.startswith("T2M602 argument-dropped (API names)\n\n")
    assert "PyTorch:\n\n    self.act = nn.ReLU(inplace=True)\n" in page
    listed = run("explain").stdout.decode()
    assert all(f"  {code} " in listed for code in all_codes())


def test_faulty_data_is_told(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text('[T2M600]\nname = "x"\nsummary = "y"\nnonsense = "z"\n')
    with pytest.raises(CodeError, match="a.toml: T2M600: .*nonsense"):
        read_codes(tmp_path)
    (tmp_path / "a.toml").write_text('[T2M600]\nname = "x"\nsummary = "y"\n')
    (tmp_path / "b.toml").write_text('[T2M600]\nname = "x"\nsummary = "y"\n')
    with pytest.raises(CodeError, match="b.toml: T2M600 has two entries"):
        read_codes(tmp_path)


def test_config_defaults_are_the_command_line_defaults(run: Callable[..., CompletedProcess[bytes]]) -> None:
    shown = run("config").stdout.decode()
    assert f"target = {Config().target!r}  # default" in shown
    assert f"device-target = {Config().device!r}  # default" in shown
