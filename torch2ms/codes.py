"""The numbered explanations behind the findings: one entry per T2Mnnn in rules/codes/*.toml."""

from __future__ import annotations

import difflib
import functools
import sys
from dataclasses import dataclass
from pathlib import Path

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

from torch2ms.data import rules_dir

BLOCKS = {
    "0": "the engine",
    "1": "training step and loop",
    "2": "gradient calls and higher order",
    "3": "gradient mode and detach",
    "4": "custom Function and hooks",
    "5": "optimizers, clipping, mixed precision",
    "6": "API names",
    "9": "information",
}


@dataclass(frozen=True)
class Code:
    """What one finding number means, why it is so, and what a person does about it."""

    code: str
    name: str
    summary: str
    why: str = ""
    by_hand: str = ""
    before: str = ""
    after: str = ""

    @property
    def block(self) -> str:
        return BLOCKS[self.code[3]]


class CodeError(Exception):
    """The code data is wrong, or a code was asked for that does not exist."""


def read_codes(folder: Path) -> dict[str, Code]:
    """All entries of the TOML files in `folder`, by number."""
    codes: dict[str, Code] = {}
    for path in sorted(folder.glob("*.toml")):
        for number, entry in tomllib.loads(path.read_text(encoding="utf-8")).items():
            if number in codes:
                raise CodeError(f"{path.name}: {number} has two entries")
            try:
                codes[number] = Code(number, **{key: value.strip() for key, value in entry.items()})
            except TypeError as error:
                raise CodeError(f"{path.name}: {number}: {error}") from None
    return dict(sorted(codes.items()))


@functools.cache
def all_codes() -> dict[str, Code]:
    """The entries that ship with this version."""
    return read_codes(rules_dir() / "codes")


def name_of(code: str) -> str:
    """The name of a code, without its dashes; "" where there is no such code."""
    entry = all_codes().get(code)
    return entry.name.replace("-", " ") if entry else ""


def find_code(text: str) -> Code:
    """The entry for "T2M101", "t2m101", "101" or a name such as "training-step"."""
    codes = all_codes()
    wanted = text.strip().upper()
    wanted = f"T2M{wanted}" if wanted.isdigit() else wanted
    if wanted in codes:
        return codes[wanted]
    for code in codes.values():
        if code.name.upper() == wanted:
            return code
    near = difflib.get_close_matches(wanted, [*codes, *(code.name.upper() for code in codes.values())], n=3)
    hint = f"; near it: {', '.join(sorted(match.lower() if '-' in match else match for match in near))}" if near else ""
    raise CodeError(f"there is no code {text}{hint}")
