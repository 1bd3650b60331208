"""The programs under fixtures/: what each is, how it is converted, and what is expected of it."""

from __future__ import annotations

import os
import pickle
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from torch2ms import Result, Tier, convert_source
from torch2ms.config import Config
from torch2ms.source import decode

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
SHARED = "TORCH2MS_TESTS_SHARED"  # names the folder of conftest.py in the environment
PROGRAM = "program.py"  # what a program of one file is called while it is converted


@dataclass(frozen=True)
class FixtureCase:
    """One folder below a family: a program of one file (`original.py`) or of several (`original/`)."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.relative_to(FIXTURES).as_posix()

    @property
    def single(self) -> bool:
        return (self.folder / "original.py").exists()

    @property
    def main(self) -> Path:
        """The file that is run."""
        return self.folder / ("original.py" if self.single else "original/main.py")

    def files(self, side: str) -> dict[str, Path]:
        """The files of `side` ("original" or "expected") by the path under which they are converted."""
        if self.single:
            return {PROGRAM: self.folder / f"{side}.py"}
        root = self.folder / side
        return {path.relative_to(root).as_posix(): path for path in sorted(root.rglob("*.py"))}

    def texts(self, side: str) -> dict[str, str]:
        """The decoded texts of `side`, line ends as they stand; empty where nothing was accepted yet."""
        return {key: decode(path.read_bytes()).text for key, path in self.files(side).items() if path.exists()}

    @property
    def config(self) -> Config:
        """The options it is converted with: `options.toml` holds what differs from the defaults."""
        path = self.folder / "options.toml"
        return Config(**tomllib.loads(path.read_text(encoding="utf-8"))) if path.exists() else Config()

    def findings(self) -> str:
        """The accepted findings."""
        path = self.folder / "findings.txt"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    @property
    def refused(self) -> bool:
        """Whether something of the program is known not to be translated."""
        return any(line.split()[1] == Tier.REFUSED.value for line in self.findings().splitlines())


@cache
def all_cases() -> tuple[FixtureCase, ...]:
    """Every case, sorted by family and name."""
    return tuple(FixtureCase(folder) for folder in sorted(FIXTURES.glob("*/*")) if folder.is_dir())


@cache
def converted(case: FixtureCase) -> dict[str, Result]:
    """The translation of a case, made once for all tests, also where several processes run them."""
    if SHARED not in os.environ:
        return convert(case.texts("original"), case.config)
    kept = Path(os.environ[SHARED], f"{case.name.replace('/', '.')}.pickle")
    if not kept.exists():
        unfinished = kept.with_suffix(f".{os.getpid()}")
        unfinished.write_bytes(pickle.dumps(convert(case.texts("original"), case.config)))
        unfinished.replace(kept)
    found: dict[str, Result] = pickle.loads(kept.read_bytes())
    return found


def convert(texts: dict[str, str], config: Config | None = None) -> dict[str, Result]:
    """Translate a program of one file or of several."""
    if list(texts) == [PROGRAM]:
        return {PROGRAM: convert_source(texts[PROGRAM], config, path=PROGRAM)}
    from torch2ms.pipeline import convert_project

    return convert_project(texts, config or Config())


def described(results: dict[str, Result]) -> str:
    """Findings as findings.txt has them: code, tier, line and what, one per line, in the order of the source."""
    lines = []
    for path, result in sorted(results.items()):
        where = "" if path == PROGRAM else f"{path}:"
        for f in sorted(result.findings, key=lambda f: (f.line, f.code, f.tier.value, f.what)):
            lines.append(f"{f.code} {f.tier.value} {where}{f.line} {f.what}\n")
    return "".join(dict.fromkeys(lines))


def write(results: dict[str, Result], root: Path) -> Path:
    """Write a translation below `root`; the path of the file to run."""
    for path, result in results.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(result.text.encode())
    return root / (PROGRAM if PROGRAM in results else "main.py")
