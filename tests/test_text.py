"""Nodes are written as LibCST writes them."""

from __future__ import annotations

from pathlib import Path

import libcst as cst
import pytest

from torch2ms.analysis.syntax.text import code
from torch2ms.parsing import unasked

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("fixtures", "torch2ms", "tests")

LAYOUTS = '''\
# header
@first
# between
@second(1, *args, key=2, **rest)  # said
# above
async def f[T: int](a, /, b: int = 1, *c, d, e=2, **g,) -> "x":  # of the line
    """Doc."""
    async with a() as b, c: pass
    async for x, *y in z: await x
    else :
        # only a comment follows
        del x [ 1 : 2, :: 3, ...], (y)
        # below
    return
class A: x = 1; y: int = 2;  z: str
class B ( A, metaclass = M ) :
\tdef g(self, *, k): return (yield), (yield from k)
if (a := 1)  if  b  else  not c and -d ** ~e // f @ g: pass
elif a < b <= c != d == e is not f not in g in h is i : a += b ; c //= d
else:
    try:
        raise X from Y
    except (A, B)as e: raise
    except : ...
    finally : nonlocal_ = f"{x!r:>{w}} {y=}" 'z' r"\\0"
from . import (a as b,
               c)  # names
from ..d import *
import e.f as g , h
x = lambda *a, b=1: ( # inside
    [i for i in (1,) if i for j in k], {*s, 1 , }, {'a' : 1, **b}, {m: n for m, n in o}, {p for p in q}, (), [], {}
    # last
)
while 1.5j > .5e3 | a ^ b & c << d >> e % f : global y, z ; break
match x:
    case [1, *_] | {"a": b, **c} if d: assert x, "y"
    case A(b, c=2) as e: pass
type X[**P] = int\
'''


def test_every_file_is_written_as_it_is_read() -> None:
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    assert len(paths) > 500
    for path in paths:
        text = path.read_bytes().decode()
        with unasked():  # whether its own parser's nodes are valid
            tree = cst.parse_module(text)
        assert code(tree, tree) == text, path


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_rare_layouts(newline: str) -> None:
    text = LAYOUTS.replace("\n", newline)
    tree = cst.parse_module(text)
    assert code(tree, tree) == tree.code == text


def test_what_is_left_to_defaults() -> None:
    """Nodes that were not parsed leave commas, brackets and blanks to the writer."""
    a = cst.Name("a")
    nodes: list[cst.CSTNode] = [
        cst.Call(a, [cst.Arg(a), cst.Arg(a, keyword=a), cst.Arg(a, star="*")]),
        cst.Subscript(a, [cst.SubscriptElement(cst.Index(a)), cst.SubscriptElement(cst.Slice(a, a, a))]),
        cst.Tuple([cst.Element(a)]),
        cst.Tuple([cst.Element(a), cst.StarredElement(a)]),
        cst.List([cst.Element(a), cst.Element(a)]),
        cst.Dict([cst.DictElement(a, a), cst.StarredDictElement(a), cst.DictElement(a, a)]),
        cst.Lambda(cst.Parameters([cst.Param(a)], kwonly_params=[cst.Param(a, default=a)]), a),
        cst.Return(a),
        cst.Return(),
        cst.Yield(a),
        cst.AnnAssign(a, cst.Annotation(a), a),
        cst.Import([cst.ImportAlias(a), cst.ImportAlias(a, cst.AsName(a))]),
        cst.ImportFrom(a, [cst.ImportAlias(a), cst.ImportAlias(a)]),
        cst.Name("a", [cst.LeftParen()], [cst.RightParen()]),
        cst.SimpleStatementLine([cst.Expr(a), cst.Pass()]),
        cst.SimpleStatementLine([]),
        cst.ClassDef(a, cst.IndentedBlock([]), [cst.Arg(a), cst.Arg(a)]),
        cst.FunctionDef(a, cst.Parameters([cst.Param(a), cst.Param(a)]), cst.SimpleStatementSuite([cst.Pass()])),
        cst.With([cst.WithItem(a), cst.WithItem(a, cst.AsName(a))], cst.IndentedBlock([])),
    ]  # fmt: skip
    for node in nodes:
        assert code(node) == cst.Module([]).code_for_node(node)


def test_empty_module_and_style() -> None:
    for text in ("", "\n", "x", "if x:\n\ty\n\n"):
        tree = cst.parse_module(text)
        assert code(tree, tree) == text
    inside = cst.If(cst.Name("a"), cst.IndentedBlock([cst.SimpleStatementLine([cst.Pass()])]))
    style = cst.Module([], default_indent="\t", default_newline="\r\n")
    assert code(inside, style) == "if a:\r\n\tpass\r\n"
