"""Parameters that are frozen and thawed while a program trains: whether a gradient reaches them where it counts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.evaluation.arguments import bind_arguments
from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import free_uses, root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value, any_overlap, overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.ledger.events import Event, marked
from torch2ms.tape.ledger.ledger import ENTRY, Owner
from torch2ms.tape.ledger.pairs import paired
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.plan import Plan
from torch2ms.tape.project import switched

DEEP = 3  # calls into which switches are followed
HARMLESS = ("zero_grad", "state_dict", "load_state_dict", "param_groups")  # of an optimizer: nothing moves
NOBODY_KNOWS = ""  # the place of parameters that are not told apart


@dataclass(frozen=True)
class Toggle:
    """A statement that sets `requires_grad` of all parameters of a place."""

    stmt: Stmt
    place: str
    flag: bool | None
    name: str = ""  # the variable that holds the flag


def thaws(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Parameters of an optimizer are frozen or thawed after it was made, and may be frozen where it matters."""
    found = [t for t in toggles(scope, module, project) if t.place == NOBODY_KNOWS or _concerns(t, owner)]
    if not any(_in_loop(t, module) or _moved_on(t, owner, scope, module, records) for t in found):
        return False
    places = sorted({t.place for t in found})
    if NOBODY_KNOWS in places:
        return True
    frozen: list[str] = []
    for event in records.events:
        if event.kind in STEPS and event.place == owner.place:
            played = [records.events[n] for n, _ in records.held(event, owner) if n != ENTRY]
            for place in places:
                mine = [t for t in found if overlaps(t.place, place)]
                if not all(flag_at(e.stmt, mine) for e in (event, *played)):
                    frozen.append(place)
    if frozen and owner.owns is None and set(frozen) < set(places):  # the others are what it trains
        owner.assumed.add(
            f"`{owner.place}` holds no parameters of `{'`, `'.join(sorted(set(frozen)))}`, frozen where it steps"
        )
        return False
    return bool(frozen)


def switched_behind(owner: Owner, scope: Scope, module: ModuleInfo, project: Project, records: Records) -> bool:
    """Flags change between a forward and its backward call: torch looks at them then, MindSpore in the forward."""
    found = [t for t in toggles(scope, module, project) if t.place != NOBODY_KNOWS and _concerns(t, owner)]
    played = [e for e in records.events if e.kind == "backward" and owner in records.takers(e)] if found else []
    return any(_runs_before(t, event) for event in played for t in found)


def _runs_before(toggle: Toggle, event: Event) -> bool:
    """The network makes what the event goes backward from in front of the switch, which stands before the event."""
    if not toggle.stmt.number < event.stmt.number or toggle.stmt.block is not event.stmt.block:
        return False
    stmts = event.stmt.block.stmts
    wanted = set(event.stmt.all_uses)
    for stmt in reversed(stmts[: stmts.index(event.stmt)]):
        if not stmt.is_small or not stmt.defs & wanted:
            continue  # what a condition binds is not told from what it reads
        if stmt.number < toggle.stmt.number and any(overlaps(toggle.place, use) for use in stmt.uses - {"self"}):
            return True
        wanted = (wanted - stmt.defs | stmt.uses) - {"self"}
    return False


def _moved_on(toggle: Toggle, owner: Owner, scope: Scope, module: ModuleInfo, records: Records) -> bool:
    """The optimizer had the parameters before, and moves what has no gradient: by decay, or by what it remembers."""
    mine = [v for _, v in _taken(toggle, scope, module) if v.place == owner.place]
    stepped = any(
        e.kind in STEPS and e.place == owner.place and e.stmt.number < toggle.stmt.number for e in records.events
    )
    return bool(mine) and (stepped or any(v.dtype == "decays" for v in mine))


def toggles(scope: Scope, module: ModuleInfo, project: Project, depth: int = DEEP) -> list[Toggle]:
    """The statements of a scope that freeze or thaw, in their order; calls of functions that do so are among them."""
    direct = _toggles(scope.body, module)
    calls = [(s, c) for s in scope.body.walk() if not s.blocks for c in s.calls]
    called = [t for s, c in calls for t in _called(s, c, module, project, depth)]
    return sorted([*direct, *called], key=lambda toggle: toggle.stmt.number)


def _called(stmt: Stmt, call: cst.Call, module: ModuleInfo, project: Project, depth: int) -> list[Toggle]:
    """What `freeze(net)`, `requires_grad(net, True)` or `net.freeze_backbone()` does to the caller's modules."""
    info, receiver = _helper(call, module, project)
    if info is None:
        return []
    bound = bind_arguments(info, call, [module.value(a.value) for a in call.args], bool(receiver))
    texts = bind_arguments(info, call, [Value(name=repr(constant(a.value))) for a in call.args], bool(receiver))
    found = []
    inner = toggles(info.scope, info.module, project, depth - 1) if depth else _toggles(info.scope.body, info.module)
    for toggle in inner:
        if toggle.flag is False and _put_back(toggle, inner, info.scope, info.module, project):
            continue
        head, _, rest = toggle.place.removeprefix("^").partition(".")
        each = _each(head, info, bound)
        place = receiver if head == "self" else _given(bound[head]) if head in bound else ""
        if not place and head not in info.scope.locals:  # a name from around it
            place = head if info.module is module else NOBODY_KNOWS
        elif not place and each is None:
            continue
        places = [place] if place or not each else each
        flag = toggle.flag
        if toggle.name:
            text = texts[toggle.name].name if toggle.name in texts else repr(constant(_default(info, toggle.name)))
            flag = {"True": True, "False": False}.get(text)
        found += [Toggle(stmt, f"{one}.{rest}" if one and rest else one, flag) for one in places]
    return found


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


def _of_any_class(name: str, project: Project) -> FunctionInfo | None:
    """The method of this name that freezes or thaws, of whichever module of the project."""
    return _toggling(project).get(name)


@once
def _toggling(project: Project) -> dict[str, FunctionInfo]:
    """The methods of modules that freeze or thaw something; of several of a name the first."""
    found: dict[str, FunctionInfo] = {}
    for info in _of_modules(project):
        if info.name not in found and _toggles(info.scope.body, info.module):
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


def _toggles(block: Block, module: ModuleInfo) -> list[Toggle]:
    found = []
    for stmt in block.stmts:
        if (toggle := _toggle(stmt, module)) is not None:
            found.append(toggle)
        elif switched(stmt, module):
            found.append(Toggle(stmt, NOBODY_KNOWS, None))
        else:
            found += [t for inner in stmt.blocks for t in _toggles(inner, module)]
    return found


def _toggle(stmt: Stmt, module: ModuleInfo) -> Toggle | None:
    """`for p in net.parameters(): p.requires_grad = flag`, or `net.requires_grad_(flag)`."""
    if type(stmt.node) is cst.For and stmt.blocks and stmt.blocks[0].stmts:
        taken = module.value(stmt.node.iter)
        body = [s for b in stmt.blocks for s in b.stmts]
        if taken.kind in ("params", "named_params") and len(taken.deps) == 1 and all(switched(s, module) for s in body):
            flags = {_flag(s) for s in body}
            flag, name = flags.pop() if len(flags) == 1 else (None, "")
            return Toggle(stmt, next(iter(taken.deps)), flag, name)
        handed = dotted(stmt.node.iter)
        if handed and handed in stmt.block.scope.params and len(body) == 1 and switched(body[0], module):
            return Toggle(stmt, handed, *_flag(body[0]))  # what the callers list
        return _of_pairs(stmt, stmt.node, body, module)
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and call.func.attr.value == "requires_grad_":
            receiver = module.value(call.func.value)
            bound = dotted(stmt.node.targets[0].target) if type(stmt.node) is cst.Assign else ""
            if receiver.kind == "module" and (place := bound or receiver.place):
                return Toggle(stmt, place, *_flag(stmt))
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
    return Toggle(stmt, next(iter(deps)), *_flag(switching[0])) if len(deps) == 1 else None


def _flag(stmt: Stmt) -> tuple[bool | None, str]:
    """What a statement sets `requires_grad` to, None where it is not written there, and the variable that holds it."""
    given: cst.BaseExpression = cst.Name("True")
    called = [c for c in stmt.calls if _named(c) == "requires_grad_"]
    if called and called[0].args:
        given = called[0].args[0].value
    elif not called and isinstance(stmt.node, cst.Assign):
        given = stmt.node.value
    flag = constant(given)
    return (flag, "") if isinstance(flag, bool) else (None, dotted(given))


def _named(call: cst.Call) -> str:
    return call.func.attr.value if isinstance(call.func, cst.Attribute) else ""


def _concerns(toggle: Toggle, owner: Owner) -> bool:
    return owner.owns is None or any(overlaps(toggle.place, o) for o in owner.owns)


def _in_loop(toggle: Toggle, module: ModuleInfo) -> bool:
    """A loop other than one over the parameters themselves stands around it."""
    around = [a for a in toggle.stmt.ancestors() if a.is_loop]
    return any(not _over_parameters(a, module) for a in around)


def _over_parameters(loop: Stmt, module: ModuleInfo) -> bool:
    if not isinstance(loop.node, cst.For):
        return False
    given = loop.node.iter
    inner = [a.value for a in given.args] if isinstance(given, cst.Call) and dotted(given.func) == "zip" else [given]
    return any(module.value(node).kind in ("params", "named_params") for node in inner)


def flag_at(stmt: Stmt, found: list[Toggle]) -> bool:
    """True where every way to a statement leaves the parameters thawed."""
    return _before(stmt, {id(t.stmt): t for t in found}) == {True}


def _before(stmt: Stmt, found: dict[int, Toggle]) -> frozenset[bool]:
    """The flags that are possible when a statement begins."""
    flags, passes = _left(stmt.block.stmts[: stmt.block.stmts.index(stmt)], found)
    if not passes:
        return flags
    around = stmt.block.owner
    if around is None:
        return flags | {True}
    flags |= _before(around, found)
    return flags | _left(stmt.block.stmts, found)[0] if around.is_loop else flags


def _left(stmts: list[Stmt], found: dict[int, Toggle]) -> tuple[frozenset[bool], bool]:
    """The flags that these statements may leave, and whether the one from before them may still be there."""
    flags: frozenset[bool] = frozenset()
    for stmt in reversed(stmts):
        if (toggle := found.get(id(stmt))) is not None:
            return flags | ({toggle.flag} if isinstance(toggle.flag, bool) else {True, False}), False
        for block in stmt.blocks:
            flags |= _left(block.stmts, found)[0]
    return flags, True


# --- phases: the steps are taken in another function than the one that freezes


def refuse_phases(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
    """Mark what freezes parameters that an optimizer has already, or thaws some that it did not get."""
    why = "torch leaves frozen parameters alone, MindSpore's optimizer moves all that were trainable at first"
    todo = "make a new optimizer for every phase, of the parameters that it trains"
    for toggle, optimizer in phases(scope, module, project) if not module.skips else ():
        what = f"parameters of `{optimizer.place}` frozen or thawed"
        stmt = next(s for s in toggle.stmt.walk() if not s.blocks)
        plan.refuse(stmt, Finding("T2M308", Tier.REFUSED, what, why, todo, stmt.lineno))


def phases(scope: Scope, module: ModuleInfo, project: Project) -> Iterator[tuple[Toggle, Value]]:
    """What freezes parameters that an optimizer has already, or thaws some that it did not get, and the optimizer."""
    if not project.freezes or module.uses_mindspore:  # there, freezing means what MindSpore makes of it
        return
    found = toggles(scope, module, project)
    for toggle in found:
        if marked(toggle.stmt):
            continue
        for made, optimizer in _taken(toggle, scope, module):
            frozen_first = any(t.flag is False and overlaps(t.place, toggle.place) and _early(t, made) for t in found)
            matters = frozen_first if toggle.flag else optimizer.dtype != "plain"
            matters = matters and not _put_back(toggle, found, scope, module, project)
            matters = (
                matters and not _steps(scope, module, optimizer.place) and _goes_on(toggle, scope, optimizer.place)
            )
            if matters and not _thawed_for_steps(optimizer.place, toggle.place, scope, module, project):
                yield toggle, optimizer
                break


def _taken(toggle: Toggle, scope: Scope, module: ModuleInfo) -> list[tuple[Stmt | None, Value]]:
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


def _early(toggle: Toggle, made: Stmt | None) -> bool:
    return made is None or toggle.stmt.number < made.number


def _put_back(toggle: Toggle, found: list[Toggle], scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """The function leaves every parameter thawed, and lets nobody else step in between."""
    mine = [t for t in found if overlaps(t.place, toggle.place)]
    if not scope.is_function or _left(scope.body.stmts, {id(t.stmt): t for t in mine}) != (frozenset({True}), False):
        return False
    first, last = (edge(t.stmt.number for t in mine) for edge in (min, max))
    between = [s for s in scope.body.walk() if first < s.number < last]
    if any(isinstance(s.node, (cst.Return, cst.Yield)) for s in between):
        return False
    called = (c for s in between for c in s.calls if (_named(c) or dotted(c.func)) in project.stepping)
    return all(_named(c) == "step" and module.value(c.func.value).kind == "optimizer" for c in called)  # type: ignore[attr-defined]


def _steps(scope: Scope, module: ModuleInfo, place: str) -> bool:
    """The scope lets the optimizer step itself: `thaws` follows the flags there."""
    for func in (c.func for s in scope.body.walk() for c in s.calls):
        stepped = func.value if isinstance(func, cst.Attribute) and func.attr.value == "step" else func
        value = module.value(stepped)
        if value.place == place and (stepped is not func or value.kind == "optimizer"):  # or is called with gradients
            return True
    return False


def _thawed_for_steps(place: str, frozen: str, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """Whoever lets the optimizer of an object step, or hands it on, thaws what it holds first: `d_step`, `g_step`."""
    if scope.cls is None or not place.startswith("self."):
        return False
    for other in project.modules.values():
        for inner in other.scope.walk() if f".{place[5:]}" in other.source else ():
            own, stmts = inner.cls is scope.cls, [s for s in inner.body.walk() if not s.blocks]
            moved = [s for s in stmts if _mentions(place, s)]
            if not moved or own and inner.name == "__init__":
                continue
            found = {id(t.stmt): t for t in toggles(inner, other, project) if own and overlaps(t.place, frozen)}
            before = [s for s in stmts if s.number < moved[-1].number and id(s) not in found and _mentions(frozen, s)]
            if not all(_thawed_above(s, found) for s in (*moved, *before)):
                return False
    return True


def _mentions(place: str, stmt: Stmt) -> bool:
    """A statement has what an attribute holds, for more than the state of an optimizer."""
    if isinstance(stmt.node, (cst.ClassDef, cst.FunctionDef)):
        return False
    named = [n for n in stmt.nodes if isinstance(n, cst.Attribute)]
    idle = {id(n.value) for n in named if n.attr.value in HARMLESS}
    return any(n.attr.value == place.rpartition(".")[2] and id(n) not in idle for n in named)


def _thawed_above(stmt: Stmt, found: dict[int, Toggle]) -> bool:
    """On every way to a statement the last of these thaws, and there is one."""
    flags, passes = _left(stmt.block.stmts[: stmt.block.stmts.index(stmt)], found)
    if flags - {True}:
        return False
    return not passes or stmt.block.owner is not None and _thawed_above(stmt.block.owner, found)


def _goes_on(toggle: Toggle, scope: Scope, place: str) -> bool:
    """The optimizer is used after the statement before another takes its name."""
    if "." in place or any(a.is_loop for a in toggle.stmt.ancestors()):
        return True
    later = [s for s in scope.body.walk() if s.number > toggle.stmt.number and not s.blocks]
    first = next((s for s in later if place in s.defs | s.uses), None)
    return first is not None and place in first.uses or _seen_by_functions(scope, place)


def _seen_by_functions(scope: Scope, place: str) -> bool:
    return any(root(use) == place for child in scope.children for use in free_uses(child))
