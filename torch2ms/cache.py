"""Results of earlier conversions, found again by content: a commit hook converts only what changed."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path

from torch2ms import __version__
from torch2ms.config import Config
from torch2ms.findings import Finding, Result, Tier

KEPT_DAYS = 30
Results = dict[str, Result]


def folder() -> Path:
    """Where entries lie: $TORCH2MS_CACHE, or the user's cache folder."""
    named = os.environ.get("TORCH2MS_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return Path(named) if named else Path(base) / "torch2ms"


@cache
def engine() -> str:
    """What this program is made of: an entry of another version, or of an edited checkout, is not found."""
    from torch2ms.data import rules_dir
    from torch2ms.packs import packs

    parts = [__version__, sys.version]
    for root in (Path(__file__).parent, rules_dir(), *(pack.folder for pack in packs())):
        for path in sorted([*root.rglob("*.py"), *root.rglob("*.toml")]):
            state = path.stat()
            parts.append(f"{path.relative_to(root)} {state.st_size} {state.st_mtime_ns}")
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def name_of(sources: Mapping[str, str], config: Config) -> str:
    """The name of an entry: files that are read in each other's light have one in common."""
    content = [engine(), repr(config), *(part for key in sorted(sources) for part in (key, sources[key]))]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def find(name: str, sources: Mapping[str, str]) -> Results | None:
    """The stored results under `name`, if there are any that can be read."""
    path = folder() / name[:2] / name
    try:
        stored = json.loads(path.read_text(encoding="utf-8"))
        results = {key: _result(key, sources[key], entry) for key, entry in stored.items()}
        os.utime(path)  # still in use
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return results if results.keys() == sources.keys() else None


def _result(key: str, source: str, entry: dict[str, object]) -> Result:
    findings = tuple(Finding(**{**f, "tier": Tier(f["tier"])}) for f in entry["findings"])  # type: ignore[attr-defined]
    text = entry["text"]
    return Result(key, source, source if text is None else str(text), findings)


def keep(name: str, results: Results) -> None:
    """Store results; a cache that cannot be written is no cache, and no error. Failures are not stored."""
    if any(result.error for result in results.values()):
        return
    entry = {
        key: {
            "text": result.text if result.changed else None,
            "findings": [{**asdict(finding), "tier": finding.tier.value} for finding in result.findings],
        }
        for key, result in results.items()
    }
    path = folder() / name[:2] / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f"{name}.{os.getpid()}")
        part.write_text(json.dumps(entry), encoding="utf-8")
        os.replace(part, path)
        _forget_old(path.parent)
    except (OSError, ValueError):
        pass


def _forget_old(shelf: Path) -> None:
    limit = time.time() - KEPT_DAYS * 86400
    for path in shelf.iterdir():
        if path.stat().st_mtime < limit:
            path.unlink(missing_ok=True)
