"""`torch2ms convert -i`: the translation hunk by hunk, as `git add -p` has it.

A hunk that is declined is not cut out of the text. The statements it stands on are left alone, as under a comment
`# torch2ms: off`, and the rest is converted anew around them: imports, names and gradient code fit what was decided.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import click

from torch2ms.findings import Tier
from torch2ms.hunks import Hunk, applied, hunks, split_lines
from torch2ms.report.text import printable
from torch2ms.run import Outcome

HELP = """y - take this hunk
n - leave this code as it is
a - take this hunk and all that follow in the file
d - leave this hunk and all that follow in the file
s - split this hunk into smaller ones
q - leave this hunk and all that follow
? - print this help"""
COLOURS = {Tier.EXACT: "green", Tier.ASSUMED: "yellow", Tier.REFUSED: "red"}


def lines_of(source: str, declined: Sequence[Hunk]) -> tuple[int, ...]:
    """First lines of the statements that the declined hunks stand on."""
    wanted: set[int] = set()
    for hunk in declined:
        for _, start, stop, _, _ in hunk.changes:
            lines = set(range(start + 1, stop + 1))
            told = {f.line for f in hunk.findings} & {start, start + 1}
            wanted |= lines or told or {start, start + 1}  # an insertion belongs to the statement a finding speaks of
    return tuple(sorted(first for first, last in _statements(source) if any(first <= at <= last for at in wanted)))


def _imports_only(outcome: Outcome, hunk: Hunk) -> bool:
    """Nothing but import statements of the module goes and comes."""
    before = [range(start, stop) for _, start, stop, _, _ in hunk.changes]
    after = [range(start, stop) for _, _, _, start, stop in hunk.changes]
    for text, ranges in ((outcome.result.source, before), (outcome.result.text, after)):
        lines, imports = split_lines(text), _import_lines(text)
        for changed in ranges:
            if any(number not in imports and lines[number].strip() for number in changed):
                return False
    return True


def _import_lines(text: str) -> set[int]:
    """The lines of the module's import statements, counted from 0."""
    imports = (node for node in ast.parse(text).body if isinstance(node, (ast.Import, ast.ImportFrom)))
    return {line for node in imports for line in range(node.lineno - 1, node.end_lineno or node.lineno)}


def _without_imports(text: str) -> list[str]:
    imports = _import_lines(text)
    return [line for number, line in enumerate(split_lines(text)) if number not in imports and line.strip()]


def _statements(source: str) -> Iterator[tuple[int, int]]:
    """First and last line of every statement but imports; of a compound one, of its header."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.stmt) and not isinstance(node, (ast.Import, ast.ImportFrom)):
            body = getattr(node, "body", None)
            below = [child.lineno for child in body if hasattr(child, "lineno")] if isinstance(body, list) else []
            yield node.lineno, max(node.lineno, min(below) - 1) if below else node.end_lineno or node.lineno


Convert = Callable[[tuple[tuple[str, tuple[int, ...]], ...]], "list[Outcome]"]


def review(outcomes: Sequence[Outcome], convert: Convert) -> list[Outcome]:
    """Ask about every hunk; `convert` does it all again, leaving lines alone, where something was declined."""
    decided = _decide([o for o in outcomes if o.item.kind == "python"])
    off = tuple((key, lines_of(o.result.source, d)) for key, (o, _, d) in decided.items() if d)
    final = convert(off) if off else list(outcomes)
    return [_settled(outcome, decided) for outcome in final]


def _decide(outcomes: Sequence[Outcome]) -> dict[str, tuple[Outcome, list[Hunk], list[Hunk]]]:
    """Taken and declined hunks of every file that changes."""
    decided: dict[str, tuple[Outcome, list[Hunk], list[Hunk]]] = {}
    stopped = False
    for outcome in outcomes:
        if not outcome.changed:
            continue
        taken: list[Hunk] = []
        declined: list[Hunk] = []
        waiting = hunks(outcome)
        answer = "d" if stopped else ""
        while waiting:
            hunk = waiting.pop(0)
            if _imports_only(outcome, hunk):
                taken.append(hunk)  # imports follow what is decided
                continue
            answer = answer if answer in ("a", "d") else _ask_hunk(outcome, hunk, len(waiting))
            if answer == "s":
                waiting[:0] = hunk.parts()
                continue
            if answer == "q":
                stopped, answer = True, "d"
            (taken if answer in ("y", "a") else declined).append(hunk)
        decided[outcome.item.key] = outcome, taken, declined
    return decided


def _settled(outcome: Outcome, decided: dict[str, tuple[Outcome, list[Hunk], list[Hunk]]]) -> Outcome:
    """What is written: as decided, or as confirmed where leaving code alone changes more than was seen."""
    if not outcome.changed:
        return outcome
    known = decided.get(outcome.item.key)
    if known is not None:
        first, taken, declined = known
        if not declined or not taken:
            return outcome if taken else _unchanged(outcome)
        expected = applied(first.result.source, first.result.text, taken)
        if _without_imports(expected) == _without_imports(outcome.result.text):
            return outcome
        title = f"With what you left as it is, {printable(outcome.item.shown)} becomes:"
    else:
        title = f"{printable(outcome.item.shown)}:"
    click.secho(title, bold=True)
    for hunk in hunks(outcome):
        _show(outcome, hunk)
    return (
        outcome if _ask("Write this", "yn", "y - write the file\nn - leave it as it is") == "y" else _unchanged(outcome)
    )


def _unchanged(outcome: Outcome) -> Outcome:
    return replace(outcome, result=replace(outcome.result, text=outcome.result.source, findings=()))


def _ask_hunk(outcome: Outcome, hunk: Hunk, left: int) -> str:
    _show(outcome, hunk)
    letters = "yna" + "d" + "s" * (len(hunk.changes) > 1) + "q"
    return _ask(f"({left} more) Take this hunk of {printable(outcome.item.shown)}", letters, HELP)


def _ask(question: str, letters: str, explained: str) -> str:
    while True:
        click.secho(f"{question} [{','.join(letters)},?]? ", bold=True, nl=False)
        line = sys.stdin.readline()
        if not line:  # the end of input declines
            click.echo()
            return "q" if "q" in letters else "n"
        answer = line.strip().lower()[:1]
        if answer and answer in letters:
            return answer
        click.echo(explained)


def _show(outcome: Outcome, hunk: Hunk) -> None:
    before, after = split_lines(outcome.result.source), split_lines(outcome.result.text)
    first, last = hunk.opcodes[0], hunk.opcodes[-1]
    place = f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
    click.secho(f"{place} {printable(outcome.item.shown)}", fg="cyan")
    for tag, start, stop, other, other_stop in hunk.opcodes:
        if tag == "equal":
            _lines(" ", before[start:stop], None)
        else:
            _lines("-", before[start:stop], "red")
            _lines("+", after[other:other_stop], "green")
    for finding in sorted(hunk.findings, key=lambda f: (f.line, f.code)):
        label = click.style(f"{finding.code} {finding.tier.value}", fg=COLOURS[finding.tier])
        click.echo(f"  {label} line {finding.line}: {finding.what}{': ' if finding.why else ''}{finding.why}")


def _lines(sign: str, lines: Sequence[str], colour: str | None) -> None:
    for line in lines:
        click.secho(f"{sign}{line.rstrip(chr(10))}", fg=colour)
