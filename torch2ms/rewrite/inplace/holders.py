"""What else holds the tensor of a name: the attribute, the container or the tensor of rows that it was taken out of."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.chains import base, is_change
from torch2ms.analysis.handed_out import hands_out
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.shown import taken
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.sharing import CONTAINERS, VIEWS, shows
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.rewrite.inplace import views

THROUGH = {"enumerate", "zip", "reversed", "sorted", "list", "tuple", "iter", "next", "cycle", "chain", "islice"}
TAKING = VIEWS | {"values", "items", "popleft"}
ADDING = {"append", "appendleft", "insert", "add", "push", "put"}
TENSORS = ("tensor", "param")
DEPTH = 4  # names that stand for names


def holders(name: str, stmt: Stmt, module: ModuleInfo, project: Project, depth: int = DEPTH) -> set[str]:
    """The places out of which the name got its tensor, before the statement: `data` for `x, y = data[i]`, and the
    function for `x, y = row(i)`, if that returns what it keeps."""
    found: set[str] = set()
    for other in stmt.block.scope.body.walk() if depth else ():
        if name not in other.defs or other.number >= stmt.number or type(other.node) is cst.AugAssign:
            continue
        for given in _given(name, other):
            found |= {_keeper(given, module, project)} - {""}
            for node in _inner(given, module):
                place, held = dotted(node), module.value(node)
                if not place or place == name:
                    continue
                above = holders(place, other, module, project, depth - 1) if "." not in place else set()
                known = held.kind in (*CONTAINERS, "dataset") or held.kind == "tensor" and not held.likely
                known |= held.kind == "unknown" and _under_text(given)
                found |= above | ({place} if known else set())
    return found


def given_by_keepers(name: str, stmt: Stmt, module: ModuleInfo, project: Project) -> bool:
    """A function or method gave the name a tensor that it did not make: `mean = norm.stats()`."""
    before = (s for s in stmt.block.scope.body.walk() if name in s.defs and s.number < stmt.number)
    return any(_keeper(given, module, project) for other in before for given in _given(name, other))


def handed_over(name: str, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """For the name every call gives the function what another has just made, and nobody keeps: `train(*draw())`."""
    called: list[tuple[cst.Call, ModuleInfo]] = []
    mentions: set[int] = set()
    for other in project.modules.values():
        for stmt in (stmt for s in other.scope.walk() for stmt in s.body.walk()):
            if type(stmt.node) in (cst.FunctionDef, cst.Import, cst.ImportFrom):
                continue
            mentions |= {id(n) for n in stmt.nodes if type(n) is cst.Name and n.value == scope.name}
            called += [(c, other) for c in stmt.calls if dotted(c.func).rpartition(".")[2] == scope.name]
    if scope.cls is not None or not called or len(mentions) != len(called):
        return False
    return all(_made_for(call, scope.params.index(name), name, other, project) for call, other in called)


def _made_for(call: cst.Call, position: int, name: str, module: ModuleInfo, project: Project) -> bool:
    """What a call gives for a name is made by a function of the project, or of torch, that gives it to nobody else."""
    given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == name]
    given = given or [a.value for a in call.args[: position + 1] if a.star == "*"]
    given = given or [a.value for a in call.args[position : position + 1] if a.keyword is None]
    if len(given) != 1 or type(given[0]) is not cst.Call:
        return False
    made = _reached(given[0], module, project)[1]
    if made is None or _keeper(given[0], module, project):
        return False
    tuples = (s.node.value for s in made.scope.body.walk() if type(s.node) is cst.Return)
    parts = [[code(e.value) for e in t.elements] for t in tuples if type(t) is cst.Tuple]
    return all(len(set(texts)) == len(texts) for texts in parts)  # `return x, x` gives one tensor twice


def _given(name: str, stmt: Stmt) -> list[cst.BaseExpression]:
    """The expressions out of which a statement takes what it binds to the name."""
    node = stmt.node
    if type(node) is cst.For and name in stmt.defs:
        return [taken(node.target, node.iter, name) or node.iter]
    if type(node) is cst.AnnAssign and node.value is not None:
        return [node.value]
    return [g for t in node.targets for g in _beside(name, t.target, node.value)] if type(node) is cst.Assign else []


def _beside(name: str, target: cst.BaseExpression, value: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """What the name gets in `x, y = batch["x"], batch["y"]` and in `x, y = batch`."""
    if not isinstance(target, (cst.Tuple, cst.List)):
        if dotted(target) == name:
            yield value
        return
    shown = isinstance(value, (cst.Tuple, cst.List)) and len(value.elements) == len(target.elements)
    for i, part in enumerate(target.elements):
        yield from _beside(name, part.value, value.elements[i].value if shown else value)  # type: ignore[attr-defined]


def _inner(node: cst.BaseExpression, module: ModuleInfo) -> Iterator[cst.BaseExpression]:
    """The names and attributes that an expression takes something out of, or is."""
    if isinstance(node, (cst.Name, cst.Attribute)) and dotted(node):
        yield node
    elif isinstance(node, (cst.Subscript, cst.Attribute)):
        yield from _inner(node.value, module)
    elif isinstance(node, cst.IfExp):
        yield from (*_inner(node.body, module), *_inner(node.orelse, module))
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _inner(element.value, module)
    elif isinstance(node, cst.BinaryOperation) and module.value(node).kind in CONTAINERS:
        yield from (*_inner(node.left, module), *_inner(node.right, module))
    elif isinstance(node, cst.Call) and dotted(node.func).rpartition(".")[2] in THROUGH:
        for arg in node.args:
            yield from _inner(arg.value, module)
    elif isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in TAKING:
        yield from _inner(node.func.value, module)


def _under_text(node: cst.BaseExpression) -> bool:
    """`state["v"]`: what has text for a key is a dict, whatever it was taken for."""
    key = node.slice[0].slice if isinstance(node, cst.Subscript) and len(node.slice) == 1 else None
    return isinstance(key, cst.Index) and isinstance(constant(key.value), str)


def takes_tensors(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """What is not seen is added a tensor, or is changed by a tensor's method: `v *= beta`, `v += p.grad ** 2`."""
    for stmt in scope.body.walk():
        node = stmt.node
        if type(node) is cst.AugAssign and dotted(node.target) == name and module.value(node.value).kind in TENSORS:
            return True
        if any(is_change(call) and dotted(base(call)) == name for call in stmt.calls):
            return True
    return False


def _keeper(given: cst.BaseExpression, module: ModuleInfo, project: Project) -> str:
    """The function, or the object, of the project that gives what it did not make, `return self.x[i], self.y[i]`, or
    what it keeps as well: `self.last = h`, `return h`."""
    owner, info = _reached(given, module, project)
    if info is None or info.cached:
        return owner if info is not None else ""
    scope = info.scope
    returned = (s.node.value for s in scope.body.walk() if type(s.node) is cst.Return and s.node.value is not None)
    places = {dotted(node).partition(".")[0] for value in returned for node in _inner(value, info.module)}
    others = places - scope.locals or "self" in places or _kept(places, scope) or hands_out(info, project)
    return owner if others else ""


def _reached(given: cst.BaseExpression, module: ModuleInfo, project: Project) -> tuple[str, FunctionInfo | None]:
    """The function or method of the project that an expression runs, and what it is called on."""
    called = given.func if type(given) is cst.Call else given
    owner = called.value if type(called) in (cst.Attribute, cst.Subscript) else called  # type: ignore[attr-defined]
    owner = called if module.value(owner).kind == "modulefile" else owner
    runs = module.value(called).kind in ("module", "object") and type(given) is cst.Call
    owner, method = (called, "forward") if runs else (owner, "__getitem__")
    name = module.value(owner).name
    info = project.find(name, module) if name and (called is not given or owner is not called) else None
    if isinstance(info, ClassInfo):
        own = type(called) is cst.Attribute and not runs
        info = info.method(called.attr.value if own else method) or info.method("__call__")  # type: ignore[attr-defined]
    return dotted(owner), info if isinstance(info, FunctionInfo) else None


def shown_by_property(node: cst.CSTNode, module: ModuleInfo, project: Project) -> str:
    """How the memory can be written that `stats.mean` of `return self.rows[0]` shows (see views.memory)."""
    if not isinstance(node, cst.Attribute):
        return ""
    owner = module.value(node.value)
    info = _reached(node, module, project)[1] if owner.kind in ("object", "module") and owner.name else None
    if info is None:
        return ""
    found = {
        views.shown(s.node.value, s, info.scope, info.module)
        for s in info.scope.body.walk() if type(s.node) is cst.Return and s.node.value is not None
    }  # fmt: skip
    return next((sort for sort in (views.LOST, views.VIEW, views.PART) if sort in found), views.WHOLE)


def keepers(name: str, stmt: Stmt, module: ModuleInfo, project: Project) -> set[str]:
    """The objects that were given the tensor before a statement, and keep it: `meter.update(loss.detach())`."""
    before = [s for s in stmt.block.scope.body.walk() if s.number < stmt.number]
    bound = max((s.number for s in before if name in s.defs and type(s.node) is not cst.AugAssign), default=-1)
    found = set[str]()
    for call in (c for s in before if s.number > bound and name in s.uses for c in s.calls):
        places = [i for i, a in enumerate(call.args) if a.keyword is None and name in shows(a.value)]
        owner, info = _reached(call, module, project) if places else ("", None)
        if info is not None:
            params = info.scope.params[bool(info.scope.cls and info.scope.params[:1] == ["self"]) :]
            found |= {owner} if _kept({params[i] for i in places if i < len(params)}, info.scope) else set()
    return found


def _kept(names: set[str], scope: Scope) -> bool:
    """The function puts the tensor of one of its names where it is found after the call."""
    for stmt in scope.body.walk() if names else ():
        node = stmt.node
        if type(node) is cst.Assign and shows(node.value) & names:
            held = (t.target.value if type(t.target) is cst.Subscript else t.target for t in node.targets)
            if any("." in dotted(place) or dotted(place) not in scope.locals for place in held):
                return True
        for call in stmt.calls:
            adds = type(call.func) is cst.Attribute and call.func.attr.value in ADDING
            if adds and any(shows(a.value) & names for a in call.args) and root(dotted(call.func)) not in names:
                place = dotted(call.func)
                if place.count(".") > 1 or root(place) not in scope.locals or root(place) in scope.params:
                    return True
    return False


def taken_as_tensor(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """What is not seen, `x` or `batch["x"]`, is handed to a network, or to a function of torch that takes tensors."""
    for stmt in scope.body.walk():
        for call in stmt.calls:
            func = module.value(call.func)
            layer = (
                func.kind == "module"
                or func.kind == "api"
                and (func.name.startswith("torch.nn.functional.") or func.name.endswith("_like"))
            )
            if layer and any(code(a.value) == name for a in call.args):
                return True
    return False
