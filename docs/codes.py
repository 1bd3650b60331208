"""MkDocs hook: the page of codes is made from rules/codes when the site is built, so that it cannot be stale."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from torch2ms.codes import BLOCKS, Code, all_codes  # noqa: E402


def page() -> str:
    """All entries as one Markdown page with an anchor for each code."""
    parts = ["# Codes\n\nThe number in a finding or a mark. `torch2ms explain CODE` prints the same text."]
    for digit, title in BLOCKS.items():
        entries = [entry for entry in all_codes().values() if entry.code[3] == digit]
        if entries:
            parts.append(f"## {digit}xx: {title}")
            parts += [section(entry) for entry in entries]
    return "\n\n".join(parts) + "\n"


def section(entry: Code) -> str:
    parts = [f'<a id="{entry.code}"></a>\n\n### {entry.code} {entry.name}', f"**{entry.summary}**", entry.why]
    for title, text in (("PyTorch", entry.before), ("MindSpore", entry.after)):
        if text:
            parts.append(f"{title}:\n\n```python\n{text}\n```")
    if entry.by_hand:
        parts.append(f"By hand: {entry.by_hand}")
    return "\n\n".join(parts)


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs once it has found its files."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "codes.md", content=page()))
    return files
