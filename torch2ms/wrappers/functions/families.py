"""`if isinstance(m, (nn.Linear, nn.Embedding)): m.weight...`, written as one branch for each kind of layer.

A table of embeddings and the scale of a normalisation have other names in MindSpore than the weight of a linear layer:
a branch for all of them has no name that fits.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.evaluation.narrow import family
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module

NAMED = ("weight", "bias", "running_mean", "running_var")


@each_module
def branched(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such branches."""
    if not module.has("isinstance"):
        return None
    conditions = (s.node.test for scope in module.scope.walk() for s in scope.body.walk() if type(s.node) is cst.If)
    if all(_asked(test, module) is None for test in conditions):
        return None
    branches = Branches(module)
    made = branches.plain()
    return made if branches.split else None


class Branches(Suites):
    """One module, with the conditions to tell apart."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.split = False

    def leave_If(self, original: cst.If, updated: cst.If) -> cst.If:
        asked = _asked(original.test, self.module)
        first = _first(asked) if asked is not None else None
        if asked is None or first is None or not _names(original.body, dotted(first.args[0].value)):
            return updated
        groups = list(_grouped(_classes(asked), self.module).values())
        if len(groups) < 2 or self.numbers.get(id(original), (0, 0))[0] in self.off:
            return updated
        self.split = True
        made = updated.orelse
        for group in reversed(groups):
            classes = group[0] if len(group) == 1 else cst.Tuple([cst.Element(c) for c in group])
            single = first.with_changes(args=[first.args[0], first.args[1].with_changes(value=classes)])
            body = updated.body if group is groups[0] else self.copied(updated.body)
            header = updated.leading_lines if group is groups[0] else ()
            test = _replaced(updated.test, asked, single)
            made = cst.If(test, body, made, leading_lines=header, whitespace_before_test=cst.SimpleWhitespace(" "))
            self.number(made, original)
        assert isinstance(made, cst.If)
        return made


def _asked(test: cst.BaseExpression, module: ModuleInfo) -> cst.BaseExpression | None:
    """The `isinstance` with several classes that the condition, or a part of it that must hold, asks.

    `isinstance(m, nn.Linear) or isinstance(m, nn.Embedding)` asks the same of one object.
    """
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.And):
        return _asked(test.left, module) or _asked(test.right, module)
    return test if _first(test) is not None and len(_classes(test)) > 1 else None


def _first(test: cst.BaseExpression) -> cst.Call | None:
    """The first question of several about one object, the only one of one; None for anything else."""
    if isinstance(test, cst.BooleanOperation) and isinstance(test.operator, cst.Or):
        one, other = _first(test.left), _first(test.right)
        alike = one is not None and other is not None and dotted(one.args[0].value) == dotted(other.args[0].value)
        return one if alike else None
    if not isinstance(test, cst.Call) or dotted(test.func) != "isinstance" or len(test.args) != 2:
        return None
    return test if dotted(test.args[0].value) else None


def _classes(asked: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(asked, cst.BooleanOperation):
        return [*_classes(asked.left), *_classes(asked.right)]
    assert isinstance(asked, cst.Call)
    given = asked.args[1].value
    return [element.value for element in given.elements] if isinstance(given, cst.Tuple) else [given]


def _grouped(classes: list[cst.BaseExpression], module: ModuleInfo) -> dict[str, list[cst.BaseExpression]]:
    """The classes by how MindSpore calls their parameters, nothing where one is not a layer of torch."""
    groups: dict[str, list[cst.BaseExpression]] = {}
    for node in classes:
        value = module.value(node)
        if value.kind != "api" or not value.name.startswith("torch.nn."):
            return {}
        groups.setdefault(family(value.name), []).append(node)
    return groups


def _names(body: cst.CSTNode, place: str) -> bool:
    """Whether the parameters of the layer are asked for by name."""
    return any(
        isinstance(node, cst.Attribute) and node.attr.value in NAMED and dotted(node.value) == place
        for node in descend(body)
    )


def _replaced(test: cst.BaseExpression, asked: cst.BaseExpression, made: cst.Call) -> cst.BaseExpression:
    if test is asked:
        return made
    if isinstance(test, cst.BooleanOperation):
        left, right = (_replaced(side, asked, made) for side in (test.left, test.right))
        return test.with_changes(left=left, right=right)
    return test
