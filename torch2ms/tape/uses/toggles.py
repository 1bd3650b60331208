"""Statements that freeze parameters or thaw them, in a scope or in the functions that it calls."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.evaluation.arguments import bind_arguments
from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, method_called
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value, any_overlap, overlaps
from torch2ms.tape.ledger.pairs import paired
from torch2ms.tape.project import flagged, flags, switched

DEEP = 3  # calls into which switches are followed
NOBODY_KNOWS = ""  # the place of parameters that are not told apart


@dataclass(frozen=True)
class Toggle:
    """A statement that sets `requires_grad` of all parameters of a place."""

    stmt: Stmt
    place: str
    flag: bool | None
    name: str = ""  # the variable that holds the flag


def toggles(scope: Scope, module: ModuleInfo, project: Project, depth: int = DEEP) -> list[Toggle]:
    """The statements of a scope that freeze or thaw, in their order; calls of functions that do so are among them."""
    if not flagged(project):
        return []
    known = _known(project)
    if (id(scope), depth) not in known:
        known[id(scope), depth] = _found(scope, module, project, depth)
    return known[id(scope), depth]


@once
def _known(project: Project) -> dict[tuple[int, int], list[Toggle]]:
    """Those of scopes that were asked for, by their ids and how deep calls were followed: all callers ask."""
    return {}


def _found(scope: Scope, module: ModuleInfo, project: Project, depth: int) -> list[Toggle]:
    own = direct(scope.body, module)
    calls = [(s, c) for s in scope.body.walk() if not s.blocks for c in s.calls]
    others = [t for s, c in calls for t in called(s, c, module, project, depth)]
    return sorted([*own, *others], key=lambda toggle: toggle.stmt.number)


def called(stmt: Stmt, call: cst.Call, module: ModuleInfo, project: Project, depth: int) -> list[Toggle]:
    """What `freeze(net)`, `requires_grad(net, True)` or `net.freeze_backbone()` does to the caller's modules."""
    info, receiver = _helper(call, module, project)
    if info is None:
        by = call.func.attr.value if type(call.func) is cst.Attribute else ""
        return _applied(stmt, call, module, project, depth) if by == "apply" and len(call.args) == 1 else []
    bound = bind_arguments(info, call, [module.value(a.value) for a in call.args], bool(receiver))
    texts = bind_arguments(info, call, [Value(name=repr(constant(a.value))) for a in call.args], bool(receiver))
    found = []
    inner = toggles(info.scope, info.module, project, depth - 1) if depth else direct(info.scope.body, info.module)
    for toggle in inner:
        if toggle.flag is False and put_back(toggle, inner, info.scope, info.module, project):
            continue
        head, _, rest = toggle.place.removeprefix("^").partition(".")
        each = _each(head, info, bound)
        place = receiver if head == "self" else _given(bound[head]) if head in bound else ""
        if not place and head not in info.scope.locals:  # a name from around it
            place = head if info.module is module else NOBODY_KNOWS
        elif not place and each is None and (head not in bound or bound[head].kind != "object"):
            continue  # of an object that is given, like a trainer, nobody knows which part it is
        places = [place] if place or not each else each
        flag = toggle.flag
        if toggle.name:
            text = texts[toggle.name].name if toggle.name in texts else repr(constant(_default(info, toggle.name)))
            flag = {"True": True, "False": False}.get(text)
        found += [Toggle(stmt, f"{one}.{rest}" if one and rest else one, flag) for one in places]
    return found


def _applied(stmt: Stmt, call: cst.Call, module: ModuleInfo, project: Project, depth: int) -> list[Toggle]:
    """What `net.apply(freeze_norms)` does: some of the parts are frozen or thawed, nobody knows which."""
    target = module.value(call.args[0].value)
    info = project.find(target.name, module) if target.kind == "function" and target.name else None
    if not isinstance(info, FunctionInfo):
        return []
    inner = toggles(info.scope, info.module, project, depth - 1) if depth else direct(info.scope.body, info.module)
    return [Toggle(stmt, NOBODY_KNOWS, toggle.flag) for toggle in inner]


def _each(name: str, info: FunctionInfo, bound: dict[str, Value]) -> list[str] | None:
    """The places of the modules that a loop of the function runs over, where a caller lists them: `for m in modules`.

    None where the name is not bound by such a loop; a module whose place is not seen is one that nobody knows.
    """
    for stmt in info.scope.body.walk():
        loop = stmt.node
        if isinstance(loop, cst.For) and dotted(loop.target) == name and (listed := dotted(loop.iter)) in bound:
            value = bound[listed]
            items = value.items if value.kind in ("list", "tuple") and value.items else (value,)
            return [item.place if item.kind == "module" else NOBODY_KNOWS for item in items]
    return None


def _given(value: Value) -> str:
    """The place of a module that is handed on, or of the one whose parameters are."""
    listed = value.kind in ("params", "named_params") and len(value.deps) == 1
    return next(iter(value.deps)) if listed else value.place


def _helper(call: cst.Call, module: ModuleInfo, project: Project) -> tuple[FunctionInfo | None, str]:
    """The function of the project that is called, and the place of the object whose method it is."""
    target = module.value(call.func)
    if target.kind == "function" and target.name:
        found = project.find(target.name, module)
        return (found, "") if isinstance(found, FunctionInfo) else (None, "")
    if type(call.func) is cst.Attribute:
        receiver = module.value(call.func.value)
        cls = class_of(receiver, module, project) if receiver.kind in ("module", "object") else None
        if cls is not None and receiver.place:
            return cls.method(call.func.attr.value), receiver.place
        if receiver.kind in ("module", "unknown") and dotted(call.func.value):
            made_of = next(iter(receiver.deps)) if len(receiver.deps) == 1 else ""
            return _of_any_class(call.func.attr.value, project), receiver.place or made_of or dotted(call.func.value)
    return None, ""


def by_context(
    stmts: Iterable[Stmt], module: ModuleInfo, project: Project, owns: frozenset[str] | None = None, *,
    frozen: bool = False,
) -> bool:  # fmt: skip
    """One of the statements is a `with` whose context, a class or generator of the project, freezes or thaws.

    One that is given networks does not count where none of them is among what gradients are taken of, `owns`.
    `frozen`: only one in whose block something is frozen.
    """
    if not flagged(project):
        return False
    contexts = [c for s in stmts if type(s.node) is cst.With for item in s.node.items for c in _meant(item.item, s)]
    asks = _frozen_inside if frozen else _freezing
    return any(asks(each, module, project) and not _apart(each, module, owns) for each in contexts)


def _meant(context: cst.BaseExpression, stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """`with ctx:` of `ctx = frozen(net) if warm else nullcontext()`: both may be meant."""
    if isinstance(context, cst.IfExp):
        yield from (*_meant(context.body, stmt), *_meant(context.orelse, stmt))
    elif isinstance(context, cst.Name):
        bound = [s.node for s in stmt.block.scope.body.walk() if context.value in s.defs and s.number < stmt.number]
        yield from (c for n in bound if isinstance(n, cst.Assign) for c in _meant(n.value, stmt))
    else:
        yield context


def _apart(context: cst.BaseExpression, module: ModuleInfo, owns: frozenset[str] | None) -> bool:
    """The context is given networks, of which nothing else is trained."""
    if owns is None or any(o.startswith(("^", "@")) for o in owns) or not isinstance(context, cst.Call):
        return False
    values = [module.value(arg.value) for arg in context.args]
    held = [one for v in values for one in (v.items if v.kind in ("list", "tuple") and v.items else (v,))]
    if not held or any(one.kind != "module" or not one.place for one in held):
        return False
    return not any_overlap(frozenset(one.place for one in held), owns)


def _freezing(context: cst.BaseExpression, module: ModuleInfo, project: Project) -> bool:
    return any(switched(s, i.module) for i in _run(context, module, project) for s in i.scope.body.walk())


def _frozen_inside(context: cst.BaseExpression, module: ModuleInfo, project: Project) -> bool:
    """What the context runs in front of its block freezes: `__enter__`, or a generator up to its `yield`."""
    for info in _run(context, module, project):
        stmts = list(info.scope.body.walk())
        ends = (s.number for s in stmts if not s.blocks and any(type(n) is cst.Yield for n in s.nodes))
        last = next(ends, stmts[-1].number + 1 if stmts else 0)
        if info.name != "__exit__" and any(
            switched(s, info.module) and flag_of(s)[0] is not True for s in stmts if s.number < last
        ):
            return True
    return False


def _run(context: cst.BaseExpression, module: ModuleInfo, project: Project) -> list[FunctionInfo]:
    """The functions of the project that a context runs."""
    value = module.value(context)
    cls = class_of(value, module, project) if value.kind == "object" else None
    infos = [cls.method(name) for name in ("__enter__", "__exit__")] if cls is not None else []
    if cls is None and isinstance(context, cst.Call):
        infos.append(_helper(context, module, project)[0])
    return [info for info in infos if info is not None]


def _of_any_class(name: str, project: Project) -> FunctionInfo | None:
    """The method of this name that freezes or thaws, of whichever module of the project."""
    return _toggling(project).get(name)


@once
def _toggling(project: Project) -> dict[str, FunctionInfo]:
    """The methods of modules that freeze or thaw something; of several of a name the first."""
    found: dict[str, FunctionInfo] = {}
    for info in _of_modules(project):
        if info.name not in found and direct(info.scope.body, info.module):
            found[info.name] = info
    return found


def _of_modules(project: Project) -> Iterator[FunctionInfo]:
    classes = (c for m in project.modules.values() for c in m.classes.values() if c.kind == "module")
    return (info for cls in classes for info in cls.methods.values())


def _default(info: FunctionInfo, name: str) -> cst.BaseExpression | None:
    assert isinstance(info.scope.node, cst.FunctionDef)
    params = info.scope.node.params
    given = [*params.posonly_params, *params.params, *params.kwonly_params]
    return next((p.default for p in given if p.name.value == name), None)


def direct(block: Block, module: ModuleInfo) -> list[Toggle]:
    found: list[Toggle] = []
    for stmt in block.stmts if flags(module) else ():
        if (toggle := _toggle(stmt, module)) is not None:
            found.append(toggle)
        elif switched(stmt, module):
            found.append(Toggle(stmt, NOBODY_KNOWS, None))
        else:
            found += [t for inner in stmt.blocks for t in direct(inner, module)]
    return found


def _toggle(stmt: Stmt, module: ModuleInfo) -> Toggle | None:
    """`for p in net.parameters(): p.requires_grad = flag`, or `net.requires_grad_(flag)`."""
    if type(stmt.node) is cst.For and stmt.blocks and stmt.blocks[0].stmts:
        taken = module.value(stmt.node.iter)
        body = [s for b in stmt.blocks for s in b.stmts]
        if taken.kind in ("params", "named_params") and len(taken.deps) == 1 and all(switched(s, module) for s in body):
            flags = {flag_of(s) for s in body}
            flag, name = flags.pop() if len(flags) == 1 else (None, "")
            return Toggle(stmt, next(iter(taken.deps)), flag, name)
        handed = dotted(stmt.node.iter)
        if handed and handed in stmt.block.scope.params and len(body) == 1 and switched(body[0], module):
            return Toggle(stmt, handed, *flag_of(body[0]))  # what the callers list
        return _of_pairs(stmt, stmt.node, body, module)
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and call.func.attr.value == "requires_grad_":
            receiver = module.value(call.func.value)
            bound = dotted(stmt.node.targets[0].target) if type(stmt.node) is cst.Assign else ""
            if receiver.kind == "module" and (place := bound or receiver.place):
                return Toggle(stmt, place, *flag_of(stmt))
    return None


def _of_pairs(stmt: Stmt, loop: cst.For, body: list[Stmt], module: ModuleInfo) -> Toggle | None:
    """`for p_q, p_k in zip(net_q.parameters(), net_k.parameters()): ...; p_k.requires_grad = False`"""
    switching = [s for s in body if switched(s, module)]
    if len(switching) != 1 or not isinstance(switching[0].node, cst.Assign):
        return None
    target = switching[0].node.targets[0].target
    held = dotted(target.value) if isinstance(target, cst.Attribute) else ""
    pairing = paired(loop.iter, loop.target, {held}, module) if held else None
    deps = module.value(pairing.params).deps if pairing is not None else frozenset()
    return Toggle(stmt, next(iter(deps)), *flag_of(switching[0])) if len(deps) == 1 else None


def flag_of(stmt: Stmt) -> tuple[bool | None, str]:
    """What a statement sets `requires_grad` to, None where it is not written there, and the variable that holds it."""
    given: cst.BaseExpression = cst.Name("True")
    calls = [c for c in stmt.calls if method_called(c) == "requires_grad_"]
    if calls and calls[0].args:
        given = calls[0].args[0].value
    elif not calls and isinstance(stmt.node, cst.Assign):
        given = stmt.node.value
    flag = constant(given)
    return (flag, "") if isinstance(flag, bool) else (None, dotted(given))


def left_by(stmts: list[Stmt], found: dict[int, Toggle]) -> tuple[frozenset[bool], bool]:
    """The flags that these statements may leave, and whether the one from before them may still be there."""
    flags: frozenset[bool] = frozenset()
    for stmt in reversed(stmts):
        if (toggle := found.get(id(stmt))) is not None:
            return flags | ({toggle.flag} if isinstance(toggle.flag, bool) else {True, False}), False
        for block in stmt.blocks:
            flags |= left_by(block.stmts, found)[0]
    return flags, True


def taken(toggle: Toggle, scope: Scope, module: ModuleInfo) -> list[tuple[Stmt | None, Value]]:
    """Optimizers that have the parameters when the statement runs, and where they were made."""
    made: list[tuple[Stmt | None, Value]] = [
        (s, v)
        for s in scope.body.walk()
        for v in s.out.values()
        if v.kind == "optimizer" and s.number < toggle.stmt.number
    ]
    owner = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if owner is not None and scope.name != "__init__":
        made += [(None, v) for v in owner.attrs.values() if v.kind == "optimizer"]
    return [(s, v) for s, v in made if v.owns is not None and any_overlap(frozenset({toggle.place}), v.owns)]


def put_back(toggle: Toggle, found: list[Toggle], scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """The function leaves every parameter thawed, and lets nobody else step in between."""
    mine = [t for t in found if overlaps(t.place, toggle.place)]
    if not scope.is_function or left_by(scope.body.stmts, {id(t.stmt): t for t in mine}) != (frozenset({True}), False):
        return False
    first, last = (edge(t.stmt.number for t in mine) for edge in (min, max))
    between = [s for s in scope.body.walk() if first < s.number < last]
    if any(isinstance(s.node, (cst.Return, cst.Yield)) for s in between):
        return False
    calls = (c for s in between for c in s.calls if (method_called(c) or dotted(c.func)) in project.stepping)
    return all(method_called(c) == "step" and module.value(c.func.value).kind == "optimizer" for c in calls)  # type: ignore[attr-defined]
