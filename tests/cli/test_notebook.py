"""Notebooks: only the sources of changed cells differ afterwards."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import nbformat
import pytest

from torch2ms.findings import Finding, Tier
from torch2ms.notebook import load, place, rebuild
from torch2ms.source import SourceError

Run = Callable[..., CompletedProcess[bytes]]
CELLS = [
    ("markdown", "# Title with import torch as t"),
    ("code", "%matplotlib inline\n!pip install torch\nimport torch as t"),
    ("code", ""),
    ("code", "%%bash\nimport torch as t"),
    ("code", "%%time\nx = t.relu(1)  # keep\nfiles = !ls *.py\nx.shape?\ny = (x\n     % 3)\n"),
    ("raw", "t.relu"),
    ("code", "for _ in x:\n    %time z = 1\nawait z\nprint('%d' % 3)"),
]


def document(cells: list[tuple[str, str]] = CELLS, as_list: bool = True) -> dict[str, Any]:
    made = []
    for number, (kind, source) in enumerate(cells):
        cell: dict[str, Any] = {"cell_type": kind, "id": f"c{number}", "metadata": {"tags": ["ü"]}}
        if kind == "code":
            output = {"name": "stdout", "output_type": "stream", "text": ["import torch as t\n"]}
            cell |= {"execution_count": number, "outputs": [output]}
        cell["source"] = source.splitlines(keepends=True) if as_list else source
        made.append(cell)
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": made, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


@pytest.mark.parametrize("as_list", [True, False])
@pytest.mark.parametrize("layout", [{"indent": 1, "ensure_ascii": False}, {"indent": 4}, {}])
@pytest.mark.parametrize("end", ["", "\n"])
def test_convert_changes_code_and_nothing_else(
    run: Run, tmp_path: Path, as_list: bool, layout: dict[str, Any], end: str
) -> None:
    before = json.dumps(document(as_list=as_list), **layout) + end
    (tmp_path / "a.ipynb").write_text(before, encoding="utf-8")
    done = run("convert", "--in-place", "a.ipynb")
    assert done.returncode == 0, done.stderr
    after = (tmp_path / "a.ipynb").read_text(encoding="utf-8")
    cells = list(CELLS)
    cells[1] = ("code", "%matplotlib inline\n!pip install torch\nimport mindspore as ms")
    cells[4] = ("code", CELLS[4][1].replace("t.relu", "ms.ops.relu"))
    assert after == json.dumps(document(cells, as_list), **layout) + end
    nbformat.validate(nbformat.reads(after, as_version=4))
    assert run("convert", "--check", "a.ipynb").returncode == 0


def test_findings_tell_cell_and_line() -> None:
    notebook = load(json.dumps(document()))
    line = notebook.text.split("\n").index("x = t.relu(1)  # keep") + 1
    finding = Finding("T2M600", Tier.REFUSED, "t.relu", line=line)
    assert place(notebook, finding).what == "cell 5, line 2: t.relu"
    assert place(notebook, Finding("T2M600", Tier.REFUSED, "t", line=2)).what == "cell 2, line 2: t"
    assert place(notebook, Finding("T2M600", Tier.REFUSED, "t")).what == "t"


def test_marks_in_notebooks_fail_the_check(run: Run, tmp_path: Path) -> None:
    marked = document([("code", "# torch2ms: T2M600 x -> y\nx = 1")])
    (tmp_path / "a.ipynb").write_text(json.dumps(marked), encoding="utf-8")
    assert run("convert", "--check", "a.ipynb").returncode == 1


def test_other_kernels_are_left_alone(run: Run, tmp_path: Path) -> None:
    other = document() | {"metadata": {"kernelspec": {"language": "R"}}}
    (tmp_path / "a.ipynb").write_text(json.dumps(other), encoding="utf-8")
    assert run("convert", "--check", "a.ipynb").returncode == 0


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"torch", b"not a notebook: Expecting value"),
        (b'["torch"]', b"not a notebook of nbformat 4"),
        (b'{"worksheets": "torch"}', b"not a notebook of nbformat 4"),
        (b'{"cells": [{"cell_type": "code", "source": "import torch\\nx = ("}]}', b"cell 1, line 2: syntax error"),
        (b'{"cells": "torch\xff"}', b"not a notebook: 'utf-8'"),
        (b"[" * 100000 + b"torch", b"not a notebook"),
    ],
)
def test_what_is_no_notebook_is_said(run: Run, tmp_path: Path, raw: bytes, message: bytes) -> None:
    (tmp_path / "a.ipynb").write_bytes(raw)
    done = run("convert", "--in-place", "a.ipynb")
    assert done.returncode == 2 and message in done.stderr
    assert (tmp_path / "a.ipynb").read_bytes() == raw


def test_border_inside_a_step_is_refused() -> None:
    notebook = load(json.dumps(document([("code", "a = 1"), ("code", "b = 2"), ("code", "!ls")])))
    assert notebook.text == 'a = 1\n"__cell_1__"\nb = 2\n"__cell_2__"\n"__magic_0__"\n'
    with pytest.raises(SourceError, match="border before cell 2"):
        rebuild(notebook, 'def f():\n    a = 1\n    "__cell_1__"\n    b = 2\n"__cell_2__"\n"__magic_0__"\n')
    with pytest.raises(SourceError, match="magic command"):
        rebuild(notebook, 'a = 1\n"__cell_1__"\nb = 2\n"__cell_2__"\n')
