"""Context managers that do a part of a training step: `with stepping(optimizer): loss.backward()`.

What stands before the `yield` and behind it is written around the block, and the block is a part of a training step
like any other. Only generators with one `yield`, which runs once whatever the arguments are, can be written out so; and
only around blocks that end where they end: a `return` would leave out what stands behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.project import FunctionInfo, Plain, Project
from torch2ms.analysis.program.sites import Site, calls_of, overriding
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import children, descend
from torch2ms.analysis.values import overlaps
from torch2ms.editing import layout
from torch2ms.editing.suites import Made
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import arguments, names_hold, receiver
from torch2ms.inlining.expand import Inliner
from torch2ms.inlining.handed_on import mentioned
from torch2ms.tape.ledger.events import find

MANAGER = "contextmanager"
INNER = (cst.FunctionDef, cst.ClassDef, cst.Lambda)
NEVER = (*INNER, cst.Return, cst.Global, cst.Nonlocal, cst.NamedExpr, cst.Await, cst.Import, cst.ImportFrom)
AROUND = (cst.IndentedBlock, cst.SimpleStatementLine, cst.Expr, cst.With, cst.Try)  # the yield may stand in these


def managed(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such blocks, or such context managers, by name."""
    if not any(module.has(MANAGER) for module in project.modules.values()):
        return {}
    found: dict[int, Candidate] = {}
    for info, sites in calls_of(project, project.modules.values()).values():
        if info.module.has(MANAGER) and (made := _candidate(info, sites)) is not None:
            made.goes = mentioned(made, project) == len(sites)
            made.shared = len(project.modules) > 1
            found |= {id(site.call): made for site in sites}
    names = {site.module.name for made in found.values() for site in made.sites}
    names |= {made.info.module.name for made in found.values()}
    return {name: Around(project.modules[name], found).plain() for name in sorted(names)}


def _candidate(info: FunctionInfo, sites: list[Site]) -> Candidate | None:
    """The function, if it is a context manager that does so, and all its calls are headers of blocks."""
    node = info.scope.node
    if not isinstance(node, cst.FunctionDef) or not isinstance(node.body, cst.IndentedBlock) or info.scope.off:
        return None
    if [dotted(d.decorator).rpartition(".")[2] for d in node.decorators] != [MANAGER] or node.asynchronous:
        return None
    events = [] if node.params.star_kwarg is not None or overriding(info) else find(info.scope, info.module)
    if not events or info.module.uses_mindspore or not _yields_once(node.body):
        return None
    body = [line for line in node.body.body if not (_small(line) and is_docstring(_small(line)))]
    made = Candidate(info, [*body, cst.parse_statement("return None")], sites, events[0].lineno)
    return made if all(_fits(made, site) for site in sites) else None


def _small(line: cst.CSTNode) -> cst.CSTNode | None:
    return line.body[0] if type(line) is cst.SimpleStatementLine and len(line.body) == 1 else None


def _yields_once(body: cst.IndentedBlock) -> bool:
    """There is one `yield`, a statement of its own, and the body comes to it whatever happens."""
    nodes = list(descend(body))
    if any(isinstance(n, NEVER) for n in nodes) or sum(type(n) is cst.Yield for n in nodes) != 1:
        return False
    inner: cst.CSTNode = body
    while type(inner) is not cst.Yield:
        if not isinstance(inner, AROUND) or type(inner) is cst.Try and (inner.handlers or inner.orelse is not None):
            return False
        parts = [inner.body] if isinstance(inner, (cst.With, cst.Try)) else children(inner)
        leading = [part for part in parts if any(type(n) is cst.Yield for n in descend(part))]
        if not leading:
            return False
        inner = leading[0]
    return True


def _fits(made: Candidate, site: Site) -> bool:
    """The call is the header of a block, around which the body can be written."""
    node, off = site.stmt.node, site.module.directives.off
    if type(node) is not cst.With or node.asynchronous is not None or type(node.body) is not cst.IndentedBlock:
        return False
    around = site.module.top_level(site.stmt)
    if site.module.uses_mindspore or any(around.lineno <= line <= around.end_lineno for line in off):
        return False
    item = next((i for i in node.items if i.item is site.call), None)
    if item is None or item.asname is not None and not (_given(made) and type(item.asname.name) is cst.Name):
        return False
    bound = arguments(made, site.call)
    if bound is None or made.at(bound) is None or not names_hold(made, site.module, site.scope):
        return False
    if any(_ends_early(n) for n in node.body.body) or _rebinds(site, [*bound.values()]):
        return False
    if made.info.cls is not None and not made.info.static:
        called = receiver(made, site.call)
        if called is None or not dotted(called):
            return False
    return type(site.scope.node) is not cst.ClassDef and site.scope is not made.info.scope


def _rebinds(site: Site, given: list[cst.BaseExpression]) -> bool:
    """The block gives a name that is handed to the manager another value: the end of it means the former one."""
    bound = {d for block in site.stmt.blocks for s in block.walk() for d in s.defs}
    return any(overlaps(d, u) for value in given for u in expression_uses(value, site.stmt) for d in bound)


def _given(made: Candidate) -> cst.BaseExpression | None:
    """What the `yield` gives the block."""
    return next((n.value for line in made.body for n in descend(line) if type(n) is cst.Yield), None)  # type: ignore[return-value]


def _ends_early(node: cst.CSTNode, looped: bool = False) -> bool:
    """A statement leaves the block before its end, other than by an exception."""
    if isinstance(node, INNER):
        return False
    if type(node) is cst.Return or not looped and type(node) in (cst.Break, cst.Continue):
        return True
    if isinstance(node, (cst.For, cst.While)):
        parts = [(node.body, True), (node.orelse, looped)]
        return any(part is not None and _ends_early(part, inside) for part, inside in parts)
    return any(_ends_early(child, looped) for child in children(node))


class Around(Inliner):
    """One module with the statements around the blocks."""

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        return updated  # a header, which is written out with its block

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        items = original.items if isinstance(original, cst.With) else ()
        at = next((n for n, item in enumerate(items) if id(item.item) in self.found), None)
        if at is None:
            return super().compound(original, updated)
        assert isinstance(original, cst.With) and isinstance(updated, cst.With)
        call = original.items[at].item
        assert isinstance(call, cst.Call)
        made, scope = self.found[id(call)], self.scopes[id(call)]
        bound = arguments(made, call)
        assert bound is not None
        inside, after = updated.items[at].asname, original.items[at + 1 :]
        block: list[cst.BaseStatement] = list(updated.body.body)  # type: ignore[arg-type]
        block = [self.headed(updated, after, block)] if after else block
        statements, _ = self.written(made, bound, scope)
        lines = list(_put(statements[:-1], block, inside))
        if before := original.items[:at]:
            lines = [self.headed(updated, before, lines)]
        for node in flow.in_order(lines):
            self.number(node, original)
        comments = layout.comments_only((*layout.with_comments(original), *layout.leading(lines[0])))
        lines[0] = self.renumbered(lines[0], leading_lines=[*updated.leading_lines, *comments])
        return lines, layout.comments_only(updated.body.footer) if isinstance(updated.body, cst.IndentedBlock) else ()

    def headed(self, node: cst.With, items: Sequence[cst.WithItem], block: list[cst.BaseStatement]) -> cst.With:
        """The block under some of the items of a header."""
        own = [*items[:-1], items[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)]
        bare = {"lpar": cst.MaybeSentinel.DEFAULT, "rpar": cst.MaybeSentinel.DEFAULT}
        return node.with_changes(items=own, body=cst.IndentedBlock(block), leading_lines=(), **bare)


def _put(
    lines: Sequence[cst.CSTNode], block: list[cst.BaseStatement], name: cst.AsName | None
) -> Iterator[cst.BaseStatement]:
    """The statements with a block in the place of the `yield`."""
    for line in lines:
        small = _small(line)
        if isinstance(small, cst.Expr) and isinstance(small.value, cst.Yield):
            yield from _given_to(block, small.value.value, name, layout.inner_comments(line))
        elif isinstance(line, (cst.With, cst.Try)) and any(type(n) is cst.Yield for n in descend(line.body)):
            yield line.with_changes(body=line.body.with_changes(body=[*_put(line.body.body, block, name)]))
        else:
            assert isinstance(line, cst.BaseStatement)
            yield line


def _given_to(
    block: list[cst.BaseStatement], given: cst.CSTNode | None, name: cst.AsName | None, comments: layout.Lines
) -> list[cst.BaseStatement]:
    """The block, with what the `yield` gives it under its name, below what is said of the `yield`."""
    if name is not None and isinstance(given, cst.BaseExpression):
        assert isinstance(name.name, cst.Name)
        bound = cst.Assign([cst.AssignTarget(cst.Name(name.name.value))], given)
        return [cst.SimpleStatementLine([bound], leading_lines=comments), *block]
    return [layout.led(block[0], comments), *block[1:]] if comments else block
