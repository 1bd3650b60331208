"""Jupyter notebooks: the code cells as one module, and back into their cells.

The cells of a notebook share one namespace, so they are translated as one text. A string statement stands between two
cells, and one in the place of each IPython magic: statements keep their order in a translation where comments may move.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from torch2ms.findings import Finding
from torch2ms.source import SourceError, parse_quietly

BORDER = "__cell_{}__"
MAGIC = "__magic_{}__"
SENTINEL = re.compile(r'"__cell_(\d+)__"')
MASKED = re.compile(r'"(__magic_\d+__)"')
PYTHON_CELL_MAGIC = re.compile(r"%%(?:time|timeit|capture|prun|memit|mprun)\b")
LINE_MAGIC = re.compile(r"^(?P<head>\s*(?:[\w., ]+=\s*)?)(?P<magic>[%!?].*|[\w.]+\?{1,2}\s*)$")


@dataclass(frozen=True)
class Notebook:
    """A parsed notebook; `text` is the module that its Python cells make, `cells` are their places in the document."""

    raw: str
    document: dict[str, Any]
    cells: tuple[int, ...]
    text: str
    magics: dict[str, str]


def load(raw: str) -> Notebook:
    """Parse a notebook. One without Python code has an empty `text`."""
    try:
        document = json.loads(raw)
        cells = document["cells"]
        sources = [(index, _source(cell)) for index, cell in enumerate(cells) if cell["cell_type"] == "code"]
    except (ValueError, RecursionError) as error:
        raise SourceError(f"not a notebook: {error}") from None
    except (KeyError, TypeError, AttributeError):
        raise SourceError("not a notebook of nbformat 4: it has no list of cells with types and sources") from None
    if _language(document) != "python":
        return Notebook(raw, document, (), "", {})
    magics: dict[str, str] = {}
    kept, texts = [], []
    for index, source in sources:
        if source.startswith("%%") and not PYTHON_CELL_MAGIC.match(source):
            continue  # another language, or a file to be written
        kept.append(index)
        texts.append(_mask(source, magics, index + 1))
    return Notebook(raw, document, tuple(kept), _join(kept, texts), magics)


def _source(cell: dict[str, Any]) -> str:
    source = cell["source"]
    return source if isinstance(source, str) else "".join(source)


def _language(document: dict[str, Any]) -> str:
    metadata = document.get("metadata", {})
    name = metadata.get("kernelspec", {}).get("language") or metadata.get("language_info", {}).get("name") or "python"
    return "python" if str(name).lower().startswith(("python", "ipython")) else str(name)


def _join(cells: list[int], texts: list[str]) -> str:
    parts = []
    for number, (index, text) in enumerate(zip(cells, texts, strict=True)):
        parts += [f'"{BORDER.format(index)}"\n'] * (number > 0) + [text + "\n"]
    return "".join(parts)


def _mask(source: str, magics: dict[str, str], number: int) -> str:
    """Replace what only IPython understands, line by line, where Python's parser stumbles over it."""
    lines = source.split("\n")
    while True:
        try:
            parse_quietly("\n".join(lines))
            return "\n".join(lines)
        except SyntaxError as error:
            at = _magic_line(lines, error.lineno or len(lines))
            if at is None:
                raise SourceError(f"cell {number}, line {error.lineno}: syntax error: {error.msg}") from None
        except (ValueError, RecursionError, MemoryError) as error:
            raise SourceError(f"cell {number}: cannot parse: {error}") from None
        found = LINE_MAGIC.match(lines[at])
        assert found is not None
        name = MAGIC.format(len(magics))
        magics[name] = found["magic"]
        lines[at] = f'{found["head"]}"{name}"'


def _magic_line(lines: list[str], near: int) -> int | None:
    for at in range(min(near, len(lines)) - 1, -1, -1):
        if LINE_MAGIC.match(lines[at]) and not MASKED.search(lines[at]):
            return at
    return None


def split(notebook: Notebook, text: str) -> list[str]:
    """The cells that the translated module `text` stands for."""
    parts: list[str] = []
    current: list[str] = []
    found: list[int] = []
    for line in text.removesuffix("\n").split("\n"):
        border = SENTINEL.fullmatch(line)
        if border:
            found.append(int(border[1]))
            parts.append("\n".join(current))
            current = []
        else:
            current.append(line)
    parts.append("\n".join(current))
    if found != list(notebook.cells[1:]):
        missing = next((n for n in notebook.cells[1:] if n not in found), notebook.cells[0])
        raise SourceError(f"a training step spans the border before cell {missing + 1}; join these cells first")
    names = MASKED.findall(text)
    if sorted(names) != sorted(notebook.magics):
        raise SourceError("a magic command stands inside a training step; move it out of the way first")
    return [MASKED.sub(lambda match: notebook.magics[match[1]], part) for part in parts]


def rebuild(notebook: Notebook, text: str) -> str:
    """The notebook with its code cells as in `text`; everything else, outputs included, stays."""
    if text == notebook.text:
        return notebook.raw
    document = json.loads(notebook.raw)
    for index, source in zip(notebook.cells, split(notebook, text), strict=True):
        cell = document["cells"][index]
        if source != _source(cell):
            cell["source"] = source if isinstance(cell["source"], str) else source.splitlines(keepends=True)
    return _dump_like(notebook, document)


def _dump_like(notebook: Notebook, document: dict[str, Any]) -> str:
    """JSON in the layout of the original, found by trying the few that are in use."""
    end = "\n" if notebook.raw.endswith("\n") else ""
    layouts: list[dict[str, Any]] = [
        dict(indent=i, ensure_ascii=a) for i, a in product((1, 2, 4, None, "\t", 0), (False, True))
    ]
    best = layouts[0]
    for layout in layouts:
        if json.dumps(notebook.document, **layout) + end == notebook.raw:
            best = layout
            break
    return json.dumps(document, **best) + end


def place(notebook: Notebook, finding: Finding) -> Finding:
    """The finding with its cell and line told in words, since a line of the joined text means nothing to anybody."""
    if not finding.line:
        return finding
    cell, start = (notebook.cells[0] if notebook.cells else 0), 0
    for number, line in enumerate(notebook.text.split("\n")[: finding.line], 1):
        border = SENTINEL.fullmatch(line)
        if border:
            cell, start = int(border[1]), number
    return replace(finding, what=f"cell {cell + 1}, line {finding.line - start}: {finding.what}", line=0)
