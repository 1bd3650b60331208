"""The body of a function as it runs with arguments that are constants: branches and returns that they rule out go."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import cast

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.rewriter import Rewriter

SHORT = 4  # turns of a loop that are written one after the other

COMPARED: dict[type[cst.BaseCompOp], Callable[[float, float], bool]] = {
    cst.Equal: operator.eq, cst.NotEqual: operator.ne, cst.LessThan: operator.lt,
    cst.LessThanEqual: operator.le, cst.GreaterThan: operator.gt, cst.GreaterThanEqual: operator.ge,
}  # fmt: skip
COMPUTED: dict[type[cst.BaseBinaryOp], Callable[[int, int], int]] = {
    cst.Add: operator.add, cst.Subtract: operator.sub, cst.Multiply: operator.mul,
}  # fmt: skip


def bound_names(node: cst.CSTNode) -> set[str]:
    """The names that the comprehensions of a node bind."""
    targets = (n.target for n in descend(node) if type(n) is cst.CompFor)
    return {n.value for target in targets for n in descend(target) if isinstance(n, cst.Name)}


class Substituted(Rewriter):
    """Names of a function's own in the words of a caller."""

    def __init__(self, texts: dict[str, cst.BaseExpression]) -> None:
        self.texts = texts

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return False

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        value = self.rewrite(original.value)
        return updated if value is original.value else updated.with_changes(value=value)

    def visit_Arg(self, node: cst.Arg) -> bool:
        return False

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        value = self.rewrite(original.value)
        return updated if value is original.value else updated.with_changes(value=value)

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        text = self.texts.get(original.value)
        return updated if text is None else text.deep_clone()

    def visit_ListComp(self, node: cst.BaseComp) -> bool:
        return not bound_names(node) & self.texts.keys()

    visit_SetComp = visit_GeneratorExp = visit_DictComp = visit_ListComp

    def leave_ListComp(self, original: cst.BaseComp, updated: cst.BaseComp) -> cst.BaseComp:
        """What a comprehension binds is its own, but for what its first clause runs over."""
        bound = bound_names(original)
        if not bound & self.texts.keys():
            return updated
        outer, first = self.texts, self.rewrite(original.for_in.iter)
        self.texts = {name: text for name, text in outer.items() if name not in bound}
        parts = ("key", "value") if isinstance(original, cst.DictComp) else ("elt",)
        made = original.with_changes(
            **{part: self.rewrite(getattr(original, part)) for part in parts},
            for_in=cst.ensure_type(self.rewrite(original.for_in), cst.CompFor).with_changes(iter=first),
        )
        self.texts = outer
        return made

    leave_SetComp = leave_GeneratorExp = leave_DictComp = leave_ListComp

    def leave_BinaryOperation(self, original: cst.BinaryOperation, updated: cst.BinaryOperation) -> cst.BaseExpression:
        computed = COMPUTED.get(type(updated.operator))
        left, right = constant(updated.left), constant(updated.right)
        if updated is original or computed is None or type(left) is not int or type(right) is not int:
            return updated
        return cst.parse_expression(str(computed(left, right)))


def specialised(
    body: Sequence[cst.BaseStatement], known: dict[str, cst.BaseExpression]
) -> list[cst.BaseStatement] | None:
    """The statements that run, up to the return at their end; None if that is not known. `known` are constants."""
    lines: list[cst.BaseStatement] = []
    for line in body:
        for each in folded(line, known):
            lines.append(each)
            if returns(each):
                return lines
            if type(each) is not cst.FunctionDef and any(type(n) is cst.Return for n in descend(each)):
                return None
        known = {name: value for name, value in known.items() if not binds(line, name)}
    return None


def unguarded(body: Sequence[cst.BaseStatement]) -> list[cst.BaseStatement]:
    """`if limit is None: return` and what follows, as what follows under the opposite; the body returns nothing."""
    for at, line in enumerate(body):
        if isinstance(line, cst.If) and line.orelse is None and all(map(_leaves, line.body.body)):
            rest = unguarded(body[at + 1 :])
            inner = cst.IndentedBlock(rest or [cst.SimpleStatementLine([cst.Pass()])])
            return [*body[:at], line.with_changes(test=opposite(line.test), body=inner)]
    last = body[-1] if body else None
    return list(body[:-1] if last is not None and _leaves(last) else body)


def _leaves(line: cst.CSTNode) -> bool:
    """A return of nothing, alone."""
    node = line.body[0] if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1 else line
    return isinstance(node, cst.Return) and node.value is None


def opposite(test: cst.BaseExpression) -> cst.BaseExpression:
    """The condition that holds where another does not."""
    if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
        return test.expression
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        one = test.comparisons[0]
        other = {cst.Is: cst.IsNot, cst.IsNot: cst.Is}.get(type(one.operator))
        if other is not None:
            return test.with_changes(comparisons=[one.with_changes(operator=other())])
    bare = isinstance(test, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or bool(test.lpar)
    inner = test if bare else test.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    return cst.UnaryOperation(cst.Not(), inner)


def returns(line: cst.CSTNode) -> bool:
    """The statement leaves the function, with a value."""
    last = line.body[-1] if isinstance(line, cst.SimpleStatementLine) else None
    return type(last) is cst.Return and last.value is not None


def folded(line: cst.CSTNode, known: dict[str, cst.BaseExpression]) -> list[cst.BaseStatement]:
    """A statement without the branches that constants rule out; `known` are names that are constants here."""
    if type(line) is cst.For and (turns := _turns(line)):
        return [s for turn in turns for each in turn for s in folded(each, known)]
    if isinstance(line, cst.SimpleStatementLine) and len(line.body) == 1:
        return [_chosen(line, known)]
    if not isinstance(line, cst.If):
        return [cast(cst.BaseStatement, line)]
    test = Substituted(known).rewrite(line.test)
    holds = truth(cast(cst.BaseExpression, test))
    if holds is None:
        return [_within(line, known)]
    if holds:
        return [s for each in line.body.body for s in folded(_line(each), known)]
    if line.orelse is None:
        return []
    if isinstance(line.orelse, cst.If):
        return folded(line.orelse, known)
    return [s for each in line.orelse.body.body for s in folded(_line(each), known)]


def _within(line: cst.If, known: dict[str, cst.BaseExpression]) -> cst.If:
    """An `if` statement with its branches folded."""
    changes: dict[str, cst.CSTNode | None] = {"body": _block(line.body, known)}
    if isinstance(line.orelse, cst.Else):
        inner = _block(line.orelse.body, known)
        changes["orelse"] = line.orelse if inner is line.orelse.body else line.orelse.with_changes(body=inner)
    elif line.orelse is not None:
        changes["orelse"] = _within(line.orelse, known)
    same = changes["body"] is line.body and changes.get("orelse", line.orelse) is line.orelse
    return line if same else line.with_changes(**changes)


def _block(suite: cst.BaseSuite, known: dict[str, cst.BaseExpression]) -> cst.BaseSuite:
    if not isinstance(suite, cst.IndentedBlock):
        return suite
    made: list[cst.BaseStatement] = []
    for line in suite.body:
        made += folded(line, known)
        known = {name: value for name, value in known.items() if not binds(line, name)}
    if len(made) == len(suite.body) and all(a is b for a, b in zip(made, suite.body, strict=True)):
        return suite
    return suite.with_changes(body=made or [cst.SimpleStatementLine([cst.Pass()])])


def _line(node: cst.CSTNode) -> cst.CSTNode:
    """`if x: return y` holds small statements."""
    return cst.SimpleStatementLine([node]) if isinstance(node, cst.BaseSmallStatement) else node


def _chosen(line: cst.SimpleStatementLine, known: dict[str, cst.BaseExpression]) -> cst.SimpleStatementLine:
    """`return a if test else b`, where the test is known."""
    node = line.body[0]
    if (type(node) is not cst.Return and type(node) is not cst.Assign) or type(node.value) is not cst.IfExp:
        return line
    holds = truth(cast(cst.BaseExpression, Substituted(known).rewrite(node.value.test)))
    if holds is None:
        return line
    return line.with_changes(body=[node.with_changes(value=node.value.body if holds else node.value.orelse)])


def _turns(node: cst.For) -> list[list[cst.CSTNode]]:
    """The bodies of a short loop over constant numbers, one after the other; none for any other loop."""
    call = node.iter
    count = constant(call.args[0].value) if isinstance(call, cst.Call) and len(call.args) == 1 else ...
    if not isinstance(call, cst.Call) or dotted(call.func) != "range" or not isinstance(count, int):
        return []
    target = dotted(node.target)
    nodes = list(descend(node.body))
    bound = {n.target.value for n in nodes if isinstance(n, cst.AssignTarget) and isinstance(n.target, cst.Name)}
    if not 0 < count <= SHORT or node.orelse is not None or not target or target in bound:
        return []
    if any(isinstance(n, (cst.Break, cst.Continue)) for n in nodes):
        return []
    bodies = [Substituted({target: cst.Integer(str(i))}) for i in range(count)]
    return [[turn.rewrite(line.deep_clone()) for line in node.body.body] for turn in bodies]


def binds(line: cst.CSTNode, name: str) -> bool:
    """Somewhere in a statement the name may get another value."""
    targets = (cst.AssignTarget, cst.AugAssign, cst.For, cst.AnnAssign)
    return any(
        isinstance(inner, cst.Name) and inner.value == name
        for n in descend(line) if isinstance(n, targets)
        for inner in descend(n.target)
    )  # fmt: skip


def truth(test: cst.BaseExpression) -> bool | None:
    """What a condition comes to, None where that is not known."""
    if type(test) is cst.UnaryOperation and type(test.operator) is cst.Not:
        inner = truth(test.expression)
        return None if inner is None else not inner
    if isinstance(test, cst.Comparison) and len(test.comparisons) == 1:
        how, other = test.comparisons[0].operator, test.comparisons[0].comparator
        if (
            (type(how) is cst.Is or type(how) is cst.IsNot)
            and constant(other) is None
            and constant(test.left) is not ...
        ):
            return (constant(test.left) is None) == isinstance(how, cst.Is)
        left, right, compared = constant(test.left), constant(other), COMPARED.get(type(how))
        if compared is None or not isinstance(left, (int, float)) or not isinstance(right, (int, float)):
            return None
        return compared(left, right)
    value = constant(test)
    return None if value is ... else bool(value)
