"""Where a program starts: a file is run as a script, one that imports from its own package as `python -m package.train`."""

from __future__ import annotations

import re
from pathlib import Path


def start(program: Path) -> tuple[Path, str]:
    """The folder that its imports begin in, and the package that it is run in, "" for a script."""
    folder, package = program.parent, ""
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        package = f"{folder.name}.{package}" if package else folder.name
        folder = folder.parent
    own = re.escape(package.partition(".")[0])
    pattern = rf"^[ \t]*(?:from\s+\.|(?:from|import)\s+{own}\b)"
    if not package or not program.is_file() or not re.search(pattern, program.read_text(errors="replace"), re.MULTILINE):
        return program.parent, ""
    return folder, package
