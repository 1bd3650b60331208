"""Writes the bodies of functions where they are called."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import cast

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, method_called, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import GRAD, arguments, branches, runs_once, simple
from torch2ms.inlining.folding import Substituted, folded, truth
from torch2ms.inlining.meanings import missing, translated_names
from torch2ms.inlining.unread import without_unread

WHOLE = (cst.Name, cst.Call, cst.Subscript, cst.Attribute, cst.Dict, cst.List)  # they need no parentheses anywhere
TAPE = {"grad", "backward", "zero_grad", "step", "detach", "detach_", "requires_grad_", "no_grad", "enable_grad",
        "retain_grad"}  # fmt: skip


class Inliner(Suites):
    """One module with the bodies in place of the calls."""

    def __init__(self, module: ModuleInfo, found: dict[int, Candidate]) -> None:
        super().__init__(module)
        if module.plain is not None:
            self.numbers = {id(n): line for n, line in zip(flow.in_order(module.tree.body), module.plain.lines,
                                                           strict=False)}  # fmt: skip
        self.found = found
        self.findings: list[Finding] = []
        self.going = {id(c.node): c for c in found.values() if c.goes}
        self.undeclared = {id(info.scope.node) for c in self.going.values() for info in c.declared}
        self.gone = {c.info.name for c in self.going.values() if c.info.cls is None}
        self.above: list[cst.BaseStatement] = []  # what the statement at hand needs above it
        self.said: list[cst.EmptyLine] = []  # comments above the results that take the places of calls
        sites = [s for c in found.values() for s in c.sites if s.module is module]
        self.scopes = {id(s.call): s.scope for s in sites}
        self.once = {id(s.call) for s in sites if runs_once(s)}
        self.taken: dict[int, set[str]] = {}
        self.brought: set[str] = set()  # names that an import brings now
        self.targets: list[str] = []  # the names that the statement at hand binds to a call, and to nothing else
        self.direct: cst.BaseExpression | None = None
        self.unused: cst.BaseExpression | None = None  # a call that is the whole statement

    def statement(self, stmt: cst.CSTNode) -> Made:
        if type(stmt) is cst.FunctionDef and (gone := self.going.get(id(stmt))) is not None:
            what, why = "function that differentiates", "its calls are gradient calls, planned where they stand"
            tier = Tier.ASSUMED if gone.known_outside else Tier.EXACT
            if gone.known_outside:
                why = f"{why}; assumed: no file beside the converted ones calls `{gone.info.name}`, which is gone"
            inside = {self.numbers[id(node)][0] for node in flow.in_order([stmt]) if touches_tape(node)}
            for line in sorted({gone.line} | inside):
                self.findings.append(Finding("T2M203", tier, what, why, line=line))
            blank = [line for line in stmt.leading_lines[:1] if line.comment is None]
            along = _along(gone)
            inner = [c for c in layout.inner_comments(stmt) if c.comment is not None and c.comment.value not in along]
            return [], (*blank, *inner)
        if isinstance(stmt, cst.FunctionDef) and id(stmt) in self.undeclared:
            return [], layout.inner_comments(stmt)
        if isinstance(stmt, cst.SimpleStatementLine) and (chosen := self.split(stmt)) is not None:
            return super().statement(chosen)
        return super().statement(stmt)

    def split(self, stmt: cst.SimpleStatementLine) -> cst.If | None:
        """`x = a if test else b`, with a body to write out in a branch, as the `if` statement that it is."""
        node = stmt.body[0]
        value = node.value if len(stmt.body) == 1 and (type(node) is cst.Assign or type(node) is cst.Return) else None
        if type(value) is not cst.IfExp or not any(
            id(n) in self.found and branches(node, n) for n in descend(value) if type(n) is cst.Call
        ):
            return None
        sides = []
        for side in (value.body, value.orelse):
            small = node.with_changes(value=side)
            self.number(small, node)
            sides.append(cst.IndentedBlock([cst.SimpleStatementLine([small])]))
        made = cst.If(value.test, sides[0], cst.Else(sides[1]), leading_lines=stmt.leading_lines)
        self.number(made, node)
        return made

    def simple(self, stmt: cst.SimpleStatementLine) -> Made:
        outer, self.above, self.said = self.above, [], []
        made, waiting = super().simple(stmt)
        above, self.above = self.above, outer
        if not above:
            if made and self.said:
                made = [self.renumbered(made[0], leading_lines=[*layout.leading(made[0]), *self.said]), *made[1:]]
            return made, waiting
        if not made:
            inner = [line for small in stmt.body for line in layout.inner_comments(small)]
            waiting = (*self.said, *inner, *layout.trailing_comment(stmt.trailing_whitespace))
        for node in above:
            for each in flow.in_order([node]):
                self.number(each, stmt.body[0])
        lines = [*above, *made]
        if made:
            lines[-1] = self.renumbered(made[-1], leading_lines=self.said)
        own = layout.comments_only(layout.leading(lines[0]))
        lines[0] = self.renumbered(lines[0], leading_lines=[*stmt.leading_lines, *own])
        return lines, waiting

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if type(node) is cst.ImportFrom and type(node.names) is not cst.ImportStar:
            node = self.extended(node)
            assert not isinstance(node.names, cst.ImportStar)
            names = [a for a in node.names if not (isinstance(a.name, cst.Name) and a.name.value in self.gone)]
            if len(names) < len(node.names):
                last = names[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT) if names else None
                return [node.with_changes(names=[*names[:-1], last])] if last is not None else []
        value = node.value if type(node) is cst.Assign or type(node) is cst.Return else None
        self.direct = value
        self.unused = node.value if type(node) is cst.Expr else None
        self.targets = _names_of(node.targets[0].target) if type(node) is cst.Assign and len(node.targets) == 1 else []
        updated = self.rewrite(node)
        if type(updated) is cst.Expr and type(node) is cst.Expr and id(node.value) in self.found:
            return [] if simple(updated.value) else [updated]
        if type(updated) is cst.Assign and self.above and len(updated.targets) == 1 and updated is not node:
            return _needed(updated, self.targets)
        return [updated]

    def extended(self, node: cst.ImportFrom) -> cst.ImportFrom:
        """An import that brings along what bodies name of the same module."""
        assert not isinstance(node.names, cst.ImportStar)
        table = self.module.imports.table
        said = {table.get(dotted(a.asname.name) if a.asname is not None else dotted(a.name), "") for a in node.names}
        homes = {target.rpartition(".")[0] for target in said}
        names = {
            name for made in {id(m): m for m in self.found.values()}.values() for name in missing(made, self.module)
            if made.info.module.name in homes and any(s.module is self.module for s in made.sites)
        } - self.brought  # fmt: skip
        if not names:
            return node
        self.brought |= names
        last = node.names[-1].with_changes(comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
        added = [cst.ImportAlias(cst.Name(name)) for name in sorted(names)]
        made_up = node.with_changes(names=[*node.names[:-1], last, *added])
        self.number(made_up, node)
        return made_up

    def passed(
        self, made: Candidate, bound: dict[str, cst.BaseExpression], taken: set[str], direct: Mapping[str, str]
    ) -> tuple[dict[str, cst.BaseExpression], list[cst.BaseStatement]]:
        """What stands for each name of the body that means something outside, and the statements that bind some.

        `direct`: the names that variables of the body have where it is written out.
        """
        texts: dict[str, cst.BaseExpression] = {
            name: cst.parse_expression(other) for name, other in translated_names(made, self.module).items()
        }
        above: list[cst.BaseStatement] = []
        for name, value in bound.items():
            if (simple(value) or _names_alone(value)) and name not in made.rebound and not made.changes(value):
                texts[name] = value
            elif made.mentions(name, bound) == 1 and name not in made.rebound and _of_names(value):
                texts[name] = value if value.lpar else _in_parentheses(value)
            else:
                own = direct.get(name) or _fresh(name, taken)
                above.append(_assigned(own, value))
                texts[name] = cst.Name(own)
        return texts, above

    def written(
        self, made: Candidate, bound: dict[str, cst.BaseExpression], scope: Scope, targets: Sequence[str] = ()
    ) -> tuple[list[cst.BaseStatement], set[str]]:
        """The statements of a body as they run with these arguments in a scope, and what its own variables are there.

        `targets`: the names that what it returns is bound to, which variables of its own may have from the start.
        """
        around = _names(scope) if scope.is_function else self.module.scope.locals
        taken = self.taken.setdefault(id(scope), around | self.module.scope.locals | self.module.imports.table.keys())
        lines = made.at(bound)
        assert lines is not None
        locals_ = sorted(made.info.scope.locals - set(bound))
        others = set().union(*map(_mentioned, lines)) - {*locals_, *bound}  # of the scopes around the function
        own = [*locals_, *sorted(made.rebound)]
        direct = _direct(lines, targets, own, others.union(*map(_mentioned, bound.values())))
        texts, above = self.passed(made, bound, taken, direct)
        texts |= {name: cst.Name(direct.get(name) or _fresh(name, taken)) for name in locals_}
        body = Substituted(texts)
        known = {n: v for n, v in bound.items() if n in made.rebound and constant(v) is not ...}
        if opened := [n for n in known if _opens(n, made)]:  # `if x is None: x = ...` comes first: no need to bind it
            names = {dotted(texts[n]) for n in opened}
            above = [line for line in above if not _binds(line, names)]
        above += [body.rewrite(line.deep_clone()) for line in lines]  # type: ignore[misc]
        above = [_bare(each) for line in above for each in folded(line, {})]
        return above, {dotted(texts[name]) for name in locals_}

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        made = self.found.get(id(original))
        if made is None:
            return updated
        bound = arguments(made, updated)
        assert bound is not None
        scope = self.scopes[id(original)]
        above, own_names = self.written(made, bound, scope, self.targets if original is self.direct else ())
        last = above.pop()
        assert isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)
        result = last.body[-1].value
        assert result is not None
        own_comments = (*last.leading_lines, *layout.trailing_comment(last.trailing_whitespace))
        self.said += [line for line in own_comments if line.comment is not None]
        if len(last.body) > 1:
            above.append(last.with_changes(body=last.body[:-1]))
        if original is self.unused and dotted(result):
            above = without_unread(above, own_names)
            result = cst.Name("None")
        self.above += above
        label = _derivative(result, self.module) if id(original) in self.once and original is not self.direct else ""
        if label:  # one statement, one gradient call
            own = _fresh(label, self.taken[id(scope)])
            self.above.append(_assigned(own, result))
            return cst.Name(own)
        whole = isinstance(result, WHOLE) or bool(result.lpar)
        if original is self.direct or whole:
            return result
        return _in_parentheses(result)


def _along(made: Candidate) -> set[str]:
    """The comments that the body has at each of its calls."""
    said = []
    for site in made.sites:
        lines = made.at(arguments(made, site.call) or {}) or []
        said.append({c.comment.value for x in lines for c in layout.inner_comments(x) if c.comment is not None})
    return set.intersection(*said) if said else set()


def _bare(line: cst.BaseStatement) -> cst.BaseStatement:
    """A condition needs no parentheses."""
    return line.with_changes(test=line.test.with_changes(lpar=[], rpar=[])) if type(line) is cst.If else line


def _names_alone(node: cst.BaseExpression) -> bool:
    """`(x, y)`, which is the same wherever it is written."""
    return type(node) is cst.Tuple and all(type(e) is cst.Element and type(e.value) is cst.Name for e in node.elements)


def _of_names(node: cst.BaseExpression) -> bool:
    """Arithmetic on variables, which may happen later."""
    kinds = (cst.BinaryOperation, cst.Comparison, cst.BooleanOperation, cst.UnaryOperation)
    inner = [n for n in descend(node) if isinstance(n, cst.BaseExpression)]
    return isinstance(node, kinds) and all(isinstance(n, (*kinds, cst.Name, cst.Integer, cst.Float)) for n in inner)


def _returned(lines: list[cst.BaseStatement]) -> cst.BaseExpression:
    last = lines[-1]
    assert isinstance(last, cst.SimpleStatementLine) and isinstance(last.body[-1], cst.Return)
    assert last.body[-1].value is not None
    return last.body[-1].value


def _names_of(target: cst.BaseExpression) -> list[str]:
    """`out, coords` or `out`: the names that an assignment binds, none where it binds anything else."""
    parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
    names = [part.value for part in parts if isinstance(part, cst.Name)]
    return names if len(names) == len(parts) == len({*names}) else []


def _direct(lines: list[cst.BaseStatement], targets: Sequence[str], own: list[str], taken: set[str]) -> dict[str, str]:
    """The variables of a body that may have the names which what it returns is bound to, with these names."""
    if not targets or taken.intersection(targets):
        return {}
    returned = _parts(_returned(lines)) if len(targets) > 1 else [_returned(lines)]
    if len(returned) != len(targets):
        return {}
    both = zip(returned, targets, strict=True)
    pairs = [(dotted(value), name) for value, name in both if dotted(value) in own and name != "_"]
    found = dict(pairs)
    clear = len(found) == len(pairs) and not {*own}.intersection(name for old, name in pairs if old != name)
    return found if clear and not ({*targets} - {*found.values()}) & {*own} else {}


def _parts(node: cst.BaseExpression) -> list[cst.BaseExpression]:
    whole = isinstance(node, cst.Tuple) and all(type(e) is cst.Element for e in node.elements)
    return [e.value for e in node.elements] if whole else []  # type: ignore[attr-defined]


def _needed(node: cst.Assign, targets: list[str]) -> list[cst.CSTNode]:
    """The assignment without the names that have what they are bound to already; nothing where all have."""
    values = _parts(node.value) if len(targets) > 1 else [node.value]
    if len(values) != len(targets):
        return [node]
    left = [(name, value) for name, value in zip(targets, values, strict=True) if dotted(value) != name]
    if len(left) == 1 < len(targets):
        return [node.with_changes(targets=[cst.AssignTarget(cst.Name(left[0][0]))], value=left[0][1])]
    return [node] if left else []


def _derivative(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """What to call a gradient: `u_x`, then `u_xx`; "" for any other expression."""
    call = node.value if isinstance(node, cst.Subscript) else node
    if not isinstance(call, cst.Call) or qualified(call.func, module.imports) != GRAD:
        return ""
    output, inputs = (_short(argument(call, i, name)) for i, name in enumerate(("outputs", "inputs")))
    if not inputs:
        return output and f"{output}_grad"
    again = re.search(rf"_(?:{inputs})+$", output)
    return f"{output}{inputs}" if again else f"{output or 'output'}_{inputs}"


def _short(node: cst.BaseExpression | None) -> str:
    return dotted(node).rpartition(".")[2] if node is not None else ""


def _opens(name: str, made: Candidate) -> bool:
    """The first statement with the name is `if name is None: name = ...`, alone."""
    line = next((x for x in made.body if name in _mentioned(x)), None)
    if not isinstance(line, cst.If) or line.orelse is not None or _truth_of(line.test, name) is None:
        return False
    first = line.body.body[0]
    return _binds(first, {name}) and sum(n == name for n in _words(first)) == 1


def _truth_of(test: cst.BaseExpression, name: str) -> bool | None:
    return truth(cast(cst.BaseExpression, Substituted({name: cst.Name("None")}).rewrite(test)))


def _binds(line: cst.CSTNode, names: set[str]) -> bool:
    """`name = ...`, and nothing else."""
    only = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    return isinstance(only, cst.Assign) and len(only.targets) == 1 and dotted(only.targets[0].target) in names


def _in_parentheses(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])


def _assigned(name: str, value: cst.BaseExpression) -> cst.SimpleStatementLine:
    return cst.SimpleStatementLine([cst.Assign([cst.AssignTarget(cst.Name(name))], value)])


def _fresh(base: str, taken: set[str]) -> str:
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    taken.add(name)
    return name


def _names(scope: Scope) -> set[str]:
    """The variables that a scope names; names of attributes and keywords are no variables."""
    nodes = list(descend(scope.node))
    parts = {id(n.attr) for n in nodes if type(n) is cst.Attribute}
    parts |= {id(n.keyword) for n in nodes if type(n) is cst.Arg}
    return {n.value for n in nodes if type(n) is cst.Name and id(n) not in parts}


def _words(node: cst.CSTNode) -> list[str]:
    return [n.value for n in descend(node) if isinstance(n, cst.Name)]


def _mentioned(node: cst.CSTNode) -> set[str]:
    return set(_words(node))


def touches_tape(node: cst.CSTNode) -> bool:
    """A statement, or the head of one, that differentiates, cuts a graph, or switches its recording."""
    small = isinstance(node, cst.BaseSmallStatement)
    parts = [node] if small else [getattr(node, n) for n in ("iter", "test") if hasattr(node, n)]
    calls = [n for part in parts for n in descend(part) if type(n) is cst.Call]
    return any(dotted(call.func).rpartition(".")[2] in TAPE or method_called(call) in TAPE for call in calls)
