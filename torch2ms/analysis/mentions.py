"""Which names of a module its code mentions: an import of any other name may go."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.annotations import names_in_quotes
from torch2ms.analysis.names import dotted
from torch2ms.analysis.tree import children

SCOPES = (cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)


def used_names(tree: cst.CSTNode) -> set[str]:
    """Every name that is read or written outside of import statements, but for what a function has of its own."""
    names: set[str] = set()
    stack: list[cst.CSTNode] = [tree]
    while stack:
        node = stack.pop()
        kind = node.__class__
        if kind is cst.Name:
            names.add(node.value)  # type: ignore[attr-defined]
        elif kind is cst.Attribute or kind is cst.Arg:
            stack.append(node.value)  # type: ignore[attr-defined]
        elif isinstance(node, cst.Param):
            stack += [part for part in (node.annotation, node.default) if part is not None]
        elif isinstance(node, cst.FunctionDef):
            names |= used_names(node.body) - own_names(node)
            stack += [part for part in children(node) if part is not node.body]
        elif kind is not cst.Import and kind is not cst.ImportFrom:
            if kind is cst.Annotation:
                names |= names_in_quotes(node)  # type: ignore[arg-type]
            stack += children(node)
    return names


def own_names(function: cst.FunctionDef) -> set[str]:
    """Names that a function binds by its parameters and assignments alone."""
    bound: set[str] = set()
    elsewhere: set[str] = set()  # imported or declared global: the module's imports may be meant
    stack: list[cst.CSTNode] = [function.params, function.body]
    while stack:
        node = stack.pop()
        if isinstance(node, (cst.Param, cst.NameItem)):
            (bound if isinstance(node, cst.Param) else elsewhere).add(node.name.value)
        elif isinstance(node, cst.ImportAlias):
            name = node.asname.name if node.asname is not None else node.name
            elsewhere.add(dotted(name).partition(".")[0])
        elif isinstance(node, (cst.AssignTarget, cst.AnnAssign, cst.For)):
            bound |= _targets(node.target)
        if not isinstance(node, SCOPES):
            stack += children(node)
    return bound - elsewhere


def _targets(node: cst.CSTNode) -> set[str]:
    if isinstance(node, cst.Name):
        return {node.value}
    if isinstance(node, (cst.Tuple, cst.List)):
        return {name for element in node.elements for name in _targets(element.value)}
    return set()
