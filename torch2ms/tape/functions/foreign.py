"""What called functions change beside what they return: attributes of other objects, containers, captured names.

`strategy.loss = strategy.loss + penalty` in a plugin: the object finds its own attribute changed by a call that does
not name it. `add_penalty(losses, model)` fills the list that it is handed, a nested function binds a name of the one
around it. Such calls write those places: they go where the forward goes that makes them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Set

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import bound_arguments, receiver, versions
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, method_called
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import UNKNOWN, Value, replace
from torch2ms.tape.functions.reach import Known, Reach, family

ROUNDS = 3  # a container is handed on through as many functions
CONTAINERS = ("list", "dict", "tuple", "object", "unknown")  # what a called function may fill
SHOWING = ("view", "reshape", "squeeze", "unsqueeze", "flatten", "t", "transpose", "permute", "detach", "contiguous",
           "data", "T", "to", "requires_grad_")  # fmt: skip
OF_TENSORS = {
    "grad",
    "grads",
    "data",
    "requires_grad",
    "training",
    "param_groups",
    "__dict__",
}  # no objects of the project's


def spread_foreign(known: Known) -> None:
    """Add to the calls that may run such a function what it writes there."""
    written = _written(known.project)
    asked = _asked(known.project, written.keys()) if written else {}
    if not asked:
        return
    homes = {id(scope): (scope, module) for scope, module in known.ways.every}
    for attr in (a for a in written if a in asked):
        places, scopes = asked[attr], written[attr]
        reach, bound = Reach(known, set(scopes)), any(scopes.values())
        for key, here in places.items():
            for stmt, _ in reach.calls(*homes[key]):
                for place in sorted(here):
                    _write(stmt, place, homes[key][0], bound)


def spread_changes(known: Known) -> bool:
    """Add to calls what the called functions change of the containers that they are handed, and of captured names.

    Whether there was any such thing.
    """
    infos = {id(i.scope): i for m in known.project.modules.values() for i in m.functions.values()}
    more = False
    for _ in range(ROUNDS):
        changing = {key: found for key, i in infos.items() if (found := _changed(i))}
        if not changing:
            return more
        reach, any_of = Reach(known, set(changing)), [infos[key] for key in changing]
        again = _through_networks(known, {k: c for k, c in changing.items() if infos[k].name == "forward"})
        for scope, module in known.ways.every:
            for stmt, call in reach.calls(scope, module):
                info = known.callee.get(id(call))
                for each in versions(info) if info is not None else ():
                    again |= _hand_over(stmt, call, each, changing.get(id(each.scope), set()), scope, module)
                if info is None:
                    again |= _hand_over_all(stmt, call, any_of, scope, module)
        if not again:
            return more
        more = True
    return more


def _through_networks(known: Known, changing: dict[int, set[str]]) -> bool:
    """What networks change of the tensors that they are called with; whether that is new."""
    more = False
    for module in known.project.modules.values() if changing else ():
        for scope in module.scope.walk():
            for stmt, call in ((s, c) for s in scope.body.walk() for c in s.calls):
                value = module.value(call.func)
                found = known.project.find(value.name, module) if value.kind == "module" and value.name else None
                info = found.method("forward") if isinstance(found, ClassInfo) else None
                if info is not None and id(info.scope) in changing:
                    run = call.with_changes(func=cst.Attribute(call.func, cst.Name("forward")))
                    more |= _hand_over(stmt, run, info, changing[id(info.scope)], scope, module)
    return more


def _changed(info: FunctionInfo) -> set[str]:
    """Places of its parameters, and of what stands around it, that a function changes in place or binds anew."""
    own = info.scope.locals - set(info.scope.params)
    outer = info.scope.parent
    around = outer.locals if outer is not None and (outer.is_function or outer.is_module) else set()
    found: set[str] = set()
    for stmt in info.scope.body.walk():
        bound = {d for d in stmt.defs if d in around and d not in info.scope.locals}
        for place in stmt.muts | (bound if outer is not None and outer.is_function else set()):
            head = root(place)
            parameter = head in info.scope.params and head != "self"
            if parameter or head in around and head not in own:
                found.add(place)
    return found


def _hand_over(
    stmt: Stmt, call: cst.Call, info: FunctionInfo, changed: set[str], scope: Scope, module: ModuleInfo
) -> bool:
    """What one function that is called changes, in the caller's words."""
    bound = bound_arguments(info, call)
    more = False
    for place in sorted(changed):
        head, _, rest = place.partition(".")
        if (gathered := _gathered(head, info, call)) is not None:
            if rest or _written_into(head, info):
                more |= any([change(stmt, each, scope) for node in gathered for each in _tensors(node, module)])
        elif head in info.scope.params:
            given = bound.get(head)
            held = dotted(given.value) if given is not None else ""
            value = module.value(given.value) if given is not None else UNKNOWN
            if not held and given is not None and not rest and _written_into(head, info):
                more |= any([change(stmt, each, scope) for each in _shown(given.value, module)])
            elif held and value.kind in CONTAINERS and (rest or _written_into(head, info)):
                new = change(stmt, f"{held}.{rest}" if rest else held, scope)
                if new and value.kind == "list" and not value.deps:
                    _given_on(stmt, held, call, module)
                more |= new
            elif held and not rest and value.kind == "tensor" and _written_into(head, info):
                more |= change(stmt, held, scope)
        elif head in scope.locals and info.scope.parent is scope:
            more |= change(stmt, place, scope)
            stmt.rebinds |= any(place in s.defs - s.muts for s in info.scope.body.walk())
    return more


def _gathered(name: str, info: FunctionInfo, call: cst.Call) -> list[cst.BaseExpression] | None:
    """What a call gives to the `*args` or `**kwargs` of a function; None for another parameter."""
    params = info.scope.node.params  # type: ignore[union-attr]
    if type(params.star_arg) is cst.Param and params.star_arg.name.value == name:
        taken = len(params.posonly_params) + len(params.params) - (receiver(info, call) is not None)
        given = [a for a in call.args if a.keyword is None and a.star != "**"]
        return [a.value for i, a in enumerate(given) if i >= taken or a.star]
    if params.star_kwarg is not None and params.star_kwarg.name.value == name:
        named = {p.name.value for p in (*params.params, *params.kwonly_params)}
        return [a.value for a in call.args if a.star == "**" or a.keyword is not None and a.keyword.value not in named]
    return None


def _tensors(node: cst.BaseExpression, module: ModuleInfo) -> list[str]:
    """The places of the tensors, and of the containers of tensors, that an argument shows."""
    place, kind = dotted(node), module.value(node).kind
    if place:
        return [place] if kind == "tensor" or kind in CONTAINERS else []
    return _shown(node, module)


def _shown(display: cst.BaseExpression, module: ModuleInfo) -> list[str]:
    """The tensors that a list, tuple or dict of names is made of where it is handed over; or what has the container."""
    if type(display) is cst.Subscript and module.value(display).kind in (*CONTAINERS, "unknown"):
        place = dotted(display.value)  # `book["terms"]` takes something in: so does the book
        return [place] if place and module.value(display.value).kind in CONTAINERS else []
    if not isinstance(display, (cst.List, cst.Tuple, cst.Dict)):
        return []
    return [place for e in display.elements for place in _tensors(e.value, module)]


def _written_into(name: str, info: FunctionInfo) -> bool:
    """The function writes into what it is given under the name, and not into something that it made of it."""
    for stmt in info.scope.body.walk():
        if name in stmt.muts and not _only_flags(stmt, name):
            return True
        if name in stmt.defs and stmt.block is info.scope.body and not _same(stmt.node, name):
            return False
    return False


def _only_flags(stmt: Stmt, name: str) -> bool:
    """`x.requires_grad_()` is all that the statement does in place to what has the name."""
    methods = [c.func for c in stmt.calls if isinstance(c.func, cst.Attribute) and dotted(c.func.value) == name]
    changing = {m.attr.value for m in methods if m.attr.value.endswith("_")}
    return changing == {"requires_grad_"}


def _same(node: cst.CSTNode, name: str) -> bool:
    """`x = x.view(n, -1)`: the memory is that of before."""
    value = node.value if isinstance(node, cst.Assign) else None
    called = value.func if isinstance(value, cst.Call) else value
    return isinstance(called, cst.Attribute) and dotted(called.value) == name and called.attr.value in SHOWING


def _hand_over_all(stmt: Stmt, call: cst.Call, infos: list[FunctionInfo], scope: Scope, module: ModuleInfo) -> bool:
    """A function that is not known may change whichever container it is handed."""
    held = [dotted(a.value) for a in call.args if module.value(a.value).kind in ("list", "dict")]
    if not any(held):
        return False
    name = method_called(call)
    named = [i for i in infos if not name or i.name == name]
    if not any(root(p) in i.scope.params for i in named for p in _changed(i)):
        return False
    return any([change(stmt, place, scope) for place in held if place])


def change(stmt: Stmt, place: str, scope: Scope) -> bool:
    """The statement changes what is in the place; whether that is new."""
    if place in stmt.muts:
        return False
    stmt.muts.add(place)
    stmt.uses.add(place)
    before = [s.out[place] for s in scope.body.walk() if place in s.out]
    if before and place not in stmt.out:
        deps = frozenset().union(*(v.deps for v in before))
        stmt.out[place] = replace(before[-1], items=None, keys=None, each=None, deps=deps)
    return True


def _given_on(stmt: Stmt, place: str, call: cst.Call, module: ModuleInfo) -> None:
    """What a list or its objects are given by a function is varied with what the function is given."""
    known = stmt.out.get(place, Value("list"))
    deps = known.deps.union(*(module.value(arg.value).deps for arg in call.args))
    stmt.out[place] = replace(known, deps=deps, items=None, each=None)


def _write(stmt: Stmt, place: str, scope: Scope, bound: bool) -> None:
    """The statement may leave something else in the place, if it is `bound` anew, or change what is in it."""
    if place in stmt.defs:
        return
    before = [s.out[place] for s in scope.body.walk() if place in s.out]
    if bound:
        stmt.defs.add(place)
    stmt.muts.add(place)
    stmt.uses.add(place)
    deps = frozenset().union(*(v.deps for v in before))
    stmt.out[place] = replace(before[-1], items=None, keys=None, deps=deps) if before else UNKNOWN


def _written(project: Project) -> dict[str, dict[int, bool]]:
    """By attribute: the ids of the scopes of the functions that write it on what is not their own.

    True: they bind it; otherwise they change what it holds (`self.model.net.eval()`).
    """
    found: dict[str, dict[int, bool]] = defaultdict(dict)
    for module in project.modules.values():
        for info in module.functions.values():
            for place, bound in _foreign_places(info):
                attr, scope = place.rpartition(".")[2], id(info.scope)
                if attr not in OF_TENSORS:
                    found[attr][scope] = found[attr].get(scope, False) or bound
    return found


def _foreign_places(info: FunctionInfo) -> Iterator[tuple[str, bool]]:
    method = info.cls is not None and not info.static and not info.of_class  # a class has its attributes by its name
    own = {info.scope.params[0]} if method and info.scope.params else set()
    imported = info.module.imports.table.keys() - info.scope.locals  # `torch.nn.utils` is no object
    for stmt in info.scope.body.walk():
        for place in stmt.defs | stmt.muts:
            if "." in place and root(place) not in imported and not (root(place) in own and place.count(".") == 1):
                if not _kept_or_set(stmt):
                    yield place, place in stmt.defs


def _kept_or_set(stmt: Stmt) -> bool:
    """What is there stays, and only what is missing is set: `args.depth = getattr(args, "depth", 12)`."""
    node = stmt.node
    if type(node) is not cst.Assign or type(call := node.value) is not cst.Call or dotted(call.func) != "getattr":
        return False
    named = [f"{dotted(call.args[0].value)}.{constant(call.args[1].value)}"] if len(call.args) == 3 else []
    return named == [dotted(t.target) for t in node.targets]


def _asked(project: Project, attrs: Set[str]) -> dict[str, dict[int, set[str]]]:
    """By attribute and id of a scope: the places of it which the scope, or a class that it is a method of, knows."""
    found: dict[str, dict[int, set[str]]] = {}
    kept: dict[int, Set[str]] = {}  # by id of a class
    for module in project.modules.values():
        for scope in module.scope.walk():
            imported = module.imports.table.keys() - scope.locals
            places = {u for s in scope.body.walk() for u in s.uses | s.defs if "." in u and root(u) not in imported}
            cls = module.classes.get(scope.cls.name) if scope.cls is not None and scope.is_function else None
            if cls is not None and id(cls) not in kept:
                kept[id(cls)] = attrs & set().union(*(each.attrs for each in family(cls, project)))
            places |= {f"self.{attr}" for attr in kept[id(cls)]} if cls is not None else set()
            for place in places:
                attr = place.rpartition(".")[2]
                if attr in attrs:
                    found.setdefault(attr, {}).setdefault(id(scope), set()).add(place)
    return found
