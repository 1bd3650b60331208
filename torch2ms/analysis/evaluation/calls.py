"""What a call returns, and what it tells about the function that is called."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation import all_seen, keeping, lambdas, masked, records, vision
from torch2ms.analysis.evaluation.arguments import (
    Given,
    bind_arguments,
    held_there,
    leading,
    left_to_functions,
    seen_by_both,
)
from torch2ms.analysis.evaluation.builtins import PLAIN_TENSOR, builtin
from torch2ms.analysis.evaluation.by_kind import of_kind, of_unknown, replayed
from torch2ms.analysis.evaluation.dispatch import dispatched
from torch2ms.analysis.evaluation.effects import enter
from torch2ms.analysis.evaluation.guess import makes_optimizers
from torch2ms.analysis.evaluation.handed_on import of_functions, with_functions
from torch2ms.analysis.evaluation.lookup import (
    class_of,
    function_of,
    layers_bound,
    made_by_function,
    makes_instances,
)
from torch2ms.analysis.evaluation.methods import (
    kept_methods,
    learn_argument,
    named_layers,
)
from torch2ms.analysis.evaluation.narrow import CLASS
from torch2ms.analysis.evaluation.rebinding import rebound
from torch2ms.analysis.evaluation.torchcalls import api_call, new_optimizer, tensor_function
from torch2ms.analysis.evaluation.transfer import (
    entries_placed,
    into,
    kept_inside,
    only_passed,
    outward,
    sole,
    spread,
    unplaced,
)  # fmt: skip
from torch2ms.analysis.known import torchapi
from torch2ms.analysis.known.attribute_dicts import is_attribute_dict
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import (
    CHOSEN,
    GIVEN,
    NO_DEPS,
    NOT_RUN,
    OPTIMIZERS,
    TENSOR,
    UNKNOWN,
    UNPLACED,
    Value,
    bounded,
    entries,
    is_weight,
    join,
    joined_deps,
    of_groups,
    of_optimizer,
    replace,
)  # fmt: skip

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

PARTS = ("params", "named_params", "list")  # what an optimizer is made over
OF_RATES = {"step": 2, "load_state_dict": 1, "step_update": 2}  # what methods of schedules of rates take at most


def call(node: cst.Call, ev: Evaluator) -> Value:
    """The value of a call; what it passes is remembered for the function of the project that it reaches."""
    target = ev.ev(node.func)
    args = [ev.ev(arg.value) for arg in node.args]
    modules = frozenset([a.place for a in args if a.kind == "module" and a.place])
    given = Given(node, args, joined_deps(args) | modules)
    for one in args:  # asked of call after call: no generator
        if one.kind in ("function", "method"):
            given = with_functions(given, ev)
            break
    if target.kind == "api" and target.name.rpartition(".")[0].endswith("__version__"):  # a method of text
        return UNKNOWN
    if target.kind == "api" or target.kind == "dtype" and target.name.startswith("numpy."):  # `np.int64(1)`
        value = api_call(target.name, given)
        if value is None:
            learn_argument(node, args, target.name, ev)
            value = masked.called(
                target.name.rpartition(".")[2], node, tensor_function(target.name, given), given.first, args
            )
        return named_layers(value, given, ev) if value.name == "torch.nn.ModuleDict" else value
    makes = target.kind in ("unknown", "none") and makes_optimizers(dotted(node.func))
    if (makes or target.kind == "optimizer" and target.likely) and given.first.kind in PARTS:  # `optimizer(params)`
        return replace(new_optimizer("", given), likely=True)
    if target.name.startswith("torchvision.") and (made := vision.transformed_image(target.name, given)) is not None:
        return made
    if target.name == CLASS and target.kind == "unknown":
        return _another(node.func, target.place, given, ev)
    if type(node.func) is cst.Call and target.kind == "unknown":
        dispatched(given, ev)
    if type(node.func) is cst.Attribute:
        return _method(node.func, ev.memo.get(id(node.func.value), UNKNOWN), target, given, ev)
    return _called(target, given, ev)


def _method(func: cst.Attribute, receiver: Value, target: Value, given: Given, ev: Evaluator) -> Value:
    """`receiver.method(...)`"""
    name = func.attr.value
    if receiver.kind == "none":  # bound to something else by then: a global that a function sets
        receiver = replace(receiver, kind="unknown")
    if receiver.kind == "scheduler" and receiver.likely and len(given.args) > OF_RATES.get(name, 0):
        receiver = ev.memo[id(func.value)] = Value("unknown", place=receiver.place)  # it schedules noise, or jobs
    record = receiver.kind == "tuple" and receiver.keys is not None
    if record or receiver.kind in ("object", "module", "class", "modulefile"):
        cls = class_of(receiver, ev.module, ev.project)
        method = cls.known(name) if cls is not None else None
        if method is not None and method.getter:
            return _called(target, given, ev)
        if method is not None and name == "forward" and receiver.kind == "module":  # `self.forward(x)`
            return _forward(receiver, given, ev)
        if method is not None:
            value = _function(method, given, ev, receiver)
            if cls is not None and makes_instances(method, value, receiver, cls):
                return Value(_kind(cls), name=cls.qualified, likely=True)
            if receiver.kind == "object" and replayed(name, dotted(func.value), method):
                return value.cut()
            return value if receiver.keys is None else spread(value, receiver.deps)  # of a record: its fields
        if cls is not None and cls.kind == "autograd" and name == "apply":
            return _applied(cls, given, ev)
        if cls is not None and (own := ev.exchange.attribute(cls, name)) is not None:
            if own.kind == "method" and (kept := kept_methods(own, cls)):
                return reduce(join, [_function(one, given, ev, receiver) for one in kept])
            return _called(target, given, ev)
    if receiver.kind == "builtin_super" and ev.cls is not None:
        for parent in ev.cls.parents:
            method = parent.method(name)
            if method is not None:
                above = Value("object", place="self", name=parent.qualified)
                return _function(method, given, ev, above, exact=True)
        return Value("unknown", deps=given.deps | ({"self"} if name == "forward" else NO_DEPS))
    held = target.kind == "module" and target.place and not target.likely and receiver.kind == "unknown"
    if target.kind in ("class", "function") or held:  # held: `space.net(x)`, where this was stored above
        return _called(target, given, ev)
    known = of_kind(name, receiver, given, ev)
    return known if known is not None else of_unknown(func, receiver, target, given, ev)


def _called(target: Value, given: Given, ev: Evaluator) -> Value:
    """A call of a value."""
    if target.name == OPTIMIZERS and target.kind == "unknown":
        return new_optimizer("", given)
    if target.kind in CHOSEN and not target.name and target.items:
        return reduce(ev.project.joined, [_called(choice, given, ev) for choice in target.items])
    if target.kind == "class":
        return _instance(target, given, ev)
    if target.kind == "function":
        return _function_value(target, given, ev)
    if target.kind == "namedtuple" and not any(a.star for a in given.node.args):
        return records.made(target.name, [key for key, _ in target.keys or ()], given)
    if target.kind == "builtin":
        return builtin(target.name, given)
    if target.kind == "autograd" and (cls := class_of(target, ev.module, ev.project)) is not None:
        return _applied(cls, given, ev)
    if target.kind in ("module", "lossfn"):
        return _forward(target, given, ev)
    if target.kind == "object" and (cls := class_of(target, ev.module, ev.project)) is not None:
        if (method := cls.method("__call__")) is not None:
            return _function(method, given, ev, target)
    own = frozenset({target.place}) if target.place and target.kind in ("unknown", "object") else NO_DEPS
    return Value("unknown", deps=given.deps | own | target.deps)


def _another(func: cst.BaseExpression, place: str, given: Given, ev: Evaluator) -> Value:
    """`type(net)(...)`, `net.__class__()`: one more of the class of what is there, with parameters of its own."""
    one = ev.env.get(place) or UNKNOWN
    if one.kind == "tensor" and not is_weight(one):
        ev.memo[id(func)] = Value("api", name=PLAIN_TENSOR, likely=one.likely)
        return api_call(PLAIN_TENSOR, given) or TENSOR
    if class_of(one, ev.module, ev.project) is not None:
        return _instance(replace(one, kind="class"), given, ev)
    kind = "module" if one.kind == "module" else "unknown"
    return Value(kind, name=one.name, deps=given.deps, likely=True)


def _instance(target: Value, given: Given, ev: Evaluator) -> Value:
    """A new object of a class of the project."""
    cls = class_of(target, ev.module, ev.project)
    if cls is None:
        return UNKNOWN
    if cls.kind == "object" and cls.bases and is_attribute_dict(cls):
        return builtin("dict", given)
    init = cls.method("__init__")
    if init is not None:
        _pass(init, given, Value("object"), ev, len(ev.project.modules) == 1)
        ev.exchange.returned(init)
    kind = _kind(cls)
    held = ev.exchange.ask(records.kept, cls, given) if kind == "object" else None
    handed = kind == "object" and any(a.kind == "module" for a in given.args)
    if handed and init is not None and init.cls is not None:  # kept under names that are perhaps not seen yet
        ev.exchange.attributes(init.cls)
    if handed and any(a.kind == "module" and not a.place for a in given.args):
        if own := ev.exchange.ask(records.unnamed, cls, given):
            return _with_own(own, held or Value(kind, cls.qualified), f"{UNPLACED}{id(given.node):x}>")
    if held is not None:
        return held
    kept = kind == "optimizer" or kind == "object" and bool(given.args) and given.args[0].kind == "params"
    owns = given.args[0].deps if kept and given.args else None
    parts = records.parts(cls, given) if kind == "module" else None
    ordered = owns is not None and len(owns) == 1 and given.args[0].kind == "params"
    deps = of_functions(given) if kind == "module" else NO_DEPS
    return Value(kind, name=cls.qualified, deps=deps, owns=owns, items=parts or None, ordered=ordered)


def _with_own(own: dict[str, Value], held: Value, place: str) -> Value:
    """An object with networks that live in it; its place is one until it is bound to a name."""
    fields = entries(held) | {attr: replace(value, place=f"{place}.{attr}") for attr, value in own.items()}
    keys = tuple((key, True) for key in fields)
    return replace(held, place=place, items=bounded(tuple(fields.values())), keys=keys)


def _function_value(target: Value, given: Given, ev: Evaluator) -> Value:
    if target.name.startswith("torch.func:") and target.items:
        info = function_of(target.each, ev) if target.each is not None else None
        if info is not None:  # what the function reads from around it
            ev.exchange.returned(info)
            around = info.returns.deps if info.returns is not None else NO_DEPS
            given = Given(given.node, given.args, given.deps | {d for d in around if not d.startswith(("@", "^"))})
        elif target.each is not None and target.each.kind == "module":
            given = Given(given.node, given.args, given.deps | target.each.own)
        if any(a.kind in ("dict", "named_params") for a in given.args):  # gradients have the form of what they are of
            return Value("unknown", deps=given.deps)
        return spread(target.items[0], given.deps)
    if target.name.startswith(lambdas.PREFIX) and (made := lambdas.called(target, given, ev)) is not None:
        return made
    info = function_of(target, ev)
    if info is not None:
        return _function(info, given, ev)
    brings = target.place and any(d[0] != "@" for d in target.deps)  # a parameter of the function that calls it
    inner = made_by_function(target, ev)
    returned = ev.exchange.returned(inner) if inner is not None else None
    kind = "tuple" if returned is not None and returned.kind == "tuple" else "unknown"
    return Value(kind, deps=given.deps | target.deps | ({target.place} if brings else NO_DEPS))


def _forward(target: Value, given: Given, ev: Evaluator) -> Value:
    """A module called: what its forward returns, varied with its parameters."""
    last = target.name.rpartition(".")[2]
    cls = class_of(target, ev.module, ev.project)
    forward = cls.method("forward") if cls is not None else None
    bare = last.endswith("Loss") and not (cls is not None and ev.exchange.ask(_weighted, cls))
    deps = given.deps if bare else target.own | given.deps
    value = spread(_function(forward, given, ev, target), deps) if forward is not None else None
    if target.kind == "lossfn" or bare and (value is None or value.kind in ("unknown", "none", "int", "float")):
        return Value("tensor", deps=given.deps, likely=target.likely or value is not None)
    if value is not None:
        return value
    if not last and target.place.startswith("self.") and (cls := ev.cls) is not None:  # one class or another
        if names := ev.exchange.ask(layers_bound, cls, target.place[5:]):
            return reduce(ev.project.joined, [_forward(replace(target, name=name), given, ev) for name in names])
    if last in torchapi.RECURRENT:
        one = spread(given.first, deps) if given.first.name == torchapi.PACKED else Value("tensor", deps=deps)
        state = Value("tuple" if last == "LSTM" else "tensor", deps=deps)
        return Value("tuple", items=(one, state), deps=deps)
    unknown = target.name and not target.name.startswith("torch.nn.") and not vision.gives_tensors(target.name)
    return Value("unknown" if unknown else "tensor", deps=deps, likely=True)


def _applied(cls: ClassInfo, given: Given, ev: Evaluator) -> Value:
    """`Function.apply(...)`: what forward returns, varied with every argument."""
    forward = cls.method("forward")
    if forward is None:
        return Value("unknown", deps=given.deps)
    passed = given
    if cls.method("setup_context") is None:
        node = given.node.with_changes(args=[cst.Arg(cst.Name("ctx")), *given.node.args])
        passed = Given(node, [Value("ctx"), *given.args], given.deps)
    value = _function(forward, passed, ev)
    items = value.items
    if items is not None:
        items = tuple(replace(i, kind="tensor", deps=given.deps, place="", leaf=False) for i in items)
    return Value(value.kind if value.kind != "unknown" else "tensor", deps=given.deps, items=items)


def _function(
    info: FunctionInfo, given: Given, ev: Evaluator, receiver: Value | None = None, exact: bool = False
) -> Value:
    """What a function of the project returns, in the caller's places; `exact`: it is no method of a subclass."""
    bound = _pass(info, given, receiver, ev, len(ev.project.modules) == 1)
    returns = ev.exchange.returned(info)
    some = receiver is not None and (receiver.place == "self" or receiver.kind == "object" and receiver.likely)
    if some and info.cls is not None and not exact:
        for other in info.cls.overriding(info.name):  # the object may be one of a subclass
            bound |= _pass(other, given, receiver, ev)
            value = ev.exchange.returned(other)
            returns = join(returns, value) if returns is not None and value is not None else returns or value
    if info.hands_back in bound and not (some and info.cls is not None and info.cls.overriding(info.name)):
        return bound[info.hands_back]  # not what other callers give it
    depends = leading(bound, given)
    if receiver is not None:
        depends[GIVEN[1:]] = frozenset({GIVEN}) if receiver.place == "self" else receiver.deps
    for place, deps in keeping.follow(info, given.node, receiver, depends) if info.kept else ():
        enter(place, deps, receiver, given.node, ev)
    if receiver is not None and receiver.place == "self":
        rebound(info, ev)
    if returns is None:
        return Value("unknown", NOT_RUN, given.deps)
    if returns.kind == "optimizer" and returns.owns is not None:
        returns = replace(returns, owns=returns.owns - ev.exchange.ask(only_passed, returns.owns, info, bound))
        named = {name: v.place for name, v in bound.items() if v.kind == "unknown" and not v.deps and v.place}
        depends |= {name: frozenset({named[name]}) for name in named.keys() & {root(o) for o in returns.owns or ()}}
    depends |= dict.fromkeys(left_to_functions(info, given.node, bound, ev.project), NO_DEPS)
    depends = (keeping.built_from(info.cls, receiver) if info.cls is not None else {}) | depends
    own = info.scope.locals - bound.keys()
    unnamed = {name for name, value in bound.items() if value.kind == "module" and not value.place}  # `f(Net())`
    homeless = unplaced(returns, own | unnamed, id(given.node))
    depends |= {name: depends[name] | {homeless[name]} for name in unnamed & homeless.keys()}
    if returns.name.startswith("param_group") and (held := bound.get(root(returns.place))) is not None:
        seen = "." not in returns.place  # it was given the optimizer itself
        returns = replace(returns, place=held.place if seen else "")
    if returns.kind == "module":  # what it was made of has no name outside: it is the module's own
        returns = replace(returns, deps=frozenset(d for d in returns.deps if root(d) not in own))
    same = bound.get(returns.place) if returns.kind == "module" and not returns.name else None
    if same is not None and same.kind == "module" and not same.place:  # `layer_init(nn.Linear(3, 1))` gives it back
        if not any(returns.place in stmt.defs for stmt in info.scope.body.walk()):
            returns = replace(returns, name=same.name)
    fresh = sole(returns, info.scope, bound)
    if returns.kind == "function" and any(child.name == returns.name for child in info.scope.children):
        returns = replace(returns, name=f"{info.module.name}.{info.name}.{returns.name}")
    if returns.kind == "object" and (homes := kept_inside(returns, own, bound, id(given.node))):
        homeless |= homes
        returns = replace(returns, place=next(iter(homes)))
    returned = outward(returns, depends, receiver.place if receiver is not None else "", homeless, fresh)
    if returned.kind != "dict" and returned.kind != "tuple":  # most
        return returned
    return entries_placed(returned, f"{id(given.node):x}")


def _kind(cls: ClassInfo) -> str:
    return cls.kind if cls.kind in ("module", "dataset", "optimizer") else "object"


def _weighted(cls: ClassInfo) -> bool:
    return cls.weighted


def _takes_types(info: FunctionInfo, name: str) -> bool:
    """`tens_type=torch.FloatTensor`: the class of what nobody sees is handed over as another of these."""
    node = info.scope.node
    params = [*node.params.params, *node.params.kwonly_params] if type(node) is cst.FunctionDef else ()
    return any(p.name.value == name and p.default is not None and dotted(p.default).endswith("Tensor") for p in params)


def _pass(
    info: FunctionInfo, given: Given, receiver: Value | None, ev: Evaluator, alone: bool = False
) -> dict[str, Value]:
    """Record what the caller passes, by parameter; `alone`: no other module is there, whose calls are not seen."""
    as_method = info.cls is not None and not info.static and receiver is not None
    if receiver is not None and receiver.kind == "class" and not info.of_class:
        as_method = False
    bound = bind_arguments(info, given.node, given.args, skip_self=as_method)
    places = {value.place: name for name, value in bound.items() if value.place and value.name != "param_group"}
    if as_method and receiver is not None and receiver.kind == "module" and receiver.place:
        places[receiver.place] = "self"  # `net.fit(SGD(net.parameters()))`
    same_self = receiver is not None and receiver.place == "self"
    if as_method and receiver is not None:
        for value in bound.values():  # asked of call after call: no generator
            if value.kind == "optimizer" and value.owns and info.name != "__init__":
                places = held_there(receiver, info, bound, ev) | places
                break
    for name, value in bound.items():
        if value.name == CLASS and (value.each is not None or _takes_types(info, name)):
            bound[name] = value = value.each or Value("api", name=PLAIN_TENSOR, likely=True)
        if value.kind == "list" and value.items:
            bound[name] = value = of_groups(value)
        if value.kind == "object" and same_self:
            places = seen_by_both(value, ev) | places
        own = alone and value.kind == "tensor" and bool(value.dtype)
        typed = own and (
            all_seen.calls(info.name, info.module.source, info.cls is not None)
            or all_seen.of_network(info, given.node.func)
            or all_seen.of_class(info)
        )
        mapped = into(value, name, places, same_self, typed)
        groups = value.kind in PARTS or value.kind == "dict"
        if groups and as_method and receiver is not None and receiver.place == value.place and of_optimizer(value):
            mapped = replace(mapped, place="self")  # `self.init_group(group)`: one of the groups of the object itself
        ev.exchange.hand(info, name, mapped, id(given.node.func))
    return bound
