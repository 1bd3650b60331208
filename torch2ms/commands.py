"""What each command does, as functions from options to an exit status."""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from torch2ms.config import Config
from torch2ms.executors import ExecutorError, executor_at
from torch2ms.exits import DONE, FAILED, FOUND
from torch2ms.findings import Finding, Result, Tier
from torch2ms.progress import on_terminal
from torch2ms.run import Outcome, Work, convert_data, convert_plan, write_in_place, write_target
from torch2ms.tree import Item, Plan, make_plan


def run_convert(paths: Sequence[str], config: Config, options: Mapping[str, Any]) -> int:
    """`torch2ms convert`: every mode takes the same way up to the last step."""
    _check_modes(paths, options)
    writes = not (options["diff"] or options["check"])
    data = sys.stdin.buffer.read() if list(paths) == ["-"] else b""
    if list(paths) == ["-"]:
        plan = Plan([Item(Path("<stdin>"), "<stdin>", "stdin.py")])
        outcomes = convert_data(plan, {"stdin.py": data}, config, _work(options))
    else:
        plan = make_plan(
            paths,
            options["out"],
            in_place=options["in_place"],
            exclude=options["exclude"],
            root=options["project_root"],
        )
        try:
            with executor_at(options["executor"]) as executor:
                outcomes = convert_plan(plan, config, replace(_work(options), executor=executor))
        except ExecutorError as error:
            raise click.UsageError(str(error)) from None
    if options["interactive"]:
        from torch2ms.interactive import review

        outcomes = review(outcomes, lambda off: convert_plan(plan, replace(config, off=off), Work(options["jobs"])))
    if list(paths) == ["-"] and writes:
        _write_stdout(outcomes[0], data)
    elif writes and options["in_place"]:
        outcomes = [write_in_place(outcome) for outcome in outcomes]
    elif writes:
        outcomes = [write_target(outcome, plan.out, force=options["force"]) for outcome in outcomes]
    if options["diff"]:
        _print_diffs(outcomes)
    outcomes = [*chosen(outcomes, options), *_not_found(plan)]
    _report(outcomes, plan, options, writes)
    return status(outcomes, check=options["check"], strict=options["strict"])


def _work(options: Mapping[str, Any]) -> Work:
    shown = on_terminal(quiet=options.get("quiet", False))
    return Work(jobs=options["jobs"], cached=not options["no_cache"], progress=shown)


def _check_modes(paths: Sequence[str], options: Mapping[str, Any]) -> None:
    if "-" in paths and len(paths) > 1:
        raise click.UsageError("- (standard input) cannot be mixed with paths")
    if "-" in paths and (options["in_place"] or options["out"]):
        raise click.UsageError("- (standard input) goes to standard output; drop --in-place or --out")
    if options["interactive"] and (options["check"] or options["diff"] or "-" in paths):
        raise click.UsageError("--interactive asks and writes; --check, --diff and standard input do neither")
    if options["in_place"] and options["out"]:
        raise click.UsageError("--in-place and --out contradict each other")
    if options["report"] and not options["report_file"] and (options["diff"] or "-" in paths):
        raise click.UsageError("standard output is taken; say where the report goes with --report-file")


def status(outcomes: Iterable[Outcome], *, check: bool, strict: bool) -> int:
    """0, 1 or 2, as promised by --help."""
    found = failed = False
    for outcome in outcomes:
        failed |= bool(outcome.error)
        found |= check and (outcome.changed or outcome.marks > 0)
        found |= (check or strict) and outcome.result.count(Tier.REFUSED) > 0
    return FAILED if failed else FOUND if found else DONE


def _write_stdout(outcome: Outcome, data: bytes) -> None:
    if not outcome.error:
        file = outcome.file
        sys.stdout.buffer.write(file.encode(outcome.result.text) if file and outcome.changed else data)
        sys.stdout.buffer.flush()


def chosen(outcomes: Iterable[Outcome], options: Mapping[str, Any]) -> list[Outcome]:
    """The outcomes with the findings that the options, and the table of files in the configuration, ask for."""
    found = select(outcomes, options["select"], options["ignore"])
    for pattern, codes in options["per_file_ignores"].items():
        found = [select([o], (), codes)[0] if matches(o.item, pattern) else o for o in found]
    return found


def matches(item: Item, pattern: str) -> bool:
    """A glob of a path as the user writes it, of a path in the project, or of a name."""
    shown = item.shown.replace(os.sep, "/")
    return any(fnmatch.fnmatch(name, pattern) for name in (shown, item.key, item.path.name))


def select(outcomes: Iterable[Outcome], wanted: Sequence[str], ignored: Sequence[str]) -> list[Outcome]:
    """The outcomes with only those findings that were asked for; "T2M1" stands for all of its block."""

    def asked(finding: Finding) -> bool:
        code = finding.code
        return (not wanted or code.startswith(tuple(wanted))) and not (ignored and code.startswith(tuple(ignored)))

    if not wanted and not ignored:
        return list(outcomes)
    return [replace(o, result=replace(o.result, findings=tuple(filter(asked, o.result.findings)))) for o in outcomes]


def _not_found(plan: Plan) -> list[Outcome]:
    return [Outcome(Item(Path(shown), shown, shown), Result(shown, "", "", error=why)) for shown, why in plan.errors]


def _report(outcomes: Sequence[Outcome], plan: Plan, options: Mapping[str, Any], writes: bool) -> None:
    from torch2ms.report import render, text

    if options["report"]:
        body = render(options["report"], outcomes)
        if options["report_file"]:
            try:
                Path(options["report_file"]).write_text(body, encoding="utf-8")
            except OSError as error:
                raise click.FileError(options["report_file"], str(error.strerror)) from None
        else:
            click.echo(body, nl=False)
    elif options["report_file"]:
        raise click.UsageError("--report-file needs --report")
    summary = text.summary(outcomes, verb="changed" if writes else "would change")
    lines = text.findings(outcomes) if options["verbose"] else []
    lines += [text.printable(f"note: {note}") for note in plan.notes]
    lines += text.to_do(outcomes) if options["check"] else []
    if options["quiet"]:
        lines = [line for line in summary if line.startswith("error: ")]
    else:
        lines += summary
    for line in lines:
        click.secho(line, err=True, fg=_colour(line), color=colour_wanted())


def _colour(line: str) -> str | None:
    return "red" if line.startswith("error: ") else "yellow" if line.startswith(("refused: ", "unresolved: ")) else None


def colour_wanted() -> bool | None:
    """False where NO_COLOR is set; None leaves the choice to the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def _print_diffs(outcomes: Iterable[Outcome]) -> None:
    colours = {"+": "green", "-": "red", "@": "cyan"}
    plain = colour_wanted() is False or not sys.stdout.isatty()
    for outcome in outcomes:
        if not outcome.changed or outcome.file is None:
            continue
        for line in diff_lines(outcome):
            if plain:  # bytes, so that `patch` finds the lines as they stand in the file
                sys.stdout.buffer.write(line.encode(outcome.file.encoding, "replace"))
            else:
                click.secho(line, nl=False, fg=colours.get(line[0]), bold=line.startswith(("---", "+++")))
    sys.stdout.flush()


def diff_lines(outcome: Outcome) -> Iterable[str]:
    """The unified diff of one file."""
    from torch2ms.report.text import printable

    name = printable(outcome.item.shown.lstrip("/"))
    before, after = (_split(text) for text in (outcome.result.source, outcome.result.text))
    import difflib

    for line in difflib.unified_diff(before, after, f"a/{name}", f"b/{name}"):
        yield line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _split(text: str) -> list[str]:
    lines = text.split("\n")  # only "\n" ends a line for patch; a "\r" before it belongs to the line
    return [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])


def run_scan(paths: Sequence[str], config: Config, form: str, options: Mapping[str, Any]) -> int:
    """`torch2ms scan`: the findings counted; nothing is written."""
    from torch2ms.report import scan

    plan = make_plan(paths, in_place=True, exclude=options["exclude"], root=options["project_root"])
    outcomes = chosen(convert_plan(plan, config, _work(options)), options)
    outcomes = [*outcomes, *_not_found(plan)]
    click.echo(scan.render(outcomes, form), nl=False)
    return FAILED if any(outcome.error for outcome in outcomes) else DONE


def run_explain(code: str | None) -> str:
    """`torch2ms explain`: one entry as a page, or the list of all."""
    from torch2ms.codes import BLOCKS, all_codes, find_code

    if code is None:
        lines = []
        for digit, title in BLOCKS.items():
            entries = [entry for entry in all_codes().values() if entry.code[3] == digit]
            lines += [f"{digit}xx {title}"] * bool(entries) + [f"  {entry.code} {entry.summary}" for entry in entries]
        return "\n".join(lines)
    entry = find_code(code)
    parts = [f"{entry.code} {entry.name} ({entry.block})\n\n{entry.summary}"]
    parts += [entry.why] if entry.why else []
    for title, text in (("PyTorch", entry.before), ("MindSpore", entry.after)):
        if text:
            parts.append(f"{title}:\n\n" + "\n".join(f"    {line}".rstrip() for line in text.splitlines()))
    parts += [f"By hand: {entry.by_hand}"] if entry.by_hand else []
    return "\n\n".join(parts)
