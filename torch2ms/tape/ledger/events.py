"""What happens to gradients in one scope: backward calls, clears, loads, reads and writes of `.grad`."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument, decided, is_on, listed, to_clip, unless_none
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.patterns import is_gradient
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNKNOWN, Value, replace
from torch2ms.tape.ledger.clears import (
    SOME,
    clears,
    for_some,
    grads_of,
    only_clears,
    sliced,
    some_dropped,
    some_layers,
    zeroed_between,
)
from torch2ms.tape.ledger.layer_loops import over_layers
from torch2ms.tape.ledger.lists import list_of, made_of
from torch2ms.tape.ledger.pairs import kept_under, paired
from torch2ms.tape.model import Event

OVER = ("grad_loop", "clear", "fill", "clip_norm", "clip_value")  # they may go over a list of parameters
BACKWARDS = {"torch.autograd.backward"}
WRAPPERS = {"accelerator", "fabric", "engine", "model_engine"}
ENGINE = "DeepSpeed's engine differentiates, steps and clears by itself"
LIGHTNING = "Lightning runs the training from its own loop"


# kinds whose translation is a statement of its own
APART = {"clip_norm", "clip_value", "unscale", "scaler_step", "scaler_update"}
HELD = "translated, this file would not pass the checks that each translation has to pass"
LEFT = "a comment says that a part of it is left as it is"


def find(scope: Scope, module: ModuleInfo) -> list[Event]:
    """All events of a scope in program order; nested definitions are scopes of their own."""
    events: list[Event] = []
    skip: set[int] = set()
    dropped = False
    before = module.plain is not None or module.has("# torch2ms: T2M")  # marks of an earlier conversion
    for stmt in scope.body.walk():
        if id(stmt) in skip:
            continue
        if type(stmt.node) is cst.FunctionDef or type(stmt.node) is cst.ClassDef:
            continue
        if before and marked(stmt):
            if stmt.blocks and marked(stmt, "T2M112"):  # a loop that clears was refused as a whole
                skip |= {id(s) for b in stmt.blocks for s in b.walk()}
            continue
        if type(stmt.node) is cst.For and (loop := _loop(stmt, module)):
            loop.problem = LEFT if any(s.off for s in stmt.walk()) else loop.problem
            events.append(loop)
            inner = [s for b in stmt.blocks for s in b.walk()]
            skip |= {id(s) for s in inner if loop.kind == "clear" or type(s.node) is cst.Expr and for_some(s, stmt)}
        for event in _statement(stmt, module):
            if event.kind == "step" and shares_groups(event.place, scope, module):
                event.place, event.through = "self", event.place
            event.problem = LEFT if stmt.off else event.problem
            if event.kind == "gradcall" and _of_gradients(event, scope):
                event.problem = "create_graph=True makes .grad part of a graph"
            dropped = dropped or event.kind == "clear"
            events.append(event)
    if module.uses_mindspore and all(e.kind == "clear" and e.value.likely for e in events):
        return []  # translated before: what the program calls so is a method of its own
    if dropped:
        zeroed_between(events)
    for event in events:
        if event.kind == "backward" and event.inputs is not None and (other := _left_out(event, events)):
            event.problem = f"`{other}` is not among its inputs, and its .grad stays what it was"
    if any(e.kind in OVER for e in events) and (lists := made_of(scope, module)):
        for event in events:
            if event.kind in OVER and (place := lists.get(list_of(event.node), "")):
                event.place, event.value = place, Value("optimizer", place=place)
    if module.held:
        for event in events:
            event.problem = event.problem or HELD
    return events


def _left_out(event: Event, events: list[Event]) -> str:
    """A tensor whose gradient is looked at, and which the inputs of the only backward call do not name."""
    given = [dotted(node) for node in listed(event.inputs)]
    if not all(given) or sum(e.kind == "backward" for e in events) > 1:
        return ""
    read = [e.place for e in events if e.kind == "leaf_grad"]
    return next((place for place in read if place in event.value.deps and place not in given), "")


def _of_gradients(event: Event, scope: Scope) -> bool:
    """What is differentiated are gradients, whose graph an earlier backward call kept: `grad(p.grad, p)`."""
    names = {dotted(root) for root in event.roots} - {""}
    made = [s.node.value for s in scope.body.walk() if type(s.node) is cst.Assign and names & s.defs]
    shown = (e.elt if type(e) is cst.ListComp or type(e) is cst.GeneratorExp else e for e in [*event.roots, *made])
    return any(map(is_gradient, shown))


def shares_groups(place: str, scope: Scope, module: ModuleInfo) -> bool:
    """An optimizer of the program steps another one, which has the same parameters: SAM and its base optimizer."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is None or cls.kind != "optimizer" or not place.startswith("self."):
        return False
    texts = {code(s.node).strip() for child in cls.scope.children for s in child.body.walk() if place in s.all_defs}
    mirrored = f"self.param_groups = {place}.param_groups"
    lines = {code(s.node).strip() for child in cls.scope.children for s in child.body.walk()}
    return mirrored in lines or any("(self.param_groups" in t for t in texts)


def marked(stmt: Stmt, code: str = "T2M") -> bool:
    """An earlier conversion refused the statement."""
    lines, mark = stmt.leading, f"# torch2ms: {code}"
    return bool(lines) and any(n.comment is not None and n.comment.value.startswith(mark) for n in lines)


def _statement(stmt: Stmt, module: ModuleInfo) -> list[Event]:
    found: list[Event] = []
    node = stmt.node
    outer = node.value if type(node) is cst.Expr else None
    either = _either_way(outer) if type(outer) is cst.IfExp else None
    outer = either.body if either is not None else outer
    for call in stmt.calls:
        event = _call(call, stmt, module) if either is None or call is not either.orelse else None
        if event is None:
            continue
        if event.kind in ("backward", "step", "clear") and call is not outer and event.kind != "step":
            event.problem = event.problem or "it is part of a larger expression"
        event.retain_graph |= either is not None and event.kind == "backward"
        if call is not outer and event.kind in APART and perhaps(call, node):
            event.problem = event.problem or "an expression runs it only under a condition"
        found.append(event)
    found += _leaf_events(stmt, module)
    found += _methods_as_values(stmt, module)
    order = {"backward": 0}
    return sorted(found, key=lambda e: order.get(e.kind, 1)) if len(found) > 1 else found


def _either_way(node: cst.IfExp) -> cst.IfExp | None:
    """`loss.backward(retain_graph=True) if i < n - 1 else loss.backward()`: one backward call, whatever is decided."""
    plain = all(isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute) for n in (node.body, node.orelse))
    if not plain or any(isinstance(n, cst.Call) and dotted(n.func) != "len" for n in descend(node.test)):
        return None
    calls = [n for n in (node.body, node.orelse) if isinstance(n, cst.Call)]
    named = all(name_called(call) == "backward" for call in calls) and code(calls[0].func) == code(calls[1].func)
    given = [arg for call in calls for arg in call.args if arg.keyword is None or arg.keyword.value != "retain_graph"]
    return node if named and not given else None


def perhaps(call: cst.Call, node: cst.CSTNode) -> bool:
    """Something in an expression decides whether the call runs, or how often."""
    parts: list[cst.CSTNode] = []
    for inner in descend(node):
        if type(inner) is cst.IfExp:
            parts += (inner.body, inner.orelse)
        elif type(inner) is cst.BooleanOperation:
            parts.append(inner.right)
    return many_times(call, node) or any(n is call for part in parts for n in descend(part))


def many_times(call: cst.Call, node: cst.CSTNode) -> bool:
    """The call stands in a comprehension or in a lambda."""
    around = [inner for inner in descend(node) if isinstance(inner, (cst.BaseComp, cst.Lambda))]
    return any(n is call for inner in around for n in descend(inner))


def _methods_as_values(stmt: Stmt, module: ModuleInfo) -> list[Event]:
    """`zero = optimizer.zero_grad`: who calls it when is not seen."""
    for use in stmt.uses:  # a loop: many statements are asked
        if use.endswith((".zero_grad", ".step")):
            break
    else:
        return []
    called = {id(c.func) for c in stmt.calls}
    found = []
    for node in stmt.nodes if not stmt.blocks else ():
        if type(node) is cst.Attribute and node.attr.value in ("zero_grad", "step") and id(node) not in called:
            receiver = module.value(node.value)
            if receiver.kind == "optimizer" or receiver.kind == "module" and node.attr.value == "zero_grad":
                kind = "clear" if node.attr.value == "zero_grad" else "step"
                why = f"`{code(node)}` is handed on as a value"
                found.append(Event(kind, stmt, node, receiver.place or dotted(node.value), receiver, problem=why))
    return found


def _call(call: cst.Call, stmt: Stmt, module: ModuleInfo) -> Event | None:
    func = call.func
    target = module.value(func)
    if target.kind == "api":
        return _api_call(target.name, call, stmt, module)
    if len(call.args) > 1 and (event := _by_a_scaler(call, target, stmt, module)) is not None:
        return event
    if type(func) is not cst.Attribute:
        return None
    name = func.attr.value
    receiver = module.value(func.value)
    place = dotted(func.value)
    if name == "manual_backward" and call.args and target.kind != "method":  # none of the project's own
        root = call.args[0].value
        return Event("backward", stmt, call, roots=[root], cotangents=[None], problem=LIGHTNING)
    if name == "backward":
        return _backward(call, func, receiver, stmt, module)
    if name == "zero_grad":
        if receiver.kind in ("optimizer", "module", "unknown", "object", "scheduler"):  # an object around both
            event = Event("clear", stmt, call, receiver.place or place, receiver)
            if receiver.kind == "module" and isinstance(func.value, cst.Subscript):
                event.partial = module.value(func.value.value).kind == "module"  # a layer of a network
            elif receiver.kind == "module" and isinstance(func.value, cst.Name):
                event.partial = some_layers(stmt, func.value.value, receiver)
            return event
    elif name == "step" and receiver.kind == "builtin_super":
        return _step_above(call, func, stmt, module)
    elif name == "step" and receiver.kind == "optimizer":
        if module.uses_mindspore and call.args and module.value(call.args[0].value).kind not in ("function", "method"):
            return None  # translated before: it is given gradients
        event = Event("step", stmt, call, receiver.place or place, receiver)
        unnamed = not event.place or stmt.block.scope.is_module and event.place.startswith("self.")
        event.problem = "its optimizer has no name" if unnamed else ""
        if call.args:
            event.kind = "step_closure"
        return event
    elif receiver.kind == "scaler" and name in ("step", "update", "unscale_"):
        kinds = {"step": "scaler_step", "update": "scaler_update", "unscale_": "unscale"}
        optimizer = module.value(call.args[0].value) if call.args else UNKNOWN
        opt_place = optimizer.place or (dotted(call.args[0].value) if call.args else "")
        return Event(kinds[name], stmt, call, opt_place, optimizer, scaler=receiver.place or place)
    return None


def _step_above(call: cst.Call, func: cst.Attribute, stmt: Stmt, module: ModuleInfo) -> Event | None:
    """`super().step(closure)` in the step of an optimizer's subclass: that of the class above, with the gradients."""
    scope = stmt.block.scope
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if cls is None or cls.kind != "optimizer" or scope.name != "step":
        return None
    event = Event("step", stmt, call, "self", Value("optimizer", place="self"), through=f"{code(func.value)}.construct")
    given = [dotted(arg.value) for arg in call.args]
    if given and (given != scope.params[1:2] or any(given[0] in s.defs for s in scope.body.walk())):
        event.problem = "the step of the class above is given something else than the closure"
    return event


def _by_a_scaler(call: cst.Call, target: Value, stmt: Stmt, module: ModuleInfo) -> Event | None:
    """`loss_scaler(loss, optimizer, parameters=model.parameters())`: an object that is not seen does the whole step."""
    if target.kind not in ("scaler", "unknown") or not (root := module.value(call.args[0].value)).deps:
        return None
    values = [module.value(a.value) for a in call.args[1:]]
    told = target.kind == "scaler" or any(v.kind == "params" for v in values)
    if not told or root.kind not in ("tensor", "unknown") or all(v.kind != "optimizer" for v in values):
        return None
    why = f"`{dotted(call.func)}`, which is not seen, goes backward and steps"
    return Event("backward", stmt, call, value=root, roots=[call.args[0].value], cotangents=[None], problem=why)


def _backward(call: cst.Call, func: cst.Attribute, receiver: Value, stmt: Stmt, module: ModuleInfo) -> Event | None:
    if receiver.kind in ("object", "module", "class", "api", "builtin_super", "modulefile", "ctx"):
        place = dotted(func.value)
        if place.rpartition(".")[2] not in WRAPPERS:
            return None
    place = dotted(func.value)
    if place.rpartition(".")[2] in WRAPPERS and call.args and (receiver.kind != "tensor" or receiver.likely):
        root = call.args[0].value
        event = Event("backward", stmt, call, roots=[root], cotangents=[None], value=module.value(root))
        reasons = module.plain.reasons if module.plain is not None else {}
        unseen = ENGINE if "engine" in place else "what the wrapper around the training does beside it is not seen"
        event.problem = reasons.get(id(call), unseen)
        return event
    event = Event("backward", stmt, call, value=receiver)
    root = func.value
    if type(root) is cst.Call and type(root.func) is cst.Attribute and root.func.attr.value == "scale":
        scaler = module.value(root.func.value)
        if scaler.kind == "scaler" and len(root.args) == 1:
            event.scaler = scaler.place or dotted(root.func.value)
            root = root.args[0].value
    event.roots = [root]
    gradient = argument(call, 0, "gradient")
    event.cotangents = [gradient if gradient is not None and constant(gradient) is not None else None]
    event.retain_graph = is_on(argument(call, 1, "retain_graph"))
    event.create_graph = is_on(argument(call, 2, "create_graph"))
    event.inputs = unless_none(call, 3, "inputs")
    event.value = _towards(event.inputs, module.value(root), module)
    if event.create_graph:
        event.problem = "create_graph=True makes .grad part of a graph"
    return event


def _towards(inputs: cst.BaseExpression | None, value: Value, module: ModuleInfo) -> Value:
    """What goes backward, varied with the parameters that the call names as its inputs, if it names any."""
    given = [module.value(node) for node in listed(inputs)]
    if not given or any(v.kind not in ("params", "list") or not v.deps for v in given):
        return value
    return replace(value, deps=frozenset().union(*(v.deps for v in given)))


def _api_call(name: str, call: cst.Call, stmt: Stmt, module: ModuleInfo) -> Event | None:
    if name == "torch.autograd.backward":
        event = Event("backward", stmt, call)
        event.roots = listed(argument(call, 0, "tensors"))
        given = argument(call, 1, "grad_tensors")
        cotangents = listed(given) if given is not None and constant(given) is not None else []
        event.cotangents = [c if constant(c) is not None else None for c in cotangents] or [None] * len(event.roots)
        event.create_graph = is_on(argument(call, 3, "create_graph"))
        event.inputs = unless_none(call, 5, "inputs")
        made = Value("tensor", deps=frozenset().union(*(module.value(r).deps for r in event.roots)))
        event.value = _towards(event.inputs, made, module)
        if event.create_graph:
            event.problem = "create_graph=True makes .grad part of a graph"
        return event
    if name == "torch.autograd.grad":
        event = Event("gradcall", stmt, call)
        event.roots = listed(argument(call, 0, "outputs"))
        event.inputs = argument(call, 1, "inputs")
        given = argument(call, 2, "grad_outputs")
        cotangents = listed(given) if given is not None and constant(given) is not None else []
        event.cotangents = [c if constant(c) is not None else None for c in cotangents] or [None] * len(event.roots)
        event.create_graph = is_on(argument(call, 4, "create_graph"))
        if decided(argument(call, 4, "create_graph")):
            event.problem = "whether its gradients have a graph is decided as the program runs"
        event.retain_graph = is_on(argument(call, 3, "retain_graph"))
        if is_on(argument(call, 7, "is_grads_batched")):
            event.problem = "its cotangents are a batch of them"
        return event
    last = name.rpartition(".")[2]
    if last in ("clip_grad_norm_", "clip_grad_norm", "clip_grad_value_") and call.args:
        given = to_clip(call)
        value = module.value(given)
        kind = "clip_value" if "value" in last else "clip_norm"
        found = Event(kind, stmt, call, value.place, value, writes=True)
        if _of_part(given, module):
            found.problem = "it clips one parameter of a network"
        return found
    return None


def _of_part(clipped: cst.BaseExpression, module: ModuleInfo) -> bool:
    """One parameter of a network: what the gradients are taken of is the network."""
    one = type(clipped) is cst.Attribute and module.value(clipped).kind in ("tensor", "param")
    return one and isinstance(clipped, cst.Attribute) and module.value(clipped.value).kind == "module"


def _is_autograd_grad(node: cst.Attribute, module: ModuleInfo) -> bool:
    return module.value(node).kind == "api" or module.value(node.value).kind == "api"


def _leaf_events(stmt: Stmt, module: ModuleInfo) -> list[Event]:
    """Reads and writes of `.grad` outside loops over parameters."""
    found = []
    for node in grads_of(stmt):
        if _is_autograd_grad(node, module):
            continue
        grouped = _group(stmt, node, module)
        owner = grouped or module.value(node.value)
        place = owner.place if grouped else dotted(node.value)
        kind = "leaf_grad"
        cleared = clears(stmt, node)
        if cleared:
            kind = "clear"
        event = Event(kind, stmt, node, place, owner)
        event.writes = _writes(stmt, node)
        # a loop over all of them is an event of its own
        event.partial = cleared and (owner.kind == "param" or isinstance(node.value, cst.Subscript))
        found.append(event)
    return found


def _group(stmt: Stmt, grad: cst.Attribute, module: ModuleInfo) -> Value | None:
    """The group of an optimizer over whose parameters a comprehension runs."""
    for outer in stmt.nodes if isinstance(grad.value, cst.Name) else ():
        if type(outer) is not cst.CompFor or dotted(outer.target) != dotted(grad.value):
            continue
        value = module.value(outer.iter)
        if value.name.startswith("param_group"):
            return value
    return None


def _writes(stmt: Stmt, grad: cst.Attribute) -> bool:
    node = stmt.node
    targets: list[cst.CSTNode] = []
    if type(node) is cst.Assign:
        targets = [t.target for t in node.targets]
    elif type(node) is cst.AugAssign:
        targets = [node.target]
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call) and isinstance(node.value.func, cst.Attribute):
        if node.value.func.attr.value.endswith("_"):
            targets = [node.value.func.value]
    return any(grad is n for t in targets for n in descend(t))


def _loop(stmt: Stmt, module: ModuleInfo) -> Event | None:
    """A loop that is one event: over parameters, over the layers of a network, or over networks to clear."""
    if (event := _parameter_loop(stmt, module) or _module_loop(stmt, module)) is not None:
        return event
    if (over := over_layers(stmt, module)) is None:
        return None
    value, grads = over
    event = Event("grad_loop", stmt, stmt.node, value.place, value, layers=grads)
    event.writes = any(_writes(s, g) for s, g in grads)
    return event


def _parameter_loop(stmt: Stmt, module: ModuleInfo) -> Event | None:
    """`for p in net.parameters():` whose body looks at `p.grad`."""
    node = stmt.node
    assert isinstance(node, cst.For)
    inner = [s for b in stmt.blocks for s in b.walk() if not marked(s)]
    grads = [(s, g) for s in inner for g in grads_of(s) if not _is_autograd_grad(g, module)]
    if not grads:
        return None
    names = {dotted(n) for n in _target_names(node.target)}
    # a sample that becomes a leaf in the body (`data.requires_grad = True`) is no parameter of the list
    own = [(s, g) for s, g in grads if dotted(g.value) in names and not _own_leaf(module.value(g.value))]
    if not own:
        return None
    pairing = paired(node.iter, node.target, {dotted(g.value) for _, g in own}, module)
    given = pairing.params if pairing is not None else node.iter
    iterated = module.value(given)
    place = iterated.place or (dotted(given) if iterated.kind in ("list", "tuple", "params") else "")
    if kept_under(given) and not place.startswith("self."):
        place = kept_under(given)
    if isinstance(given, (cst.Tuple, cst.List)) and given.elements and all(dotted(e.value) for e in given.elements):
        place = code(given)  # leaves listed in the head of the loop
    event = Event("grad_loop", stmt, node, place, iterated, name=dotted(given))
    event.writes = any(_writes(s, g) for s, g in own)
    if len(own) == len(grads) and only_clears(stmt, own):
        event.kind, event.problem = "clear", SOME if sliced(given, stmt) else ""
        layer = given.func.value if isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) else None
        event.partial = isinstance(layer, cst.Name) and some_layers(stmt, layer.value, module.value(layer))
    elif len(grads) == 1 and _fills(stmt, *grads[0]):
        event.kind = "fill"
    elif some_dropped(stmt, own):
        event.problem = SOME
    return event


def _module_loop(stmt: Stmt, module: ModuleInfo) -> Event | None:
    """`for net in nets: net.zero_grad()` over modules that are known: the loop clears them all."""
    node = stmt.node
    assert isinstance(node, cst.For)
    iterated = module.value(node.target)
    inner = [s for b in stmt.blocks for s in b.stmts]
    if iterated.kind != "module" or iterated.owns is None or len(inner) != 1 or node.orelse is not None:
        return None
    cleared = f"{dotted(node.target)}.zero_grad"
    call = inner[0].node.value if isinstance(inner[0].node, cst.Expr) else None
    if not isinstance(call, cst.Call) or dotted(call.func) != cleared:
        return None
    return Event("clear", stmt, node, iterated.place, iterated, told=inner[0])


def _fills(loop: Stmt, stmt: Stmt, grad: cst.Attribute) -> bool:
    """`p.grad = g` happens in every turn of the loop: whatever was there before, these are the gradients now."""
    (body,) = loop.blocks if len(loop.blocks) == 1 else (None,)
    if body is None or stmt not in body.stmts or not isinstance(stmt.node, cst.Assign) or len(stmt.node.targets) != 1:
        return False
    if any(isinstance(s.node, (cst.Break, cst.Continue, cst.Return)) or s.off for s in body.walk()):
        return False
    target = stmt.node.targets[0].target
    return target is grad or isinstance(target, cst.Attribute) and target.value is grad and target.attr.value == "data"


def _own_leaf(value: Value) -> bool:
    return value.kind == "tensor" and value.leaf


def _target_names(target: cst.CSTNode) -> list[cst.CSTNode]:
    if type(target) is cst.Tuple or type(target) is cst.List:
        return [n for e in target.elements for n in _target_names(e.value)]
    return [target]
