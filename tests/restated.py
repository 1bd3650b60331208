"""Fixtures rewritten so that they mean the same, translated, and run on both sides.

    python -m tests.restated temps [PATTERN]    nested calls into variables `tmp`, `tmp1`, used again and again
    python -m tests.restated inmain [PATTERN]   everything but the imports in a function `main`
    python -m tests.restated walrus [PATTERN]   `x = f(y)` goes into the next statement, where that begins with `x`
    python -m tests.restated tried [PATTERN]    bodies of loops in `try` and `finally`
    python -m tests.restated once [PATTERN]     loops in loops of one turn

Prints what is refused, and what is translated and differs or does not run: a decision that hangs on a name, most often.
It takes minutes; the test suite does not run it.
"""

from __future__ import annotations

import ast
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import count
from pathlib import Path

from tests.fixture_cases import all_cases
from torch2ms import Tier
from torch2ms.config import Config
from torch2ms.pipeline import convert_project
from torch2ms.verify.runner import Case
from torch2ms.verify.sides.warm import verify_many

CONDITIONAL = (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.BoolOp,
               ast.Compare, ast.NamedExpr, ast.Await, ast.JoinedStr, ast.Yield, ast.YieldFrom, ast.Starred)  # fmt: skip
KEPT = ("super", "range", "zip", "enumerate", "len", "list", "dict", "iter")  # read where they stand
ENDINGS = ("parameters", "state_dict", "__init__", "no_grad", "children", "modules")


class Stop(Exception):
    """What comes next may not be evaluated, or more than once."""


def first_call(node: ast.AST, root: ast.AST) -> ast.Call | None:
    """The call below `root` that is finished first."""
    if isinstance(node, CONDITIONAL):
        raise Stop
    for child in ast.iter_child_nodes(node):
        if (found := first_call(child, root)) is not None:
            return found
    if not isinstance(node, ast.Call) or node is root:
        return None
    name = ast.unparse(node.func)
    return None if name.split(".")[0] in KEPT or name.endswith(ENDINGS) else node


class Swapped(ast.NodeTransformer):
    """A name in the place of an expression."""

    def __init__(self, target: ast.AST, name: str) -> None:
        self.target, self.name = target, name

    def visit(self, node: ast.AST) -> ast.AST:
        return ast.Name(self.name, ast.Load()) if node is self.target else self.generic_visit(node)


def names(node: ast.AST) -> Counter[str]:
    return Counter(n.id for n in ast.walk(node) if isinstance(n, ast.Name))


def spread(stmt: ast.stmt) -> list[ast.stmt]:
    """The statement, behind assignments of its calls."""
    above: list[ast.stmt] = []
    while isinstance(stmt, (ast.Assign, ast.Expr, ast.Return)) and stmt.value is not None:
        try:
            call = first_call(stmt.value, stmt.value)
        except Stop:
            break
        if call is None:
            break
        left = names(stmt)
        left.subtract(names(call))
        name = next(n for i in count() if left[n := f"tmp{i or ''}"] <= 0)
        above.append(ast.Assign([ast.Name(name, ast.Store())], call, lineno=0))
        stmt.value = Swapped(call, name).visit(stmt.value)
    return [*above, stmt]


def temps(tree: ast.Module) -> ast.Module:
    """Nested calls get the same few names."""

    def block(body: list[ast.stmt], spreads: bool = True) -> list[ast.stmt]:
        for stmt in body:
            inside = not isinstance(stmt, ast.ClassDef)
            for holder in (stmt, *getattr(stmt, "handlers", ())):
                for field in ("body", "orelse", "finalbody"):
                    if isinstance(held := getattr(holder, field, None), list):
                        setattr(holder, field, block(held, inside))
        return [new for stmt in body for new in spread(stmt)] if spreads else body

    tree.body = block(tree.body)
    return tree


def inmain(tree: ast.Module) -> ast.Module:
    """A program in a function."""
    if any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in ast.walk(tree)):
        return tree
    head = [s for s in tree.body if isinstance(s, (ast.Import, ast.ImportFrom)) or isinstance(s, ast.Expr)
            and isinstance(s.value, ast.Constant)]  # fmt: skip
    made = ast.parse("def main():\n    global RESULT\nmain()\n").body
    assert isinstance(made[0], ast.FunctionDef)
    made[0].body += [s for s in tree.body if s not in head]
    tree.body = [*head, *made]
    return tree


def blocks(tree: ast.Module, change: Callable[[list[ast.stmt]], list[ast.stmt]]) -> ast.Module:
    """Every block of statements changed, those inside of others first; bodies of classes stay."""
    for node in reversed(list(ast.walk(tree))):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(held := getattr(node, field, None), list) and not isinstance(node, ast.ClassDef):
                setattr(node, field, change(held))
    return tree


def first_name(node: ast.AST, name: str) -> ast.Name | None:
    """Where an expression reads the name before it calls anything."""
    if isinstance(node, CONDITIONAL):
        raise Stop
    for child in ast.iter_child_nodes(node):
        if (found := first_name(child, name)) is not None:
            return found
    if isinstance(node, (ast.Call, ast.Subscript)):
        raise Stop
    return node if isinstance(node, ast.Name) and node.id == name else None


def walrus(tree: ast.Module) -> ast.Module:
    """Assignments within the statement behind them."""

    def change(body: list[ast.stmt]) -> list[ast.stmt]:
        kept: list[ast.stmt] = []
        for i, stmt in enumerate(body):
            after = body[i + 1] if i + 1 < len(body) else None
            target = stmt.targets[0] if isinstance(stmt, ast.Assign) else None
            if isinstance(target, ast.Name) and isinstance(after, (ast.Assign, ast.Expr, ast.Return)) and after.value:
                try:
                    read = first_name(after.value, target.id)
                except Stop:
                    read = None
                if read is not None and read is not after.value and len(stmt.targets) == 1:  # type: ignore[union-attr]
                    read.id = f"({target.id} := {ast.unparse(stmt.value)})"  # type: ignore[union-attr]
                    continue
            kept.append(stmt)
        return kept

    return blocks(tree, change)


def tried(tree: ast.Module) -> ast.Module:
    """Loops whose turns end in `finally`."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.For, ast.While)):
            node.body = [ast.Try(node.body, [], [], ast.parse("str()").body)]
    return tree


def once(tree: ast.Module) -> ast.Module:
    """Loops around loops."""
    around = "for once in range(1): pass"

    def change(body: list[ast.stmt]) -> list[ast.stmt]:
        made = []
        for stmt in body:
            if isinstance(stmt, (ast.For, ast.While)):
                outer = ast.parse(around).body[0]
                assert isinstance(outer, ast.For)
                outer.body, stmt = [stmt], outer
            made.append(stmt)
        return made

    return blocks(tree, change)


FAMILIES: dict[str, Callable[[ast.Module], ast.Module]] = {
    "temps": temps, "inmain": inmain, "walrus": walrus, "tried": tried, "once": once,
}  # fmt: skip


def main() -> int:
    """Rewrite, translate, run; 1 where something translated is wrong."""
    family, pattern = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else ""
    cases: dict[str, Case] = {}
    with tempfile.TemporaryDirectory(prefix="torch2ms-restated-") as folder:
        for case in all_cases():
            if case.refused or pattern not in case.name or case.main.name != "original.py":
                continue
            source = case.main.read_text(encoding="utf-8")
            text = ast.unparse(ast.fix_missing_locations(FAMILIES[family](ast.parse(source)))) + "\n"
            result = convert_project({"main.py": text}, Config())["main.py"]
            refused = [f"{f.what}: {f.why}" for f in result.findings if f.tier is Tier.REFUSED]
            if result.error or refused:
                print(f"not translated: {case.name}: {result.error or refused[0]}", flush=True)
                continue
            sides = [Path(folder) / f"{len(cases)}_{side}" / "main.py" for side in ("torch", "mindspore")]
            for path, written in zip(sides, (text, result.text), strict=True):
                path.parent.mkdir()
                path.write_text(written, encoding="utf-8")
            cases[case.name] = Case(sides[0], sides[1], explain=False)
        reports = verify_many(list(cases.values()), workers=2)
    wrong = {name: r for name, r in zip(cases, reports, strict=True) if not r.agrees}
    for name, report in wrong.items():
        print(f"{report.verdict}: {name}: {report.reason[:200] or [p.what for p in report.problems][:4]}")
    print(f"{len(cases)} translated, {len(wrong)} of them wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
