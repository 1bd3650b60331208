"""Classes of PyTorch that programs compare with what a variable holds: `norm_layer == nn.InstanceNorm2d`.

What stands for such a class must be one object wherever it is named, so that the comparison finds it again.
"""

from __future__ import annotations

import re
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import Outcome, Rule, full_value
from torch2ms.api.definitions import table
from torch2ms.findings import Finding, Tier

ASKING = re.compile(r"(?<![\w.])type\(|__class__")
SAME = (cst.Equal, cst.NotEqual, cst.Is, cst.IsNot, cst.In, cst.NotIn)


def operands(node: cst.Comparison) -> list[cst.BaseExpression]:
    """What a comparison asks to be the same, or to be found, with the elements that it is looked for among."""
    if not all(isinstance(c.operator, SAME) for c in node.comparisons):
        return []
    parts = [node.left, *(c.comparator for c in node.comparisons)]
    return [*parts, *(e.value for p in parts if isinstance(p, (cst.List, cst.Tuple, cst.Set)) for e in p.elements)]


@once
def of_classes(module: ModuleInfo) -> frozenset[int]:
    """Ids of the comparisons with the class of an object: `type(m) is nn.Conv2d`, also where a name holds the class."""
    if not module.says(ASKING):
        return frozenset()
    found = {id(n) for n in module.of_kind(cst.Comparison) if any(map(_is_class, operands(n)))}
    for scope in module.scope.walk():
        bound: dict[str, list[bool]] = {}
        for stmt in scope.body.walk():
            for name in stmt.defs:
                bound.setdefault(name, []).append(isinstance(stmt.node, cst.Assign) and _is_class(stmt.node.value))
        classes = {name for name, kinds in bound.items() if all(kinds)} - set(scope.params)
        for stmt in scope.body.stmts if classes else ():
            if type(stmt.node) not in (cst.FunctionDef, cst.ClassDef):
                asked = (n for n in stmt.nodes if type(n) is cst.Comparison)
                found |= {id(n) for n in asked if any(dotted(p) in classes for p in operands(n))}
    return frozenset(found)


def _is_class(node: cst.BaseExpression) -> bool:
    if isinstance(node, cst.Call):
        return dotted(node.func) == "type" and len(node.args) == 1
    return isinstance(node, cst.Attribute) and node.attr.value == "__class__"


@once
def compared(project: Project) -> frozenset[str]:
    """The names of PyTorch that stand in comparisons with what variables hold."""
    found: set[str] = set()
    for module in project.modules.values():
        if not module.has("torch"):
            continue
        asked = (n for n in module.of_kind(cst.Comparison) if code(n.comparisons[0].comparator) != "None")
        named = [(n, {v.name for p in operands(n) if (v := module.value(p)).kind == "api"}) for n in asked]
        if any(names for _, names in named):
            found |= {name for n, names in named if id(n) not in of_classes(module) for name in names}
    return frozenset(found)


def of_type(rule: Rule, project: Project) -> Outcome | None:
    """What `type(m)` is compared with, where modules are made of a class that is written out; None for others."""
    written = rule.base and (rule.main.to or "").startswith(f"{rule.base}(")
    return _named(rule, rule.base, project) if written else None


def findable(rule: Rule, outcome: Outcome, project: Project) -> Outcome:
    """What a class that is compared becomes: a name: an expression would be another object each time."""
    if (
        outcome.node is None
        or isinstance(outcome.node, (cst.Name, cst.Attribute))
        or rule.name not in compared(project)
    ):
        return outcome
    return _named(rule, full_value(rule), project)


def findable_partial(rule: Rule, outcome: Outcome, original: cst.Call, updated: cst.Call, project: Project) -> Outcome:
    """`partial(nn.InstanceNorm2d, affine=False)` of a class with which its `func` is compared."""
    node = outcome.node
    if node is None or rule.name not in compared(project):
        return outcome
    if isinstance(node, cst.Call) and node.args and isinstance(node.args[0].value, (cst.Name, cst.Attribute)):
        return outcome
    defaults = {p.name: p.default for p in rule.params}
    kept = [
        now for was, now in zip(original.args[1:], updated.args[1:], strict=True)
        if was.keyword is None or code(was.value) != defaults.get(was.keyword.value)
    ]  # fmt: skip
    named = _named(rule, full_value(rule), project)
    if named.node is None:
        return named
    if kept:
        kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")) if kept else cst.MaybeSentinel.DEFAULT
    return replace(named, node=updated.with_changes(args=[cst.Arg(named.node, comma=comma), *kept]))


def by_name(original: cst.Comparison, updated: cst.Comparison, module: ModuleInfo, project: Project) -> cst.Comparison:
    """`optimizer_class == Adam` of a class that several files have, each its own: by its name."""
    last = updated.comparisons[-1]
    same = len(updated.comparisons) == 1 and isinstance(last.operator, SAME[:4])
    if not same or type(last.comparator) is not cst.Name or last.comparator.value not in table():
        return updated
    asked = original.comparisons[-1].comparator
    if not dotted(original.left):
        return updated
    value, short = module.value(asked), last.comparator.value
    if value.kind != "api" or module.value(original.left).kind == "api":
        return updated
    if sum(value.name.rpartition(".")[2] in m.source for m in project.modules.values()) < 2:
        return updated
    equal = cst.Equal() if isinstance(last.operator, (cst.Equal, cst.Is)) else cst.NotEqual()
    left, right = (cst.parse_expression(f"{name}.__name__") for name in (code(updated.left), short))
    return updated.with_changes(left=left, comparisons=[last.with_changes(operator=equal, comparator=right)])


def _named(rule: Rule, name: str, project: Project) -> Outcome:
    short = rule.name.rpartition(".")[2]
    if not name.isidentifier():
        why = "it is compared with what a variable holds, and its MindSpore form has no name"
    elif sum(re.search(rf"\b{short}\b", m.source) is not None for m in project.modules.values()) > 1:
        why = "it is compared with what a variable holds, and each module would have a definition of its own"
    else:
        told = Finding("T2M601", Tier.EXACT, rule.name, f"{name}: a name, which comparisons find again")
        return Outcome(cst.Name(name), (told,), frozenset({name}), "function")
    todo = "compare something else that tells the classes apart"
    return Outcome(None, (Finding("T2M608", Tier.REFUSED, rule.name, why, todo),))
