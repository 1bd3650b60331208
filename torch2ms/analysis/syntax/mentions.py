"""Which names of a module its code mentions: an import of any other name may go."""

from __future__ import annotations

from itertools import repeat

import libcst as cst

from torch2ms.analysis.syntax.annotations import names_in_quotes
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import children

SCOPES = frozenset({cst.FunctionDef, cst.ClassDef, cst.Lambda, cst.ListComp, cst.SetComp, cst.DictComp,
                    cst.GeneratorExp})  # fmt: skip

LITERALS = frozenset({cst.Integer, cst.Float, cst.Imaginary, cst.SimpleString, cst.Ellipsis})


def used_names(tree: cst.CSTNode) -> set[str]:
    """Every name that is read or written outside of import statements, but for what a function has of its own."""
    mentions = _Mentions()
    mentions.walk(tree, False)
    return mentions.names


def free_names(node: cst.FunctionDef) -> set[str]:
    """The names in the body of a function that it does not bind by its parameters and assignments alone."""
    inside = _Mentions()
    stars = (p for p in (node.params.star_arg, node.params.star_kwarg) if type(p) is cst.Param)
    params = (*node.params.posonly_params, *node.params.params, *node.params.kwonly_params, *stars)
    inside.bound = {param.name.value for param in params}
    inside.walk(node.body, True)
    return inside.names - (inside.bound - inside.elsewhere)


class _Mentions:
    """One walk over a function, or a module: the names in it, and those that are bound there alone."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.bound: set[str] = set()
        self.elsewhere: set[str] = set()  # imported or declared global: the module's imports may be meant
        self.stack: list[tuple[cst.CSTNode, bool]] = []  # a node, and whether what it binds is the function's own

    def walk(self, root: cst.CSTNode, own: bool) -> None:
        self.stack.append((root, own))
        while self.stack:
            node, own = self.stack.pop()
            kind = node.__class__
            if kind is cst.Name:
                self.names.add(node.value)  # type: ignore[attr-defined]
            elif kind is cst.Attribute or kind is cst.Arg:
                self.stack.append((node.value, own))  # type: ignore[attr-defined]
            elif kind is cst.Call:
                self.stack.append((node.func, own))  # type: ignore[attr-defined]
                self.stack += [(arg.value, own) for arg in node.args]  # type: ignore[attr-defined]
            elif kind in LITERALS:
                continue
            elif kind is cst.Param:
                self.stack += [(p, own) for p in (node.annotation, node.default) if p]  # type: ignore[attr-defined]
            elif kind is cst.Import or kind is cst.ImportFrom:
                self.imported(node, own)  # type: ignore[arg-type]
            else:
                self.other(node, kind, own)

    def other(self, node: cst.CSTNode, kind: type, own: bool) -> None:
        below = children(node)
        if kind is cst.FunctionDef:
            self.names |= free_names(node)  # type: ignore[arg-type]
            below.remove(node.body)  # type: ignore[attr-defined]
            below.remove(node.name)  # type: ignore[attr-defined]  # a method may be called like what it calls
        elif kind is cst.Annotation:
            self.names |= names_in_quotes(node)  # type: ignore[arg-type]
        elif own and (kind is cst.AssignTarget or kind is cst.AnnAssign or kind is cst.For):
            self.bound |= _targets(node.target)  # type: ignore[attr-defined]
        elif own and kind is cst.AsName:  # `with open(path) as data:`
            self.bound |= _targets(node.name)  # type: ignore[attr-defined]
        elif own and kind is cst.NameItem:
            self.elsewhere.add(node.name.value)  # type: ignore[attr-defined]
        own = own and kind not in SCOPES
        self.stack += zip(below, repeat(own))

    def imported(self, node: cst.Import | cst.ImportFrom, own: bool) -> None:
        if own and not isinstance(node.names, cst.ImportStar):
            names = (alias.asname.name if alias.asname is not None else alias.name for alias in node.names)
            self.elsewhere.update(dotted(name).partition(".")[0] for name in names)


def _targets(node: cst.CSTNode) -> set[str]:
    if type(node) is cst.Name:
        return {node.value}
    if type(node) is cst.Tuple or type(node) is cst.List:
        return {name for element in node.elements for name in _targets(element.value)}
    return set()
