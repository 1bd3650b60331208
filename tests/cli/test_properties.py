"""Whatever the bytes: nothing is lost, nothing raises but SourceError."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from torch2ms.check import comments, lost_comments
from torch2ms.dependencies import Wish, edit
from torch2ms.notebook import load, rebuild, split
from torch2ms.source import SourceError, check_syntax, decode

BOMS = st.sampled_from([b"", b"\xef\xbb\xbf"])
COOKIES = st.sampled_from(
    [b"", b"# coding: latin-1\n", b"# -*- coding: utf-8 -*-\n", b"#!/x\n# vim: fileencoding=cp1252\n"]
)
PIECES = st.sampled_from(
    [b"import torch\n", b"x = 1\r\n", b"\r", b"\x0c\n", "s = 'ü'\n".encode(), b"\xff", b"\0", b"\\\n", b"\t"]
)
LINES = st.sampled_from(
    [
        *("torch", "torch>=2", "torchvision", "numpy", "# torch", "", "  - torch", "torch\\"),
        *("dependencies = [", '"torch",', "]", "[project]", 'a = ["torch", "b"]', "[project.optional-dependencies]"),
        *("[options]", "install_requires =", "dependencies:", "  - pip:"),
    ]
)
NAMES = st.sampled_from(["requirements.txt", "pyproject.toml", "setup.cfg", "environment.yml"])
CODE = st.sampled_from(
    ["x = 1", "%time y", "!ls", "", "# c", "x?", "for i in x:\n    %m\n", "(a\n % b)", "%%bash\nls", "%%time\nx"]
)
Run = Callable[..., CompletedProcess[bytes]]


@given(BOMS, COOKIES, st.lists(PIECES))
def test_bytes_come_back_as_they_were(bom: bytes, cookie: bytes, pieces: list[bytes]) -> None:
    data = bom + cookie + b"".join(pieces)
    try:
        file = decode(data)
    except SourceError as error:
        assert str(error)
    else:
        assert file.encode(file.text) == data


@given(st.binary(max_size=300))
def test_any_bytes_are_read_or_explained(data: bytes) -> None:
    try:
        check_syntax(decode(data).text)
    except SourceError as error:
        assert "\n" not in str(error)


@given(st.lists(st.text("ab #", min_size=1), max_size=8), st.randoms())
def test_comments_in_another_order_are_not_lost(texts: list[str], random: object) -> None:
    lines = [f"x = 1  #{text}" for text in texts]
    moved = sorted(lines, key=lambda line: random.random())  # type: ignore[attr-defined]
    before, after = ("\n".join(order) + "\n" for order in (lines, moved))
    assert len(list(comments(before))) == len(texts)
    assert lost_comments(before, after) == []


@given(
    NAMES,
    st.lists(LINES, max_size=12),
    st.sampled_from([frozenset(), frozenset({"torch"}), frozenset({"torch", "torchvision"})]),
)
def test_dependency_files_are_edited_once(name: str, lines: list[str], gone: frozenset[str]) -> None:
    text = "\n".join(lines)
    once = edit(name, text, Wish(gone, "2.10"))
    assert edit(name, once.text, Wish(gone, "2.10")).text == once.text
    if not once.findings:
        assert once.text == text


@given(st.lists(CODE, max_size=6))
def test_notebooks_come_back_as_they_were(sources: list[str]) -> None:
    cells = [{"cell_type": "code", "source": source} for source in sources]
    raw = json.dumps({"cells": cells}, indent=1)
    notebook = load(raw)
    assert rebuild(notebook, notebook.text) == raw
    if notebook.cells:
        assert split(notebook, notebook.text) == [s for s in sources if not s.startswith("%%bash")]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.lists(st.one_of(PIECES, st.binary(max_size=20)), max_size=6), suffix=st.sampled_from(["py", "ipynb"]))
def test_program_never_fails_otherwise_than_by_a_sentence(
    run: Run, tmp_path: Path, data: list[bytes], suffix: str
) -> None:
    path = tmp_path / f"a.{suffix}"
    path.write_bytes(b"torch" + b"".join(data))
    before = path.read_bytes()
    done = run("convert", "-i", "--no-cache", path.name)
    assert done.returncode in (0, 2)
    assert b"Traceback" not in done.stderr and b"internal error" not in done.stderr
    assert done.returncode == 0 or path.read_bytes() == before
