"""What calls give a forward: what is another one at each step, what is None at some of them, flags that are written."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend

UNKNOWN: object = ...  # what `constant` has for all else


@dataclass(frozen=True)
class Given:
    """What is known of the names in a function while an optimizer takes its steps."""

    turning: set[str] = field(default_factory=set)  # they are others at each step
    absent: set[str] = field(default_factory=set)  # ... and None at some of them
    written: dict[str, object] = field(default_factory=dict)  # constants at every step
    evaluating: bool = False  # the networks may be in evaluation mode

    def of(self, call: cst.Call, stmt: Stmt, params: list[str], node: cst.CSTNode | None = None) -> Given:
        """... in what a call runs, with these parameters."""
        made = Given(evaluating=self.evaluating)
        defaults = defaults_of(node)
        if any(a.star for a in call.args):
            return made
        own = params[1:] if params[:1] == ["self"] else params
        free = iter(own)
        for arg in call.args:
            name = arg.keyword.value if arg.keyword is not None else next(free, "")
            defaults.pop(name, None)
            if self.moves(arg.value, stmt):
                made.turning.add(name)
            if self.lacking(arg.value, stmt):
                made.absent.add(name)
            value = self.written.get(dotted(arg.value), constant(arg.value))
            if value is not UNKNOWN:
                made.written[name] = value
        made.written.update({k: v for k, v in defaults.items() if k in own and v is not UNKNOWN})
        return made

    def moves(self, node: cst.BaseExpression, stmt: Stmt) -> bool:
        return bool({root(u) for u in expression_uses(node, stmt)} & self.turning)

    def lacking(self, node: cst.BaseExpression, stmt: Stmt) -> bool:
        """An expression is None at some steps: on one side of a condition that turns, or where a key may be missing."""
        if isinstance(node, cst.IfExp):
            sides = (node.body, node.orelse)
            none = any(constant(side) is None for side in sides) and self.moves(node.test, stmt)
            return none or any(self.lacking(side, stmt) for side in sides)
        name = dotted(node)
        if not name or name in self.absent:
            return name in self.absent
        for made in stmt.block.scope.body.walk():
            if name in made.defs and isinstance(made.node, cst.Assign) and made.number < stmt.number:
                if _told(made, name) and self.lacking(made.node.value, made):
                    return True
                if constant(made.node.value) is None and (name in self.turning or self.asked(made)):
                    return True
        return False

    def asked(self, stmt: Stmt) -> bool:
        """A statement stands under a condition that is another one from step to step."""
        return any(isinstance(a.node, cst.If) and self.moves_test(a.node.test, a) for a in stmt.ancestors())

    def moves_test(self, test: cst.BaseExpression, stmt: Stmt) -> bool:
        drawn = any(isinstance(n, cst.Call) and "rand" in dotted(n.func) for n in descend(test))
        return drawn or self.moves(test, stmt)

    def none_at_times(self, test: cst.BaseExpression) -> bool:
        """A condition asks whether something is there that is None at some steps."""
        return any(name in self.absent for name in map(_there, descend(test)) if name)

    def settled(self, test: cst.BaseExpression) -> bool | None:
        """What a condition comes to at every step, by the flags that are written out; None if that is not seen."""
        if isinstance(test, (cst.Name, cst.Attribute)):
            place = dotted(test)
            return bool(self.written[place]) if place in self.written else None
        if isinstance(test, cst.UnaryOperation) and isinstance(test.operator, cst.Not):
            inner = self.settled(test.expression)
            return None if inner is None else not inner
        if isinstance(test, cst.BooleanOperation):
            sides = [self.settled(test.left), self.settled(test.right)]
            decides = isinstance(test.operator, cst.Or)
            return decides if decides in sides else None if None in sides else not decides
        name = _there(test)
        if name in self.written and isinstance(test, cst.Comparison):
            return (self.written[name] is None) is isinstance(test.comparisons[0].operator, cst.Is)
        return self.equal(test) if isinstance(test, cst.Comparison) and len(test.comparisons) == 1 else None

    def equal(self, test: cst.Comparison) -> bool | None:
        """`mode == "train"`"""
        asked, name = test.comparisons[0], dotted(test.left)
        value = constant(asked.comparator)
        if name not in self.written or value is UNKNOWN or not isinstance(asked.operator, (cst.Equal, cst.NotEqual)):
            return None
        return (self.written[name] == value) is isinstance(asked.operator, cst.Equal)


NOT_SEEN = Given()


def _there(node: cst.CSTNode) -> str:
    """The name of which a comparison asks whether it is None."""
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return ""
    asked = node.comparisons[0]
    if isinstance(asked.operator, (cst.Is, cst.IsNot)) and constant(asked.comparator) is None:
        return dotted(node.left)
    return ""


def _told(stmt: Stmt, name: str) -> bool:
    """An assignment of one thing to one name, which is not made of itself."""
    node = stmt.node
    return isinstance(node, cst.Assign) and dotted(node.targets[0].target) == name != dotted(node.value)


def defaults_of(node: cst.CSTNode | None) -> dict[str, object]:
    """The constants that parameters have which a call does not name."""
    if not isinstance(node, cst.FunctionDef):
        return {}
    params = (*node.params.params, *node.params.kwonly_params)
    return {p.name.value: constant(p.default) for p in params if p.default is not None}
