"""Where a program starts: a file is a script, or a module of a package (`python -m package.train`) that it imports."""

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
    text = program.read_text(errors="replace") if package and program.is_file() else ""
    return (folder, package) if re.search(pattern, text, re.MULTILINE) else (program.parent, "")
