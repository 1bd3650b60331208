"""MkDocs hook: pages that are made from the rules and the fixtures when the site is built, so that none can be stale.

- one page per code, with an example from the fixtures where the entry has none of its own
- the API matrix, one page per table of rules
- the cookbook: training idioms beside each other, cut out of fixtures that are run on both sides
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from torch2ms.codes import BLOCKS, Code, all_codes  # noqa: E402
from torch2ms.evidence import index  # noqa: E402
from torch2ms.findings import Finding, Result, Tier  # noqa: E402
from torch2ms.hunks import Hunk, hunks, split_lines  # noqa: E402
from torch2ms.run import Outcome  # noqa: E402
from torch2ms.tree import Item  # noqa: E402

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FIXTURES = ROOT / "fixtures"
TOLD = re.compile(r"(?P<code>T2M\d{3}) (?P<tier>\w+) (?:(?P<path>[^\s:]+):)?(?P<line>\d+) (?P<what>.*)")


def on_files(files: Any, config: Any) -> Any:
    """Called by MkDocs once it has found its files."""
    from mkdocs.structure.files import File

    for path, content in pages().items():
        files.append(File.generated(config, path, content=content))
    return files


def pages() -> dict[str, str]:
    """Every generated page by its path."""
    codes = all_codes().values()
    made = {"codes/index.md": code_list(), "cookbook.md": cookbook()}
    made |= {f"codes/{entry.code}.md": code_page(entry) for entry in codes}
    return made | api_pages()


# --- fixtures


@dataclass(frozen=True)
class Pair:
    """One file of a fixture: its translation was accepted, and is run beside the original in the tests."""

    case: str
    outcome: Outcome

    @cached_property
    def hunks(self) -> list[Hunk]:
        return hunks(self.outcome)

    def sides(self, hunk: Hunk) -> tuple[str, str]:
        """What a hunk takes away with what stands around it, and what it brings."""
        before, after = split_lines(self.outcome.result.source), split_lines(self.outcome.result.text)
        first, last = hunk.opcodes[0], hunk.opcodes[-1]
        return "".join(before[first[1] : last[2]]), "".join(after[first[3] : last[4]])


@cache
def pairs() -> tuple[Pair, ...]:
    """All of them, those of small programs first."""
    found = [pair for folder in sorted(FIXTURES.glob("*/*")) if folder.is_dir() for pair in _pairs(folder)]
    return tuple(sorted(found, key=lambda pair: len(pair.outcome.result.source)))


def _pairs(folder: Path) -> Iterator[Pair]:
    told = folder / "findings.txt"
    lines = told.read_text(encoding="utf-8").splitlines() if told.exists() else []
    found = [match for line in lines if (match := TOLD.fullmatch(line))]
    single = (folder / "original.py").exists()
    root = folder if single else folder / "original"
    for path in [folder / "original.py"] if single else sorted(root.rglob("*.py")):
        name = path.relative_to(root).as_posix()
        other = folder / "expected.py" if single else folder / "expected" / name
        if not other.exists():
            continue
        findings = tuple(
            Finding(match["code"], Tier(match["tier"]), match["what"], line=int(match["line"]))
            for match in found
            if single or match["path"] == name
        )
        result = Result(name, path.read_text(encoding="utf-8"), other.read_text(encoding="utf-8"), findings)
        yield Pair(folder.relative_to(FIXTURES).as_posix(), Outcome(Item(path, name, name), result))


# --- codes


def code_list() -> str:
    """All entries, by block."""
    lines = ["# Codes", "The number in a finding or a mark. `torch2ms explain CODE` prints the text of its page."]
    for digit, title in BLOCKS.items():
        entries = [entry for entry in all_codes().values() if entry.code[3] == digit]
        if entries:
            rows = [f"| [{entry.code}]({entry.code}.md) | {entry.name} | {entry.summary} |" for entry in entries]
            lines += [f"## {digit}xx: {title}", "\n".join(["| code | name | meaning |", "|---|---|---|", *rows])]
    return "\n\n".join(lines) + "\n"


def code_page(entry: Code) -> str:
    """One entry: what, why, before and after, when it is refused, what to do by hand."""
    parts = [f"# {entry.code} {entry.name}", f"**{entry.summary}**", entry.why]
    if entry.before or entry.after:
        for title, text in (("PyTorch", entry.before), ("MindSpore", entry.after)):
            parts += [f"## {title}", fenced(text)] if text else []
    else:
        parts += list(example(entry.code))
    tiers = sorted({f.tier.value for pair in pairs() for f in pair.outcome.result.findings if f.code == entry.code})
    parts += ["## Tier", tier_words(tiers)]
    parts += ["## By hand", entry.by_hand] if entry.by_hand else []
    acknowledged = f"# torch2ms: ignore[{entry.code}]"
    parts += ["## Acknowledge it", f"`{acknowledged}` behind the statement keeps it out of reports and marks."]
    return "\n\n".join(part for part in parts if part) + "\n"


def tier_words(tiers: list[str]) -> str:
    if "refused" in tiers and len(tiers) > 1:
        return f"Given as {' and '.join(tiers)}: the finding says which, and why."
    if "refused" in tiers:
        return "Refused: the code stays as it is, under a mark, and `--check` and `--strict` fail."
    return f"Given as {' or '.join(tiers)}." if tiers else "The finding names it."


def example(code: str) -> Iterator[str]:
    """The smallest place among the fixtures that has a finding of this code."""
    places = [(len(pair.sides(hunk)[0]), number, pair, hunk) for number, pair in enumerate(pairs())
              for hunk in pair.hunks if any(finding.code == code for finding in hunk.findings)]  # fmt: skip
    if places:
        _, _, pair, hunk = min(places, key=lambda place: place[:2])
        before, after = pair.sides(hunk)
        yield from ("## PyTorch", fenced(before), "## MindSpore", fenced(after))
        yield f"From the fixture `{pair.case}`."


def fenced(text: str) -> str:
    """Code without the indentation it has where it was cut out."""
    lines = text.rstrip().splitlines()
    while lines and not lines[0].strip():
        lines.pop(0)
    common = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    return "```python\n" + "\n".join(line[common:].rstrip() for line in lines) + "\n```"


# --- the API matrix


def api_pages() -> dict[str, str]:
    """rules/INDEX.md, as it is now, a page for each of its tables."""
    head, *sections = re.split(r"\n## ", index.page())
    made = {}
    rows = []
    for section in sections:
        name, _, table = section.partition("\n")
        made[f"api/{name}.md"] = f"# {name}\n\n{readable(table.strip())}\n"
        tiers = [line.split(" | ")[-2] for line in table.splitlines() if line.startswith("| `")]
        counts = " | ".join(str(tiers.count(tier.value)) for tier in Tier)
        rows.append(f"| [{name}]({name}.md) | {counts} |")
    words = head.split("\n", 1)[1].replace("[api/](api/)", "`rules/api/`").strip()
    table = "\n".join(["| table | exact | assumed | refused |", "|---|---:|---:|---:|", *rows])
    made["api/index.md"] = f"# The API matrix\n\n{words}\n\n{table}\n"
    return made


def readable(table: str) -> str:
    """Reasons of refusals may hold what Markdown takes for markup."""
    return re.sub(r"(?<!`)<(\w+)>(?!`)", r"`<\1>`", table)


# --- the cookbook


def cookbook() -> str:
    """The idioms that cookbook.toml names, with the gradient code of their fixtures."""
    document = tomllib.loads((Path(__file__).parent / "cookbook.toml").read_text(encoding="utf-8"))
    parts = [f"# {document['title']}", document["intro"].strip()]
    for recipe in document["recipe"]:
        parts += [f"## {recipe['title']}", recipe.get("text", "").strip()]
        for before, after in excerpts(recipe["fixture"], recipe.get("codes", ["T2M1", "T2M2"])):
            parts += ["PyTorch:", fenced(before), "MindSpore:", fenced(after)]
        parts.append(f"The whole program is the fixture `{recipe['fixture']}`.")
    return "\n\n".join(part for part in parts if part) + "\n"


def excerpts(case: str, codes: list[str]) -> list[tuple[str, str]]:
    """The hunks of a fixture that the codes speak of."""
    found = [
        pair.sides(hunk)
        for pair in pairs()
        if pair.case == case
        for hunk in pair.hunks
        if any(finding.code.startswith(tuple(codes)) for finding in hunk.findings)
    ]
    if not found:
        raise LookupError(f"cookbook.toml: the fixture {case} has nothing under {codes}")
    return found
