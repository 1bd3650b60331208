"""Modules that were translated before and need nothing more."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from functools import cache, cached_property, partial
from typing import Any

from torch2ms.analysis.syntax.names import is_foreign
from torch2ms.source import parse_quietly, suites

ON_TAPE = r"backward|zero_grad|step|unscale_|no_grad|requires_grad_?|set_grad_enabled"
TAPE = re.compile(rf"\.(?:{ON_TAPE})\b" r"|(?<!\bms)(?<!mindspore)\.grad\b")  # `ms.grad` is MindSpore's own
OWN = re.compile(r"#\s*torch2ms:")
FLAG = re.compile(  # of a tensor, which is written in another way
    r"(?<!\bp)(?<!\bpar)(?<!param)(?<!params)(?<!parameter)(?<!parameters)\.requires_grad\b"
)
TAPE_NAME = re.compile(ON_TAPE)
APART = re.compile(r"\w*(?:env|environment|scheduler|sched|updater)s?|self")  # nobody calls an optimizer so
PARAMETER = re.compile(r"p|par|\w*param(?:eter)?s?")
MARK = re.compile(r"#\s*torch2ms: (T2M\d{3}) (.*?) -> (.*)")
DIRECTIVE = re.compile(r"#\s*torch2ms:(?! T2M\d{3} )")
NAME = re.compile(r"[^\W\d]\w*")
NEWLINE = re.compile(r"\r\n|\r|\n")


class Earlier:
    """A text as it may have come out of an earlier conversion."""

    def __init__(self, text: str) -> None:
        self.text = text

    @property
    def settled(self) -> bool:
        """MindSpore is imported, nothing of torch is, and gradients are taken MindSpore's way."""
        if "mindspore" not in self.text or DIRECTIVE.search(self.text):
            return False
        translated = any(name.partition(".")[0] == "mindspore" for name, _ in self._imports)
        return translated and self.apart

    @property
    def marked(self) -> bool:
        """Whatever is left of torch and of gradients stands in statements with a mark above.

        A person decides about those: there is nothing to convert. This is what most files are that are not settled.
        """
        if DIRECTIVE.search(self.text) or not MARK.search(self.text):
            return False
        return self._tree is not None and not self._left

    @cached_property
    def apart(self) -> bool:
        """Nothing of torch is imported, and no code speaks of gradients as torch does; words may stand in texts alone.

        Alone, such a module has nothing to convert.
        """
        if self._tree is None or any(is_foreign(name) for name, _ in self._imports):
            return False
        spoken = OWN.search(self.text) or TAPE.search(self.text)
        return not spoken or "torch2ms:" not in self.text and not FLAG.search(self.text) and not self._left

    @cached_property
    def _tree(self) -> ast.Module | None:
        try:
            return parse_quietly(self.text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return None

    @cached_property
    def _imports(self) -> list[tuple[str, str]]:
        return list(_imports(self._tree)) if self._tree is not None else []

    @cached_property
    def _left(self) -> bool:
        """Something of torch, or of gradients, is left to convert where no mark is."""
        assert self._tree is not None
        names = {local for name, local in self._imports if is_foreign(name)}
        if not names and not TAPE.search(self.text):
            return False
        annotating = cache(partial(_annotating, self._tree))
        unmarked = _unmarked(self._tree, NEWLINE.split(self.text))
        return "*" in names or any(_remains(node, names, annotating) for node in unmarked)


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """The full names in the import statements of a module, wherever they stand, and the names that they bind."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Import):
            yield from ((alias.name, alias.asname or alias.name.partition(".")[0]) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = f"{node.module}." if node.module else ""
            yield from ((base + alias.name, alias.asname or alias.name) for alias in node.names)
        else:
            stack += _below(node)


def _below(node: ast.AST) -> Iterator[ast.AST]:
    """The statements in a compound one, and its handlers and cases."""
    for field in suites(node.__class__):
        yield from getattr(node, field)


def _unmarked(tree: ast.Module, lines: list[str]) -> Iterator[ast.AST]:
    """Statements without a mark, and of compound ones the parts of their heads."""
    stack: list[ast.AST] = list(tree.body)
    while stack:
        node = stack.pop()
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        below = list(_below(node))
        stack += below
        if isinstance(node, ast.stmt) and _has_mark(node, lines):
            continue
        if below:
            inside = set(map(id, below))
            yield from (part for part in ast.iter_child_nodes(node) if id(part) not in inside)
        else:
            yield node


def _has_mark(node: ast.stmt, lines: list[str]) -> bool:
    """A mark stands among the comments above a statement, which is the first on its line."""
    first = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1
    if lines[first][: node.col_offset].strip() and not getattr(node, "decorator_list", ()):
        return False
    above = first - 1
    while above >= 0 and (not (line := lines[above].strip()) or line[0] == "#"):
        if MARK.match(line):
            return True
        above -= 1
    return False


def _annotating(tree: ast.Module) -> set[int]:
    """The ids of what stands in annotations."""
    nodes = _nodes(tree)
    wholes = [node.annotation for node in nodes if isinstance(node, (ast.arg, ast.AnnAssign))]
    wholes += [node.returns for node in nodes if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return {id(part) for whole in wholes if whole is not None for part in _nodes(whole)}


_HELD: dict[type, tuple[str, ...]] = {ast.Name: (), ast.Constant: ()}  # fields that may hold nodes, contexts left out


def _nodes(root: ast.AST) -> list[Any]:
    """The node and everything below it, as `ast.walk` has it; operators and contexts do not count."""
    found: list[Any] = [root]  # grows while it is gone through
    for node in found:
        kind = node.__class__
        fields = _HELD.get(kind)
        if fields is None:
            fields = _HELD[kind] = tuple(name for name in kind._fields if name not in ("ctx", "op", "ops"))
        for name in fields:
            held = getattr(node, name, None)
            if held.__class__ is list:
                found += [part for part in held if isinstance(part, ast.AST)]
            elif isinstance(held, ast.AST):
                found.append(held)
    return found


def _remains(part: ast.AST, names: set[str], annotating: Callable[[], set[int]]) -> bool:
    """Something of torch, or of gradients, is left to convert in a piece of code; `names` are torch's."""
    if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
        return False  # a docstring
    nodes = _nodes(part)
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    for node in nodes:
        if isinstance(node, ast.Name):
            if node.id in names:
                return True
        elif isinstance(node, ast.Attribute):
            if TAPE_NAME.fullmatch(node.attr) and not _of_mindspore(node):
                return True
            if node.attr == "grad" and id(node) not in called and not _is_mindspore(node.value):
                return True  # what is called is a function of somebody, no gradient
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            mentions = not names.isdisjoint(NAME.findall(node.value))
            if mentions and id(node) in annotating() and _is_expression(node.value):
                return True
    return False


def _is_mindspore(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id in ("ms", "mindspore")


def _of_mindspore(asked: ast.Attribute) -> bool:
    """Whether parameters can be trained, which MindSpore's have as well, or a `step` that is none of an optimizer."""
    if asked.attr == "requires_grad" and isinstance(asked.ctx, ast.Load):
        return True
    node = asked.value
    while isinstance(node, ast.Subscript):
        node = node.value
    name = node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
    named = {"step": APART, "requires_grad": PARAMETER}.get(asked.attr)
    return named is not None and named.fullmatch(name) is not None


def _is_expression(text: str) -> bool:
    try:
        ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True
