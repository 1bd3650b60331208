"""Replaces the imports of torch by those the output needs."""

from __future__ import annotations

import builtins
from collections.abc import Sequence
from collections.abc import Set as AbstractSet

import libcst as cst

from torch2ms.analysis.evaluation.lookup import exports, known_star
from torch2ms.analysis.program.project import SAID
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.mentions import used_names
from torch2ms.analysis.syntax.names import Imports, dotted, is_foreign
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import changed, children, code, constant, source_order
from torch2ms.api import definitions
from torch2ms.api.imports import IMPORTS
from torch2ms.editing import layout
from torch2ms.editing.rewriter import Rewriter

STAYS = {
    "torch": "import torch",
    "torchvision": "import torchvision",
    "torchaudio": "import torchaudio",
    "apex": "import apex",
}
SUITES = ("body", "orelse", "handlers", "finalbody", "cases")
HOLDING = frozenset({  # statements of the same scope
    cst.SimpleStatementLine, cst.SimpleStatementSuite, cst.IndentedBlock, cst.If, cst.Else, cst.For, cst.While,
    cst.With, cst.Try, cst.TryStar, cst.ExceptHandler, cst.ExceptStarHandler, cst.Finally, cst.Match, cst.MatchCase,
})  # fmt: skip
IMPORTING = frozenset({cst.Import, cst.ImportFrom})
ORDER = ("ms", "nn", "ops", "mint", "optim", "lr_scheduler")


def conflicts(scope: Scope, imports: Imports) -> dict[str, str]:
    """Names the output wants that the user has for something else -> the alias to use instead."""
    taken = {n for s in scope.walk() if type(s.node) is not cst.ClassDef for n in s.locals}
    keeps, rebound = kept_names(scope), _rebound(scope)
    found = {}
    for name, statement in IMPORTS.items():
        target = imports.table.get(name, "")
        if name in keeps and is_foreign(target):
            found[name] = f"ms_{name}" if name != "ms" else "mindspore"
        if name not in taken or name in found:
            continue
        bound_by_import = bool(target) and name not in rebound
        if bound_by_import and (is_foreign(target) or _same(target, name, statement)):
            continue
        found[name] = f"ms_{name}" if name != "ms" else "mindspore"
    for name in definitions.table().keys() & taken:
        if not is_foreign(imports.table.get(name, "")) or name in rebound:
            found[name] = f"ms_{name}"
    return found


def kept_names(scope: Scope) -> set[str]:
    """What the statements that stay as they are mean by the imports of the module."""
    found: set[str] = set()
    for inner in scope.walk():
        for stmt in inner.body.walk():
            if stmt.off:
                found |= stmt.defs if isinstance(stmt.node, (cst.Import, cst.ImportFrom)) else used_names(stmt.node)
    return found


def _same(target: str, name: str, statement: str) -> bool:
    if statement.startswith("import "):
        return statement.split()[1] == target
    module = statement.split()[1]
    return target == f"{module}.{name}"


def _rebound(scope: Scope) -> set[str]:
    """The names that something other than an import binds."""
    found: set[str] = set()
    for inner in scope.walk():
        found.update(inner.params)
        for stmt in inner.body.walk():
            if stmt.defs and type(stmt.node) not in (cst.Import, cst.ImportFrom):
                found |= stmt.defs
    return found


def lost(before: cst.Module, after: cst.Module, imports: Imports) -> set[str]:
    """Names of itertools that the program used and the translation does not: chains of parameters became lists."""
    held = {n for n, target in imports.table.items() if target.partition(".")[0] == "itertools"}
    return (held & used_names(before)) - used_names(after) if held else set()


def rewrite(
    tree: cst.Module,
    imports: Imports,
    needs: set[str],
    aliases: dict[str, str],
    keeps: set[str],
    said: AbstractSet[str] | None,
    gone: set[str] | frozenset[str] = frozenset(),
    bound: AbstractSet[str] = frozenset(),
) -> cst.Module:
    """Drop what is imported from torch and no longer used; put the new imports where the first of it stood, and the
    definitions that rules brought behind them, with what `said` names of them."""
    brings = needs & definitions.table().keys()
    if said is not None and definitions.reduces(brings):
        said = said | set(SAID.findall(code(tree, tree)))  # `d.sample_n(3)` became `d.sample((3,))`
    wanted = definitions.closure(brings, said)
    needs = (needs - definitions.table().keys()).union(*(d.imports for d in wanted))
    brought = {n for n in needs if n in IMPORTS} | {d.name for d in wanted}
    used = keeps | used_names(tree) - (brought - aliases.keys()) - _named_again(tree.body, imports)
    transformer = _Imports(used, imports, gone, bound)
    before: Sequence[cst.BaseStatement] = tree.body
    tree = transformer.rewrite(tree)  # type: ignore[assignment]
    if gone:
        before, tree = _without_gone(before, tree)
    if unlisted := transformer.dropped - needs:
        tree = tree.with_changes(body=[_exporting(stmt, unlisted) for stmt in tree.body])
    have = {
        n
        for n, target in imports.table.items()
        if n not in aliases and not is_foreign(target) and n in IMPORTS and _same(target, n, IMPORTS[n])
    }
    stays = {n for n in needs if n in STAYS}
    needs = {n for n in needs if n not in STAYS or n in used}
    have |= {n for n in stays if imports.table.get(n) == n}
    have &= _at_the_top(before)  # a function that imports a name for itself gives it to nobody else
    have -= _too_late(tree.body, have, brought)
    lines = statements(needs - have, aliases)
    if not (lines or wanted or transformer.comments) and transformer.position(list(tree.body)) is None:
        return tree
    body: list[cst.BaseStatement] = list(tree.body)
    new = [layout.parse(line)[0] for line in lines]
    position = transformer.position(body)
    if (new or wanted) and position is None:
        position = _after_header(body)
    anchors = [i for i, s in enumerate(body) if _is_anchor(s)]
    shorter = (i for i, s in enumerate(body) if s is not before[i] and _is_import(before[i]))
    earliest = next(shorter, None)
    if anchors and new and (earliest is None or earliest >= anchors[0]):
        earliest = _above_use(body[: anchors[0]], brought)
    if anchors and new and earliest is not None and earliest < anchors[0]:  # `import torch, io`: the rest of it stays
        body.insert(earliest + 1, cst.SimpleStatementLine([cst.Expr(cst.Name(_ANCHOR))]))
        anchors = [i for i, s in enumerate(body) if _is_anchor(s)]
    if anchors:
        first = position = anchors[0]
        leading = list(body[first].leading_lines)  # type: ignore[attr-defined]
        carried = [line for i in anchors[1:] for line in body[i].leading_lines if line.comment is not None]  # type: ignore[attr-defined]
        kept = [s for i, s in enumerate(body) if i not in anchors]
        if new:
            new[0] = new[0].with_changes(leading_lines=[*leading, *carried])
            body = [*kept[:first], *new, *kept[first:]]
        else:
            body = kept
            comments = [line for line in [*leading, *carried] if line.comment is not None]
            if comments and first < len(body):
                body[first] = body[first].with_changes(leading_lines=[*comments, *body[first].leading_lines])  # type: ignore[attr-defined]
            elif comments:
                tree = tree.with_changes(footer=[*comments, *tree.footer])
    elif new and position is not None:
        if position < len(body) and _is_import(body[position]):  # they stand where it stood
            new[0] = new[0].with_changes(leading_lines=body[position].leading_lines)  # type: ignore[attr-defined]
            body[position] = body[position].with_changes(leading_lines=[])
        elif position < len(body):
            body[position] = _apart(body[position])
        body[position:position] = new
    if wanted:
        _define(body, (position or 0) + len(new), [definitions.text_of(d, aliases) for d in wanted])
    return tree.with_changes(body=body)


def _named_again(body: Sequence[cst.BaseStatement], imports: Imports) -> set[str]:
    """Imported names that nothing mentions before the module binds them anew: `class Dataset(Dataset)`, which lost its
    base, `optim = optim.Adam(...)`, which is another's now."""
    bound = [(stmt, _bound_here(stmt)) for stmt in body]
    if not any(name in imports.table for _, name in bound):
        return set()
    met: set[str] = set()
    found: set[str] = set()
    for stmt, name in bound:
        if name and name not in met and not any(name in used_names(part) for part in _asked_first(stmt)):
            found.add(name)
        met |= used_names(stmt)
    return found


def _bound_here(stmt: cst.BaseStatement) -> str:
    """The name of a class, or of what one assignment binds."""
    if type(stmt) is cst.ClassDef:
        return stmt.name.value
    line = stmt.body[0] if type(stmt) is cst.SimpleStatementLine and len(stmt.body) == 1 else None
    one = type(line) is cst.Assign and len(line.targets) == 1 and type(line.targets[0].target) is cst.Name
    return line.targets[0].target.value if one else ""  # type: ignore[union-attr]


def _asked_first(stmt: cst.BaseStatement) -> list[cst.CSTNode]:
    """What is evaluated before the name of the statement is bound."""
    if type(stmt) is cst.ClassDef:
        made = [line for line in stmt.body.body if type(line) is not cst.FunctionDef]
        return [*stmt.bases, *stmt.keywords, *stmt.decorators, *made]
    return [stmt.body[0].value]  # type: ignore[attr-defined]


def _apart(stmt: cst.BaseStatement) -> cst.BaseStatement:
    """What follows the first imports of a file, with empty lines before it."""
    lines: Sequence[cst.EmptyLine] = stmt.leading_lines  # type: ignore[attr-defined]
    if lines and lines[0].comment is None:
        return stmt
    blank = cst.EmptyLine(indent=False)
    count = 2 if isinstance(stmt, (cst.FunctionDef, cst.ClassDef)) else 1
    return stmt.with_changes(leading_lines=[*[blank] * count, *lines])


def _define(body: list[cst.BaseStatement], position: int, texts: list[str]) -> None:
    """Put definitions behind the imports around `position`, two lines apart from what stands there."""
    while position < len(body) and _is_import(body[position]):
        position += 1
    blank = cst.EmptyLine(indent=False)
    new = [layout.parse(text)[0].with_changes(leading_lines=[blank, blank]) for text in texts]
    if position < len(body):
        lines = list(body[position].leading_lines)  # type: ignore[attr-defined]
        while lines and lines[0].comment is None:
            lines.pop(0)
        body[position] = body[position].with_changes(leading_lines=[blank, blank, *lines])
    body[position:position] = new


def _is_import(stmt: cst.CSTNode) -> bool:
    return type(stmt) is cst.SimpleStatementLine and IMPORTING.issuperset(map(type, stmt.body))


def statements(needs: set[str], aliases: dict[str, str]) -> list[str]:
    """Import lines in a fixed order; names of one module share a line."""
    grouped: dict[str, list[str]] = {}
    plain: list[str] = []
    ordered = [n for n in ORDER if n in needs] + sorted(needs - set(ORDER))
    for name in ordered:
        line = STAYS.get(name) or IMPORTS.get(name) or f"import {name}"  # a library of torch, for what stays of it
        alias = aliases.get(name)
        if line.startswith("import "):
            text = (
                line
                if not alias
                else (f"import {line.split()[1]}" + (f" as {alias}" if alias != line.split()[1] else ""))
            )
            plain.append(text)
        else:
            module = line.split()[1]
            grouped.setdefault(module, []).append(f"{name} as {alias}" if alias else name)
    lines = [f"from {module} import {', '.join(names)}" for module, names in grouped.items()]
    standard = [ln for ln in [*plain, *lines] if not ln.split()[1].startswith("mindspore")]
    return standard + [ln for ln in [*plain, *lines] if ln.split()[1].startswith("mindspore")]


def _after_header(body: list[cst.BaseStatement]) -> int:
    position = 0
    for i, stmt in enumerate(body):
        if not isinstance(stmt, cst.SimpleStatementLine):
            break
        small = stmt.body[0]
        docstring = i == 0 and is_docstring(small)
        taken = small if isinstance(small, cst.ImportFrom) else None
        future = taken is not None and taken.module is not None and dotted(taken.module) == "__future__"
        star = taken is not None and isinstance(taken.names, cst.ImportStar)  # must not bind our names anew
        if docstring or future or star:
            position = i + 1
        elif not _is_import(stmt):
            break
    return position


_ANCHOR = "__torch2ms_anchor__"
_GONE = "__torch2ms_gone__"  # where an import stood that was not torch's, and is not needed any more


def _is_anchor(stmt: cst.CSTNode, name: str = _ANCHOR) -> bool:
    return (
        type(stmt) is cst.SimpleStatementLine and len(stmt.body) == 1 and type(stmt.body[0]) is cst.Expr
        and type(stmt.body[0].value) is cst.Name and stmt.body[0].value.value == name
    )  # fmt: skip


def _without_gone(before: Sequence[cst.BaseStatement], tree: cst.Module) -> tuple[list[cst.BaseStatement], cst.Module]:
    """The statements of a module and what became of them, without the places of imports that are gone."""
    kept: list[cst.BaseStatement] = []
    source: list[cst.BaseStatement] = []
    lines: Sequence[cst.EmptyLine] | None = None
    for was, now in zip(before, tree.body, strict=True):
        if _is_anchor(now, _GONE):
            lines = now.leading_lines if lines is None else lines
            continue
        if lines is not None:
            own = now.leading_lines
            now = now.with_changes(leading_lines=[*lines, *layout.comments_only(own)] if _is_import(was) else own)
            lines = None
        kept.append(now)
        source.append(was)
    return source, tree.with_changes(body=kept)


class _Imports(Rewriter):
    """Shortens import statements; a module-level one that becomes empty leaves an anchor."""

    def __init__(
        self, used: set[str], imports: Imports, gone: set[str] | frozenset[str], bound: AbstractSet[str]
    ) -> None:
        self.used = used
        self.bound = bound  # by the module and its functions
        self.gone = gone
        self.imports = imports
        self.comments: list[cst.EmptyLine] = []
        self.dropped: set[str] = set()  # local names

    @classmethod
    def fields(cls, kind: type) -> tuple[str, ...]:
        """Statements alone: no import stands in an expression."""
        return tuple(n for n in source_order(kind) if n in SUITES) if kind is not cst.SimpleStatementLine else ()

    def position(self, body: list[cst.BaseStatement]) -> int | None:
        return next((i for i, s in enumerate(body) if _is_anchor(s)), None)

    def leave_IndentedBlock(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.BaseSuite:
        if updated is original:
            return updated
        body, pending = [], []
        for stmt in updated.body:
            if _is_anchor(stmt) or _is_anchor(stmt, _GONE):
                pending += [line for line in stmt.leading_lines if line.comment is not None]  # type: ignore[attr-defined]
                continue
            if pending:
                stmt = stmt.with_changes(leading_lines=[*pending, *stmt.leading_lines])  # type: ignore[attr-defined]
                pending = []
            body.append(stmt)
        if len(body) == len(updated.body):
            return updated
        if not body:
            body = [cst.SimpleStatementLine([cst.Pass()], leading_lines=pending)]
            pending = []
        return updated.with_changes(body=body, footer=[*pending, *updated.footer])

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.BaseStatement:
        if IMPORTING.isdisjoint(map(type, original.body)):
            return updated
        kept: list[cst.BaseSmallStatement] = []
        gone = False
        for small in updated.body:
            new = self.shorten(small) if type(small) is cst.Import or type(small) is cst.ImportFrom else small
            gone = gone or new is None
            if new is not None:
                kept.append(new)
        if not gone:
            return (
                updated
                if all(a is b for a, b in zip(kept, updated.body, strict=True))
                else updated.with_changes(body=kept)
            )
        if kept:
            kept[-1] = kept[-1].with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
            return updated.with_changes(body=kept)
        comments = [*updated.leading_lines, *layout.trailing_comment(updated.trailing_whitespace)]
        inner = [line for small in original.body for line in layout.inner_comments(small)]
        self.comments += comments
        torch = any(self.foreign(s) for s in original.body)
        name = cst.Name(_ANCHOR if torch else _GONE)
        return cst.SimpleStatementLine([cst.Expr(name)], leading_lines=[*comments, *inner])

    def foreign(self, node: cst.BaseSmallStatement) -> bool:
        """An import of torch's, or of something that goes with it."""
        if type(node) is cst.ImportFrom:
            return not node.relative and is_foreign(self.imports.source(node))
        return isinstance(node, cst.Import) and any(is_foreign(dotted(a.name)) for a in node.names)

    def shorten(self, node: cst.Import | cst.ImportFrom) -> cst.BaseSmallStatement | None:
        if self.gone and not isinstance(node.names, cst.ImportStar):
            kept = [a for a in node.names if _local(a) not in self.gone]
            if not kept:
                return None
            if len(kept) < len(node.names):
                kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
                node = node.with_changes(names=kept)
        if isinstance(node, cst.ImportFrom):
            if not is_foreign(self.imports.source(node)) or node.relative:
                return node
            if isinstance(node.names, cst.ImportStar):  # its names became others; of other libraries they stay
                return self.star(node)
            return self.names(node, list(node.names))
        if not any(is_foreign(dotted(a.name)) for a in node.names):
            return node
        return self.names(node, list(node.names))

    def star(self, node: cst.ImportFrom) -> cst.ImportFrom | None:
        """`from torch.nn import *` stays where names are left that nothing else may bring."""
        source = self.imports.source(node)
        if not known_star(source):
            return node
        alone = all(known_star(star) for star in self.imports.stars)
        left = {name for name in self.used - self.bound if not hasattr(builtins, name)} if alone else set()
        brought = {name for name in left if any(exports(star, name) for star in self.imports.stars)}
        return node if left - brought or any(exports(source, name) for name in brought) else None

    def names(self, node: cst.Import | cst.ImportFrom, aliases: list[cst.ImportAlias]) -> cst.BaseSmallStatement | None:
        kept = []
        for alias in aliases:
            local = _local(alias)
            foreign = type(node) is cst.ImportFrom or is_foreign(dotted(alias.name))
            if not foreign or local in self.used:
                kept.append(alias)
            else:
                self.dropped.add(local)
        if len(kept) == len(aliases):
            return node
        if not kept:
            return None
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return node.with_changes(names=kept)


def _exporting(stmt: cst.BaseStatement, unlisted: set[str]) -> cst.BaseStatement:
    """`__all__ = [...]` without the names of torch that the module has no more."""
    small = stmt.body[0] if type(stmt) is cst.SimpleStatementLine and len(stmt.body) == 1 else None
    if not isinstance(small, (cst.Assign, cst.AnnAssign, cst.AugAssign)):
        return stmt
    target = small.targets[0].target if isinstance(small, cst.Assign) else small.target
    listed = small.value
    if dotted(target) != "__all__" or not isinstance(listed, (cst.List, cst.Tuple)):
        return stmt
    gone = [element for element in listed.elements if constant(element.value) in unlisted]
    if not gone or any("#" in code(element) for element in gone):
        return stmt
    kept = [element for element in listed.elements if element not in gone]
    comma = listed.elements[-1].comma
    if kept and "#" in code(kept[-1]):  # behind it; what follows is on a line of its own
        last = kept[-1].comma
        assert isinstance(last, cst.Comma) and isinstance(last.whitespace_after, cst.ParenthesizedWhitespace)
        after = last.whitespace_after.with_changes(indent=False, last_line=cst.SimpleWhitespace(""))
        comma = last.with_changes(whitespace_after=after)
        if isinstance(listed, cst.List):
            bare = listed.rbracket.with_changes(whitespace_before=cst.SimpleWhitespace(""))
            listed = listed.with_changes(rbracket=bare)
    elif isinstance(listed, cst.Tuple) and len(kept) == 1:
        comma = cst.Comma()
    if kept:
        kept[-1] = kept[-1].with_changes(comma=comma)
    return changed(stmt, body=[small.with_changes(value=listed.with_changes(elements=kept))])


def _at_the_top(body: Sequence[cst.CSTNode]) -> set[str]:
    """The names that the imports of a module bind outside of its functions and classes."""
    found: set[str] = set()
    stack: list[cst.CSTNode] = list(body)
    while stack:
        node = stack.pop()
        if (type(node) is cst.Import or type(node) is cst.ImportFrom) and not isinstance(node.names, cst.ImportStar):
            names = [alias.asname.name if alias.asname is not None else alias.name for alias in node.names]
            found |= {dotted(name).partition(".")[0] for name in names}
        elif type(node) in HOLDING:
            stack += children(node)
    return found


def _too_late(body: Sequence[cst.BaseStatement], have: set[str], brought: set[str]) -> set[str]:
    """Names that the module imports behind the first statement that needs them, or a definition that was brought."""
    late: set[str] = set()
    working = False
    for place, stmt in enumerate(body):
        if type(stmt) is cst.FunctionDef or type(stmt) is cst.ClassDef:
            continue
        if not _is_import(stmt):
            working = True
        elif working and (found := _at_the_top([stmt]) & have):
            above = (s for s in body[:place] if not _is_import(s) and type(s) not in (cst.FunctionDef, cst.ClassDef))
            if any(used_names(s) & brought for s in above):
                late |= found
    return late


def _above_use(body: Sequence[cst.BaseStatement], brought: set[str]) -> int | None:
    """The last import above the first statement that needs one of the names: `import torch` stays, and stood there."""
    needing = next((i for i, s in enumerate(body) if not _is_import(s) and used_names(s) & brought), 0)
    return next((i for i in range(needing - 1, -1, -1) if _is_import(body[i])), None)


def _local(alias: cst.ImportAlias) -> str:
    """The name that an import binds."""
    return dotted(alias.asname.name) if alias.asname is not None else dotted(alias.name).split(".", 1)[0]
