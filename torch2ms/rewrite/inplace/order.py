"""Which reads of a name in a statement see what a call in the middle of it does to the tensor."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.syntax.tree import children, descend

COMPREHENSIONS = (cst.ListComp, cst.SetComp, cst.DictComp, cst.GeneratorExp)
CARRIERS = (cst.Arg, cst.Element, cst.Tuple, cst.List, cst.StarredElement, cst.DictElement, cst.Dict)
Path = tuple[cst.CSTNode, ...]  # from a statement to one of its expressions


def path(node: cst.CSTNode, to: cst.CSTNode) -> Path:
    """The nodes from the first to the second, both included; nothing where it does not stand below."""
    if node is to:
        return (node,)
    for child in children(node):
        if below := path(child, to):
            return (node, *below)
    return ()


def reads(node: cst.CSTNode, names: set[str]) -> Iterator[cst.Name]:
    """Uses of the names, which are neither targets nor the names of attributes, arguments or parameters."""
    skipped: set[int] = set()
    for n in descend(node):
        if isinstance(n, (cst.AssignTarget, cst.CompFor)):
            skipped |= {id(below) for below in descend(n.target)}
        elif isinstance(n, cst.Attribute):
            skipped.add(id(n.attr))
        elif isinstance(n, cst.Param):
            skipped.add(id(n.name))
        elif isinstance(n, cst.Arg) and n.keyword is not None:
            skipped.add(id(n.keyword))
        if isinstance(n, cst.Name) and n.value in names and id(n) not in skipped:
            yield n


def sees(use: Path, call: Path) -> bool:
    """The use is read after the call, or is handed on unread until then: `x + act(x)`, but not `x.sum() + act(x)`."""
    depth = next(i for i, (a, b) in enumerate(zip(use, call, strict=False)) if a is not b)
    common, mine, other = use[depth - 1], use[depth], call[depth]
    if isinstance(common, cst.IfExp):
        return other is common.test  # of the two others, one alone is evaluated
    parts = children(common)
    at = [next(i for i, part in enumerate(parts) if part is one) for one in (mine, other)]
    if at[0] > at[1]:
        return True
    between = use[depth:-1]
    if isinstance(common, cst.Call) and between and isinstance(between[-1], cst.Attribute):
        between = between[:-1]  # a method, called when its arguments are there
    return not isinstance(common, cst.BooleanOperation) and all(isinstance(n, CARRIERS) for n in between)


def own_scope(call: Path, name: str) -> cst.CSTNode | None:
    """The lambda or comprehension around the call that binds the name."""
    for node in reversed(call):
        if isinstance(node, cst.Lambda) and any(
            isinstance(p, cst.Param) and p.name.value == name for p in descend(node.params)
        ):
            return node
        if isinstance(node, COMPREHENSIONS) and any(
            isinstance(n, cst.Name) and n.value == name
            for part in descend(node.for_in) if isinstance(part, cst.CompFor) for n in descend(part.target)
        ):  # fmt: skip
            return node
    return None


def sources(scope: cst.CSTNode) -> set[str]:
    """The names of what a comprehension goes through."""
    if not isinstance(scope, COMPREHENSIONS):
        return set()
    parts = [part.iter for part in descend(scope.for_in) if isinstance(part, cst.CompFor)]
    return {n.value for part in parts for n in descend(part) if isinstance(n, cst.Name)}
