"""What `torch2ms scan` prints: how much there is to do, before anything is touched."""

from __future__ import annotations

import ast
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from torch2ms.codes import name_of
from torch2ms.findings import Tier
from torch2ms.report.markdown import code, escape
from torch2ms.run import Outcome

PACKAGES = ("torch", "torchvision", "torchaudio")
EFFORTS = ("none", "small", "by hand")


def render(outcomes: Sequence[Outcome], form: str) -> str:
    """The scan as table, json or markdown."""
    facts = scan(outcomes)
    if form == "json":
        return json.dumps(facts, indent=2, ensure_ascii=False) + "\n"
    return _markdown(facts) if form == "markdown" else _table(facts)


def scan(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """All counts as plain data."""
    looked = [outcome for outcome in outcomes if outcome.item.kind not in ("other", "link")]
    apis: Counter[str] = Counter()
    for outcome in looked:
        apis.update(torch_names(outcome.result.source))
    files = [_file(outcome) for outcome in looked]
    return {
        "version": 1,
        "files": files,
        "total": {
            "files": len(files),
            "with_torch": sum(bool(outcome.file) for outcome in looked),
            "failed": sum(bool(outcome.error) for outcome in looked),
            **{tier.value: sum(entry[tier.value] for entry in files) for tier in Tier},
            "effort": {effort: sum(entry["effort"] == effort for entry in files) for effort in EFFORTS},
        },
        "codes": _constructs(looked),
        "refused": [
            {"path": outcome.item.shown, "line": f.line, "code": f.code, "what": f.what, "todo": f.todo or f.why}
            for outcome in looked
            for f in outcome.result.findings
            if f.tier is Tier.REFUSED
        ],
        "names": [{"name": name, "count": n} for name, n in apis.most_common()],
    }


def _file(outcome: Outcome) -> dict[str, Any]:
    counts = {tier.value: outcome.result.count(tier) for tier in Tier}
    by_hand = outcome.error or counts["refused"]
    effort = "by hand" if by_hand else "small" if outcome.changed or any(counts.values()) else "none"
    constructs = _constructs([outcome])
    return {
        "path": outcome.item.shown, **counts, "effort": effort, "error": outcome.error or None, "codes": constructs
    }  # fmt: skip


def _constructs(outcomes: Iterable[Outcome]) -> list[dict[str, Any]]:
    """What was found, and what becomes of it."""
    found = Counter((f.code, f.tier.value) for outcome in outcomes for f in outcome.result.findings)
    return [
        {"code": code, "name": name_of(code), "tier": tier, "count": n} for (code, tier), n in sorted(found.items())
    ]


def torch_names(source: str) -> Counter[str]:
    """Full dotted names of what a module uses from torch and its companions, with their number."""
    names: Counter[str] = Counter()
    if "torch" not in source:
        return names
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return names
    bound: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                name = alias.name if alias.asname else alias.name.split(".")[0]
                bound[alias.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            bound.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
    bound = {alias: name for alias, name in bound.items() if name.split(".")[0] in PACKAGES}
    inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    for node in ast.walk(tree):
        if id(node) not in inner and isinstance(node, (ast.Attribute, ast.Name)):
            dotted = ast.unparse(node)
            first, _, rest = dotted.partition(".")
            if first in bound and dotted.replace(".", "").isidentifier():
                names[bound[first] + ("." + rest if rest else "")] += 1
    return names


def _rows(facts: dict[str, Any]) -> list[list[str]]:
    rows = [[e["path"], *(str(e[t.value]) for t in Tier), e["effort"]] for e in facts["files"] if e["effort"] != "none"]
    total = facts["total"]
    return [*rows, [f"total, {total['files']} files", *(str(total[tier.value]) for tier in Tier), ""]]


def _table(facts: dict[str, Any]) -> str:
    rows = [["file", *(tier.value for tier in Tier), "effort"], *_rows(facts)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    sides = "<>>><"  # numbers to the right
    lines = ["  ".join(f"{cell:{side}{w}}" for cell, side, w in zip(row, sides, widths, strict=True)) for row in rows]
    if facts["refused"]:
        lines += ["", "refused:", *(f"  {r['path']}:{r['line']} {r['code']} {r['what']}" for r in facts["refused"])]
    errors = [entry for entry in facts["files"] if entry["error"]]
    if errors:
        lines += ["", "errors:", *(f"  {entry['path']}: {entry['error']}" for entry in errors)]
    if facts["codes"]:
        told = [f"  {c['count']:5d}  {c['code']} {c['tier']:8}{c['name']}" for c in facts["codes"]]
        lines += ["", "constructs:", *told]
    if facts["names"]:
        lines += ["", "names:", *(f"  {entry['count']:5d}  {entry['name']}" for entry in facts["names"])]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _markdown(facts: dict[str, Any]) -> str:
    lines = ["# What torch2ms finds", "", "| file | exact | assumed | refused | effort |", "|---|---:|---:|---:|---|"]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in _rows(facts)]
    if facts["refused"]:
        lines += ["", "## By hand", ""]
        lines += [
            f"- {code(r['path'] + ':' + str(r['line']))} {r['code']} {escape(r['what'])}: {escape(r['todo'])}"
            for r in facts["refused"]
        ]
    errors = [entry for entry in facts["files"] if entry["error"]]
    if errors:
        lines += ["", "## Errors", "", *(f"- {code(entry['path'])}: {escape(entry['error'])}" for entry in errors)]
    if facts["codes"]:
        lines += ["", "## Constructs", "", "| code | | tier | uses |", "|---|---|---|---:|"]
        lines += [f"| {c['code']} | {c['name']} | {c['tier']} | {c['count']} |" for c in facts["codes"]]
    if facts["names"]:
        lines += ["", "## Names", "", "| name | uses |", "|---|---:|"]
        lines += [f"| `{entry['name']}` | {entry['count']} |" for entry in facts["names"]]
    return "\n".join(lines) + "\n"
