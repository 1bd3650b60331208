"""The options that decide what a conversion does, and where a project may write them down."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TARGETS = ("2.7", "2.8", "2.9", "2.10")
HARDWARE = ("CPU", "GPU", "Ascend")
DEVICES = ("portable", *HARDWARE)
STYLES = ("functional", "cell")
STAGES = ("modules", "autograd")
REPORTS = ("text", "json", "sarif", "markdown", "html")


@dataclass(frozen=True)
class Config:
    """`target` is the MindSpore version the output must run on, `device` one of portable, CPU, GPU, Ascend."""

    target: str = "2.10"
    device: str = "portable"
    style: str = "functional"
    jit: bool = False
    assume_cleared: bool = False
    stage: str = ""  # "modules" or "autograd", see `stages`
    own: tuple[str, ...] = ()  # packages of the torch world to which the modules belong, see `packages.around`
    off: tuple[tuple[str, tuple[int, ...]], ...] = ()  # lines of files that stay as they are, without a comment

    @property
    def left_alone(self) -> dict[str, frozenset[int]]:
        return {path: frozenset(lines) for path, lines in self.off}


class ConfigError(Exception):
    """[tool.torch2ms] does not say what it should; the message names the file and the key."""


# key -> (type, allowed values); the keys are the long options of the command line
KEYS: dict[str, tuple[type, tuple[str, ...]]] = {
    "target": (str, TARGETS),
    "device-target": (str, DEVICES),
    "style": (str, STYLES),
    "jit": (bool, ()),
    "assume-cleared": (bool, ()),
    "out": (str, ()),
    "exclude": (list, ()),
    "select": (list, ()),
    "ignore": (list, ()),
    "strict": (bool, ()),
    "per-file-ignores": (dict, ()),
    "project-root": (str, ()),
    "jobs": (int, ()),
    "executor": (str, ()),
    "report": (str, REPORTS),
    "report-file": (str, ()),
}


def find_pyproject(start: Path) -> Path | None:
    """The nearest pyproject.toml at or above `start` that has a [tool.torch2ms] table."""
    start = start.resolve()
    for folder in (start, *start.parents):
        path = folder / "pyproject.toml"
        if path.is_file() and b"tool.torch2ms" in path.read_bytes():
            return path
    return None


def read_pyproject(path: Path) -> dict[str, Any]:
    """The [tool.torch2ms] table of `path`, checked key by key."""
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None
    table = data.get("tool", {}).get("torch2ms", {})
    for key, value in table.items():
        _check(path, key, value)
    return dict(table)


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, str) for entry in value)


def _check(path: Path, key: str, value: Any) -> None:
    if key not in KEYS:
        import difflib

        near = difflib.get_close_matches(key.replace("_", "-"), KEYS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; known keys: {', '.join(KEYS)}"
        raise ConfigError(f"{path}: [tool.torch2ms] has no key {key!r}{hint}")
    kind, allowed = KEYS[key]
    if type(value) is not kind:
        raise ConfigError(f"{path}: [tool.torch2ms] {key} must be a {kind.__name__}, not {value!r}")
    if isinstance(value, list) and not _strings(value):
        raise ConfigError(f"{path}: [tool.torch2ms] {key} must be a list of strings")
    if isinstance(value, dict) and not all(_strings(entry) for entry in value.values()):
        raise ConfigError(f"{path}: [tool.torch2ms.{key}] must give a list of codes for each file pattern")
    if allowed and value not in allowed:
        raise ConfigError(f"{path}: [tool.torch2ms] {key} is {value!r}; choose from {', '.join(allowed)}")
