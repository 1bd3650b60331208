"""Writes one gradient call: the function around its forward region, the call, and what becomes of its results."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import overlaps
from torch2ms.tape.forms.bodies import body_of, declare, late_cotangent, weighted
from torch2ms.tape.forms.calls import Call, Outputs, Repeats, all_ones
from torch2ms.tape.forms.interface import (
    alone,
    changed_in_place,
    differentiated_by,
    leaves_first,
    outputs_of,
    parameters_of,
    weight_nodes,
)
from torch2ms.tape.forms.lifetime import unfit
from torch2ms.tape.forms.placement import place
from torch2ms.tape.forms.playbacks import write_cut, write_handed, write_played, write_vjp
from torch2ms.tape.forms.receiving import receive
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.alternatives import classes_of
from torch2ms.tape.functions.episodes import follow_up
from torch2ms.tape.model import Owner
from torch2ms.tape.plan import Function, Item, Text

OBJECTS = ("object", "function", "class", "method", "optimizer", "lossfn")


def write(writer: Writer, call: Call) -> str:
    """Plan the call; a reason if it has no form."""
    region, event = call.region, call.event
    writer.plan.inside += [*region.all, event.stmt]
    if why := _misplaced(writer, call):
        return why
    if call.played:
        return write_played(writer, call)
    if call.turns is not None:
        return write_repeated(writer, call, call.turns)
    given = [c for c in event.cotangents if c is not None and not all_ones(c, writer.scope)]
    cotangent = bool(given) or event.kind == "handed"
    if (region.cut or event.kind == "handed") and not writer.plan.records:
        return "it needs ms.vjp, which runs the forward a second time before MindSpore 2.9"
    if region.idle and (cotangent or region.cut or call.accumulate or call.played):
        return next(iter(region.idle.values()))
    wrap = next((writer.plan.halved[id(a)] for a in event.stmt.ancestors() if id(a) in writer.plan.halved), None)
    if wrap is not None and (region.cut or event.cotangents != [None] * len(event.roots)):
        return "it stands inside an autocast block, and its forward is cut"
    if wrap is None:
        wrap = one_block(writer, call)
    if event.kind == "handed":
        return write_handed(writer, call)
    if event.beside and (region.cut or region.guards or weighted(writer, event) or cotangent):
        return "the function it calls returns more than the loss"
    if region.cut:
        return write_cut(writer, call)
    if not weighted(writer, event):
        return write_vjp(writer, call) if cotangent else _write_whole(writer, call, wrap)
    if late_cotangent(writer, call):
        return "its cotangent is made from the output, and ms.vjp runs the forward again before MindSpore 2.9"
    return _write_whole(writer, call, wrap)


def _misplaced(writer: Writer, call: Call) -> str:
    """What the gradient is taken by is no parameter that a function around the forward could have."""
    region = call.region
    made = {d for s in region.all for i in s.walk() if isinstance(i.node, cst.Assign) for d in i.defs}
    if own := next((o.place for o in call.owners if o.kind == "leaf" and not o.parameter and o.place in made), ""):
        return f"`{own}`, whose gradient is wanted, is made among the statements of its forward"
    lists = [o.place for o in call.owners if o.kind in ("leaves", "params", "list") and o.place in made]
    if lists and not any(lists[0] in s.defs for s in writer.scope.body.walk() if s.number < region.all[0].number):
        return f"`{lists[0]}`, whose gradients are wanted, is made among the statements of its forward"
    if turning := next((o.place for o in call.owners if turns(writer, o, call.event.stmt)), ""):
        return f"`{turning}` is another optimizer in each turn of a loop that the backward call is not in"
    return ""


def _write_whole(writer: Writer, call: Call, wrap: Callable[[str], Item] | None) -> str:
    """`ms.value_and_grad` of a function with the whole forward; `wrap` puts it into a precision."""
    region, event = call.region, call.event
    suffix = writer.suffix(call)
    function = writer.fresh(f"forward_{suffix}" if suffix else "forward_fn")
    starred = next((o.place for o in call.owners if o.starred), "")
    loop = None if starred else writer.hoist(call)  # it may be another list in each turn
    stmts = region.all
    outputs = outputs_of(writer, call, stmts)
    params = leaves_first(call, parameters_of(writer, call, stmts, loop, outputs))
    body = body_of(writer, stmts, outputs, event)
    if starred:
        body.insert(0, Text(f"{starred} = list({starred})"))
    for name in changed_in_place(writer, params, stmts):
        if not alone(name, writer, stmts):
            return f"its forward changes `{name}` in place, which others may hold"
        body.insert(0, Text(f"{name} = {name}.copy()"))
    target = ", ".join(params)
    differentiated = differentiated_by(call, params)
    if event.beside and (outputs.aux or outputs.shared):
        return "the function it calls returns more than the loss, and more leaves its forward"
    direct = called_directly(writer, call, stmts)
    left_out = _uncompiled(call, wrap is not None, direct is not None)
    decorator = decorator_of(writer, call, params, outputs, loop, left_out)
    definition: list[Item] = [*declare(writer, outputs, stmts), Function(function, params, body, decorator)]
    if direct:
        definition = []
        function, target = direct
    if wrap is not None:
        definition.append(wrap(function))
    aux = ", has_aux=True" if outputs.aux or event.beside else ""
    gradient, nodes = f"ms.value_and_grad({function}{differentiated}{aux})", weight_nodes(call)
    if region.idle:
        if any(overlaps(p, d) for p in region.idle for s in (loop.walk() if loop is not None else ()) for d in s.defs):
            return next(iter(region.idle.values()))
        gradient, nodes = idle_left_out(writer, call, gradient, nodes)
    inline = loop is None or optimizer_optional(writer, call, loop)
    if not inline:
        grad = writer.fresh(f"grad_{suffix}" if suffix else "grad_fn")
        definition.append(Text(f"{grad} = {gradient}", nodes))
        gradient, nodes = grad, []
    if loop is not None:
        writer.plan.before.setdefault(id(loop), []).extend(definition)
        definition = []
    received, follow = receive(writer, call)
    steps: list[Item] = []
    if event.episode is not None:
        steps, follow = [*follow, *follow_up(event.episode, call.owners[0].variable, writer.plan)], []
    head = f"(_, {event.beside})" if event.beside else outputs.target()
    line = Text(f"{head}, {received} = {gradient}({target})", nodes)
    bound = outputs.target()
    if outputs.aux and not outputs.wrapped:
        bound = bound.removeprefix("(").removesuffix(")")
    plain = Text(f"{bound} = {function}({target})")
    place(writer, call, definition, [line, *steps], plain, follow)
    form = call.form or f"ms.value_and_grad of {len(stmts)} statement{'s' if len(stmts) != 1 else ''}"
    call.form = form + call.compiled
    return ""


def _uncompiled(call: Call, wrapped: bool, direct: bool) -> str:
    """Why the function is not compiled, whatever is in it; "" where nothing stands against it."""
    if call.region.idle:
        return "its optimizer leaves alone the layers that did not run"
    if call.event.beside:
        return "it returns more than the loss"
    if call.event.episode is not None:
        return "it fills lists outside"
    return "it runs in mixed precision" if wrapped else "it is no function of its own" if direct else ""


def idle_left_out(writer: Writer, call: Call, gradient: str, nodes: list[cst.CSTNode]) -> tuple[str, list[cst.CSTNode]]:
    """A gradient function that tells the optimizers which of the layers did not run."""
    parts: list[cst.CSTNode] = [cst.parse_expression(_or_none(place, writer)) for place in sorted(call.region.idle)]
    named = ", ".join(f"{{{len(nodes) + number}}}" for number in range(len(parts)))
    writer.plan.needs.add("idle_left_out")
    call.form = (call.form or "ms.value_and_grad") + "; the optimizer leaves alone the layers that do not run"
    return f"idle_left_out({gradient}, {named})", [*nodes, *parts]


def _or_none(place: str, writer: Writer) -> str:
    """The layer at a place, or None: some networks have it, or have it under a condition (`self.downsample`)."""
    owner, _, name = place.rpartition(".")
    modules = writer.project.modules.values() if writer.project is not None else ()
    classes = [c for m in modules for c in m.classes.values() if name in c.attrs]
    inits = [init.scope.body.stmts if (init := c.methods.get("__init__")) is not None else () for c in classes]
    always = all(
        any(f"self.{name}" in s.defs and type(s.node) is cst.Assign and dotted(s.node.value) != "None" for s in stmts)
        for stmts in inits
    )
    if writer.project is not None and owner and "." not in owner:
        several = classes_of(owner, writer.scope, writer.module, writer.project)
        always = always and all(cls.attr(name) is not None for cls in several)
    return place if not owner or always else f'getattr({owner}, "{name}", None)'


def write_repeated(writer: Writer, call: Call, repeats: Repeats) -> str:
    """The gradient of a forward that stands in front of the loop, and runs again in each turn."""
    event = call.event
    if event.scaler or event.lifted:
        return "its forward stands outside of the loop, and the loss is changed on the way"
    (cotangent,) = event.cotangents
    leaves = [o.place for o in call.owners if o.kind == "leaf" and not o.parameter]
    function, params = repeats.function(leaves)
    received, follow = receive(writer, call)
    if cotangent is None or all_ones(cotangent, writer.scope):
        differentiated = differentiated_by(call, params)
        line = Text(f"{received} = ms.grad({function}{differentiated})({', '.join(params)})", weight_nodes(call))
    else:
        weighted_by = writer.fresh(f"weighted_{function.removeprefix('forward_')}")
        differentiated = differentiated_by(call, params)
        body: list[Item] = [Text(f"return ({function}({', '.join(params)}) * {{0}}).sum()", [cotangent])]
        line = Text(f"{received} = ms.grad({weighted_by}{differentiated})({', '.join(params)})", weight_nodes(call))
        writer.plan.before.setdefault(id(event.stmt), []).append(Function(weighted_by, params, body))
    writer.plan.replaced[id(event.stmt)] = [line, *follow]
    writer.plan.moved |= {id(stmt) for stmt in repeats.idle()}
    writer.plan.needs.add("ms")
    call.form = repeats.why
    for owner in call.owners:
        owner.assumed |= repeats.assumed
    return ""


def turns(writer: Writer, owner: Owner, stmt: Stmt) -> bool:
    """The optimizer is the variable of a loop elsewhere: at the backward call the name means one of many, or none."""
    if owner.kind != "optimizer":
        return False
    name, around = root(owner.place), list(stmt.ancestors())
    own = next((a for a in around if isinstance(a.node, cst.For) and name in a.defs), None)
    met = writer.scope.body.walk() if own is None else own.walk()  # a loop around it that binds the name says which
    loops = [s for s in met if type(s.node) is cst.For and name in s.defs and s not in around]
    return bool(loops) and not _bound_since(name, loops, stmt)


def _bound_since(name: str, loops: list[Stmt], stmt: Stmt) -> bool:
    """A plain statement on the way to this one binds the name behind the loops, in every turn of what is around all."""
    around = list(stmt.ancestors())
    before = [s for a in (*around, stmt) for s in a.block.stmts if s.number < a.number and name in s.defs]
    last = max(before, key=lambda s: s.number, default=None)
    common = [set(a.walk()) for a in around if a.is_loop]
    return last is not None and not last.blocks and not any(s in a and last not in a for a in common for s in loops)


def decorator_of(
    writer: Writer, call: Call, params: list[str], outputs: Outputs, loop: Stmt | None, left_out: str = ""
) -> str:
    """The decorator of the forward function: `@ms.jit` where that is asked for and found to be right."""
    if not writer.plan.config.jit or writer.project is None:
        return ""
    reason = left_out or unfit(call, params, outputs, loop, (writer.module, writer.project))
    call.compiled = f"; not compiled: {reason}" if reason else "; compiled"
    return "" if reason else "@ms.jit"


def one_block(writer: Writer, call: Call) -> Callable[[str], Text] | None:
    """Where the forward is one block of mixed precision there is no second function around it."""
    region, event = call.region, call.event
    only = region.all[0] if len(region.all) == 1 else None
    made = writer.plan.whole.get(id(only)) if only is not None and not region.guards else None
    if only is None or made is None or event.scaler or not isinstance(event.roots[0], cst.Name) or len(event.roots) > 1:
        return None
    before = writer.plan.before[id(made.above)]
    before[:] = [item for item in before if item not in made.items]
    writer.plan.contexts[id(only)] = list(only.blocks[0].stmts)
    return made.wrap


def optimizer_optional(writer: Writer, call: Call, loop: Stmt) -> bool:
    """The optimizer may be None where the step is conditional: it is asked for its parameters only there."""
    guards = [a.node for a in call.event.stmt.ancestors() if type(a.node) is cst.If and a.number > loop.number]
    node = writer.scope.node
    there = {place for guard in guards for place in _there(guard.test) if place}
    if any(o.place == place or o.place.startswith(f"{place}.") for o in call.owners for place in there):
        return True
    if not guards or not isinstance(node, cst.FunctionDef):
        return False
    if any(_left_out(o.place, writer) for o in call.owners):
        return True
    params = [*node.params.params, *node.params.kwonly_params]
    optional = {p.name.value for p in params if _perhaps_none(p)}
    asked = {n.value for guard in guards for n in descend(guard.test) if isinstance(n, cst.Name)}
    asked &= {p.name.value for p in params}
    return any(root(o.place) in optional or o.place in asked for o in call.owners)


def _left_out(place: str, writer: Writer) -> bool:
    """`self.opt = opt` of a method with `opt=None`: some objects have no optimizer."""
    own, _, attr = place.rpartition(".")
    cls = writer.scope.cls
    if own != "self" or cls is None:
        return False
    for method in cls.children:
        node = method.node
        params = [*node.params.params, *node.params.kwonly_params] if isinstance(node, cst.FunctionDef) else []
        optional = {p.name.value for p in params if _perhaps_none(p)}
        kept = [s.node for s in method.body.walk() if optional and f"self.{attr}" in s.defs]
        if any(isinstance(n, cst.Assign) and _kept_in(n, attr) in optional for n in kept):
            return True
    return False


def _kept_in(node: cst.Assign, attr: str) -> str:
    """The name that an assignment gives to an attribute of the object, perhaps among others."""
    pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(t.target, node.value) for t in node.targets]
    while pairs:
        target, value = pairs.pop()
        if dotted(target) == f"self.{attr}":
            return dotted(value)
        if isinstance(target, cst.Tuple) and isinstance(value, cst.Tuple):
            pairs += [(t.value, v.value) for t, v in zip(target.elements, value.elements, strict=False)]
    return ""


def _there(test: cst.BaseExpression) -> Iterator[str]:
    """What a condition asks for being there: `self.opt`, `self.opt is not None and ...`."""
    if isinstance(test, cst.BooleanOperation):
        yield from (*_there(test.left), *_there(test.right))
    elif isinstance(test, cst.UnaryOperation):
        yield from _there(test.expression)
    elif isinstance(test, cst.Comparison):
        yield dotted(test.left) if dotted(test.comparisons[0].comparator) == "None" else ""
    else:
        yield dotted(test)


def _perhaps_none(param: cst.Param) -> bool:
    """`opt=None`, `opt: Optimizer | None`, `opt: Optional[Optimizer]`"""
    if param.default is not None and dotted(param.default) == "None":
        return True
    said = code(param.annotation.annotation) if param.annotation is not None else ""
    return "None" in said or "Optional[" in said


def called_directly(writer: Writer, call: Call, stmts: list[Stmt]) -> tuple[str, str] | None:
    """The called method or function is the function to differentiate: no wrapper around it."""
    root_call = call.event.roots[0]
    if (
        stmts
        or call.event.scaler
        or not call.event.lifted
        or not isinstance(root_call, cst.Call)
        or any(o.kind == "leaf" for o in call.owners)
    ):
        return None
    if any(writer.module.value(a.value).kind in OBJECTS for a in root_call.args):
        return None  # gradient functions take tensors, numbers, networks and containers
    arguments = [dotted(a.value) for a in root_call.args]
    if not all(arguments) or any(a.keyword is not None or a.star for a in root_call.args) or not dotted(root_call.func):
        return None
    return dotted(root_call.func), ", ".join(arguments)
