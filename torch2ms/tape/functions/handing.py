"""A loss that callers make and a function differentiates: the playback of its graph is handed on beside it.

`def optimize(loss, optimizer)` with `loss.backward()` inside becomes `def optimize(loss, loss_vjp, optimizer)`; its
callers run the forward with `loss, loss_vjp = ms.vjp(forward_fn, weights=optimizer.parameters)`. Everything happens in
the order in which it happened before.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo
from torch2ms.analysis.program.sites import bound_arguments, receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.tape.forward.dependents import dependents
from torch2ms.tape.forward.effects import always, following
from torch2ms.tape.forward.region import Region
from torch2ms.tape.functions.words import Words, pure, taken_out
from torch2ms.tape.ledger.records import STEPS, Records
from torch2ms.tape.model import ENTRY, Event, Handed, Handing, Owner

# what is asked of a tensor without a call
TENSORS = frozenset(
    "T H mT mH data device dtype grad grad_fn imag is_cuda is_leaf ndim real requires_grad shape".split()
)


def steps_always(handed: Handed, events: list[Event]) -> bool:
    """Every call takes its steps: nothing is left for the next one but what callers, who are not seen, clear."""
    after = following(handed.backward.stmt)
    taken = ({id(e.stmt) for e in events if e.kind in STEPS and e.place == o.place} for o in handed.owners)
    return all(always(after, steps) for steps in taken if steps)


def handed_of(info: FunctionInfo, events: list[Event], taken: set[str], stored: Sequence[Owner] = ()) -> Handed | None:
    """What the function differentiates on behalf of its callers, where its parts are seen."""
    scope, module = info.scope, info.module
    backwards = [e for e in events if e.kind in ("backward", "handed")]
    if len(backwards) != 1 or any(e.problem or e.kind in ("gradcall", "step_closure") for e in events):
        return None
    event = backwards[0]
    if len(event.roots) != 1 or event.inputs is not None or event.create_graph or event.lifted or event.branches:
        return None
    name = made_outside(event, info)
    if not name or any(name in s.defs for s in scope.body.walk() if s.number < event.stmt.number and s.blocks):
        return None
    if any(_changes(s, name) for s in scope.body.walk() if s.number < event.stmt.number):
        return None
    own_value(event, name)
    records = Records(scope, module, events, stored=stored)
    wanted = records.takers(event) if event.kind == "backward" else _passed_on(event, records)
    if not wanted or any(o.kind != "optimizer" for o in wanted):
        return None
    entering = any(n == ENTRY for o in wanted for n, _ in _before(records, event, o))
    staying = any({n for n, _ in o.exit.held} - {ENTRY} for o in wanted)
    playback = f"{name}_vjp"
    while playback in taken:
        playback += "_"
    return Handed(info, event, name, playback, wanted, clears=not entering, leaves=staying)


def _changes(stmt: Stmt, name: str) -> bool:
    """`loss /= steps`: MindSpore's gradient functions let nobody change what they are given."""
    node = stmt.node.body[0] if isinstance(stmt.node, cst.SimpleStatementLine) and stmt.node.body else stmt.node
    if isinstance(node, cst.AugAssign):
        return dotted(node.target) == name
    func = node.value.func if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) else None
    return isinstance(func, cst.Attribute) and dotted(func.value) == name and func.attr.value.endswith("_")


def _before(records: Records, event: Event, owner: Owner) -> frozenset[tuple[int, bool]]:
    state = owner.before.get(records.number[id(event)])
    return state.held if state is not None else frozenset()


def _passed_on(event: Event, records: Records) -> list[Owner]:
    assert event.handing is not None
    return [o for o in records.owners if o.place in event.handing.places]


def made_outside(event: Event, info: FunctionInfo) -> str:
    """The parameter that the root is varied with, "" if it is varied with something else too."""
    module = info.module
    deps = frozenset().union(*(module.value(r).deps for r in event.roots))
    own = {d[1:] for d in deps if d.startswith("@")}
    places = [p for p in info.scope.params if p in own and p not in ("self", "cls")]
    if len(places) > 1:
        read = {n.value for r in event.roots for n in descend(r) if isinstance(n, cst.Name)}
        places = [p for p in places if p in read]
    if len(places) != 1:
        return ""
    passed = info.args.get(places[0], UNKNOWN).deps
    if not all(d.startswith(("^", "@")) or d in passed for d in deps) or not arithmetic(places[0], event, info):
        return ""
    return "" if record(places[0], info) or _with_unseen(event, info) else places[0]


def _with_unseen(event: Event, info: FunctionInfo) -> bool:
    """The root is made with what an unseen function gave too: it may be a weight, `log_alpha = parameter_of(...)`."""
    wanted = {u for r in event.roots for u in expression_uses(r, event.stmt)}
    for stmt in reversed([s for s in info.scope.body.walk() if s.number < event.stmt.number]):
        if not wanted & stmt.defs:
            continue
        called = [info.module.value(call.func) for call in stmt.calls]
        unseen = any(v.kind == "unknown" or v.kind == "api" and not is_foreign(v.name) for v in called)
        if unseen and any(v.kind == "unknown" and not v.deps for p, v in stmt.out.items() if p in wanted):
            return True
        wanted |= stmt.uses
    return False


def record(name: str, info: FunctionInfo) -> bool:
    """The function looks into the parameter as nobody looks into a tensor: `out.loss`, `out["loss"]`."""
    nodes = [n for s in info.scope.body.walk() for n in s.nodes]
    called = {id(n.func) for n in nodes if type(n) is cst.Call}
    for node in nodes:
        if type(node) is cst.Attribute and dotted(node.value) == name:
            if id(node) not in called and node.attr.value not in TENSORS:
                return True
        if type(node) is cst.Subscript and dotted(node.value) == name:
            keys = [e.slice.value for e in node.slice if isinstance(e.slice, cst.Index)]
            if any(isinstance(k, (cst.SimpleString, cst.FormattedString)) for k in keys):
                return True
    return False


def arithmetic(name: str, event: Event, info: FunctionInfo) -> bool:
    """Only tensor operations lie between the parameter and the root: no call of something that may be a model."""
    module = info.module
    tainted = dependents([name], event, info.scope, module, entry=True)
    stmts = [s for s in info.scope.body.walk() if id(s) in tainted and s is not event.stmt]
    calls = [c for s in stmts for c in s.calls]
    calls += [n for r in event.roots for n in descend(r) if isinstance(n, cst.Call)]
    for call in calls:
        target = module.value(call.func)
        receiver = module.value(call.func.value) if isinstance(call.func, cst.Attribute) else UNKNOWN
        read = isinstance(call.func, cst.Attribute) and call.func.attr.value in ("item", "detach", "mean", "sum")
        if target.kind not in ("api", "builtin") and receiver.kind != "tensor" and not read:
            return False
    return True


def own_value(event: Event, name: str) -> None:
    """To its function the root is varied with the parameter, whatever callers made it of."""
    event.value = Value("tensor", deps=frozenset({f"@{name}"}))


def more_than(name: str, region: Region, module: ModuleInfo) -> str:
    """What else the statements between a parameter and its backward call are varied with, "" if nothing is."""
    made = {name} | {root(d) for s in region.all for d in s.all_defs}
    for source in [*(s.node for s in region.all), *region.event.roots]:
        for node in descend(source):
            if isinstance(node, (cst.Name, cst.Attribute)) and (place := dotted(node)) and root(place) not in made:
                value = module.value(node)
                if module.weightless(value):
                    continue
                if value.deps and value.kind not in ("int", "float", "bool", "str", "none", "optimizer", "object"):
                    return place
    return ""


def handing_at(handed: Handed, call: cst.Call, caller: ModuleInfo, scope: Scope) -> Handing | None:
    """How one call hands the loss on; None where its arguments are not seen."""
    if any(a.star for a in call.args):
        return None
    bound = bound_arguments(handed.info, call)
    argument = bound.get(handed.root)
    if argument is None or caller.value(argument.value).kind in ("list", "tuple", "dict"):
        return None  # MindSpore has no gradients by the tensors of a list
    optimizers: list[cst.BaseExpression | str] = []
    owns: dict[str, frozenset[str] | None] = {}
    base = receiving(handed.info, call)
    words = Words(handed.info, bound, base, caller)
    for owner in handed.owners:
        head, _, rest = owner.place.partition(".")
        own = handed.info.scope
        if head == "self" and handed.info.cls is not None:
            if not base:
                return None
            optimizers.append(f"{base}.{rest}")
            owns[f"{base}.{rest}"] = moved(owner.owns, "self", base)
        elif head in own.params and not rest:
            given = bound.get(head)
            if given is None or not pure(given.value):
                return None
            value = caller.value(given.value)
            optimizers.append(given.value)
            owns[value.place or dotted(given.value)] = value.owns if value.kind == "optimizer" else None
        elif (taken := taken_out(owner.place, handed.info)) is not None:
            value = words.value(taken)
            place = words.text(taken)
            if not place:
                return None
            optimizers.append(place)
            owns[place] = moved(value.owns, "self", base) if value.kind == "optimizer" else None
            if head in own.params and value.kind != "optimizer":
                owns[place] = moved(owner.owns, head, words.text(cst.Name(head)))
        else:
            if handed.info.module is not caller or head in own.locals and not own.is_module:
                return None
            if head in scope.locals and not scope.is_module:
                return None
            optimizers.append(owner.place)
            owns[owner.place] = owner.owns
    return Handing(handed, call, argument, optimizers, frozenset(owns), owns)


def moved(owns: frozenset[str] | None, old: str, new: str) -> frozenset[str] | None:
    if owns is None:
        return None
    return frozenset(new + o[len(old) :] if o == old or o.startswith(old + ".") else o for o in owns)


def event_of(handing: Handing, stmt: Stmt, caller: ModuleInfo) -> Event:
    """The call as an event of its caller."""
    value = caller.value(handing.argument.value)
    root_value = value if value.deps else Value("tensor", deps=value.deps)
    return Event(
        "handed", stmt, handing.call, value=root_value, roots=[handing.argument.value], cotangents=[None],
        handing=handing,
    )  # fmt: skip
