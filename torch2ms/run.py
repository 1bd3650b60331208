"""One run over many files: read, convert, check, then write, each file on its own fate."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from torch2ms.config import Config
from torch2ms.findings import Result, told_apart
from torch2ms.plain import mentions_torch, of_another_framework
from torch2ms.progress import Progress
from torch2ms.source import (
    UNFINISHED,
    SourceError,
    SourceFile,
    check_syntax,
    decode,
    explain_os_error,
    read_bytes,
    tidied,
    write_atomic,
)
from torch2ms.tree import Item, Plan, ensure_inside, neighbours

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from torch2ms.dependencies import Wish
    from torch2ms.notebook import Notebook

# what converts is imported where it is called: a commit hook sees mostly files that have nothing to convert
TAPE_WORDS = (b".backward(", b".zero_grad(", b".step(", b".grad")


@dataclass(frozen=True)
class Opened:
    """A file that may hold code: its text, and the notebook around it where it is one."""

    file: SourceFile
    notebook: Notebook | None = None

    @property
    def code(self) -> str:
        return self.notebook.text if self.notebook else self.file.text


@dataclass(frozen=True)
class Outcome:
    """What became of one file. `file` is missing for a file that could not be decoded or was not looked into."""

    item: Item
    result: Result
    file: SourceFile | None = None
    marks: int = 0  # how many marks the text holds that the file has, or would have

    @property
    def error(self) -> str:
        return self.result.error

    @property
    def changed(self) -> bool:
        return self.result.changed and not self.error


@dataclass(frozen=True)
class Work:
    """How a run is carried out; nothing of it changes a result."""

    jobs: int = 1  # processes; 0 chooses
    cached: bool = False
    executor: Executor | None = None  # in place of the local processes
    progress: bool = False  # tell on standard error how far it is


def convert_plan(plan: Plan, config: Config, work: Work = Work()) -> list[Outcome]:
    """Convert every Python file and notebook of `plan`; nothing is written. Never raises for the files of a user."""
    failed: dict[str, str] = {}
    data = _read([item for item in plan.items if item.kind in ("python", "notebook")], failed)
    around = neighbours(plan) if plan.root is not None and data else []  # they may be what trains with a file
    return convert_data(plan, {**_read(around, {}), **data}, config, work, failed, around)


def convert_data(
    plan: Plan,
    data: Mapping[str, bytes],
    config: Config,
    work: Work,
    failed: dict[str, str] | None = None,
    around: Sequence[Item] = (),
) -> list[Outcome]:
    """The same for bytes that are read already, by the keys of their items; those `around` are read along only."""
    with _processes(data, config, work) as pool:
        work = replace(work, executor=work.executor or pool)
        return _outcomes(plan, data, config, work, {} if failed is None else failed, around)


def _processes(data: Mapping[str, bytes], config: Config, work: Work) -> AbstractContextManager[Executor | None]:
    """Processes for a run that needs them in any case; what is kept of an earlier run may do without."""
    named = [len(text) for text in data.values() if mentions_torch(text)]
    if len(named) < 2 or work.jobs == 1 or work.executor is not None or work.cached:
        return nullcontext()
    from torch2ms.parallel import made_ready, processes

    return made_ready(convert_guarded, config, min(len(named), processes(work.jobs, sum(named))))


def _outcomes(
    plan: Plan,
    data: Mapping[str, bytes],
    config: Config,
    work: Work,
    failed: dict[str, str],
    around: Sequence[Item],
) -> list[Outcome]:
    """What becomes of the files of a plan."""
    wanted = set(_wanted(data, late=config.stage == "autograd"))
    opened: dict[str, Opened] = {}
    beside: dict[str, Opened] = {}
    for item, found, told in [*((i, opened, failed) for i in plan.items), *((i, beside, {}) for i in around)]:
        if item.key in wanted:
            try:
                found[item.key] = _open(item, data[item.key])
            except SourceError as error:
                told[item.key] = str(error)
    if opened:
        config = _with_own_packages(config, [item for item in plan.items if item.key in opened])
    results = _converted(opened, beside, config, work) if opened else {}
    outcomes = []
    for item in plan.items:
        if item.key in opened:
            outcomes.append(_outcome(item, opened[item.key], results[item.key]))
        else:
            outcomes.append(Outcome(item, Result(item.shown, "", "", error=failed.get(item.key, ""))))
    return _with_dependencies(outcomes, config)


def _with_own_packages(config: Config, items: Sequence[Item]) -> Config:
    from torch2ms import packages

    return replace(config, own=packages.around(os.path.abspath(item.place).replace(os.sep, "/") for item in items))


def _converted(
    opened: Mapping[str, Opened], beside: Mapping[str, Opened], config: Config, work: Work
) -> dict[str, Result]:
    from torch2ms.parallel import convert_parts

    code = {key: one.code for key, one in {**beside, **opened}.items()}
    progress = Progress(len(opened)) if work.progress else None
    results = convert_parts(
        convert_guarded, code, config, jobs=work.jobs, cached=work.cached, executor=work.executor,
        wanted=opened.keys(), done=progress or (lambda files: None),
    )  # fmt: skip
    if progress is not None:
        progress.close()
    return results


def _with_dependencies(outcomes: list[Outcome], config: Config) -> list[Outcome]:
    """Edit the dependency files of a project, where its code changed in this run."""
    listed = [outcome for outcome in outcomes if outcome.item.kind == "dependencies"]
    if not listed or not any(outcome.changed for outcome in outcomes):
        return outcomes
    from torch2ms.dependencies import Wish, beside, still_imported

    used: set[str] = set()
    for outcome in outcomes:
        unknown = outcome.error and outcome.file is None  # could not be read: it may import anything
        used |= {"torch", "torchvision"} if unknown else still_imported(_final(outcome))
        if outcome.item.path.name == "setup.py":
            used |= still_imported(outcome.item.path.read_text(encoding="utf-8", errors="replace"))
    others = set[str]().union(*(beside(_final(outcome)) for outcome in outcomes if outcome.changed))
    wish = Wish(frozenset({"torch", "torchvision"} - used), config.target, tuple(sorted(others)))
    edited = {outcome.item.key: _edit_dependencies(outcome.item, wish) for outcome in listed}
    return [edited.get(outcome.item.key, outcome) for outcome in outcomes]


def _final(outcome: Outcome) -> str:
    return outcome.result.source if outcome.error else outcome.result.text


def _edit_dependencies(item: Item, wish: Wish) -> Outcome:
    from torch2ms.dependencies import edit

    try:
        file = decode(read_bytes(item.path))
    except SourceError as error:
        return Outcome(item, Result(item.shown, "", "", error=str(error)))
    return Outcome(item, edit(item.shown, file.text, wish), file)


def _open(item: Item, data: bytes) -> Opened:
    if item.kind != "notebook":
        file = decode(data)
        _check_syntax(file.text)
        return Opened(file)
    from torch2ms.notebook import load

    try:
        file = SourceFile(data, data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError as error:
        raise SourceError(f"not a notebook: {error}") from None
    return Opened(file, load(file.text))


def _check_syntax(text: str) -> None:
    """Raise SourceError for what is no Python; what parsed when its imports were read is not parsed again."""
    from torch2ms.parallel import imported

    try:
        imported(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        check_syntax(text)


def _outcome(item: Item, opened: Opened, result: Result) -> Outcome:
    from torch2ms.check import marks

    left = len(marks(result.text))
    notebook = opened.notebook
    if notebook is None:
        return Outcome(item, replace(result, path=item.shown), opened.file, left)
    from torch2ms.notebook import place, rebuild

    findings = tuple(place(notebook, finding) for finding in sorted(result.findings, key=lambda f: f.line))
    text, error = notebook.raw, result.error
    try:
        text = notebook.raw if error else rebuild(notebook, result.text)
    except SourceError as problem:
        error = str(problem)
    return Outcome(item, Result(item.shown, notebook.raw, text, findings, error), opened.file, left)


def _read(items: list[Item], failed: dict[str, str]) -> dict[str, bytes]:
    data = {}
    for item in items:
        try:
            data[item.key] = read_bytes(item.place)
        except SourceError as error:
            failed[item.key] = str(error)
    return data


def _wanted(data: Mapping[str, bytes], late: bool) -> list[str]:
    """Files that mention torch and, where any does, those that train without ever naming it, and all related to them.

    `late`: names were translated by an earlier step, so that files may train without a mention anywhere.
    """
    named = {key for key, text in data.items() if mentions_torch(text)}
    if not named and not late:
        return []
    trains = {
        key
        for key, text in data.items()
        if any(word in text for word in TAPE_WORDS) and (late or b"mindspore" not in text)
        if not of_another_framework(text)
    }
    from torch2ms.related import related

    found = related(data, named | trains)
    return [key for key in data if key in found]


def convert_guarded(sources: Mapping[str, str], config: Config) -> dict[str, Result]:
    """`convert_project`, which checks what it gives; where it raises, file by file: one file's trouble stays there."""
    if len(sources) < 2:
        return {key: _convert_one(key, text, config) for key, text in sources.items()}
    from torch2ms.bounds import TookTooLong, seconds_for_all, time_limit, too_large
    from torch2ms.pipeline import convert_project

    if too_large(sources.values()):
        why = "its project needs more memory than there is"
    else:
        try:
            with time_limit(seconds_for_all(sources.values())):
                return dict(convert_project(sources, config))
        except (Exception, TookTooLong) as error:  # found again below, for the one file that it belongs to
            long = isinstance(error, TookTooLong)
            why = "its project takes too long" if long else f"an error of torch2ms ({type(error).__name__}: {error})"
        gc.collect()  # of the project, before its files are converted one by one
    return {key: told_apart(_convert_one(key, text, config), why) for key, text in sources.items()}


def _convert_one(key: str, text: str, config: Config) -> Result:
    from torch2ms.bounds import TookTooLong, seconds_for, time_limit
    from torch2ms.pipeline import convert_project

    seconds = seconds_for(text)
    try:
        with time_limit(seconds):
            return convert_project({key: text}, config)[key]
    except TookTooLong:
        return Result(key, text, text, error=f"its translation takes longer than {seconds:.0f} s; it is left as it is")
    except Exception as error:
        if os.environ.get("TORCH2MS_DEBUG"):
            raise
        message = f"internal error: {type(error).__name__}: {error} ({_innermost(error)}); please report it"
        return Result(key, text, text, error=message)


def _innermost(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "no place known"
    return f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


def write_in_place(outcome: Outcome) -> Outcome:
    """Replace the source by its translation, unless the file has changed since it was read."""
    if not outcome.changed or outcome.file is None:
        return outcome
    try:
        data = outcome.file.encode(outcome.result.text)
        if read_bytes(outcome.item.path) != outcome.file.data:
            raise SourceError("the file changed while it was being converted; run again")
        write_atomic(outcome.item.path, data)
    except SourceError as error:
        return _with_error(outcome, error)
    return outcome


def write_target(outcome: Outcome, out: Path | None, *, force: bool) -> Outcome:
    """Put the translation, or a copy of a file that has none, at its target."""
    item = outcome.item
    if item.target is None:
        return outcome
    try:
        ensure_inside(item.target, out)
        if item.kind == "link":
            _copy_link(item)
        elif outcome.changed and outcome.file is not None:
            if read_bytes(item.path) != outcome.file.data:
                raise SourceError("the file changed while it was being converted; run again")
            _write_new(item, outcome.file.encode(outcome.result.text), force)
        else:
            _copy_file(item, force)
    except SourceError as error:
        return _with_error(outcome, error)
    except (OSError, RuntimeError) as error:
        reason = explain_os_error(error) if isinstance(error, OSError) else "a loop of symbolic links"
        return _with_error(outcome, SourceError(f"cannot write {item.target}: {reason}"))
    return outcome


def _with_error(outcome: Outcome, error: SourceError) -> Outcome:
    first = f"{outcome.error}; " if outcome.error else ""
    return replace(outcome, result=replace(outcome.result, error=f"{first}{error}"))


def _write_new(item: Item, data: bytes, force: bool) -> None:
    assert item.target is not None
    if item.target.exists():
        if item.target.is_file() and read_bytes(item.target) == data:
            return
        _may_replace(item.target, force)
    write_atomic(item.target, data, item.path.stat().st_mode & 0o7777 | 0o200)


def _copy_file(item: Item, force: bool) -> None:
    assert item.target is not None
    if item.target.exists():
        if _same_content(item.path, item.target):
            return
        _may_replace(item.target, force)
    item.target.parent.mkdir(parents=True, exist_ok=True)
    import shutil
    import tempfile

    handle, name = tempfile.mkstemp(prefix=".copy.", suffix=UNFINISHED, dir=tidied(item.target.parent))
    os.close(handle)
    try:
        shutil.copy2(item.path, name)
        os.replace(name, item.target)
    except BaseException:
        os.unlink(name)
        raise


def _may_replace(target: Path, force: bool) -> None:
    if not target.is_file():
        raise SourceError(f"{target} exists and is not a file")
    if not force:
        raise SourceError(f"{target} exists with other content; --force replaces it")


def _same_content(one: Path, other: Path) -> bool:
    import filecmp

    return other.is_file() and filecmp.cmp(one, other, shallow=False)


def _copy_link(item: Item) -> None:
    """The same link at the target: it stays relative, so that it leads to the copy and not to the source."""
    assert item.target is not None
    if item.target.exists():
        return
    leads = os.readlink(item.path)
    if os.path.isabs(leads):
        leads = os.path.relpath(leads, item.path.parent.resolve())
    item.target.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(leads, item.target)
