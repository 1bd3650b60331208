"""What networks leave out for good, by what they are made with.

Loops of a forward that run once in some network: `for t in range(self.layers)` of `Stack(4, layers=1)`. A condition
that asks which turn it is then comes to the same each time, and what it leaves out has no gradient. Likewise one that
asks for what one object has and another has not: `if self.inner is None: return h` of `Block(Block())`.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, Project
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.tape.forward.branching import settled
from torch2ms.tape.forward.given import Given, defaults_of

THERE = object()


def of_one_turn(test: cst.BaseExpression, stmt: Stmt, cls: ClassInfo, project: Project) -> bool:
    """The condition asks for the turn of a loop that runs once in a network that the program makes."""
    asked = expression_uses(test, stmt)
    for loop in (a for a in stmt.ancestors() if type(a.node) is cst.For and a.defs & asked):
        over = loop.node.iter  # type: ignore[union-attr]
        if isinstance(over, cst.Call) and dotted(over.func) == "range" and len(over.args) == 1:
            if any(given == 1 for given in _given(dotted(over.args[0].value), cls, project)):
                return True
    return False


def _given(place: str, cls: ClassInfo, project: Project) -> Iterator[object]:
    """The constants that the networks of a class are made with for what they keep at a place."""
    init = cls.method("__init__")
    if init is None or not place.startswith("self."):
        return
    for name in sorted(_kept_as(place, init)):
        position = init.scope.params.index(name) - 1
        for call in _makings(cls, project):
            node = argument(call, position, name)
            if node is not None and not any(a.star for a in call.args):
                yield constant(node)


def _kept_as(place: str, init: FunctionInfo) -> set[str]:
    """The parameters of a constructor that it keeps in an attribute as they are."""
    kept = [s.node for s in init.scope.body.walk() if place in s.defs and isinstance(s.node, cst.Assign)]
    return {dotted(node.value) for node in kept} & set(init.scope.params)


def by_object(stmt: Stmt, cls: ClassInfo, project: Project) -> Iterator[Block | None]:
    """The way through an `if` that some network of a class takes at every step, by what it was made with."""
    test, init = stmt.node.test if isinstance(stmt.node, cst.If) else None, cls.method("__init__")
    kept = {u: _kept_as(u, init) for u in expression_uses(test, stmt)} if test is not None and init is not None else {}
    if test is None or init is None or not any(len(names) == 1 for names in kept.values()):
        return
    for call in _makings(cls, project):
        written = dict[str, object]()
        for place, names in kept.items():
            for name in names:
                position, default = init.scope.params.index(name) - 1, defaults_of(init.scope.node).get(name, ...)
                node = argument(call, position, name)
                written[place] = default if node is None else _made_with(node)
        given = Given(written={place: value for place, value in written.items() if value is not ...})
        if not any(a.star for a in call.args) and (taken := settled(stmt, given)) is not None:
            yield taken[0] if taken else None


def _made_with(node: cst.BaseExpression) -> object:
    """A constant, or a network or an object that is made in the call: whatever it is, it is there."""
    made = isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2][:1].isupper()
    return THERE if made else constant(node)


def always_made(name: str, cls: ClassInfo) -> bool:
    """Every network of a class has the layer: nothing decides whether its constructor makes it."""
    init = cls.method("__init__")
    made = [s for s in init.scope.body.walk() if f"self.{name}" in s.defs] if init is not None else []
    decided = any(isinstance(n, (cst.IfExp, cst.BooleanOperation)) for s in made for n in s.nodes)
    return bool(made) and not decided and not any(isinstance(a.node, cst.If) for s in made for a in s.ancestors())


def _makings(cls: ClassInfo, project: Project) -> Iterator[cst.Call]:
    """The calls that make networks of a class."""
    for module in project.modules.values():
        for call in module.of_kind(cst.Call):
            value = module.value(call.func)
            if value.kind == "class" and project.find(value.name, module) is cls:
                yield call
