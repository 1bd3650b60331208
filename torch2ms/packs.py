"""Rule packs: tables for other libraries, from packages that are installed beside this one.

A package offers its folder of TOML tables as an entry point:

    [project.entry-points."torch2ms.rules"]
    acme = "acme_torch2ms"

The tables have the form of `rules/api/*.toml`. A table `imports` gives the import statement behind each name that the
targets use beyond those of MindSpore. The package is found, not imported: its code is not run.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GROUP = "torch2ms.rules"
IMPORT = re.compile(r"(?:from [\w.]+ )?import [\w.]+(?: as (?P<alias>\w+))?")


class PackError(Exception):
    """A rule pack is installed that cannot be used; the message names it."""


@dataclass(frozen=True)
class Pack:
    """The tables of one entry point, by file name."""

    name: str
    folder: Path
    tables: dict[str, dict[str, Any]]
    imports: dict[str, str]

    @property
    def roots(self) -> set[str]:
        """The packages whose names it translates."""
        return {re.split(r"[.{]", name)[0] for table in self.tables.values() for name in table}


@cache
def packs() -> tuple[Pack, ...]:
    """The installed packs, by name."""
    found = {point.name: point.value for point in entry_points(group=GROUP)}
    return tuple(_read(name, value) for name, value in sorted(found.items()))


def _read(name: str, value: str) -> Pack:
    first, *rest = value.partition(":")[0].split(".")
    spec = find_spec(first)
    if spec is None or not spec.submodule_search_locations:
        raise PackError(f"rule pack {name}: there is no package {first}")
    folder = Path(spec.submodule_search_locations[0], *rest)
    tables: dict[str, dict[str, Any]] = {}
    imports: dict[str, str] = {}
    for path in sorted(folder.glob("*.toml")):
        try:
            table = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise PackError(f"rule pack {name}: {path.name}: {error}") from None
        for word, statement in table.pop("imports", {}).items():
            if not (isinstance(statement, str) and _binds(statement, word)):
                raise PackError(f"rule pack {name}: {path.name}: {statement!r} is no import statement for {word}")
            imports[word] = statement
        tables[path.name] = table
    if not tables:
        raise PackError(f"rule pack {name}: {folder} holds no TOML tables")
    return Pack(name, folder, tables, imports)


def _binds(statement: str, word: str) -> bool:
    found = IMPORT.fullmatch(statement)
    return found is not None and word == (found["alias"] or statement.rpartition(" ")[2].split(".")[0])
