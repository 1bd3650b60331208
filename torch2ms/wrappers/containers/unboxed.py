"""`box["opt"] = Adam(box["net"].parameters())`, where each network and each optimizer gets a name of its own.

`box["opt"]` is `box_opt` everywhere then. The dict goes where nothing else asks for it.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Suites, small_of
from torch2ms.wrappers.boxes import Box, boxes, class_of, key_of, names_of, own_nodes, parts, sees
from torch2ms.wrappers.passes import each_module


@each_module
def unboxed(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module that has boxes with optimizers."""
    found = boxes(module, project)
    if not any(box.trains for box in found):
        return None
    named = [one for box in found if (one := _Named(box, module, project)).names]
    return _Writer(module, named).plain() if named else None


class _Named:
    """A box with the new names, and what they are written in place of."""

    def __init__(self, box: Box, module: ModuleInfo, project: Project) -> None:
        self.box, self.module = box, module
        self.names = self._names()
        self.items: dict[int, str] = {}
        self.values: set[int] = set()
        for scope in module.scope.walk() if self.names else ():
            if not sees(scope, box.scope, root(box.place)):
                continue
            places = names_of(box.place, scope)
            for stmt in scope.body.walk():
                for node in own_nodes(stmt):
                    if type(node) is cst.Subscript or type(node) is cst.Attribute:
                        if dotted(node.value) in places and (key := key_of(node)) in self.names:
                            self.items[id(node)] = self.names[str(key)]
                    elif type(node) is cst.Call and not node.args and isinstance(node.func, cst.Attribute):
                        taken = node.func.attr.value == "values" and dotted(node.func.value) in places
                        if taken and len(self.names) == len(box.held) and box.whole(scope, stmt.number):
                            self.values.add(id(node))
        if not self.items:
            self.names = {}
        self.gone = bool(self.names) and self._unasked(project)

    def _names(self) -> dict[str, str]:
        box, module = self.box, self.module
        keys = [k for k in box.living if k.isidentifier()]
        cls = class_of(box.scope, module)
        if cls is not None and cls.kind == "module" and box.place.startswith("self."):  # layers would be its own then
            keys = [k for k in keys if all(v.kind != "module" and not v.leaf for v in box.held[k])]
        names = {key: f"{box.place}_{key}" for key in keys}
        scopes = list(module.scope.walk())
        taken = {n for s in scopes for n in s.locals} | {d for s in scopes for t in s.body.walk() for d in t.defs}
        both = parts(box.node)
        assert both is not None
        return {} if taken & set(names.values()) or not _in_order(both[1], names) else names

    def _unasked(self, project: Project) -> bool:
        """All that is ever done with the dict is to put these things in, and to take them out."""
        box = self.box
        both = parts(box.node)
        assert both is not None
        bare = isinstance(both[1], (cst.Dict, cst.Call)) and set(box.held) <= set(self.names)
        if "." in box.place or not bare or (isinstance(both[1], cst.Call) and not _empty(both[1])):
            return False
        met = [n for n in descend(self.module.tree) if isinstance(n, cst.Name) and n.value == box.place]
        if len(met) != 1 + len(self.items) + len(self.values):
            return False
        word = re.compile(rf"\b{box.place}\b")
        others = (m for m in project.modules.values() if m is not self.module)
        return not box.scope.is_module or not any(word.search(m.source) for m in others)


def _empty(node: cst.Call) -> bool:
    """`dict()`, or `dict(net=Net())`."""
    return dotted(node.func) == "dict" and all(a.keyword is not None for a in node.args)


def _in_order(node: cst.BaseExpression, names: dict[str, str]) -> bool:
    """What gets a name is made first: nothing that may run stands before it in the dict."""
    pairs = _pairs(node)
    runs = [key not in names and any(isinstance(n, cst.Call) for n in descend(value)) for key, value in pairs]
    last = max((i for i, (key, _) in enumerate(pairs) if key in names), default=-1)
    return not any(runs[: last + 1])


def _pairs(node: cst.BaseExpression) -> list[tuple[str, cst.BaseExpression]]:
    """The entries that a dict is written down with."""
    if isinstance(node, cst.Dict):
        return [(str(constant(e.key)), e.value) for e in node.elements if isinstance(e, cst.DictElement)]
    if isinstance(node, cst.Call) and _empty(node):
        return [(a.keyword.value, a.value) for a in node.args if a.keyword is not None]
    return []


class _Writer(Suites):
    """One module, with the names."""

    def __init__(self, module: ModuleInfo, named: list[_Named]) -> None:
        super().__init__(module)
        self.made: dict[int, list[_Named]] = {}  # by id of the statement that makes them
        for one in named:
            self.made.setdefault(id(one.box.node), []).append(one)
        self.stored = {key: n for n in named for key in n.box.stores}
        self.items = {key: name for n in named for key, name in n.items.items()}
        self.values = {key: n for n in named for key in n.values}

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        if several := self.made.get(id(node)):
            return self.making(node, several)
        one = self.stored.get(id(node))
        key = one.box.stores[id(node)] if one is not None else ""
        both = parts(node)
        if one is None or both is None or key not in one.names:
            return [self.rewrite(node)]
        name = one.names[key]
        value = self.rewrite(both[1])
        assert isinstance(value, cst.BaseExpression)
        made: list[cst.CSTNode] = [cst.Assign([cst.AssignTarget(cst.parse_expression(name))], value)]  # type: ignore[arg-type]
        if not one.gone:
            made.append(cst.Assign([cst.AssignTarget(both[0])], cst.parse_expression(name)))  # type: ignore[arg-type]
        return made

    def making(self, node: cst.BaseSmallStatement, several: list[_Named]) -> list[cst.CSTNode]:
        """The statement that makes the dict, below those that make what gets a name."""
        made = self.rewrite(node)
        both = parts(made)
        assert both is not None
        written = isinstance(both[1], cst.Dict) or isinstance(both[1], cst.Call) and _empty(both[1])
        if not written:
            return [made, *(line for one in several for line in self.given(one))]
        one, pairs = several[0], _pairs(both[1])
        above: list[cst.CSTNode] = [small_of(f"{one.names[k]} = {code(v)}") for k, v in pairs if k in one.names]
        if one.gone:
            return above
        return [*above, made.visit(_Entries(one.names))] if above else [made]  # type: ignore[list-item]

    def given(self, one: _Named) -> list[cst.CSTNode]:
        """The names of what a function has put into the dict that it gives back."""
        later = set(one.box.stores.values())
        return [small_of(f"{n} = {one.box.place}[{k!r}]") for k, n in one.names.items() if k not in later]

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        name = self.items.get(id(original))
        return updated if name is None else cst.parse_expression(name)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        name = self.items.get(id(original))
        return updated if name is None else cst.parse_expression(name)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        one = self.values.get(id(original))
        if one is None:
            return updated
        names = [one.names[key] for key in one.box.held]
        return cst.parse_expression(f"({', '.join(names)}{',' * (len(names) == 1)})")


class _Entries(cst.CSTTransformer):
    """The entries of the outermost dict, with names in place of what got one."""

    def __init__(self, names: dict[str, str]) -> None:
        super().__init__()
        self.names = names

    def visit_DictElement(self, node: cst.DictElement) -> bool:
        return False

    def visit_Arg(self, node: cst.Arg) -> bool:
        return False

    def leave_DictElement(self, original: cst.DictElement, updated: cst.DictElement) -> cst.DictElement:
        name = self.names.get(str(constant(original.key)))
        return updated if name is None else updated.with_changes(value=cst.parse_expression(name))

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        name = self.names.get(original.keyword.value) if original.keyword is not None else None
        return updated if name is None else updated.with_changes(value=cst.parse_expression(name))
