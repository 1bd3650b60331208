"""Optimizers that leave frozen parameters alone: programs that freeze, thaw and add parameters while they train.

torch's optimizers pass over parameters without a gradient, MindSpore's have one for each. Where it matters, the
constructors get `skip_frozen`, which asks at every step what is frozen then. That is what torch does only if what is
frozen has no gradient and what is thawed has one: no gradients may be waiting for a step where the flags change, and
clearing must take them away, not fill them with zeros.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.program.together import together
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import any_overlap
from torch2ms.findings import Finding, Tier
from torch2ms.tape.copies import ADDS
from torch2ms.tape.forward.asked import asks
from torch2ms.tape.functions.lifting import all_events
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.ledger.clears import SOME
from torch2ms.tape.ledger.owners import concerns
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.model import ENTRY, Event, Owner
from torch2ms.tape.plan import Plan
from torch2ms.tape.uses.freezing import thaws
from torch2ms.tape.uses.frozen_outside import frozen_outside
from torch2ms.tape.uses.gradients import inside_loop
from torch2ms.tape.uses.late_thaws import late_thaws, named_between, switches
from torch2ms.tape.uses.phases import phases
from torch2ms.tape.uses.toggles import Toggle, toggles

GROUPED = ("optimizer", "module", "list", "tuple", "dict")  # what helpers are given to clear
FLAG = "left_out"  # of a parameter
MADE = "torch.optim."
# measured by `python -m benchmarks phases`; NAdam and ASGD keep more than a moment of each parameter
FIT = frozenset({"SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Adadelta", "Adamax", "RAdam", "Rprop"})
COUNTLESS = frozenset({"SGD", "RMSprop", "Adadelta", "Rprop"})  # what they do hangs on no count of steps
KINDS = frozenset({"backward", "clear", "clip_norm", "clip_value", "scaler_update", "unscale", *STEPS})
USES = frozenset({"grad_loop", "leaf_grad", "taken"})


def decide(project: Project, lifting: Lifting) -> None:
    """Mark the programs of a project whose optimizers skip what is frozen, where that is wanted and right."""
    leaving = [m for m in project.modules.values() if m.name in project.idle or any(_leaves_out(m))]
    if not project.freezes and not leaving and not any(m.has(ADDS) for m in project.modules.values()):
        return
    for modules in together(project):
        modules = [m for m in modules if not m.uses_mindspore]
        scopes = [(s, m) for m in modules for s in m.scope.walk()]
        adds = list(_adds(modules))
        told = any(m in leaving for m in modules)
        wanted = told or adds or any(_wanted(s, m, project, lifting) for s, m in scopes)
        late = project.freezes and any(make.module in modules for make, _ in late_thaws(project))
        if not wanted and not late:
            continue
        if not _seen(modules) or not all(_settled(s, m, project, lifting, late) for s, m in scopes):
            continue
        if all(_fresh(call, stmt, s, m, project, lifting) for call, stmt, s, m in adds):
            counted = project.freezes or told or not all(name in COUNTLESS for name in _optimizers(modules))
            for module in modules:
                module.skips, module.grows = counted, bool(adds)
                module.zeroed = not (project.freezes or adds or any(_leaves_out(module)))


def _leaves_out(module: ModuleInfo) -> Iterator[Stmt]:
    """Statements that say of a parameter that it has no gradient in the next step."""
    if module.plain is not None or module.has(FLAG):  # who writes plainly writes it
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                if not stmt.blocks and any(d.endswith(f".{FLAG}") for d in stmt.defs):
                    yield stmt


def refuse_left_out(module: ModuleInfo, plan: Plan) -> None:
    """Mark these where the optimizers do not look at it."""
    for stmt in _leaves_out(module) if not (module.skips or module.uses_mindspore) else ():
        todo = "give them an optimizer of their own, and do not call it in the steps that drop their gradients"
        plan.refuse(stmt, Finding("T2M115", Tier.REFUSED, "use of gradients", SOME, todo, stmt.lineno))


def _adds(modules: list[ModuleInfo]) -> Iterator[tuple[cst.Call, Stmt, Scope, ModuleInfo]]:
    """Groups that optimizers get when they are at work."""
    for module in modules:
        for scope in module.scope.walk() if module.has(ADDS) else ():
            for stmt in scope.body.walk():
                yield from ((c, stmt, scope, module) for c in stmt.calls if name_called(c) == ADDS)


def _wanted(scope: Scope, module: ModuleInfo, project: Project, lifting: Lifting) -> bool:
    """Parameters that an optimizer has are frozen or thawed, and it steps in this scope or in others."""
    if any(phases(scope, module, project)):
        return True
    if not (events := all_events(scope, module, lifting)):
        return False  # most scopes
    records = Records(scope, module, events)
    owners = [o for o in records.owners if o.kind == "optimizer" and not o.plain]
    return any(frozen(o, scope, module, project, records) for o in owners for frozen in (thaws, frozen_outside))


def _records(scope: Scope, module: ModuleInfo, lifting: Lifting) -> Records:
    return Records(scope, module, all_events(scope, module, lifting))


def _seen(modules: list[ModuleInfo]) -> bool:
    """All optimizers are of kinds that can skip, and clearing takes gradients away."""
    for call, module in _calls(modules):
        flags = (a.value for a in call.args if module.value(a.value).kind not in GROUPED)  # `zero_grad(optimizer)`
        if name_called(call) == "zero_grad" and any(constant(flag) is not True for flag in flags):
            return False  # zeros are left, or may be: they move what has moments
    return all(name in FIT for name in _optimizers(modules))


def _optimizers(modules: list[ModuleInfo]) -> Iterator[str]:
    """The names of the classes that optimizers are made of, "" for one that is not seen to be torch's."""
    own = {name for m in modules for cls in m.classes.values() for name in cls.methods}
    for call, module in _calls(modules):
        if module.value(call).kind == "optimizer" and (made := module.value(call.func)).kind != "function":
            name = made.name
            if made.kind == "method" and name in own:
                continue  # what makes one in there is seen
            yield name.removeprefix(MADE) if qualified(call.func, module.imports).startswith(MADE) else ""


def _calls(modules: list[ModuleInfo]) -> Iterator[tuple[cst.Call, ModuleInfo]]:
    for module in modules:
        yield from ((c, module) for scope in module.scope.walk() for s in scope.body.walk() for c in s.calls)


def _settled(scope: Scope, module: ModuleInfo, project: Project, lifting: Lifting, late: bool) -> bool:
    """Gradients are stepped with, cleared and clipped, and none are waiting where flags change.

    `late`: what is called may change them that is known by its name only.
    """
    if not (events := all_events(scope, module, lifting)):
        return True
    records = Records(scope, module, events)
    steady = not project.freezes_trained or lifting.frozen_first  # whatever is trained has gradients there
    uses = USES if steady else frozenset[str]()
    if not all(
        e.kind in KINDS or e.kind in uses and not e.problem or _of_leaf(e, records) or _sums(e, records)
        for e in records.events
    ):
        return False
    owners = [o for o in records.owners if o.kind in ("optimizer", "module", "params")]
    found = (switches if late else toggles)(scope, module, project) if owners else []
    if owners and not late:
        found = [*found, *named_between([e.stmt for e in records.events if e.kind in STEPS], scope, module, project)]
    return all(_nothing_waits(t, o, records) for t in found for o in owners)


def _of_leaf(event: Event, records: Records) -> bool:
    """It is about the gradient of a tensor, not of parameters."""
    if event.kind not in ("leaf_grad", "gradcall") or event.kind == "leaf_grad" and event.value.kind == "param":
        return False
    return all(o.kind == "leaf" for o in records.owners if concerns(event, o, records.owners))


def _sums(event: Event, records: Records) -> bool:
    """It reads gradients in a loop over parameters, where zeros serve as well as None does in torch."""
    reads = event.kind == "grad_loop" and not event.writes and not event.problem
    within = event.kind == "leaf_grad" and not event.writes and inside_loop(event, records.events)
    return within or reads and not asks(event)


def _nothing_waits(toggle: Toggle, owner: Owner, records: Records) -> bool:
    """The next event clears, or finds no gradients; a backward call may add to some where parameters are thawed."""
    event = _next(toggle.stmt, owner, records)
    if event is None or event.kind == "clear":
        return True
    waiting = {n for n, _ in records.held(event, owner)} - {ENTRY}
    return not waiting or event.kind == "backward" and toggle.flag is True


def _next(stmt: Stmt, owner: Owner, records: Records) -> Event | None:
    """The event of the owner that follows a statement, in its turn of a loop or in the next."""
    mine = [e for e in records.events if concerns(e, owner, records.owners) or owner.takes(e.value.deps)]
    for loop in (a for a in stmt.ancestors() if a.is_loop):
        inside = {id(s) for s in loop.walk()}
        here = [e for e in mine if id(e.stmt) in inside]
        if here:
            return next((e for e in here if e.stmt.number > stmt.number), here[0])
    return next((e for e in mine if e.stmt.number > stmt.number), None)


def _fresh(call: cst.Call, stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project, lifting: Lifting) -> bool:
    """What is added has no gradients yet: it was frozen till now, or the optimizer clears first."""
    place = dotted(call.func.value) if isinstance(call.func, cst.Attribute) else ""
    records = _records(scope, module, lifting)
    owner = next((o for o in records.owners if o.kind == "optimizer" and o.place == place), None)
    event = _next(stmt, owner, records) if owner is not None else None
    if event is not None and event.kind == "clear":
        return True
    scopes = ((s, m) for m in project.modules.values() for s in m.scope.walk())
    if event is None and all(_clears_first(place, s, m, lifting) for s, m in scopes):
        return True
    named = [module.value(n) for a in call.args for n in descend(a.value)]
    added = frozenset().union(*(v.deps for v in named if v.kind == "params"))
    mine = [t for t in toggles(scope, module, project) if t.place and any_overlap(frozenset({t.place}), added)]
    before = [t for t in mine if t.stmt.number < stmt.number]
    frozen = max((t.stmt.number for t in before if t.flag is False), default=-1)
    filled = any(e.kind == "backward" and e.stmt.number < frozen for e in records.events)
    thawed = [t for t in before if t.stmt.number > frozen]
    return event is not None and frozen >= 0 and not filled and all(t.stmt.block is stmt.block for t in thawed)


def _clears_first(place: str, scope: Scope, module: ModuleInfo, lifting: Lifting) -> bool:
    """Whatever goes backward into this optimizer here has cleared it right before, in the same turn of a loop."""
    records = _records(scope, module, lifting)
    for owner in (o for o in records.owners if o.kind == "optimizer" and _may_be(o.place, place, scope)):
        mine = [e for e in records.events if concerns(e, owner, records.owners) or owner.takes(e.value.deps)]
        for event in (e for e in mine if e.kind == "backward"):
            block = event.stmt.block
            here = [e for e in mine if e.stmt.block is block]
            if here[0].kind != "clear":
                return False
    return True


def _may_be(place: str, other: str, scope: Scope) -> bool:
    """A scope may call an optimizer so that is an attribute, or a variable, elsewhere."""
    return root(place) in scope.params or ("." in place) is ("." in other)
