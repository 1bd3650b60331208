"""New names: for a part of an expression that its translation needs twice, and for whatever else needs one."""

from __future__ import annotations

import ast
import builtins

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.tree import children, code, descend
from torch2ms.api import Rule, binding_of
from torch2ms.rewrite.inplace.evaluated import LATE
from torch2ms.tape.plan import Plan

_BASES = {"input": "tensor"}


def named_in_order(
    part: str, rule: Rule, original: cst.Call, updated: cst.Call, stmt: Stmt, taken: set[str], moved: set[int]
) -> tuple[cst.Call, dict[str, str]] | None:
    """The call with names in place of an argument and of what is evaluated before it, and the lines that bind them."""
    lines: dict[str, str] = {}
    for each in [*_before(part, rule, original, updated), part]:
        made = named(each, rule, original, updated, stmt, taken, moved)
        if made is None:
            return None
        updated, lines[each] = made
    return updated, lines


def _before(part: str, rule: Rule, original: cst.Call, updated: cst.Call) -> list[str]:
    """The receiver and the arguments that stand before one and are not evaluated without a trace."""
    binding = binding_of(rule, original, updated, part) if part != "self" else None
    if binding is None or part not in binding.single:
        return []
    places = {id(bound.original): name for name, bound in binding.single.items()}
    end = next((i for i, arg in enumerate(original.args) if arg is binding.single[part].original), 0)
    pairs = list(zip(original.args, updated.args, strict=True))[:end]
    front = [(places.get(id(arg), ""), arg.value, now.value) for arg, now in pairs]
    if isinstance(original.func, cst.Attribute) and isinstance(updated.func, cst.Attribute):
        front.insert(0, ("self", original.func.value, updated.func.value))
    return [name for name, node, now in front if name and _called(node) and not isinstance(now, cst.Name)]


def _bound(value: cst.BaseExpression) -> str:
    """The value as it stands behind an equals sign: in parentheses where it goes on in other lines."""
    text = code(value)
    if "\n" not in text:
        return code(value.with_changes(lpar=[], rpar=[]))
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:  # the parentheses are those of something around it
        return f"({text})"
    return text


def _called(node: cst.CSTNode) -> bool:
    return any(isinstance(n, (cst.Call, cst.Await, cst.NamedExpr)) for n in descend(node))


def named(
    part: str, rule: Rule, original: cst.Call, updated: cst.Call, stmt: Stmt, taken: set[str], moved: set[int]
) -> tuple[cst.Call, str] | None:
    """The call with a name in place of one argument (or of `self`), and the line that binds it.

    `moved` are the parts of the statement that have names already.
    """
    if part == "self":
        if not isinstance(original.func, cst.Attribute) or not isinstance(updated.func, cst.Attribute):
            return None
        before, after = original.func.value, updated.func.value
        base = "cell" if rule.name.endswith(".__call__") else "tensor"
    else:
        binding = binding_of(rule, original, updated, part)
        if binding is None or part not in binding.single:
            return None
        bound = binding.single[part]
        before, after, base = bound.original.value, bound.updated.value, _BASES.get(part, part)
        base = f"{base}_value" if hasattr(builtins, base) else base
    if not undisturbed(stmt, before, moved):
        return None
    moved.add(id(before))
    name = free(base, taken)
    taken.add(name)
    line = f"{name} = {_bound(after)}"
    if part == "self":
        return updated.with_changes(func=updated.func.with_changes(value=cst.Name(name))), line
    index = updated.args.index(bound.updated)
    args = [a.with_changes(value=cst.Name(name)) if i == index else a for i, a in enumerate(updated.args)]
    return updated.with_changes(args=args), line


def names_of(module: ModuleInfo) -> set[str]:
    """Every name that means something somewhere in a module."""
    found = set(module.imports.table)
    for scope in module.scope.walk():
        found |= scope.locals | set(scope.params) | {root(u) for s in scope.body.walk() for u in s.uses}
    return found


def taken_names(module: ModuleInfo, plan: Plan) -> set[str]:
    """The names of the module with those that the plan has given."""
    if not plan.names:
        plan.names |= names_of(module)
    return plan.names


def unused(base: str, module: ModuleInfo, plan: Plan) -> str:
    """A name that means nothing in the module yet."""
    return free(base, taken_names(module, plan))


def free(base: str, taken: set[str]) -> str:
    name, number = base, 2
    while name in taken:
        name, number = f"{base}_{number}", number + 1
    return name


def undisturbed(stmt: Stmt, part: cst.CSTNode, moved: set[int]) -> bool:
    """The part is evaluated once whenever the statement is, and nothing that matters is evaluated before it."""
    path = _path(stmt.node, part)
    if path is None or stmt.blocks or any(type(node) in LATE for node in path):
        return False
    for outer, inner in zip(path, path[1:], strict=False):
        for child in children(outer):
            if child is inner:
                break
            if not _gone(child, moved) and _called(child):
                return False
    return True


def _gone(node: cst.CSTNode, moved: set[int]) -> bool:
    """What is left of a part that has moved above the statement is a name."""
    return isinstance(node, (cst.Arg, cst.Attribute)) and id(node.value) in moved


def _path(node: cst.CSTNode, wanted: cst.CSTNode) -> list[cst.CSTNode] | None:
    if node is wanted:
        return [node]
    for child in children(node):
        below = _path(child, wanted)
        if below is not None:
            return [node, *below]
    return None
