"""What files and folders of a tree are to a run, by their names.

A check of plain files asks too, which must not wait for imports: what is imported here Python has imported already.
"""

from __future__ import annotations

import os

SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn .tox .nox .venv .eggs .ipynb_checkpoints .mypy_cache .pytest_cache .ruff_cache .torch2ms_cache "
    ".idea .vscode __pycache__ node_modules".split()
)
PYTHON_SUFFIXES = (".py", ".pyi", ".pyw")


def skipped(folder: str) -> bool:
    """A folder that is no part of a project: of a tool, or an environment."""
    name = os.path.basename(folder)
    return name in SKIPPED_FOLDERS or name.endswith(".egg-info") or os.path.exists(os.path.join(folder, "pyvenv.cfg"))


def kind_of(path: str) -> str:
    """What a file is to a run, by its name: python, notebook, dependencies, other."""
    name = os.path.basename(path)
    if name == "setup.py":  # a list of requirements with a program around it
        return "dependencies"
    if name.endswith(PYTHON_SUFFIXES):
        return "python"
    suffix = os.path.splitext(name)[1]
    if suffix == ".ipynb":
        return "notebook"
    from torch2ms.dependencies import is_dependency_file

    if is_dependency_file(path):
        return "dependencies"
    if not suffix and os.access(path, os.X_OK):
        return "python" if _has_python_shebang(path) else "other"
    return "other"


def _has_python_shebang(path: str) -> bool:
    try:
        with open(path, "rb") as stream:
            first = stream.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first
