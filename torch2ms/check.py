"""The self-check of every translated file before it may be written."""

from __future__ import annotations

import ast
import builtins
import io
import re
import sys
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cache
from typing import Any

from torch2ms.findings import Finding, Result, Tier
from torch2ms.source import parse_quietly

LITERAL = re.compile(
    r"""\#[^\r\n]*
    |\"{3}[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*\"{3}|'{3}[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'{3}
    |"[^"\\\r\n]*(?:\\(?:\r\n|.)[^"\\\r\n]*)*"|'[^'\\\r\n]*(?:\\(?:\r\n|.)[^'\\\r\n]*)*'""",
    re.VERBOSE | re.DOTALL,
)
NESTED_STRINGS = sys.version_info[:2] >= (3, 12)  # f-strings that no expression finds; the tokenizer is fast there
NEWLINE = re.compile(r"\r\n|\r|\n")
HELD: dict[type, tuple[str, ...]] = {ast.Constant: (), type(None): ()}  # fields with nodes, as far as nodes count here
PLAIN = frozenset("ctx id attr arg name asname names module level op ops kind type_comment type_ignores rest".split())
DOCSTRING = re.compile(r"(?:[\s\\]|#[^\r\n]*[\r\n])*[rRuU\"'(]")  # how a text may begin that has one
MARK = re.compile(r"#\s*torch2ms:\s*T2M\d{3}\b")
DIRECTIVE = re.compile(r"#\s*torch2ms:\s*(?:ignore|off)\b")
TORCH_PACKAGES = ("torch", "torchvision")
STILL = "the translation still uses"
LEFT = "nothing of MindSpore takes the place of what is used of it here"
GIVEN = frozenset(dir(builtins)) | {"__file__", "__path__", "__annotations__", "__class__", "get_ipython", "display"}


def check_output(
    source: str,
    text: str,
    findings: Iterable[Finding],
    reconvert: Callable[[str], str] | None,
    moved: Callable[[], Collection[str]] = frozenset,
) -> str:
    """One clear sentence on what is wrong with the translation `text` of `source`; "" when nothing is.

    `reconvert` is missing where a person left lines alone that nothing in the text marks. `moved` are the comments that
    other files of the project have gained: the code that they speak of may be there now.
    """
    after = _compiled(text)
    if isinstance(after, str) and text == source:
        return ""
    if isinstance(after, str):
        before_too = _compiled(source)
        if isinstance(before_too, str):
            return f"the source is not valid Python: {before_too}"
        return f"the translation is not valid Python: {after}"
    lost = lost_comments(source, text)
    if lost and (lost := [comment for comment in lost if comment not in moved()]):
        return f"the translation would lose the comment {lost[0]!r}" + (f" and {len(lost) - 1} more" * (len(lost) > 1))
    names = Names(after)
    undefined = names.undefined
    if undefined or (ast.get_docstring(after) is None and DOCSTRING.match(source)):
        before = _parsed(source)
        if isinstance(before, str):
            return f"the source is not valid Python: {before}"
        if ast.get_docstring(before, clean=False) is not None and ast.get_docstring(after) is None:
            return "the translation would push the module docstring from its place"
        undefined = undefined - Names(before).undefined if undefined else undefined
    if undefined:
        return f"the translation uses {', '.join(sorted(undefined)[:3])}, which nothing defines"
    accounted = any(f.tier is Tier.REFUSED for f in findings) or MARK.search(text) or DIRECTIVE.search(text)
    left = None if accounted else names.first_torch
    if left and reconvert is not None:
        return f"{STILL} {left[1]} (its line {left[0]}) and no finding says so"
    if text == source or reconvert is None or "torch" not in text:  # nothing that runs over it again looks into it
        return ""
    try:
        again = reconvert(text)
    except Exception as error:  # the engine is on trial here: whatever it raises is the verdict
        return f"a second conversion fails: {type(error).__name__}: {error}"
    if again != text:
        return f"a second conversion would change the translation again ({_first_difference(text, again)})"
    return ""


def owned_up(source: str, text: str) -> tuple[str, list[Finding]]:
    """The translation with a mark at every import of torch in it, where nothing says why one stayed: those findings."""
    tree, before = _parsed(text), _parsed(source)
    if isinstance(tree, str) or isinstance(before, str):
        return text, []
    lines, stood = text.splitlines(keepends=True), dict((name, line) for line, name in reversed(Names(before).foreign))
    found: list[Finding] = []
    for line, name in sorted(Names(tree).foreign, reverse=True):
        head = lines[line - 1]
        if not head.lstrip().startswith(("import ", "from ")) or line > 1 and MARK.match(lines[line - 2].lstrip()):
            continue
        what, todo = f"import of {name}", "write what is used of it by hand"
        found.append(Finding("T2M600", Tier.REFUSED, what, LEFT, todo, stood.get(name, line)))
        margin = head[: len(head) - len(head.lstrip())]
        lines.insert(line - 1, f"{margin}# torch2ms: T2M600 {what} -> {todo} ({LEFT})\n")
    return "".join(lines), found[::-1]


def _compiled(text: str) -> ast.Module | str:
    """The tree of a text that compiles, or the reason why it does not."""
    tree = _parsed(text)
    if isinstance(tree, str):
        return tree
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(tree, "<translation>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)  # as notebooks do
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"
    return tree


def _parsed(text: str) -> ast.Module | str:
    """The tree of a text, or the reason why there is none."""
    try:
        return parse_quietly(text)
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def marks(text: str) -> list[int]:
    """The lines that carry a mark of an earlier conversion."""
    if "torch2ms" not in text:
        return []
    return [line for line, comment in comments(text) if MARK.match(comment)]


def unmarked(text: str) -> list[str]:
    """The lines of a text but those that are marks."""
    return [line for line in text.splitlines() if not MARK.match(line.lstrip())]


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    if "#" not in text:
        return
    if not NESTED_STRINGS:
        line, at = 1, 0
        for found in LITERAL.finditer(text):
            if found[0][0] == "#":
                line, at = line + len(NEWLINE.findall(text, at, found.start())), found.start()
                yield line, found[0].rstrip()
        return
    for token in tokenize.generate_tokens(io.StringIO(text, newline=None).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.rstrip()


def lost_comments(source: str, text: str) -> list[str]:
    """Comments of the source that the translation lacks; marks of an earlier run may go."""
    wanted = Counter(comment for _, comment in comments(source) if not MARK.match(comment))
    found = Counter(comment for _, comment in comments(text))
    missing = wanted - found
    if not missing:
        return []
    extra = list((found - wanted).elements())  # two comments may have come together on one line
    return [comment for comment in missing.elements() if not any(comment.lstrip("# ") in other for other in extra)]


def gained_comments(results: Iterable[Result]) -> set[str]:
    """Comments that some file has more often than its source."""
    gained: set[str] = set()
    for result in results:
        if result.changed:
            before, after = (Counter(c for _, c in comments(text)) for text in (result.source, result.text))
            gained |= (after - before).keys()
    return gained


class Names:
    """The names of a module: read, bound by any of its scopes, and those of torch; collected in one walk."""

    def __init__(self, tree: ast.Module) -> None:
        self.used: dict[str, int] = {}
        self.bound: set[str] = set()
        self.star = False
        self.foreign: list[tuple[int, str]] = []  # imports from torch
        found: list[Any] = [tree]  # grows while it is gone through: nodes in breadth, so that first uses come first
        for node in found:
            kind = node.__class__
            if kind is ast.Name:
                if node.ctx.__class__ is ast.Store:
                    self.bound.add(node.id)
                else:
                    self.used.setdefault(node.id, node.lineno)
                continue
            if _binds(kind):
                self.other(node)
            for name in HELD.get(kind) or _held(kind):
                below = getattr(node, name)
                if below.__class__ is list:
                    found += below
                elif below is not None:
                    found.append(below)

    def other(self, node: ast.AST) -> None:
        """What a node that is no name binds."""
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.imported(node)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)
        elif isinstance(node, ast.arg):
            self.bound.add(node.arg)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.bound.update(node.names)
        else:
            self.bound.update(_bound_by_statement(node))

    def imported(self, node: ast.Import | ast.ImportFrom) -> None:
        """An import binds its names; one from torch is remembered."""
        if isinstance(node, ast.ImportFrom):
            self.star = self.star or node.names[0].name == "*"
            sources = [] if node.level else [node.module or ""]
        else:
            sources = [alias.name for alias in node.names]
        self.bound.update((alias.asname or alias.name).split(".")[0] for alias in node.names)
        self.foreign += [(node.lineno, s) for s in sources if s.split(".")[0] in TORCH_PACKAGES]

    @property
    def undefined(self) -> set[str]:
        """Names that are read somewhere and bound nowhere: what a forgotten or dropped import leaves behind."""
        missing = self.used.keys() - self.bound - GIVEN
        return set() if self.star else {name for name in missing if not re.fullmatch(r"__\w+__", name)}

    @property
    def first_torch(self) -> tuple[int, str] | None:
        """Line and name of an import of torch, or of a use of such a name, that the module still has."""
        uses = [(self.used[name], name) for name in TORCH_PACKAGES if name in self.used and name not in self.bound]
        return min(self.foreign + uses, default=None)


@cache
def _binds(kind: type) -> bool:
    """Whether nodes of a class bind names that they hold as text."""
    return kind is not ast.keyword and not {"name", "names", "rest", "arg"}.isdisjoint(getattr(kind, "_fields", ()))


def _held(kind: type) -> tuple[str, ...]:
    names = HELD[kind] = tuple(name for name in getattr(kind, "_fields", ()) if name not in PLAIN)
    return names


def _bound_by_statement(node: ast.AST) -> Iterator[str]:
    for field in ("name", "rest"):  # except handlers, match patterns, type parameters
        value = getattr(node, field, None)
        if isinstance(value, str):
            yield value


def _first_difference(one: str, other: str) -> str:
    lines, others = one.splitlines(), other.splitlines()
    pairs = zip(lines, others, strict=False)
    at = next((number for number, (line, second) in enumerate(pairs) if line != second), min(len(lines), len(others)))
    becomes = others[at].strip() if at < len(others) else "nothing"
    return f"its line {at + 1} becomes: {becomes[:80]}"
