"""The self-check of every translated file before it may be written."""

from __future__ import annotations

import ast
import builtins
import io
import re
import tokenize
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from torch2ms.findings import Finding, Tier

MARK = re.compile(r"#\s*torch2ms:\s*T2M\d{3}\b")
DIRECTIVE = re.compile(r"#\s*torch2ms:\s*(?:ignore|off)\b")
TORCH_PACKAGES = ("torch", "torchvision")
GIVEN = frozenset(dir(builtins)) | {"__file__", "__path__", "__annotations__", "__class__", "get_ipython", "display"}


def check_output(
    source: str, text: str, findings: Iterable[Finding], reconvert: Callable[[str], str] | None
) -> str:
    """One clear sentence on what is wrong with the translation `text` of `source`; "" when nothing is.

    `reconvert` is missing where a person left lines alone that nothing in the text marks.
    """
    if text == source:
        return ""
    before, after = _parse(source), _parse(text)
    if isinstance(after, str):
        return f"the translation is not valid Python: {after}"
    if isinstance(before, str):
        return f"the source is not valid Python: {before}"
    lost = lost_comments(source, text)
    if lost:
        return f"the translation would lose the comment {lost[0]!r}" + (f" and {len(lost) - 1} more" * (len(lost) > 1))
    if ast.get_docstring(before, clean=False) is not None and ast.get_docstring(after) is None:
        return "the translation would push the module docstring from its place"
    undefined = sorted(undefined_names(after) - undefined_names(before))
    if undefined:
        return f"the translation uses {', '.join(undefined[:3])}, which nothing defines"
    accounted = any(f.tier is Tier.REFUSED for f in findings) or MARK.search(text) or DIRECTIVE.search(text)
    left = None if accounted else first_torch_name(after)
    if left and reconvert is not None:
        return f"the translation still uses {left[1]} (its line {left[0]}) and no finding says so"
    if reconvert is None or "torch" not in text:  # nothing that runs over the file again looks into it
        return ""
    try:
        again = reconvert(text)
    except Exception as error:  # the engine is on trial here: whatever it raises is the verdict
        return f"a second conversion fails: {type(error).__name__}: {error}"
    if again != text:
        return f"a second conversion would change the translation again ({_first_difference(text, again)})"
    return ""


def _parse(text: str) -> ast.Module | str:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            compile(text, "<translation>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)  # as notebooks do
            return tree
    except SyntaxError as error:
        return f"line {error.lineno}: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{type(error).__name__}: {error}"


def marks(text: str) -> list[int]:
    """The lines that carry a mark of an earlier conversion."""
    if "torch2ms" not in text:
        return []
    return [line for line, comment in comments(text) if MARK.match(comment)]


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of every comment."""
    if "#" not in text:
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


def first_torch_name(tree: ast.Module) -> tuple[int, str] | None:
    """Line and name of the first import of torch, or use of such a name, that the module still has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] in TORCH_PACKAGES:
                    return node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            if (node.module or "").split(".")[0] in TORCH_PACKAGES:
                return node.lineno, str(node.module)
        elif isinstance(node, ast.Name) and node.id in TORCH_PACKAGES:
            if node.id not in bound_names(tree):
                return node.lineno, node.id
    return None


def undefined_names(tree: ast.Module) -> set[str]:
    """Names that are read somewhere and bound nowhere: what a forgotten or dropped import leaves behind."""
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return set()
    used = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and not isinstance(n.ctx, ast.Store)}
    return {name for name in used - bound_names(tree) - GIVEN if not re.fullmatch(r"__\w+__", name)}


def bound_names(tree: ast.Module) -> set[str]:
    """Every name that any scope of the module binds."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            bound.add(node.id)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).split(".")[0])
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
        else:
            bound.update(_bound_by_statement(node))
    return bound


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
