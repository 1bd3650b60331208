"""Why nothing of a scope can be translated: what is asked of its events and owners before any forward is looked for.

Each function answers with a reason, "" where it finds nothing.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.values import NO_DEPS, any_nested, any_overlap, of_optimizer, overlaps, within
from torch2ms.tape.forward.unseen import through_unseen, unseen_step
from torch2ms.tape.forward.watched import spelled
from torch2ms.tape.functions.cleared_unseen import adds
from torch2ms.tape.functions.own_steps import own_step, used_after
from torch2ms.tape.functions.reversible import weights_beside
from torch2ms.tape.functions.taking import changes
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.again import comes_again, left_over
from torch2ms.tape.ledger.beyond import read_beyond
from torch2ms.tape.ledger.given import backward_elsewhere, given_elsewhere
from torch2ms.tape.ledger.hooks import has_hooks, watched
from torch2ms.tape.ledger.records import LOADS, STEPS, Records
from torch2ms.tape.left_out import LeftOut, filled_at_times, left_out
from torch2ms.tape.model import ENTRY, Event, Owner
from torch2ms.tape.uses.freezing import switched_behind, thaws, thaws_by_hand
from torch2ms.tape.uses.frozen_outside import frozen_outside
from torch2ms.tape.uses.resets import leaves_zeros
from torch2ms.tape.uses.stored import unguarded
from torch2ms.tape.verdicts import Verdicts

PLAIN = re.compile(r"[A-Za-z_]\w*([.][A-Za-z_]\w*|\[\d+\])*")  # places that code may name
NO_GRADIENT = "no gradient of `{}` reaches this step: torch leaves it alone, MindSpore's optimizer would move it"
LEFT_OVER = "gradients of `{}` are left over from one call of this function to the next"
FROZEN = "parameters are frozen while training: torch leaves them alone, MindSpore's optimizer would move them"
FROZEN_BY_HAND = "parameters are frozen while gradients are read: what is trainable then is another list"
OWN_BACKWARD = "the step goes backward itself, beside gradients of its callers: let them take both, and hand them to it"
OWN_BACKWARD_OF = "the step of `{}` goes backward itself, beside the gradients that it is called with"
SWITCHED = "parameters are frozen or thawed between a forward and its backward call"
THROUGH_ONE = "two backward calls fill different gradients through one autograd.grad: MindSpore gives one of them zeros"
CLEARED = "`{}` drops gradients, and what calls it is not seen: whether there are any left is not known here"
UNTAKEN = "no step or read of the gradients stands in this function"

Takers = dict[int, list[Owner]]  # by id of a backward event: the owners whose gradients come from it


def hopeless(verdicts: Verdicts, takers: Takers, scaling: str) -> str:
    """A reason why nothing of the scope can be translated; `scaling` is what stands against its loss scaling."""
    for event in verdicts.records.events:
        if why := _of_event(verdicts, event, takers):
            return why
    if why := _lost(verdicts) or scaling or _of_others(verdicts) or _through_one(verdicts, takers):
        return why
    unseen = verdicts.project.clearing
    if unseen and (verdicts.scope.name in unseen or adds(verdicts.records)):
        return CLEARED.format(min(unseen))
    for owner in verdicts.records.owners:
        if why := _of_owner(verdicts, owner) or _of_loads(verdicts, owner, takers):
            return why
    return ""


def _through_one(verdicts: Verdicts, takers: Takers) -> str:
    """Two backward calls fill the gradients of different weights through one gradient that has a graph.

    MindSpore compiles the derivative of that one for what is asked of it first, and has zeros for the rest.
    """
    made = {id(e.stmt) for e in verdicts.records.events if e.kind == "gradcall" and e.create_graph}
    filled: dict[int, set[frozenset[str]]] = {}
    for event in verdicts.records.events if made else ():
        if event.kind == "backward" and takers[id(event)]:
            filling = frozenset(o.place for o in takers[id(event)])
            for number in _through(event, made, verdicts):
                filled.setdefault(number, set()).add(filling)
    return THROUGH_ONE if any(len(each) > 1 for each in filled.values()) else ""


def _through(event: Event, made: set[int], verdicts: Verdicts) -> set[int]:
    """Which of these statements a backward call depends on, going back from its root."""
    wanted = {u for expr in event.roots for u in expression_uses(expr, event.stmt)}
    found: set[int] = set()
    certain = [s.block for s in (event.stmt, *event.stmt.ancestors())]  # what stands elsewhere may not have run
    before = [s for s in verdicts.scope.body.walk() if s.number < event.stmt.number and not s.blocks]
    for stmt in reversed(before):
        if any_overlap(stmt.defs, wanted):
            found |= {id(stmt)} & made
            anew = type(stmt.node) is not cst.AugAssign and stmt.block in certain
            wanted = {w for w in wanted if not anew or not within(w, stmt.defs)} | _read(stmt, verdicts.module)
    return found


def _read(stmt: Stmt, module: ModuleInfo) -> set[str]:
    """What a statement reads: an unseen method may read whatever its object has, a layer reads itself."""
    holders = {id(n.value): dotted(n.value) for n in stmt.nodes if isinstance(n, cst.Attribute)}
    alone = {dotted(n) for n in stmt.nodes if id(n) not in holders}
    called = [c.func for c in stmt.calls if isinstance(c.func, cst.Attribute)]
    methods = {dotted(func.value) for func in called if module.value(func).kind != "module"}
    return stmt.uses - (set(holders.values()) - alone - methods)


def _of_event(verdicts: Verdicts, event: Event, takers: Takers) -> str:
    if event.kind == "backward" and (why := _of_backward(verdicts, event, takers[id(event)])):
        return why
    if event.handing is not None and (why := _of_handing(verdicts, event)):
        return why
    return _of_closure(event, verdicts) if event.kind == "step_closure" else ""


def _of_closure(event: Event, verdicts: Verdicts) -> str:
    """A step that is given a closure, or what it goes backward from itself."""
    cls = verdicts.project.find(event.value.name, verdicts.module)
    step = cls.method("step") if isinstance(cls, ClassInfo) else None
    if step is not None and any(name_called(c) == "backward" for s in step.scope.body.walk() for c in s.calls):
        return OWN_BACKWARD_OF.format(event.value.name.rpartition(".")[2])
    return "step(closure) is not translated here"


def _of_backward(verdicts: Verdicts, event: Event, takers: list[Owner]) -> str:
    records, scope, module = verdicts.records, verdicts.scope, verdicts.module
    deps = records.root_deps(event)
    made = deps and all(d.startswith(("^", "@")) for d in deps) and not verdicts.played(event)
    if made and not through_unseen(event, scope, module)[0]:
        return "the loss is made by the caller of this function"
    for owner in takers:
        if owner.stored and (left := _left_out(verdicts, event, owner, deps)).surely:
            return NO_GRADIENT.format(left.surely[0])
    apart = all(o.kind not in ("optimizer", "leaf") for o in takers)  # clipped or looked at, at most
    if apart and (name := unseen_step(event, scope, module, verdicts.project)):
        return f"`{name}` may use the gradients it stores"
    if place := weights_beside(event, scope, records, verdicts.project):
        return f"a custom function runs it, and the weights of `{place}` get gradients from it as well"
    if not takers and (name := _stepped_elsewhere(verdicts, event)):
        return f"`{name}` was given an optimizer of what it fills, and may step"
    waiting = verdicts.loadless() and has_hooks(module) and watched(event, module)
    if not takers and scope.is_function and not verdicts.unread(event) and not waiting:
        stepped = any(e.kind in STEPS for e in records.events)
        return "whose gradients it fills is not seen" if stepped else UNTAKEN
    return ""


def _of_handing(verdicts: Verdicts, event: Event) -> str:
    """Of a call whose function goes backward from what it is handed."""
    records = verdicts.records
    if any(not o.stored for o in records.takers(event)):
        return "gradients that a called function fills are used here"
    fed = verdicts.fed(event)
    if added := [o for o in records.takers(event) if o.stored and o not in fed]:
        return f"a called function also adds to the gradients that `{added[0].place}` keeps"
    for owner in fed:
        if (left := _left_out(verdicts, event, owner, records.root_deps(event))).surely:
            return NO_GRADIENT.format(left.surely[0])
    return ""


def _lost(verdicts: Verdicts) -> str:
    """A function fills gradients that nothing keeps for its callers."""
    records = verdicts.records
    keeping = [o for o in records.owners if o.stored]
    for event in records.lost_fills() if verdicts.scope.is_function else ():
        if not any(owners.concerns(event, o, records.owners) for o in keeping):
            return UNTAKEN
    return ""


def _of_others(verdicts: Verdicts) -> str:
    """What other functions, seen or not, do to the gradients of this one."""
    records, scope, module, project = verdicts.records, verdicts.scope, verdicts.module, verdicts.project
    if name := project.remaining.get(id(scope), ""):
        return f"{name} leaves gradients in the networks that are trained here, and nothing clears them before"
    if name := given_elsewhere(records.events, records.owners, scope, module, project.clipping):
        seen = name.rpartition(".")[2] in project.clipping
        whose = f"`{name}`" if seen else f"`{name}`, which is not seen,"
        return f"{whose} may use the gradients of what it is given"
    if name := backward_elsewhere(records.events, scope, module):
        return f"`{name}`, which is not seen, may go backward from what it is given"
    if name := used_after(records, project):
        return f"the step of `{name}` changes gradients that are used after it"
    if part := records.beside_stored():
        return f"the gradients of `{part.place}` are a part of those that an optimizer keeps"
    return ""


def _of_owner(verdicts: Verdicts, owner: Owner) -> str:
    """Of an owner as a whole, whatever loads its gradients."""
    records = verdicts.records
    if owner.looked_at:
        return f"`{owner.place}` may be None, and its gradients are used without asking"
    if why := next(filter(None, (unguarded(e, owner) for e, _ in records.gaps(owner))), ""):
        return why
    if (source := comes_again(owner, verdicts.scope, verdicts.module)) and records.filled(owner):
        return f"`{owner.place}` is one of `{source}` and keeps its gradient until it comes again"
    if left_over(owner, records, verdicts.project):
        return LEFT_OVER.format(owner.place)
    if _begun(verdicts, owner):
        return f"`{owner.place}` is given a gradient first, to which the backward call adds"
    if place := _kept(verdicts, owner):
        return f"the gradients of `{place}` are not cleared with the others of `{owner.place}`"
    return ""


def _begun(verdicts: Verdicts, owner: Owner) -> bool:
    """`x.grad = g`, and a backward call adds to it, which is taken for the first: nothing clears it between."""
    records = verdicts.records
    for number, event in enumerate(records.events):
        node = event.stmt.node
        if not isinstance(node, cst.Assign) or event.kind != "leaf_grad" or not event.writes:
            continue
        if not any(dotted(t.target).endswith(".grad") for t in node.targets):
            continue
        if not owners.concerns(event, owner, records.owners):
            continue
        for later in records.events[number + 1 :]:
            if later.kind == "clear" and owner.cleared_by(later, len(records.owners) == 1):
                break
            if later.kind == "backward" and later.stmt is not event.stmt and owner in records.takers(later):
                return not records.accumulates(later, owner)
    return False


def _of_loads(verdicts: Verdicts, owner: Owner, takers: Takers) -> str:
    """Of what uses the gradients of an owner, in the order of the program."""
    records = verdicts.records
    for event in records.events:
        if event.kind not in LOADS or not owners.concerns(event, owner, records.owners):
            continue
        if (
            why := _of_load(verdicts, event, owner, takers)
            or _of_frozen(verdicts, owner)
            or _shared(records, event, owner)
        ):
            return why
        if _initial(verdicts, event, owner):
            if name := _left_by_call(verdicts, event, owner):
                return f"`{name}` leaves a gradient in `{owner.place}`"
            owner.initial = True
        elif not owner.stored and (why := _of_callers(verdicts, event, owner)):
            return why
    return ""


def _shared(records: Records, event: Event, owner: Owner) -> str:
    """Gradients of one optimizer's groups change, or the norm of several's, and another one has some of the same."""
    if not changes(event):
        return ""
    grouped = of_optimizer(event.value) or event.value.kind == "optimizer"
    others = [o for o in records.owners if o is not owner and o.kind == owner.kind == "optimizer" and o.owns]
    for other in others:
        apart = other.place != event.place if grouped else owners.concerns(event, other, records.owners)
        if (
            apart
            and (grouped or event.kind == "clip_norm")
            and any_nested(other.owns or NO_DEPS, owner.owns or NO_DEPS)
        ):
            return f"`{other.place}` holds some of the parameters of `{owner.place}`, whose gradients change here"
    return ""


def _of_load(verdicts: Verdicts, event: Event, owner: Owner, takers: Takers) -> str:
    """The gradients that are used are not those of the backward calls that are seen."""
    records, module, project = verdicts.records, verdicts.module, verdicts.project
    if place := read_beyond(event, records.owners, records.events, module, project):
        return f"the gradients of all of `{place}` are read, and `{owner.place}` holds a part of it"
    if owner.kind == "module" and (place := _unlisted(verdicts, event)):
        return f"`{place}` is looked at, and is no parameter of `{owner.place}`"
    held = records.held(event, owner)
    stored = [records.events[n] for n, _ in held if n != ENTRY]
    if spilled := [e.place for e in stored if e.kind == "spill"]:
        return f"`{spilled[0]}` leaves gradients in `{owner.place}`, and nothing clears them before"
    if owner.stored and records.may_be_empty(event, owner) and (why := unguarded(event, owner)):
        return why
    if _passed_by(verdicts, event, stored, takers):
        return f"a backward call here may fill the gradients of `{owner.place}`, which are of another loop"
    left = _left_out(verdicts, event, owner, frozenset().union(*map(records.root_deps, stored)))
    if every := [*left.surely, *left.perhaps]:
        told = _tells(verdicts, every, stored if len(stored) == len(held) else [])
        if left.surely and not (told and module.skips):
            return NO_GRADIENT.format(left.surely[0])
    return "" if owner.stored else filled_at_times(event, owner, stored, records, project)


def _of_frozen(verdicts: Verdicts, owner: Owner) -> str:
    """Parameters of an owner are frozen or thawed where that changes what a step moves."""
    around = (verdicts.scope, verdicts.module, verdicts.project, verdicts.records)
    held_back = owner.kind == "optimizer" and not owner.plain and not verdicts.module.skips
    if held_back and (thaws(owner, *around) or frozen_outside(owner, *around)):
        return FROZEN
    if verdicts.project.freezes_trained and owner.kind in ("module", "params") and thaws_by_hand(owner, *around):
        return FROZEN_BY_HAND
    return SWITCHED if verdicts.project.freezes and switched_behind(owner, *around) else ""


def _initial(verdicts: Verdicts, event: Event, owner: Owner) -> bool:
    """The load may come before the first backward call of a leaf, which has no gradient then."""
    state = owner.before.get(verdicts.records.number[id(event)]) if owner.kind == "leaf" else None
    empty = state is not None and state.empty
    return empty and (owners.leaf_made(owner, verdicts.scope) is not None or verdicts.records.filled(owner))


def _left_by_call(verdicts: Verdicts, event: Event, owner: Owner) -> str:
    """The function called before that goes backward into the leaf, where nothing has set its gradient to None since."""
    records = verdicts.records
    dropped = [
        e.stmt.number for e in records.events
        if e.kind == "clear" and owner.cleared_by(e, len(records.owners) == 1) and not leaves_zeros(e)
    ]  # fmt: skip
    for stmt, places, name in verdicts.project.left_in_leaves.get(id(verdicts.scope), ()):
        if owner.place in places and stmt.number < event.stmt.number:
            if not any(stmt.number < number < event.stmt.number for number in dropped):
                return name
    return ""


def _of_callers(verdicts: Verdicts, event: Event, owner: Owner) -> str:
    """What callers left in the gradients is used, or should have been brought by them."""
    held = verdicts.records.held(event, owner)
    brought = verdicts.taken is not None and owner.place in verdicts.taken.variables
    if not {n for n, _ in held} - {ENTRY} and not brought:
        if own_step(verdicts.scope, verdicts.module) and any(e.kind == "backward" for e in verdicts.records.events):
            return OWN_BACKWARD
        return f"no backward call of this function fills the gradients of `{owner.place}`"
    if (ENTRY, True) not in held:
        return ""
    if id(verdicts.scope) in verdicts.project.meeting and owner.kind == "optimizer":
        return f"another function leaves gradients in `{owner.place}`, and they reach this step"
    return LEFT_OVER.format(owner.place) if verdicts.records.entry_leaks(owner) else ""


def _left_out(verdicts: Verdicts, event: Event, owner: Owner, reached: frozenset[str]) -> LeftOut:
    return left_out(event, owner, reached, verdicts.scope, verdicts.module, verdicts.project, verdicts.records)


def _unlisted(verdicts: Verdicts, event: Event) -> str:
    """A leaf that is kept in an attribute, and no Parameter that the network of the same object lists."""
    if event.kind not in ("grad_loop", "leaf_grad"):
        return ""
    return next((d for d in event.value.deps if "." in d and d.rpartition(".")[2] in verdicts.module.weights), "")


def _tells(verdicts: Verdicts, places: list[str], stored: list[Event]) -> bool:
    """The gradient function, if it is one, may tell the optimizer that these layers did not run."""
    stmts = verdicts.scope.body.walk()
    names = {spelled(place, stmts, verdicts.module): NO_GRADIENT.format(place) for place in places}
    if len(stored) != 1 or not all(PLAIN.fullmatch(name) for name in names):
        return False
    verdicts.idle.setdefault(id(stored[0]), {}).update(names)
    verdicts.project.idle.add(verdicts.module.name)
    return True


def _passed_by(verdicts: Verdicts, load: Event, stored: list[Event], takers: Takers) -> bool:
    """What a loop uses comes from outside of it, and nothing seems to use what its own backward call stores."""
    loop = next((a for a in load.stmt.ancestors() if a.is_loop), None)
    if loop is None:
        return False
    inside = [e for e in verdicts.records.events if e.kind == "backward" and loop in e.stmt.ancestors()]
    return any(not takers[id(e)] for e in inside) and not any(e in inside for e in stored)


def _kept(verdicts: Verdicts, owner: Owner) -> str:
    """A part of an owner that no clear reaches where others of its parts are cleared one by one."""
    clears = [e for e in verdicts.records.events if e.kind == "clear" and owner.cleared_by(e, False)]
    owns = {o for o in owner.owns or () if not o.startswith(("^", "@"))}
    if len(owns) < 2 or not clears or any(e.place == owner.place or e.value.kind != "module" for e in clears):
        return ""
    cleared = frozenset().union(*(e.value.own or {e.place} for e in clears))
    missing = sorted(o for o in owns if not any(overlaps(o, c) for c in cleared))
    return missing[0] if missing else ""


def _stepped_elsewhere(verdicts: Verdicts, event: Event) -> str:
    """An object that was made around an optimizer of what the event fills: it may step."""
    stmts = list(verdicts.scope.body.walk())
    names = {n for s in stmts for n, v in s.out.items() if v.kind == "optimizer"} | set(verdicts.scope.params)
    given = [(c, a.value) for s in stmts for c in s.calls for a in c.args
             if isinstance(a.value, cst.Name) and a.value.value in names]  # fmt: skip
    filled = {root(d) for d in event.value.deps if not d.startswith("@")} if given else set()
    for call, name in given:
        held = verdicts.module.value(name)
        if held.kind == "optimizer" and (held.owns is None or {root(p) for p in held.owns} & filled):
            if verdicts.module.value(call.func).kind in ("class", "unknown", "object"):
                return dotted(call.func)
    return ""
