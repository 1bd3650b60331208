"""The translation that is run beside a program: a file that a person gave, or the converted copy of its folder."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import click

from torch2ms.bounds import TURN
from torch2ms.config import Config
from torch2ms.verify.entry import start

SKIPPED = {".git", "__pycache__", ".venv", "venv", "node_modules", "build", "dist"}


@contextlib.contextmanager
def translation(
    program: Path, translated: Path | None, config: Config | None = None, *, cached: bool = False
) -> Iterator[Path]:
    """The translated program: the file given, or the converted copy of the program's folder."""
    if translated is not None:
        yield translated
        return
    with tempfile.TemporaryDirectory(prefix="torch2ms-converted-") as name:
        with TURN:
            other = convert_folder(program.resolve(), Path(name), config, cached=cached)
        yield other


def convert_folder(program: Path, target: Path, config: Config | None = None, *, cached: bool = False) -> Path:
    """Convert the program and the modules beside it; other files are linked, so that relative data is found.

    Where many programs of a folder are verified, what is `cached` is converted for the first of them alone.
    """
    from torch2ms import packages
    from torch2ms.findings import Tier
    from torch2ms.parallel import convert_parts
    from torch2ms.pipeline import convert_project
    from torch2ms.related import needed
    from torch2ms.source import SourceError, SourceFile, check_syntax, decode, read_bytes

    root, _ = start(program)
    sources: dict[str, SourceFile] = {}
    for path in sorted(root.rglob("*")):
        relative = path.relative_to(root)
        if SKIPPED & set(relative.parts) or not path.is_file():
            continue
        (target / relative).parent.mkdir(parents=True, exist_ok=True)
        try:
            if path.suffix == ".py":
                source = decode(read_bytes(path))
                check_syntax(source.text)
                sources[relative.as_posix()] = source
                continue
        except SourceError:  # not Python that can be read: if the program needs the file, it will say so
            pass
        (target / relative).symlink_to(path)
    texts = {name: source.text for name, source in sources.items()}
    paths = [(root / name).resolve().as_posix() for name in texts]
    config = replace(config or Config(), own=packages.around(paths))
    results = convert_parts(convert_project, texts, config, cached=cached)  # as `convert` does: each part for itself
    main = program.relative_to(root).as_posix()
    imported = needed({name: text.encode(errors="replace") for name, text in texts.items()}, [main])
    for name, result in results.items():
        (target / name).write_bytes(sources[name].encode(result.text))
        if result.error:
            click.echo(f"{name}: not converted: {result.error}", err=True)
        elif name in imported and (refused := result.count(Tier.REFUSED)):
            click.echo(f"{name}: {refused} construct(s) refused, the program may not run", err=True)
    return target / main
