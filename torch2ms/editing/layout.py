"""Comments and blank lines: nothing a person wrote is lost when statements move or go."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache

import libcst as cst

from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.text import tokens
from torch2ms.analysis.syntax.tree import changed, code, replaced

Lines = tuple[cst.EmptyLine, ...]
BLANK = cst.EmptyLine(indent=False)
FORMATTED = re.compile(r"""[fFtT][rR]?['\"]|[rR][fFtT]['\"]""")  # what may begin an f-string


def comments_only(lines: Iterable[cst.EmptyLine]) -> Lines:
    return tuple(line for line in lines if line.comment is not None)


def comment_line(text: str) -> cst.EmptyLine:
    return cst.EmptyLine(comment=cst.Comment(text))


def trailing_comment(trailing: cst.TrailingWhitespace | None) -> Lines:
    """The comment at the end of a statement, as a line of its own."""
    if trailing is None or trailing.comment is None:
        return ()
    return (cst.EmptyLine(comment=trailing.comment),)


def inner_comments(node: cst.CSTNode) -> Lines:
    """All comments inside a node that goes away."""
    pieces = tokens(node)
    text = "".join(pieces)
    if "#" not in text:
        return ()
    if not FORMATTED.search(text):
        return tuple(comment_line(piece) for piece in pieces if piece.startswith("#"))
    found: list[cst.EmptyLine] = []
    stack = [node]
    while stack:
        current = stack.pop()
        if type(current) is cst.Comment:
            found.append(cst.EmptyLine(comment=current))
        else:
            stack += reversed(current.children)
    return tuple(found)


def with_comments(node: cst.With) -> Lines:
    """The comments among the items of a with statement and behind its colon: its head goes, they stay."""
    body = node.body
    assert isinstance(body, (cst.IndentedBlock, cst.SimpleStatementSuite))
    header = body.header if isinstance(body, cst.IndentedBlock) else body.trailing_whitespace
    among = [part for part in (node.lpar, *node.items, node.rpar) if isinstance(part, cst.CSTNode)]
    return (*(found for part in among for found in inner_comments(part)), *trailing_comment(header))


def leading(node: cst.CSTNode) -> Lines:
    """The comments and blank lines above a statement."""
    return tuple(getattr(node, "leading_lines", ()))


def led(node: cst.BaseStatement, lines: Lines) -> cst.BaseStatement:
    """The statement with more lines above it."""
    return replaced(node, leading_lines=[*lines, *leading(node)])


def strip_blank(lines: Sequence[cst.EmptyLine]) -> Lines:
    """Without the blank lines at the top."""
    kept = list(lines)
    while kept and kept[0].comment is None:
        kept.pop(0)
    return tuple(kept)


@lru_cache(maxsize=2000)
def _parsed(text: str) -> tuple[cst.BaseStatement, ...]:
    return tuple(cst.parse_module(text if text.endswith("\n") else text + "\n").body)


def parse(text: str) -> list[cst.BaseStatement]:
    """Statements from generated text; many programs need the same, each is parsed once."""
    return list(_parsed(text))


def opened(body: cst.BaseSuite) -> cst.IndentedBlock:
    """The suite on lines of its own: `def f(): return 1` has it behind the colon."""
    if isinstance(body, cst.IndentedBlock):
        return body
    assert isinstance(body, cst.SimpleStatementSuite)
    line = cst.SimpleStatementLine(body.body, trailing_whitespace=body.trailing_whitespace)
    return cst.IndentedBlock([line])


def bare(original: cst.CSTNode | None, made: cst.CSTNode) -> cst.CSTNode:
    """An expression that stands alone, without parentheses that only its translation brought."""
    brought = not getattr(original, "lpar", ()) and len(getattr(made, "lpar", ())) == 1
    if original is made or not brought or isinstance(made, (cst.GeneratorExp, cst.NamedExpr)) or "\n" in code(made):
        return made
    return made.with_changes(lpar=[], rpar=[])


def standing(node: cst.CSTNode) -> cst.CSTNode:
    """What stood inside of a call, with parentheses where an expression of several lines needs some outside of it."""
    text = code(node)
    if "\n" not in text or not isinstance(node, cst.BaseExpression) or node.lpar:
        return node
    try:
        ast.parse(text.strip(), mode="eval")
    except SyntaxError:
        return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return node


def prepended(body: cst.IndentedBlock, new: list[cst.BaseStatement]) -> cst.IndentedBlock:
    """A suite with statements in front, behind its docstring if it has one."""
    first = body.body[0]
    position = int(isinstance(first, cst.SimpleStatementLine) and is_docstring(first.body[0]))
    return body.with_changes(body=[*body.body[:position], *new, *body.body[position:]])


def spaced(nodes: list[cst.BaseStatement], top: bool) -> list[cst.BaseStatement]:
    """Blank lines around new definitions as PEP 8 has them."""
    out: list[cst.BaseStatement] = []
    after = False
    for node in nodes:
        gap = 2 if top else 1
        if after or type(node) is cst.FunctionDef or type(node) is cst.ClassDef:
            node = led(node, (BLANK,) * gap)
        after = type(node) is cst.FunctionDef or type(node) is cst.ClassDef
        out.append(node)
    return out


def line(stmt: Stmt, node: cst.CSTNode) -> cst.SimpleStatementLine:
    """A small statement on a line of its own, with the comment that stood behind it."""
    stood = stmt.line
    if stood is not None and len(stood.body) == 1 and stood.body[0] is node and not stood.leading_lines:
        return stood
    small = changed(node, semicolon=cst.MaybeSentinel.DEFAULT) if hasattr(node, "semicolon") else node
    if stmt.line is not None and stmt.trailing is not None:
        return cst.SimpleStatementLine([small], trailing_whitespace=stmt.trailing)  # type: ignore[list-item]
    return cst.SimpleStatementLine([small])  # type: ignore[list-item]
