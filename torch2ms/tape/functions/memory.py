"""Names that share the memory of a tensor: `flat = h.view(-1)`, `a = h`, `for t in (h, k)`. What is written into one is
written into all, so that a statement which writes takes part in the forward of each of them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation import activations
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import children, descend
from torch2ms.analysis.values import UNKNOWN
from torch2ms.tape.functions.changing import changed
from torch2ms.tape.functions.foreign import SHOWING, change

FUNCTIONS = ("torch.", "torch.nn.functional.")  # `relu_` of these writes into its first argument
OF_DISPLAY = re.compile(r"\]\s*\.\s*\w+_\(")  # `[h, g][i].mul_(`
NUMBERS = ("int", "float", "bool", "str", "none")  # what is never changed in place
THROUGH = ("enumerate", "zip", "reversed", "list", "tuple")
SAME_MEMORY = {"torch.from_numpy", "torch.as_tensor", "torch.asarray", "numpy.asarray", "numpy.asanyarray",
               "numpy.ravel", "numpy.reshape", "numpy.transpose", "numpy.squeeze", "numpy.expand_dims"}  # fmt: skip
VIEWS = frozenset(SHOWING) | {"numpy", "cpu", "ravel", "narrow", "select", "view_as", "swapaxes", "diagonal", "unfold",
                               "get", "setdefault"}  # fmt: skip


def spread_writes(project: Project) -> bool:
    """Add to statements that write into tensors the other names of what they write into; whether there are any."""
    more = False
    for module in project.modules.values():
        displays = module.says(OF_DISPLAY)
        for scope in module.scope.walk():
            if type(scope.node) is cst.ClassDef:
                continue
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if type(call.func) is not cst.Attribute or call.func.attr.value[-1:] != "_":
                        continue
                    if _function(call) and _of_torch(call, module) and (place := dotted(call.args[0].value)):
                        more |= change(stmt, place, scope)
                for place in (*_activated(stmt, module, project), *changed(stmt, module),
                              *(_displayed(stmt) if displays else ())):  # fmt: skip
                    more |= change(stmt, place, scope)
            found = [(s, p, _changes(s, p, module)) for s in scope.body.walk() if s.muts for p in sorted(s.muts)]
            written = [(s, p, False) for s, p, changes in found if changes]
            if scope.twins:
                written += [(s, p, True) for s, p, changes in found if not changes and _fills(s, p)]
            if not written:
                continue
            for stmt in scope.body.walk():
                stmt.shown |= _handed_back(stmt, module, project)
            shared = _Shared(scope, module)
            for stmt, place, fills in written if shared.aliases else ():
                for other in shared.names(place, stmt, fills):
                    more |= change(stmt, other, scope)
    return more


def _function(call: cst.Call) -> bool:
    """`F.relu_(x)`, perhaps."""
    name = call.func.attr.value if type(call.func) is cst.Attribute else ""
    return name.endswith("_") and not name.endswith("__") and bool(call.args)


def _of_torch(call: cst.Call, module: ModuleInfo) -> bool:
    value = module.value(call.func)
    return value.kind == "api" and any(value.name == f"{home}{value.name.rpartition('.')[2]}" for home in FUNCTIONS)


def _activated(stmt: Stmt, module: ModuleInfo, project: Project) -> list[str]:
    """`act(x)` alone, whose layer activates in place: the tensors that it writes into."""
    call = stmt.node.value if type(stmt.node) is cst.Expr else None
    if type(call) is not cst.Call or not call.args:
        return []
    places = (dotted(arg.value) for arg, _ in activations.subjects(call, module, project))
    return [place for place in places if place]


def _displayed(stmt: Stmt) -> Iterator[str]:
    """`[h, g][i].mul_(2)`: the tensors that the statement may write into."""
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and type(call.func.value) is cst.Subscript:
            if call.func.attr.value.endswith("_") and type(call.func.value.value) in (cst.List, cst.Tuple):
                yield from _elements(call.func.value)


def _of_elements(stmt: Stmt) -> set[str]:
    """Containers whose tensors the statement writes into: `kept[-1].mul_(2)`, `scale_all(tensors)`."""
    node, found = stmt.node, set()
    if type(node) is cst.AugAssign and type(node.target) is cst.Subscript:
        found.add(dotted(node.target.value))
    for call in stmt.calls:
        func = call.func
        if type(func) is cst.Attribute and func.attr.value.endswith("_") and not func.attr.value.endswith("__"):
            inner = func.value
            while type(inner) is cst.Subscript:
                inner = inner.value
            found.add(dotted(inner))
        else:
            found |= {place for arg in call.args for place in _elements(arg.value)}
    return found - {""}


def _changes(stmt: Stmt, place: str, module: ModuleInfo) -> bool:
    """The statement writes into a tensor in the place, or into those of the container that is there."""
    return _writes(stmt, place, module) or place in _of_elements(stmt)


def _writes(stmt: Stmt, place: str, module: ModuleInfo) -> bool:
    """The statement writes into the tensor in the place, or into tensors that it holds; numbers are bound again."""
    value = stmt.out.get(place)
    node = stmt.node
    if type(node) is cst.AugAssign:
        held = module.value(node.target)
        return held.kind in ("tensor", "numpy") or held.kind == "unknown" and bool(held.deps)
    return value is None or value.kind in ("tensor", "unknown", "param", "numpy")


def _handed_back(stmt: Stmt, module: ModuleInfo, project: Project) -> set[str]:
    """The tensors whose memory a function of the project shows in what it returns: `first = head(rows)`."""
    value = stmt.node.value if type(stmt.node) is cst.Assign else None
    if type(value) is not cst.Call or type(value.func) is not cst.Name or not value.args:
        return set()
    info = project.find(value.func.value, module)
    if type(info) is not FunctionInfo or not (shown := _shown_by(info)):
        return set()
    names = zip(info.scope.params, value.args, strict=False)
    given = ((arg.keyword.value if arg.keyword is not None else name, dotted(arg.value)) for name, arg in names)
    return {place for name, place in given if place and name in shown}


def _shown_by(info: FunctionInfo) -> set[str]:
    """The parameters of a function that it returns as they are, or views of."""
    stmts = list(info.scope.body.walk())
    ends = (s.node.value for s in stmts if type(s.node) is cst.Return and s.node.value is not None)
    found = {_shown(value, info.module) for value in ends} & set(info.scope.params)
    return found - {name for s in stmts for name in s.defs} if found else found


def _fills(stmt: Stmt, place: str) -> bool:
    """The statement puts something into the container in the place, and leaves alone what is in there."""
    value = stmt.out.get(place)
    return value is not None and value.kind in ("list", "dict")


class _Shared:
    """Which names of a scope show the same memory."""

    def __init__(self, scope: Scope, module: ModuleInfo) -> None:
        self.bound: dict[str, list[Stmt]] = {}
        self.aliases: list[tuple[Stmt, str, str]] = []  # where a name is bound to what another one shows
        self.filled: set[tuple[int, str]] = set()  # by number of a statement: a container that it adds to
        for stmt in scope.body.walk():
            for place in stmt.defs:
                if type(stmt.node) is not cst.AugAssign:
                    self.bound.setdefault(place, []).append(stmt)
            self.aliases += [(stmt, name, source) for name, source in _shares(stmt, module)]
            self.filled |= {(stmt.number, name) for name in stmt.muts - stmt.defs}

    def names(self, place: str, stmt: Stmt, container: bool = False) -> set[str]:
        """The other names of what the place holds where the statement runs; of the `container` that it is alone."""
        found, waiting = {place}, [place]
        while waiting:
            current = waiting.pop()
            for made, name, source in self.aliases:
                if made.number >= stmt.number or container and not _renames(made, name, source):
                    continue
                if not self.holds(name, made, stmt):
                    continue
                other = source if name == current else name if source == current else ""
                if other and other not in found and not self.between(source, made, stmt):
                    found.add(other)
                    waiting.append(other)
        return found - {place}

    def holds(self, name: str, made: Stmt, stmt: Stmt) -> bool:
        """What a statement put under the name, or into the container of that name, is still there."""
        last = self.last(name, stmt)
        return last is made or (made.number, name) in self.filled and (last is None or last.number < made.number)

    def last(self, name: str, stmt: Stmt) -> Stmt | None:
        """What bound the name before the statement."""
        before = [s for s in self.bound.get(name, ()) if s.number < stmt.number]
        return before[-1] if before else None

    def between(self, source: str, made: Stmt, stmt: Stmt) -> bool:
        """The source is bound anew after it got the other name."""
        return any(made.number < s.number < stmt.number for s in self.bound.get(source, ()))


def _renames(stmt: Stmt, name: str, source: str) -> bool:
    """`kept = losses`: one thing under two names."""
    node = stmt.node
    if type(node) is not cst.Assign or name not in stmt.defs:
        return False
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(t.target, node.value) for t in node.targets]
    first = pairs[0][0]
    if type(node.value) is cst.Tuple and type(first) is cst.Tuple:
        pairs = [(t.value, v.value) for t, v in zip(first.elements, node.value.elements, strict=False)]
    return any(dotted(t) == name and dotted(v) == source for t, v in pairs)


def _shares(stmt: Stmt, module: ModuleInfo) -> Iterator[tuple[str, str]]:
    """The names that a statement binds to what other places show."""
    node = stmt.node
    if type(node) is cst.Assign and module.value(node.value).kind not in NUMBERS:  # `correct = total = 0`
        first = node.targets[0].target
        for target in node.targets:
            yield from _assigned(target.target, node.value, stmt, module)
        for target in node.targets[1:]:  # `loss = total = f(x)`
            yield from _assigned(target.target, first, stmt, module)
        name = dotted(first)
        if name and type(node.value) is cst.Call and module.value(node.value.func).kind not in ("api", "module"):
            # a helper that writes into what it is given may return it
            given = {dotted(a.value) for a in node.value.args}
            yield from ((name, place) for place in sorted(stmt.shown | stmt.muts & given) if place not in (name, ""))
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and call.func.attr.value == "append" and call.args:
            if (name := dotted(call.func.value)) and (source := _shown(call.args[0].value, module)):
                yield name, source
    if module.has(":="):
        yield from _walrus(stmt, module)
    if type(node) is cst.For:
        names = [n for n in stmt.defs if "." not in n]
        for name in names:
            yield from ((name, source) for source in _elements(node.iter) if source != name)


def _assigned(
    target: cst.BaseExpression, value: cst.BaseExpression, stmt: Stmt, module: ModuleInfo
) -> Iterator[tuple[str, str]]:
    """What one assignment gives a second name, also within containers."""
    if type(target) is cst.Tuple and type(value) is cst.Tuple and len(target.elements) == len(value.elements):
        for one, other in zip(target.elements, value.elements, strict=True):
            yield from _assigned(one.value, other.value, stmt, module)
    elif type(target) is cst.Tuple or type(target) is cst.List:
        for element in target.elements:  # `first, second = pair`
            yield from _assigned(element.value, value, stmt, module)
    elif name := dotted(target.value if type(target) is cst.Subscript else target):
        if type(target) is cst.Subscript and stmt.out.get(name, UNKNOWN).kind not in ("dict", "list"):
            return  # what is stored in a tensor is copied
        for source in (_shown(value, module), *_elements(value)):
            if source and source != name and root(source) != "torch":
                yield name, source


def _walrus(stmt: Stmt, module: ModuleInfo) -> Iterator[tuple[str, str]]:
    """`(z := h)` in a statement, or before its blocks."""
    for top in children(stmt.node) if any("." not in d for d in stmt.defs) else ():
        if isinstance(top, (cst.BaseSuite, cst.Else, cst.Finally, cst.If)):
            continue
        for node in descend(top):
            if type(node) is cst.NamedExpr and (source := _shown(node.value, module)):
                yield dotted(node.target), source


def _shown(node: cst.BaseExpression, module: ModuleInfo) -> str:
    """The place whose memory an expression shows."""
    while True:
        if type(node) is cst.Call and node.args and qualified(node.func, module.imports) in SAME_MEMORY:
            node = node.args[0].value
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in VIEWS:
            node = node.func.value
        elif type(node) is cst.Subscript:
            held = module.value(node.value).kind in ("list", "dict")
            if not held and not all(_basic(e.slice, module) for e in node.slice):
                return ""
            node = node.value
        elif type(node) is cst.Attribute and node.attr.value in ("data", "T", "mT"):
            node = node.value
        else:
            return dotted(node)


def _basic(part: cst.BaseSlice, module: ModuleInfo) -> bool:
    """A slice, a number, or the key of an entry: what it picks is no copy."""
    if type(part) is not cst.Index:
        return type(part) is cst.Slice
    return type(part.value) in (cst.Integer, cst.Ellipsis) or module.value(part.value).kind in ("int", "str")


def _elements(node: cst.BaseExpression) -> Iterator[str]:
    """The places whose tensors a loop takes in turn."""
    if type(node) is cst.Call and dotted(node.func) in THROUGH:
        for arg in node.args:
            yield from _elements(arg.value)
    elif type(node) is cst.Call and dotted(node.func) == "dict":
        yield from (place for a in node.args if (place := dotted(a.value)))
    elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in ("values", "items"):
        yield from (place for place in (dotted(node.func.value),) if place)
    elif type(node) is cst.Tuple or type(node) is cst.List:
        for element in node.elements:
            if type(element) is cst.StarredElement:
                yield from _elements(element.value)
            elif place := dotted(element.value):
                yield place
    elif type(node) is cst.Subscript and type(node.value) in (cst.List, cst.Tuple):
        yield from _elements(node.value)
    elif type(node) is cst.Dict:
        yield from (place for e in node.elements if (place := dotted(e.value)))
    elif type(node) is cst.Name:
        yield node.value
