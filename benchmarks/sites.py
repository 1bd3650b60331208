"""`python -m benchmarks sites [--whole] [--jobs N] [--json FILE] FOLDER...`: how much of real code is translated.

Every backward and gradient call of the Python files below the folders ends in one finding. They are counted by tier,
and refusals by reason, with the first places of each. Each file is converted alone, as where somebody tries one;
`--whole` converts each folder as the project that it is. Nothing is written, and nothing of the folders is run.
"""

from __future__ import annotations

import argparse
import json
import re
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from torch2ms import Result, Tier, packages
from torch2ms.config import Config
from torch2ms.pipeline import convert_project
from torch2ms.plain import mentions_torch
from torch2ms.related import related

SITE = re.compile(r"backward call|call that goes backward|torch\.autograd\.(grad|backward)\b")
NAMED = re.compile(r"`[^`]*`|\d+")
Site = tuple[str, str, str]  # where it stands, its tier, the reason


def sites(results: dict[str, Result]) -> list[Site]:
    """The backward and gradient calls of converted files; of a file that failed one, with the error."""
    found: list[Site] = []
    for path, result in results.items():
        if result.error:
            found.append((path, "failed", result.error))
            continue
        found += [
            (f"{path}:{finding.line}", finding.tier.value, finding.why)
            for finding in result.findings
            if finding.code.startswith(("T2M1", "T2M2")) and SITE.match(finding.what)
        ]
    return found


def sources(folder: Path, whole: bool) -> dict[str, str]:
    """The files of a tree that mention torch; of a whole project also those that these import, and their importers."""
    data = {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    named = {name for name, text in data.items() if mentions_torch(text)}
    wanted = related(data, named) if whole else named
    return {name: text.decode("utf-8-sig") for name, text in data.items() if name in wanted}


def convert(folder: Path, files: dict[str, str]) -> list[Site]:
    """The sites of files that belong together: modules are named from the folder on, places with it."""
    own = packages.around((folder / name).resolve().as_posix() for name in files)
    found = sites(convert_project(files, Config(own=own)))
    return [(f"{folder.name}/{place}", tier, why) for place, tier, why in found]


def main() -> None:
    """Convert, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--whole", action="store_true", help="each folder is one project")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where the sites go")
    parser.add_argument("--reasons", type=int, default=30, help="how many of them are shown")
    options = parser.parse_args()
    parts = [(folder, sources(folder, options.whole)) for folder in options.folders]
    if not options.whole:
        parts = [(folder, {name: text}) for folder, files in parts for name, text in files.items()]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = [site for part in pool.map(convert, *zip(*parts, strict=True)) for site in part]
    tiers = Counter(tier for _, tier, _ in found)
    print(", ".join(f"{tiers[tier]} {tier}" for tier in (*(t.value for t in Tier), "failed")))
    reasons: dict[str, list[str]] = defaultdict(list)
    for place, tier, why in found:
        if tier in (Tier.REFUSED.value, "failed"):
            reasons[NAMED.sub("#", why)].append(place)
    for why, places in sorted(reasons.items(), key=lambda item: -len(item[1]))[: options.reasons]:
        print(f"{len(places):5} {why}\n      {', '.join(places[:3])}")
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
