"""Networks that compiled derivatives close over, so that they are compiled once.

MindSpore compiles a function anew at every call that is given a cell, and keeps every one of the compiled graphs: a
gradient penalty that takes the critic as an argument costs a compilation and some megabytes per step. A function that
closes over the network is compiled once. It keeps what it captured as it was at its first call, except Parameters; and
those too, where they are given new storage. So it has to be seen that nothing else changes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value, any_overlap
from torch2ms.tape.plan import Function, Item, Text

INNER = ("gradient", "derivative", "compiled", "compiled_gradient")  # names of what a factory gives back
CACHED = "@cache"
MODES = re.compile(r"spectral_norm|BatchNorm|Drop[oO]ut|dropout|DropPath|InstanceNorm|RReLU|rrelu|Transformer|"
                   r"MultiheadAttention|LSTM|GRU|RNN|\.training\b|torchvision|timm|hub\.load|"
                   r"from_pretrained")  # fmt: skip
CONTAINERS = (".Sequential", ".ModuleList", ".ModuleDict")
NUMBERS = ("of int", "of float", "of str", "of tensor")
PLAIN = ("int", "float", "bool", "str", "none", "tensor", "param", "params", "lossfn", "api", "method")
CHANGING = ("add_module", "register_module", "setattr", "delattr", "register_hook", "register_forward_hook",
            "register_forward_pre_hook", "register_full_backward_hook", "register_backward_hook", "register_parameter",
            "register_parametrization", "remove_parametrizations", "set_default_dtype")  # fmt: skip
PARTS = "the same weights are trained through it each time: those of the first call alone get gradients in MindSpore"
GROWING = ("append", "extend", "insert", "pop", "update", "clear")


def closed(places: Iterable[str], scope: Scope, module: ModuleInfo, project: Project) -> list[str]:
    """The networks among the arguments of a compiled function that stay as they are as long as they live."""
    met = networks_of(places, scope, module)
    return [place for place, values in met.items() if all(_steady(value, module, project) for value in values)]


def networks_of(places: Iterable[str], scope: Scope, module: ModuleInfo) -> dict[str, list[Value]]:
    """The places of networks and losses in the order given, with what they hold in a scope."""
    met: dict[str, list[Value]] = {place: [] for place in places}
    for stmt in scope.body.walk():
        for node in stmt.nodes if not stmt.blocks else ():
            if (type(node) is cst.Name or type(node) is cst.Attribute) and (place := dotted(node)) in met:
                value = module.value(node)
                if value.kind in ("module", "lossfn") and value.place == place:
                    met[place].append(value)
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    for place in (p for p, values in met.items() if not values and p.startswith("self.") and p.count(".") == 1):
        if cls is not None and (held := cls.attr(place[5:])) is not None and held.kind == "module":  # a method uses it
            met[place].append(held)
    return {place: values for place, values in met.items() if values}


def factory(name: str, networks: list[str], params: list[str], body: list[Item], module: ModuleInfo) -> Function:
    """The function that gives back the compiled one of the networks it is given."""
    inner = next((n for n in INNER if not re.search(rf"\b{n}\b", module.source)), "compiled_of_networks")
    return Function(name, networks, [Function(inner, params, body, "@ms.jit"), Text(f"return {inner}")], CACHED)


def telling(why: str, networks: list[str], places: Iterable[str], scope: Scope, module: ModuleInfo) -> str:
    """The reason with what is said of the networks among the arguments."""
    if networks:
        return f"{why} but `{'`, `'.join(networks)}`: it is compiled once for a network"
    given = networks_of(places, scope, module)
    return f"{why}; `{min(given)}` may change, so that each call compiles it anew" if given else why


def trained_in_parts(networks: Iterable[str], project: Project) -> set[str]:
    """What is assumed where optimizers share some weights and not all, or each have networks that a compiled function
    runs: of weights that had no gradient the first time, MindSpore's compiled functions give zeros."""
    owned = owned_weights(project)
    split = any(one != other and any_overlap(one, other) for one, other in combinations(owned, 2))
    training = [each for each in owned if any(any_overlap(each, frozenset({place})) for place in networks)]
    return {PARTS} if split or len(training) > 1 else set()


@once
def owned_weights(project: Project) -> list[frozenset[str]]:
    """The weights of each optimizer, where they are seen."""
    owned: set[frozenset[str]] = set()
    for module in project.modules.values():
        made = {id(v): v for v in module.values.values() if v.kind == "optimizer" and v.owns}
        owned |= {frozenset(o.lstrip("^") for o in v.owns or ()) for v in made.values()}
    return sorted(owned, key=sorted)


def _steady(value: Value, module: ModuleInfo, project: Project) -> bool:
    """Nothing that a network is made of, or reads when it runs, changes between two calls, other than weights."""
    if value.kind == "lossfn":
        return not value.name or value.name.startswith("torch.nn.")
    if not value.name or not _unchanged(project):
        return False
    seen = _classes(value, module, project)
    if seen is None:  # it may have layers of any class of the project, and of other libraries
        every = [cls for m in project.modules.values() for cls in m.classes.values() if cls.kind == "module"]
        seen, moded = set(every), project.says(MODES)
    else:
        moded = MODES.search(" ".join(layers_of(value))) is not None
    parts = [part for cls in seen for part in _made_of(cls, project)]
    moded = moded or any(MODES.search(code(part.scope.node)) for part in parts)
    read = {name for part in parts for name in _reads(part)}
    return not (moded and _switched(project) or read & _written(project))


def _classes(value: Value, module: ModuleInfo, project: Project) -> set[ClassInfo] | None:
    """The classes of the project that a network and its layers are of; None if some layer is not seen."""
    found: set[ClassInfo] = set()
    waiting = [(value, module)]
    while waiting:
        held, home = waiting.pop()
        cls = project.find(held.name, home) if held.name else None
        if isinstance(cls, ClassInfo) and cls.torch_base.startswith("torch.nn."):
            for each in {cls, *cls.lineage(), *cls.below()} - found:
                found.add(each)
                waiting += [(layer, each.module) for layer in each.attrs.values() if layer.kind not in PLAIN]
        elif held.kind in ("list", "tuple", "dict") and all(p.kind in (*PLAIN, "module") for p in held.parts):
            if not held.parts and held.name not in NUMBERS:
                return None  # what it holds is not seen
        elif not held.name.startswith("torch.nn.") or held.name.endswith(CONTAINERS) and not held.parts:
            return None
        waiting += [(part, home) for part in held.parts if part.kind not in PLAIN]
    return found


def layers_of(value: Value) -> Iterator[str]:
    """The names of a layer and of those in it."""
    yield value.name
    for part in value.parts:
        yield from layers_of(part)


@once
def _unchanged(project: Project) -> bool:
    """Nothing is put into networks, or hooked to them, once they are made; what their code reads is looked at apart."""
    return not any(
        any(_rebuilds(call, module) for call in stmt.calls) or _sets_in_layer(stmt.node, module)
        for module in project.modules.values() for scope in module.scope.walk() if scope.name != "__init__"
        for stmt in scope.body.walk()
    )  # fmt: skip


def _rebuilds(call: cst.Call, module: ModuleInfo) -> bool:
    """`net.register_forward_hook(f)`, `net.layers.append(layer)`."""
    if (name := name_called(call)) in CHANGING:
        return True
    return name in GROWING and isinstance(call.func, cst.Attribute) and module.value(call.func.value).kind == "module"


def _sets_in_layer(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`net.drop.p = 0.3`, of a layer of torch or one that is not seen; `net[2] = nn.Linear(8, 3)`."""
    for target in (t.target for t in node.targets) if isinstance(node, cst.Assign) else ():
        if isinstance(target, cst.Subscript) and module.value(target.value).kind == "module":
            return True
        if isinstance(target, cst.Attribute) and dotted(target.value) != "self":
            layer = module.value(target.value)
            if layer.kind == "module" and (not layer.name or layer.name.startswith("torch.nn.")):
                return True
    return False


@once
def _switched(project: Project) -> bool:
    """Networks may be in one mode at one call and in another at the next."""
    return "training" in _written(project) or any(
        name_called(call) == "eval" and not call.args
        or name_called(call) == "train" and call.args and constant(call.args[0].value) is not True
        for module in project.modules.values() for scope in module.scope.walk()
        for stmt in scope.body.walk() for call in stmt.calls
    )  # fmt: skip


@once
def _written(project: Project) -> frozenset[str]:
    """The names of attributes, and of what lives outside of functions, that are written once objects are made."""
    found: set[str] = set()
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk() if scope.name != "__init__" else ():
                if type(stmt.node) is cst.Global:
                    found |= {each.name.value for each in stmt.node.names}
                places = stmt.defs | stmt.muts
                found |= {place.rpartition(".")[2] for place in places if "." in place}
                found |= {place for place in stmt.muts if scope.is_function and place not in scope.locals}
    return frozenset(found)


def _reads(part: ClassInfo | FunctionInfo) -> Iterator[str]:
    """The names and attributes that a method or a function reads when a network runs."""
    if isinstance(part, FunctionInfo) and part.name != "__init__":
        for node in descend(part.scope.node):
            if type(node) is cst.Attribute:
                yield node.attr.value
            elif type(node) is cst.Name:
                yield node.value


def _made_of(cls: ClassInfo, project: Project) -> Iterator[ClassInfo | FunctionInfo]:
    """The class, its relatives, and all classes and functions of the project that these name."""
    waiting: list[ClassInfo | FunctionInfo] = [cls]
    seen: set[int] = set()
    while waiting:
        each = waiting.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, ClassInfo):
            waiting += [*each.lineage(), *each.below(), *each.methods.values()]
            continue
        for stmt in each.scope.body.walk():
            for node in stmt.nodes if not stmt.blocks else ():
                if type(node) is not cst.Name and type(node) is not cst.Attribute:
                    continue
                value = each.module.value(node)
                found = project.find(value.name, each.module) if value.kind in ("class", "function") else None
                if isinstance(found, FunctionInfo) or isinstance(found, ClassInfo) and found.kind == "module":
                    waiting.append(found)
