"""What a function takes out of its arguments, in the words of a call: `opts[key]` as `self.opts["actor"]`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNKNOWN, Value, entries

PURE = (cst.Name, cst.Attribute, cst.Subscript, cst.Index, cst.SubscriptElement, cst.Integer, cst.SimpleString)


def pure(node: cst.CSTNode) -> bool:
    """Nothing but names, attributes and items: evaluating it again, or later, makes no difference."""
    return all(isinstance(n, PURE) for n in descend(node) if isinstance(n, cst.BaseExpression))


def taken_out(place: str, info: FunctionInfo) -> cst.BaseExpression | None:
    """The expression over arguments that a place of a function stands for, None if it is something else."""
    scope, head = info.scope, root(place)
    given: cst.BaseExpression = cst.parse_expression(place)
    if head in scope.locals and head not in scope.params:
        bound = [s for s in scope.body.walk() if head in s.defs]
        node = bound[0].node if len(bound) == 1 else None
        if place != head or not isinstance(node, cst.Assign) or len(node.targets) != 1 or bound[0].block.owner:
            return None
        given = node.value
        if dotted(node.targets[0].target) != place or not pure(given):
            return None
    names = {n.value for n in _names(given)}
    changed = {d for s in scope.body.walk() for d in s.defs | s.muts}
    attributes = {dotted(n) for n in descend(given) if isinstance(n, cst.Attribute)}
    return given if names <= set(scope.params) and not (names | attributes) & changed else None


def _names(node: cst.CSTNode) -> list[cst.Name]:
    """The names that an expression reads."""
    if isinstance(node, cst.Attribute):
        return _names(node.value)
    if isinstance(node, cst.Name):
        return [node]
    return [n for child in node.children for n in _names(child)]


class Words:
    """One call, with what it gives for each parameter; `base` is the object whose method it is."""

    def __init__(self, info: FunctionInfo, bound: dict[str, cst.Arg], base: str, caller: ModuleInfo) -> None:
        self.info, self.base, self.caller = info, base, caller
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        params = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
        defaults = {p.name.value: p.default for p in params if p.default is not None}
        self.given = {name: default for name, default in defaults.items() if constant(default) is not ...}
        self.given |= {name: arg.value for name, arg in bound.items()}

    def text(self, node: cst.BaseExpression) -> str:
        """The expression as the caller would write it, "" where that is not known."""
        if isinstance(node, cst.Name):
            given = self.given.get(node.value)
            if node.value == "self" and self.info.cls is not None:
                return self.base
            return code(given) if given is not None and pure(given) else ""
        if isinstance(node, cst.Attribute):
            inner = self.text(node.value)
            return f"{inner}.{node.attr.value}" if inner else ""
        if isinstance(node, cst.Subscript):
            inner, index = self.text(node.value), _index(node)
            key = self.text(index) if index is not None else ""
            return f"{inner}[{key}]" if inner and key else ""
        return code(node)

    def value(self, node: cst.BaseExpression) -> Value:
        """What it is: of a dict that is known, the entry under the key that the call gives."""
        if isinstance(node, cst.Name) and node.value in self.given:
            return self.caller.value(self.given[node.value])
        if isinstance(node, cst.Subscript):
            index = _index(node)
            if isinstance(index, cst.Name):
                index = self.given.get(index.value)
            held = self.value(node.value)
            key = constant(index) if index is not None else None
            other = held.each or UNKNOWN
            if not isinstance(key, str):
                return other
            return entries(held).get(key) or self.stored(dotted(node.value), key) or other
        return self.info.module.value(node)

    def stored(self, place: str, key: str) -> Value | None:
        """What the classes of the object put under a key of one of its attributes, where that is one thing."""
        cls, found = self.info.cls, set()
        family = {id(c): c for c in (*cls.lineage(), *cls.below())}.values() if cls is not None else ()
        for member in family if place.startswith("self.") else ():
            for stmt in (s for info in member.methods.values() for s in info.scope.body.walk()):
                node = stmt.node
                target = node.targets[0].target if isinstance(node, cst.Assign) else None
                if isinstance(target, cst.Subscript) and dotted(target.value) == place:
                    index = _index(target)
                    if index is not None and constant(index) == key:
                        found.add(member.module.value(node.value))  # type: ignore[union-attr]
        return found.pop() if len(found) == 1 else None


def _index(node: cst.Subscript) -> cst.BaseExpression | None:
    index = node.slice[0].slice if len(node.slice) == 1 else None
    return index.value if isinstance(index, cst.Index) else None
