"""Gradient calls that run the forward in one place and play it back in another: `ms.vjp`."""

from __future__ import annotations

from dataclasses import dataclass

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code
from torch2ms.tape.forms.bodies import body_of, declare
from torch2ms.tape.forms.calls import Call, Outputs
from torch2ms.tape.forms.interface import definition_order, joined, outputs_of, parameters_of, weight_nodes, weights_of
from torch2ms.tape.forms.items import Items, by_keys, items_of
from torch2ms.tape.forms.receiving import receive
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.asked_again import asked_again
from torch2ms.tape.forward.asked_first import invariant
from torch2ms.tape.forward.region import Region
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Branch, Function, Item, Text

NAMED = 3  # values that cross whose names a function takes into its own; of more, the first
CONTAINERS = {"dict", "list", "tuple", "str", "int", "float", "bool"}  # of values that are no tensors


def write_vjp(writer: Writer, call: Call) -> str:
    """A cotangent of the user's own: the forward now, its playback with the cotangent where backward stood."""
    region, event = call.region, call.event
    if region.guards or any(o.parameter for o in call.owners):
        return "a backward call with its own cotangent under a condition"
    suffix = writer.suffix(call) or (dotted(event.roots[0]).rpartition(".")[2] or "output")
    stmts = region.all
    outputs = outputs_of(writer, call, stmts)
    leaves = [o for o in call.owners if o.kind == "leaf"]
    others = [o for o in call.owners if o.kind != "leaf"]
    rebound = [n for n in parameters_of(writer, call, stmts, None, outputs) if n not in {o.place for o in leaves}]
    if rebound:
        return f"`{rebound[0]}` changes inside a forward that gets its own cotangent"
    function = writer.fresh(f"forward_{suffix}")
    playback = writer.fresh(f"{suffix}_vjp")
    inputs = [o.place for o in leaves]
    head = outputs.root or writer.fresh(suffix)
    weights = f", weights={joined([weights_of(o) for o in others])}" if others else ""
    aux = ", has_aux=True" if outputs.aux else ""
    tail = f", {outputs.returned.removeprefix(', ')}" if outputs.aux else ""
    if len(outputs.aux) > 1 and not outputs.wrapped:
        tail = f", ({', '.join(outputs.aux)})"
    body = body_of(writer, stmts, outputs, event)
    definition: list[Item] = [*declare(writer, outputs, stmts), Function(function, inputs, body)]
    loop = writer.hoist(call)
    if loop is not None:
        writer.plan.before.setdefault(id(loop), []).extend(definition)
        definition = []
    arguments = "".join(f", {i}" for i in inputs)
    line = Text(f"{head}, {playback}{tail} = ms.vjp({function}{arguments}{weights}{aux})", weight_nodes(call))
    received, follow = receive(writer, call)
    if leaves and not others:
        received = f"{received}," if len(leaves) == 1 else received.strip("()")
    elif leaves and len(leaves) == 1:
        left, _, right = received.strip("()").partition(", ")
        received = f"({left},), {right}"
    elif leaves:
        received = received[1:-1]
    else:
        received = f"_, {received}"
    cotangents = list(event.cotangents)
    back = Text(f"{received} = {playback}({{0}})", [c for c in cotangents if c is not None])
    for stmt in [*region.all, *region.after]:
        writer.plan.moved.add(id(stmt))
    if region.stmts:
        writer.plan.replaced[id(region.stmts[-1])] = [*definition, line, *region.after]
        start: list[Item] = []
    else:
        start = [*definition, line]
    kept: list[Item] = []
    if call.keep:
        writer.plan.moved.add(id(event.stmt))
        kept = [event.stmt]
    writer.plan.replaced[id(event.stmt)] = [*start, back, *follow, *kept]
    call.form = "ms.vjp: one forward, played back with the cotangent"
    return ""


def write_handed(writer: Writer, call: Call) -> str:
    """The forward now; the function that is called takes its playback."""
    region, event = call.region, call.event
    handing = event.handing
    assert handing is not None
    if region.cut and not region.guards and not event.stmt.blocks:
        return write_handed_cut(writer, call)
    if region.cut or region.guards and (call.deferred or not _chosen_first(region, event)):
        return "a loss that is handed on, with a condition or an update of weights inside its forward"
    if event.stmt.blocks or event.stmt.line is None:
        return "a loss that is handed on in the head of a compound statement"
    stmts = region.all
    outputs = outputs_of(writer, call, stmts)
    loop = writer.hoist(call)
    changing = parameters_of(writer, call, stmts, loop, outputs)
    if not all(writer.is_tensor(n, [*stmts, event.stmt]) for n in changing):
        loop, own = None, {d for s in stmts for d in s.all_defs}
        changing = [n for n in changing if n in own]
        if not all(writer.is_tensor(n, [*stmts, event.stmt]) for n in changing):
            return f"`{changing[0]}` changes inside a forward whose playback is handed on"
    name = dotted(event.roots[0]).rpartition(".")[2] or handing.handed.root
    head = outputs.root or writer.fresh(name)
    function, playback = writer.fresh(f"forward_{name}"), writer.fresh(f"{name}_vjp")
    weights, nodes = handing.weights()
    tail, aux = _beside_playback(outputs)
    definition: list[Item] = [
        *declare(writer, outputs, stmts),
        Function(function, changing, body_of(writer, stmts, outputs, event)),
    ]
    if loop is not None:
        writer.plan.before.setdefault(id(loop), []).extend(definition)
        definition = []
    inputs = "".join(f", {n}" for n in changing)
    line: Item = Text(f"{head}, {playback}{tail} = ms.vjp({function}{inputs}, weights={weights}{aux})", nodes)
    if region.guards:
        plain = Text(f"{head}{tail} = {function}({', '.join(changing)})")
        line = Branch(region.guards[0].node.test, [line], [plain])  # type: ignore[union-attr]
    writer.plan.moved |= {id(s) for s in [*region.all, *region.after]}
    if region.stmts and not call.deferred:
        writer.plan.replaced[id(region.stmts[-1])] = [*definition, line, *region.after]
    else:
        writer.plan.moved.add(id(event.stmt))
        writer.plan.replaced[id(event.stmt)] = [*definition, line, *region.after, event.stmt]
    if head != code(event.roots[0]):
        writer.plan.arguments[id(handing.argument)] = head
    writer.plan.beside[id(handing.argument)] = f"{handing.handed.playback}={playback}"
    call.form = "ms.vjp: the forward here, its playback in the function that is called"
    return ""


def _beside_playback(outputs: Outputs) -> tuple[str, str]:
    """How what leaves the function beside its root is received, and asked for."""
    if not outputs.aux:
        return "", ""
    several = len(outputs.aux) > 1 or outputs.wrapped
    given = outputs.returned.removeprefix(", ").strip("()")
    return f", ({given})" if several else f", {given}", ", has_aux=True"


def _chosen_first(region: Region, event: Event) -> bool:
    """The one condition over the call can be asked where the forward ends, none of which stands under it."""
    guard = region.guards[0]
    plain = isinstance(guard.node, cst.If) and event.stmt.block is guard.blocks[0] and not region.guarded
    return len(region.guards) == 1 and plain and bool(region.stmts) and invariant(guard, region)


def write_played(writer: Writer, call: Call) -> str:
    """The graph of a parameter, played back where backward stood, or handed on."""
    region, event = call.region, call.event
    if event.handing is not None:
        writer.plan.beside[id(event.handing.argument)] = f"{event.handing.handed.playback}={call.played}"
        call.form = "the playback goes on to the function that uses it"
        return ""
    if region.guards or region.cut or region.after or event.branches:
        return "what is done to the loss before its backward call is not one run of statements"
    received, follow = receive(writer, call)
    given = [c for c in event.cotangents if c is not None]
    for stmt in region.stmts:
        writer.plan.moved.add(id(stmt))
        writer.plan.replaced[id(stmt)] = []
    if not region.stmts and isinstance(event.roots[0], cst.Name) and not event.scaler:
        cotangent = "{0}" if given else f"ops.ones_like({event.roots[0].value})"
        writer.plan.needs.add("ops")
        back: list[Item] = [Text(f"_, {received} = {call.played}({cotangent})", list(given))]
    elif given:
        return "a loss with a cotangent of its own that is changed before its backward call"
    else:
        (root_name,) = call.inputs
        outputs = outputs_of(writer, call, region.stmts)
        own = parameters_of(writer, call, region.stmts, None, outputs)
        params = [root_name, *(n for n in own if n != root_name)]
        function = writer.fresh(f"forward_{root_name}")
        gradient = writer.fresh(f"{root_name}_grad")
        aux = ", has_aux=True" if outputs.aux else ""
        back = [
            *declare(writer, outputs, region.stmts),
            Function(function, params, body_of(writer, region.stmts, outputs, event)),
            Text(f"{outputs.target()}, {gradient} = ms.value_and_grad({function}, 0{aux})({', '.join(params)})"),
            Text(f"_, {received} = {call.played}({gradient})"),
        ]
    kept: list[Item] = []
    if call.keep:
        writer.plan.moved.add(id(event.stmt))
        kept = [event.stmt]
    writer.plan.replaced[id(event.stmt)] = [*back, *follow, *kept]
    call.form = "the playback that callers hand over"
    return ""


@dataclass(eq=False)
class Early:
    """The first part of a forward that is cut: it runs under `ms.vjp`, its playback waits for the second part."""

    crossing: list[str]  # what the second part is made of, and behind it the lists that are made of some
    names: list[str]  # the same, as parameters
    restore: list[Item]  # attributes among them get their places back
    definition: list[Item]
    start: Text
    playback: str
    arguments: list[str]
    simple: bool  # a module is called, which is the function
    leaves: list[Owner]
    others: list[Owner]
    loop: Stmt | None
    built: list[Item]  # lists among them are made anew of their items


def write_cut(writer: Writer, call: Call) -> str:
    """Forward now, playback later: `ms.vjp` for the first part, a gradient call for the second."""
    region, event = call.region, call.event
    early = _early(writer, call)
    if isinstance(early, str):
        return early
    others, leaves, late = early.others, early.leaves, region.stmts[region.cut :]
    suffix = writer.suffix(call)
    forward = writer.fresh(f"forward_{suffix}" if suffix else "forward_fn")
    function, outputs, more = _late(writer, call, early, forward)
    definition = [*early.definition, function]
    again = _weights_again(writer, early, late)
    positions = "0" if len(early.names) == 1 else f"({', '.join(str(i) for i in range(len(early.names)))})"
    second_weights = f", {joined([weights_of(o) for o in others])}" if again else ""
    has_aux = ", has_aux=True" if outputs.aux else ""
    arguments = ", ".join([*_without_graphs(writer, early, again), *more])
    made = f"ms.value_and_grad({forward}, {positions}{second_weights}{has_aux})"
    if early.loop is not None:
        grad = writer.fresh(f"grad_{suffix}" if suffix else "grad_fn")
        definition.append(Text(f"{grad} = {made}"))
        made = grad
        writer.plan.before.setdefault(id(early.loop), []).extend(definition)
        definition = []
    cotangent = [writer.fresh_once(f"{c}_grad") for c in early.names]
    taken = cotangent[0] if len(cotangent) == 1 else f"({', '.join(cotangent)})"
    if again:
        direct = writer.fresh_once(f"direct_{others[0].base}")
        line = Text(f"{outputs.target()}, ({taken}, {direct}) = {made}({arguments})")
    else:
        line = Text(f"{outputs.target()}, {taken} = {made}({arguments})")
    received_grads, follow = receive(writer, Call(event, region, others, call.accumulate, delayed=call.delayed))
    of_leaves, more_follow = receive(writer, Call(event, region, leaves, call.accumulate, delayed=call.delayed))
    follow += more_follow
    names = dict(zip([o.place for o in leaves], of_leaves.strip("()").split(", "), strict=True)) if leaves else {}
    of_inputs = ", ".join(names.get(a, "_") for a in early.arguments) + ("," if len(early.arguments) == 1 else "")
    left = of_inputs if names and not others else f"{f'({of_inputs})' if names else '_'}, {received_grads}"
    back: list[Item] = [Text(f"{left} = {early.playback}({taken})")]
    if again:
        back.append(Text(f"{received_grads} = tuple(a + b for a, b in zip({received_grads}, {direct}))"))
    _place(writer, call, early, definition, line, [*back, *follow])
    call.form = (
        f"cut at `{'_'.join(early.names)}`: ms.vjp runs the first part once and plays it back after what stands between"
    )
    return ""


def write_handed_cut(writer: Writer, call: Call) -> str:
    """A forward that is cut and handed on: the function that is called plays back both parts, the second first."""
    region, event = call.region, call.event
    handing = event.handing
    assert handing is not None
    early = _early(writer, call)
    if isinstance(early, str):
        return early
    late = region.stmts[region.cut :]
    name = dotted(event.roots[0]).rpartition(".")[2] or handing.handed.root
    function, outputs, more = _late(writer, call, early, writer.fresh(f"forward_{name}"))
    if early.loop is not None or more or not late or early.leaves:
        return "a loss that is handed on, whose forward is cut and shares more than tensors with what stands between"
    playback, direct = writer.fresh(f"{name}_vjp"), writer.fresh(f"direct_{name}_vjp")
    again = _weights_again(writer, early, late)
    inputs = ", ".join(_without_graphs(writer, early, again))
    head, (tail, aux) = outputs.root or writer.fresh(name), _beside_playback(outputs)
    weights = f", weights={joined([weights_of(o) for o in early.others])}" if again else ""
    line = Text(f"{head}, {direct}{tail} = ms.vjp({function.name}, {inputs}{weights}{aux})")
    item = "[0]" if len(early.names) == 1 else ""
    back: list[Item] = [Text(f"return {early.playback}({direct}(cotangent){item})")]
    if again:
        added = "tuple(a + b for a, b in zip(grads, direct_grads))"
        back = [Text(f"input_grads, direct_grads = {direct}(cotangent)"),
                Text(f"played, grads = {early.playback}(input_grads{item})"),
                Text(f"return played, {added}")]  # fmt: skip
    both = Function(playback, ["cotangent"], back)
    _place(writer, call, early, [*early.definition, function], line, [both, event.stmt])
    writer.plan.moved.add(id(event.stmt))
    if head != code(event.roots[0]):
        writer.plan.arguments[id(handing.argument)] = head
    writer.plan.beside[id(handing.argument)] = f"{handing.handed.playback}={playback}"
    call.form = f"ms.vjp, cut at `{'_'.join(early.names)}`: both playbacks go to the function that is called"
    return ""


def _early(writer: Writer, call: Call) -> Early | str:
    """The first part; a reason if it has no form."""
    region, event = call.region, call.event
    early, late = region.stmts[: region.cut], region.stmts[region.cut :]
    used = set(liveness.exposed(late)) | {root(u) for e in event.roots for u in expression_uses(e, event.stmt)}
    crossing = [n for n in definition_order(early) if n in used and writer.varied(n, early)]
    places = {u for s in late for u in s.all_uses} | (event.stmt.uses if event.lifted else set())
    attributes = sorted({d for s in early for d in s.all_defs if "." in d and d in places and writer.varied(d, early)})
    items = _containers([*crossing, *attributes], early, late, event, writer)
    if isinstance(items, str):
        return items
    if asked := asked_again(early, late, writer.module):
        return f"what `{asked}` keeps of the first of its two parts is not seen"
    loop = writer.hoist(call) if event.kind != "handed" else None
    if loop is not None and any(writer.kinds(n, early) & CONTAINERS for n in liveness.exposed(early)):
        loop = None  # what ms.vjp is given are tensors: the function is made where it sees the others
    leaves = [o for o in call.owners if o.kind == "leaf" and not o.parameter]
    others = [o for o in call.owners if o not in leaves]
    if any(o.parameter for o in others) or any(writer.touches(late, o) for o in leaves):
        return "a leaf is used in both parts of a forward that is cut"
    weights = f", weights={joined([weights_of(o) for o in others])}" if others else ""
    live = liveness.read_after(region.block, early, region.block.stmts.index(early[-1])) | used
    aux = [n for n in definition_order(early) if n in live and n not in crossing]
    held = {a: a.rpartition(".")[2] for a in attributes}  # attributes cross under their own short names
    names = [*_one_by_one(crossing, items), *held.values()]
    if not names or len(set(names)) != len(names):
        return "what its two parts share is not seen"
    first = Call(Event("backward", early[-1], early[-1].node), Region(event, region.block, early), call.owners)
    params = parameters_of(writer, first, early, loop, Outputs("", [], [], False))
    parts = [*crossing, *held.values()]
    label = "_".join(parts if len(parts) <= NAMED else parts[:1])
    playback = writer.fresh(f"{label}_vjp")
    params += [o.place for o in leaves if o.place not in params]
    crossing = [*crossing, *attributes]
    simple = simple_call(writer, early, crossing, aux) if not items else None
    if simple and not {o.place for o in leaves} <= set(simple[1]):
        simple = None
    function, arguments = simple or (writer.fresh(f"forward_{label}"), params)
    given = [part for name in crossing for part in (items[name].parts if name in items else [name])]
    definition: list[Item] = [] if simple else [_first_function(function, params, early, given, aux)]
    received = ", ".join(_one_by_one(crossing, items))
    received = received if len(given) == 1 else f"({received})"
    extra = ", has_aux=True" if aux and not simple else ""
    inputs = "".join(f", {a}" for a in arguments)
    tail = ", " + (aux[0] if len(aux) == 1 else f"({', '.join(aux)})") if aux else ""
    start = Text(f"{received}, {playback}{tail} = ms.vjp({function}{inputs}{weights}{extra})")
    built: list[Item] = [Text(each.made) for each in items.values()]
    restore: list[Item] = [*(Text(f"{a} = {short}") for a, short in held.items()), *built]
    crossing = [*_one_by_one(crossing, items), *items] if items else crossing
    return Early(
        crossing, names, restore, definition, start, playback, arguments, bool(simple), leaves, others, loop, built
    )


def _containers(
    names: list[str], early: list[Stmt], late: list[Stmt], event: Event, writer: Writer
) -> dict[str, Items] | str:
    """Those of the names that hold tensors, which cross one by one; a reason if one does not tell what it holds."""
    items: dict[str, Items] = {}
    for name in names:
        kinds = writer.kinds(name, early)
        if not kinds & {*CONTAINERS, "object"} and not by_keys(name, late):
            continue
        plain = "object" not in kinds and "." not in name
        found = items_of(name, early, event.stmt.block.scope, writer) if plain else None
        if found is None:
            return f"`{name}`, which its two parts share, is no tensor"
        items[name] = found
    return items


def _first_function(name: str, params: list[str], early: list[Stmt], given: list[str], aux: list[str]) -> Function:
    """The first part as a function: what crosses, then what else is read behind it."""
    out = ", ".join(given)
    returned = f"({out})" if aux and len(given) > 1 else out
    returned += "".join(f", {each}" for each in aux)
    return Function(name, params, [*early, Text(f"return {returned}")])


def _one_by_one(names: list[str], items: dict[str, Items]) -> list[str]:
    return [each for name in names for each in (items[name].names if name in items else [name])]


def _late(writer: Writer, call: Call, early: Early, name: str) -> tuple[Function, Outputs, list[str]]:
    """The function of the second part, what it gives, and what it takes beside what the first part made."""
    region, event = call.region, call.event
    late = region.stmts[region.cut :]
    second = Call(event, Region(event, region.block, late, after=region.after), call.owners)
    outputs = outputs_of(writer, second, late)
    more = [p for p in parameters_of(writer, second, late, early.loop, outputs) if p not in early.crossing]
    body = [*early.restore, *body_of(writer, late, outputs, event)]
    return Function(name, [*early.names, *more], body), outputs, more


def _weights_again(writer: Writer, early: Early, late: list[Stmt]) -> bool:
    """The second part uses weights too whose gradients are wanted."""
    return any(o.owns is None or writer.touches(late, o) for o in early.others)


def _without_graphs(writer: Writer, early: Early, again: bool) -> list[str]:
    """What the second part is called with.

    One may be made from another, and that way is played back by the first part; and the gradient of weights of the
    first part is zero in a function of what it made, as long as that brings its graph along.
    """
    given = early.crossing[: len(early.names)]
    if len(given) == 1 and not again:
        return given
    writer.plan.needs.add("ops")
    return [f"ops.stop_gradient({name})" for name in given]


def _place(writer: Writer, call: Call, early: Early, definition: list[Item], line: Item, back: list[Item]) -> None:
    """Put the parts where theirs stood: the first, the second behind what is between, the playback at the event."""
    region, event = call.region, call.event
    first, late = region.stmts[: region.cut], region.stmts[region.cut :]
    within = late if early.simple else region.stmts  # a call that is played back stands where it stood, with comments
    writer.plan.moved |= {id(stmt) for stmt in [*within, *region.after]}
    alone = 0 if early.simple or not definition else 1
    writer.plan.replaced[id(first[-1])] = [*definition[:alone], early.start, *early.built]
    second = [*definition[alone:], line, *region.after]
    if late:
        writer.plan.replaced[id(late[-1])] = list(second)
        second = []
    writer.plan.replaced[id(event.stmt)] = [*second, *back]


def simple_call(writer: Writer, early: list[Stmt], crossing: list[str], aux: list[str]) -> tuple[str, list[str]] | None:
    """`fake = netG(noise)`: the module itself is the function."""
    if len(early) != 1 or aux or len(crossing) != 1:
        return None
    node = early[0].node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
        return None
    call = node.value
    if writer.module.value(call.func).kind != "module" or not dotted(call.func):
        return None
    arguments = [dotted(a.value) for a in call.args if a.keyword is None and not a.star]
    if len(arguments) != len(call.args) or not all(arguments) or dotted(node.targets[0].target) != crossing[0]:
        return None
    return dotted(call.func), arguments
