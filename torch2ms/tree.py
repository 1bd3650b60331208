"""Which files a run reads, and where each of them goes."""

from __future__ import annotations

import fnmatch
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from torch2ms.dependencies import is_dependency_file
from torch2ms.source import SourceError, explain_os_error

SKIPPED_FOLDERS = frozenset(
    ".git .hg .svn .tox .nox .venv .eggs .ipynb_checkpoints .mypy_cache .pytest_cache .ruff_cache .torch2ms_cache "
    ".idea .vscode __pycache__ node_modules".split()
)
PYTHON_SUFFIXES = frozenset({".py", ".pyi", ".pyw"})


@dataclass(frozen=True)
class Item:
    """One file of a run: where it is, what it is called, where its translation belongs."""

    path: Path
    shown: str  # as the user would write it
    key: str  # posix path below the project root: what imports see
    target: Path | None = None
    kind: str = "python"  # or "notebook", "dependencies", "other", "link"


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
            real = str(item.path) if item.kind == "link" else real_path(item.path)
            if real not in seen:
                seen.add(real)
                plan.items.append(item)
    return plan


def _real_paths() -> Callable[[Path], str]:
    """The path of a file without symbolic links; the one of a folder is looked up once."""
    folders: dict[str, str] = {}

    def real(path: Path) -> str:
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
    absolute = [path.absolute() if path.name not in ("", "..") else path.resolve() for path in roots]
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
        kind = _kind(path)
        yield Item(path, shown, _key(path, base), target, "python" if kind == "other" else kind)
        return
    for folder, names in _walk(path, barred, exclude, plan):
        inside = os.path.relpath(folder, path)
        inside = "" if inside == os.curdir else inside
        beginning = _key(Path(folder, "_"), base)[:-1]
        for name in names:
            below = os.path.join(inside, name)
            said = os.path.join(shown, below) if shown not in (".", "./") else below
            item = Item(Path(folder, name), said, beginning + name, target / below if target is not None else None)
            if os.path.islink(os.path.join(folder, name)):
                linked = _linked(item, path, plan)
                if linked is not None:
                    yield linked
            else:
                yield replace(item, kind=_kind(item.path))


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
    return replace(item, kind=_kind(item.path))


def _walk(root: Path, barred: set[Path], exclude: Sequence[str], plan: Plan) -> Iterator[tuple[str, list[str]]]:
    """Folders, and the names of the files in them that count."""

    def failed(error: OSError) -> None:
        plan.errors.append((str(error.filename), explain_os_error(error)))

    for folder, folders, files in os.walk(root, onerror=failed):
        here = Path(folder)
        linked = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        folders[:] = sorted(n for n in folders if n not in linked and _wanted(here / n, root, barred, exclude))
        names = sorted([*files, *linked])
        if exclude:
            names = [name for name in names if not _excluded((here / name).relative_to(root), exclude)]
        yield folder, names


def _wanted(folder: Path, root: Path, barred: set[Path], exclude: Sequence[str]) -> bool:
    if folder.name in SKIPPED_FOLDERS or folder.name.endswith(".egg-info") or (folder / "pyvenv.cfg").exists():
        return False
    return folder.resolve() not in barred and not _excluded(folder.relative_to(root), exclude)


def _excluded(relative: Path, patterns: Sequence[str]) -> bool:
    text = relative.as_posix()
    return any(fnmatch.fnmatch(text, p.rstrip("/")) or fnmatch.fnmatch(relative.name, p.rstrip("/")) for p in patterns)


def _key(path: Path, base: Path) -> str:
    real = path.parent.resolve() / path.name
    return real.relative_to(base).as_posix() if real.is_relative_to(base) else path.name


def _kind(path: Path) -> str:
    if path.name == "setup.py":  # a list of requirements with a program around it
        return "dependencies"
    if path.suffix in PYTHON_SUFFIXES:
        return "python"
    if path.suffix == ".ipynb":
        return "notebook"
    if is_dependency_file(str(path)):
        return "dependencies"
    if not path.suffix and os.access(path, os.X_OK):
        return "python" if _has_python_shebang(path) else "other"
    return "other"


def _has_python_shebang(path: Path) -> bool:
    try:
        with path.open("rb") as stream:
            first = stream.readline(200)
    except OSError:
        return False
    return first.startswith(b"#!") and b"python" in first


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
