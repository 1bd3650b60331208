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

from benchmarks.speed import project_sources
from torch2ms import Result, Tier
from torch2ms.config import Config
from torch2ms.pipeline import convert_project

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


def convert(files: dict[str, str]) -> list[Site]:
    """The sites of files that belong together."""
    return sites(convert_project(files, Config()))


def main() -> None:
    """Convert, count, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--whole", action="store_true", help="each folder is one project")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json", type=Path, help="where the sites go")
    parser.add_argument("--reasons", type=int, default=30, help="how many of them are shown")
    options = parser.parse_args()
    projects = [project_sources(folder) for folder in options.folders]
    named = [
        {f"{folder.name}/{path}": text for path, text in files.items()}
        for folder, files in zip(options.folders, projects, strict=True)
    ]
    if not options.whole:
        named = [{path: text} for files in named for path, text in files.items()]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = [site for part in pool.map(convert, named) for site in part]
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
