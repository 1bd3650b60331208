"""Which files a run reads, and where each of them goes."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from torch2ms.kinds import kind_of, skipped
from torch2ms.source import SourceError, explain_os_error, is_unfinished


@dataclass(frozen=True)
class Item:
    """One file of a run: where it is, what it is called, where its translation belongs.

    Most files of most runs are read and left: paths are made of the names when they are asked for.
    """

    place: str | Path
    shown: str  # as the user would write it
    key: str  # posix path below the project root: what imports see
    goal: str | Path | None = None  # where the translation belongs
    kind: str = "python"  # or "notebook", "dependencies", "other", "link"

    @cached_property
    def path(self) -> Path:
        return Path(self.place)

    @cached_property
    def target(self) -> Path | None:
        return Path(self.goal) if self.goal is not None else None


@dataclass
class Plan:
    """All files of a run, and what stood in the way of finding some of them."""

    items: list[Item] = field(default_factory=list)
    errors: list[tuple[str, str]] = field(default_factory=list)  # (shown, sentence)
    notes: list[str] = field(default_factory=list)
    out: Path | None = None  # the folder that no output may leave
    root: Path | None = None  # the project whose other files are read along
    exclude: tuple[str, ...] = ()


def make_plan(
    paths: Sequence[str],
    out: str | None = None,
    *,
    in_place: bool = False,
    exclude: Sequence[str] = (),
    root: str | None = None,
) -> Plan:
    """Find the files below `paths`. `out` is where translations go; by default beside the input, with "_ms" added.

    `root` is the folder of the project: what imports start from, and where files lie that explain the given ones.
    """
    plan = Plan(root=Path(root).resolve() if root else None, exclude=tuple(exclude))
    roots: list[tuple[str, Path]] = []
    for shown in dict.fromkeys(paths):
        try:
            Path(shown).stat()
            roots.append((shown, Path(shown)))
        except (OSError, RuntimeError, ValueError) as error:
            plan.errors.append((shown, _explain(error)))
    if not roots:
        return plan
    targets = [None] * len(roots) if in_place else _targets([path for _, path in roots], out)
    base = plan.root or _project_root([path for _, path in roots])
    plan.out = Path(out).absolute() if out and not in_place else None
    real_path = _real_paths()
    barred = {t.resolve() for t in (*targets, plan.out) if t is not None}
    seen: set[str] = set()
    for (shown, path), target in zip(roots, targets, strict=True):
        if target is not None and target.resolve() == path.resolve():
            plan.errors.append((shown, "the output would replace the input; use --in-place for that"))
            continue
        for item in _items(shown, path, target, base, barred, exclude, plan):
            real = str(item.place) if item.kind == "link" else real_path(item.place)
            if real not in seen:
                seen.add(real)
                plan.items.append(item)
    return plan


def _real_paths() -> Callable[[str | Path], str]:
    """The path of a file without symbolic links; the one of a folder is looked up once."""
    folders: dict[str, str] = {}

    def real(path: str | Path) -> str:
        folder, name = os.path.split(path)
        if name in ("", os.pardir) or os.path.islink(path):
            return os.path.realpath(path)
        known = folders.get(folder)
        if known is None:
            known = folders[folder] = os.path.realpath(folder)
        return os.path.join(known, name)

    return real


def neighbours(plan: Plan) -> list[Item]:
    """The Python files of the project that are not among the given ones."""
    assert plan.root is not None
    given = {item.key for item in plan.items}
    found = _items(str(plan.root), plan.root, None, plan.root, set(), plan.exclude, Plan())
    return [item for item in found if item.kind == "python" and item.key not in given]


def _explain(error: Exception) -> str:
    if isinstance(error, OSError):
        return explain_os_error(error)
    return "a loop of symbolic links" if isinstance(error, RuntimeError) else f"not a usable path: {error}"


def _targets(roots: list[Path], out: str | None) -> list[Path | None]:
    absolute = [path.resolve() if not path.name or ".." in path.parts else path.absolute() for path in roots]
    if out is None:
        files = [path for path in absolute if path.is_file()]
        if len(files) == len(absolute) > 1:  # several modules of one program keep each other as neighbours
            common = Path(os.path.commonpath([path.parent for path in files]))
            if common.name:  # "/" has no folder beside it
                return [common.with_name(common.name + "_ms") / path.relative_to(common) for path in files]
        return [
            path.with_name(f"{path.name}_ms" if path.is_dir() else f"{path.stem}_ms{path.suffix}") for path in absolute
        ]
    folder = Path(out).absolute()
    if len(absolute) == 1:
        path = absolute[0]
        if path.is_dir() or (folder.suffix == path.suffix and not folder.is_dir()):
            return [folder]
        return [folder / path.name]
    common = Path(os.path.commonpath([path.parent for path in absolute]))
    return [folder / path.relative_to(common) for path in absolute]


def _project_root(roots: list[Path]) -> Path:
    """The folder whose sub-paths are the import paths: the lowest common one that is not inside a package."""
    folders = []
    for path in roots:
        folder = path.resolve() if path.is_dir() else path.resolve().parent
        while (folder / "__init__.py").exists() and folder.parent != folder:
            folder = folder.parent
        folders.append(folder)
    return Path(os.path.commonpath(folders))


def _items(
    shown: str, path: Path, target: Path | None, base: Path, barred: set[Path], exclude: Sequence[str], plan: Plan
) -> Iterator[Item]:
    if not path.is_dir():
        kind = kind_of(str(path))
        yield Item(path, shown, _key(path, base), target, "python" if kind == "other" else kind)
        return
    for folder, names in _walk(path, barred, exclude, plan):
        inside = os.path.relpath(folder, path)
        inside = "" if inside == os.curdir else inside
        beginning = _key(Path(folder, "_"), base)[:-1]
        said = os.path.join("" if shown in (".", "./") else shown, inside, "")
        aim = os.path.join(target, inside, "") if target is not None else ""
        for name, is_link in names:
            place, goal = os.path.join(folder, name), aim + name if aim else None
            if is_link:
                linked = _linked(Item(place, said + name, beginning + name, goal), path, plan)
                if linked is not None:
                    yield linked
            else:
                yield Item(place, said + name, beginning + name, goal, kind_of(place))


def _linked(item: Item, root: Path, plan: Plan) -> Item | None:
    """What a symbolic link is to the run, if anything."""
    kind = _link_kind(item.path, root)
    if kind == "link" and item.target is None:
        return None  # what it points to is translated under its own name, or is not ours to edit
    if kind == "skip":
        plan.notes.append(f"{item.shown}: a symbolic link that leads outside; not followed")
        return None
    if kind == "link":
        return replace(item, kind="link")
    if item.target is None:
        plan.notes.append(f"{item.shown}: a symbolic link that leads outside; not edited")
        return None
    return replace(item, kind=kind_of(str(item.place)))


def _walk(
    root: Path, barred: set[Path], exclude: Sequence[str], plan: Plan
) -> Iterator[tuple[str, list[tuple[str, bool]]]]:
    """Folders, and the names of the files in them that count, each with whether it is a symbolic link."""
    waiting = [str(root)]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            plan.errors.append((str(error.filename), explain_os_error(error)))
            continue
        here = Path(folder)
        folders = [e.name for e in entries if e.is_dir(follow_symlinks=False)]
        names = [(e.name, e.is_symlink()) for e in entries if not e.is_dir(follow_symlinks=False)]
        names = [name for name in names if not is_unfinished(name[0])]
        if exclude:
            names = [name for name in names if not _excluded((here / name[0]).relative_to(root), exclude)]
        yield folder, names
        waiting += [str(here / n) for n in reversed(folders) if _wanted(here / n, root, barred, exclude)]


def _wanted(folder: Path, root: Path, barred: set[Path], exclude: Sequence[str]) -> bool:
    if skipped(str(folder)):
        return False
    return folder.resolve() not in barred and not _excluded(folder.relative_to(root), exclude)


def _excluded(relative: Path, patterns: Sequence[str]) -> bool:
    text = relative.as_posix()
    return any(fnmatch.fnmatch(text, p.rstrip("/")) or fnmatch.fnmatch(relative.name, p.rstrip("/")) for p in patterns)


def _key(path: Path, base: Path) -> str:
    real = path.parent.resolve() / path.name
    return real.relative_to(base).as_posix() if real.is_relative_to(base) else path.name


def _link_kind(path: Path, root: Path) -> str:
    """A link inside the tree (or to nowhere) stays a link; a file from outside is read; a folder outside is skipped."""
    try:
        real = path.resolve()
    except (OSError, RuntimeError):
        return "link"
    if real.is_relative_to(root.resolve()) or not real.exists():
        return "link"
    return "skip" if real.is_dir() else "file"


def ensure_inside(target: Path, out: Path | None) -> None:
    """Refuse a target that a symbolic link in the output folder would carry out of it."""
    folder = target.parent
    if out is not None and target != out and not folder.resolve().is_relative_to(out.resolve()):
        raise SourceError(f"{target} leads out of {out} through a symbolic link")
    if target.is_symlink():
        raise SourceError(f"{target} is a symbolic link; remove it or choose another --out")
