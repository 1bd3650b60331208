"""What a module is called that stands in a file."""

from __future__ import annotations


def module_name(path: str) -> str:
    """`pkg/sub/mod.py` -> `pkg.sub.mod`."""
    stem = path[:-3] if path.endswith(".py") else path
    parts = [p for p in stem.replace("\\", "/").split("/") if p not in ("", ".")]
    if parts and parts[-1] == "__init__":
        parts.pop()
    return ".".join(parts) or "__main__"
