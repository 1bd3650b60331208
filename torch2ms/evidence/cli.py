"""The commands `torch2ms rules verify` and `torch2ms rules index`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from torch2ms.config import HARDWARE
from torch2ms.exits import DONE, FAILED, FOUND

if TYPE_CHECKING:
    from torch2ms.evidence.matrix import Row
    from torch2ms.evidence.measure import Versions

COLUMNS = ("rule", "forms", "probes", "forward", "gradient", "claim", "verdict")


@click.group()
def rules() -> None:
    """The API rules and the evidence behind them."""


@rules.command()
@click.option("--device", type=click.Choice(HARDWARE), default="CPU", show_default=True, help="Where MindSpore runs.")
@click.option("--only", default="*", metavar="PATTERN", help="Rules with such a name only: torch.nn.*, softmax.")
@click.option("--json", "json_path", type=click.Path(dir_okay=False, path_type=Path), help="Write the matrix as JSON.")
@click.option("-v", "--verbose", is_flag=True, help="Print every rule; otherwise those that do not hold.")
def verify(device: str, only: str, json_path: Path | None, verbose: bool) -> None:
    """Run the probes of the rules on the installed PyTorch and MindSpore and compare values and gradients.

    Exit code 0: every rule that claims to hold does; 1: one does not, or has no probe; 2: a framework or the device is
    not there.
    """
    from torch2ms.api import Rules
    from torch2ms.evidence.matrix import matrix, probes_of, wanted
    from torch2ms.evidence.probes import read_cases
    from torch2ms.evidence.processes import NotRun

    loaded = Rules.load()
    chosen = wanted(loaded, only)
    if not chosen:
        raise click.UsageError(f"no rule is called like {only!r}")
    names = {rule.name for rule in chosen}
    try:
        from torch2ms.evidence.measure import measure, versions

        on = versions(device)
    except (NotRun, ModuleNotFoundError) as reason:
        click.echo(f"not run: {reason}", err=True)
        raise SystemExit(FAILED) from None
    probes = [probe for probe in probes_of(read_cases(), loaded) if any(name in names for name, _ in probe.taken)]
    with click.progressbar(length=2 * len(probes), label="running probes", file=sys.stderr) as bar:
        measured = measure(probes, device, bar.update)
    rows = matrix(chosen, measured)
    if json_path is not None:
        document = {"versions": asdict(on), "rules": [row.document() for row in rows]}
        json_path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    show(rows, on, verbose)
    raise SystemExit(FOUND if any(row.fatal for row in rows) else DONE)


@rules.command()
@click.option("--check", is_flag=True, help="Write nothing; exit 1 when the page is not what the rules say.")
def index(check: bool) -> None:
    """Write rules/INDEX.md: every rule with its target, tier and evidence."""
    from torch2ms.evidence.index import index_path, page

    path, text = index_path(), page()
    if not check:
        path.write_text(text, encoding="utf-8")
    elif not path.is_file() or path.read_text(encoding="utf-8") != text:
        click.echo(f"{path} is stale: run torch2ms rules index", err=True)
        raise SystemExit(FOUND)


def show(rows: Sequence[Row], on: Versions, verbose: bool) -> None:
    """Print the matrix and its sums."""
    shown = [row for row in rows if verbose or row.fatal or row.problems]
    lines = [COLUMNS, *(_cells(row) for row in shown)] if shown else []
    widths = [max(len(line[i]) for line in lines) for i in range(len(COLUMNS))] if lines else []
    for line in lines:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    for problem in sorted({problem for row in rows for problem in row.problems}):
        click.echo(f"\n{problem}")
    counts = ", ".join(f"{count} {verdict}" for verdict, count in Counter(row.verdict for row in rows).most_common())
    click.echo(f"{len(rows)} rules on MindSpore {on.mindspore} ({on.device}) against PyTorch {on.torch}: {counts}")


def _cells(row: Row) -> tuple[str, ...]:
    forms = f"{row.probed}/{row.forms}"
    return (row.rule, forms, str(row.probes), row.forward, row.gradient, row.claim, row.verdict)
