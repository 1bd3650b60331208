"""Which modules behave differently in training and evaluation."""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import versions
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted, is_foreign, qualified
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value, choices

SENSITIVE = (
    "spectral_norm",
    "BatchNorm",
    "Dropout",
    "AlphaDropout",
    "FeatureAlphaDropout",
    "InstanceNorm",
    "RReLU",
    "Transformer",
    "MultiheadAttention",
    "SyncBatchNorm",
    "LSTM",
    "GRU",
    "RNN",
)
PLAIN = ("int", "float", "str", "bool", "none", "tensor", "size", "dtype", "device", "numpy")
CONTAINERS = ("Sequential", "ModuleList", "ModuleDict")
ASKED = re.compile(r"\.training\b")


KEEPING = ("to", "cuda", "cpu", "double", "float", "half", "bfloat16", "apply", "requires_grad_", "share_memory")
MOST_CALLS = 5  # functions that hand on a new module before it gets a name


def in_module_class(scope: Scope, module: ModuleInfo) -> bool:
    """What is made there is a part of a module, which sets the mode of its parts."""
    owner = scope.cls
    return owner is not None and owner.name in module.classes and module.classes[owner.name].kind == "module"


COPYING = ("copy.deepcopy", "copy.copy")
TAKING = (cst.Arg, cst.Return, cst.Assign, cst.StarredElement)
COUNTING = ("len", "enumerate", "zip", "reversed", "range", "iter")  # they take nothing


def called_from_list(name: str, scope: Scope) -> bool:
    """The layers of a list stay in it, as far as is seen: no container takes them, which would set their mode."""
    if not name:
        return False
    home = scope.cls.node if name.startswith("self.") and scope.cls is not None else scope.node
    looked: set[int] = set()
    for node in descend(home):
        if node.__class__ is cst.Call and dotted(node.func) in COUNTING:
            looked.update(map(id, node.args))
        taken = node.value if node.__class__ in TAKING and id(node) not in looked else None
        if taken is not None and dotted(taken) == name:
            return False
    return True


def starts_in_training(node: cst.BaseExpression, module: ModuleInfo, project: Project) -> bool:
    """An expression makes a new module to which the mode can matter, and whose mode nobody has set."""
    made = _made(node, module, project, 0)
    return any(
        mode_sensitive(home.value(call), project, home, _new_parts(call, home)) or _takes_sensitive(call, home, project)
        for call, home in made
    )


def copies_part(call: cst.Call, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """`copy.deepcopy(self.encoder)` of a layer that the same constructor made: it is in training mode in torch only."""
    part = dotted(call.args[0].value) if qualified(call.func, module.imports) in COPYING and call.args else ""
    made = (s.node.value for s in scope.body.walk() if part in s.defs and type(s.node) is cst.Assign)
    return part.startswith("self.") and any(starts_in_training(node, module, project) for node in made)


def _new_parts(call: cst.Call, module: ModuleInfo) -> bool:
    """What a module is made of may be new as well: what has a name already was given its mode before."""
    named = (
        module.value(arg.value).kind in PLAIN or bool(dotted(arg.value)) and _old(arg, module) for arg in call.args
    )
    return not all(named)


def _old(arg: cst.Arg, module: ModuleInfo) -> bool:
    return not arg.star and module.value(arg.value).kind == "module"


def _made(
    node: cst.BaseExpression, module: ModuleInfo, project: Project, depth: int
) -> list[tuple[cst.Call, ModuleInfo]]:
    """The new modules that an expression may stand for, none where one of them may be an old one.

    A class is called, or a function of the project all of whose returns do so; a name it returns was given its mode
    where it was bound, and so was what a function returns that is reached in other ways than by calls of its name.
    """
    while type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value in KEEPING:
        node = node.func.value
    if type(node) is cst.IfExp:
        one, other = (_made(part, module, project, depth) for part in (node.body, node.orelse))
        return [*one, *other] if one and other else []
    if type(node) is not cst.Call or depth > MOST_CALLS:
        return []
    target = module.value(node.func)
    if target.kind == "api" and _gives_back(node, target.name, module):
        return _made(node.args[0].value, module, project, depth + 1)
    if target.kind == "class" or target.kind == "api" and is_foreign(target.name):
        return [(node, module)] if module.value(node).kind == "module" and not _cell(target, module, project) else []
    returned = [
        (s.node.value, found.module)
        for found in _called(node.func, target, module, project)
        if id(found) not in reached_otherwise(project)
        for s in found.scope.body.walk()
        if type(s.node) is cst.Return
    ]
    parts = [_made(part, home, project, depth + 1) if part is not None else [] for part, home in returned]
    return [made for part in parts for made in part] if all(parts) else []


def _gives_back(call: cst.Call, name: str, module: ModuleInfo) -> bool:
    """`torch.compile(net)`, `weight_norm(layer)`: a function of a library that hands on the network it was given."""
    last = name.rpartition(".")[2]
    return last[:1].islower() and bool(call.args) and module.value(call.args[0].value).kind == "module"


def _called(func: cst.BaseExpression, target: Value, module: ModuleInfo, project: Project) -> list[FunctionInfo]:
    """What a call may reach: a function, or a method and those that stand in its place in subclasses."""
    if target.kind == "function":
        return _functions(target.name, module, project)
    if type(func) is not cst.Attribute:
        return []
    receiver = module.value(func.value)
    known = receiver.kind in ("object", "module", "class") and receiver.name
    cls = class_of(receiver, module, project) if known else None
    method = cls.known(func.attr.value) if cls is not None else None
    return list(versions(method)) if method is not None else []


@once
def reached_otherwise(project: Project) -> frozenset[int]:
    """Functions that return new modules, and are values somewhere or called where it is not seen: `makers[name]()`."""
    makers: dict[str, list[FunctionInfo]] = {}
    for module in project.modules.values():
        for info in module.functions.values():
            given = (s.node.value for s in info.scope.body.walk() if type(s.node) is cst.Return)
            if any(type(node) is cst.Call and module.value(node).kind == "module" for node in given):
                makers.setdefault(info.name, []).append(info)
    found: set[int] = set()
    for module in project.modules.values() if makers else ():
        calls = module.of_kind(cst.Call)
        seen = {id(c.func) for c in calls if _called(c.func, module.value(c.func), module, project)}
        names: list[cst.Name | cst.Attribute] = [*module.of_kind(cst.Name), *module.of_kind(cst.Attribute)]
        for node in names:
            perhaps = module.value(node).kind == "function" or type(node) is cst.Attribute and node.attr.value in makers
            if perhaps and id(node) not in seen:
                found |= {id(info) for info in _mentioned(node, makers, module, project)}
    return frozenset(found)


def _mentioned(
    node: cst.CSTNode, makers: dict[str, list[FunctionInfo]], module: ModuleInfo, project: Project
) -> list[FunctionInfo]:
    """The functions that a name or an attribute may be."""
    target = module.value(node)
    if target.kind == "function":
        return _functions(target.name, module, project)
    if not isinstance(node, cst.Attribute) or target.kind not in ("method", "unknown"):
        return []
    return [info for info in makers.get(node.attr.value, ()) if info.cls is not None]


def _functions(name: str, module: ModuleInfo, project: Project) -> list[FunctionInfo]:
    """The function of a name, or those that are defined under it inside of other functions."""
    if isinstance(found := project.find(name, module) if name else None, FunctionInfo):
        return [found]
    return [info for info in module.functions.values() if info.cls is None and info.name == name]


def _cell(target: Value, module: ModuleInfo, project: Project) -> bool:
    """A class that was translated before: its modules were given their mode then."""
    found = [project.find(one.name, module) for one in choices(target)]
    return any(isinstance(cls, ClassInfo) and cls.torch_base == "mindspore.nn.Cell" for cls in found)


def mode_sensitive(value: Value, project: Project, module: ModuleInfo, given: bool) -> bool:
    """Whether training mode can matter to a module; True where its parts are not seen.

    `given`: some of them may be made outside of its class, and handed in.
    """
    if not value.name:
        return True
    if value.name == "torch.optim.swa_utils.AveragedModel":
        return False  # a copy, in the mode of the original
    last = value.name.rpartition(".")[2]
    read = any(other.reads_training for other in project.modules.values())
    if read and not (value.name.startswith("torch.") and last.endswith("Loss")):  # losses may be functions
        return True
    if value.name.startswith("torch."):
        if "." in value.name and value.name.startswith("torch.nn."):
            return last.startswith(SENSITIVE) or last in CONTAINERS and _mentions(module)
        found = project.find(value.name, module)
        if not isinstance(found, ClassInfo):
            return True
    found = project.find(value.name, module)
    if not isinstance(found, ClassInfo):
        home, _, name = value.name.rpartition(".")
        owner = project.modules.get(home)
        found = owner.classes.get(name) if owner is not None else None
    if not isinstance(found, ClassInfo):
        return True
    return _class_sensitive(found, project, set(), given)


def made_sensitive(cls: ClassInfo, project: Project) -> bool:
    """Whether training mode can matter to the networks of a class; what they are given was made elsewhere."""
    read = any(module.reads_training for module in project.modules.values())
    return read or _class_sensitive(cls, project, set())


def _class_sensitive(cls: ClassInfo, project: Project, seen: set[int], given: bool = True) -> bool:
    """Whether the class is, or one that it uses; those `seen` are not, or are looked at further up."""
    if id(cls) in seen:
        return False
    seen.add(id(cls))
    for part in cls.lineage():
        made = part.methods.get("__init__")
        params = made.scope.params if made is not None else []
        if made is not None and _makes_any(made, part.module) and any(map(_mentions, project.modules.values())):
            return True
        for node in descend(part.scope.node):
            if type(node) is cst.Call and _made_by(node.func, params, part.module):
                return True
            if type(node) is cst.Name or type(node) is cst.Attribute:
                name = node.value if isinstance(node, cst.Name) else node.attr.value
                if isinstance(name, str) and (
                    name.startswith(SENSITIVE) or name in ("dropout", "training", "alpha_dropout")
                ):
                    return True
                value = part.module.value(node)
                old = value.kind == "module" and not given  # it has the mode that it was given before
                if not old and _may_be_sensitive(value, name in params, part.module, project, seen):
                    return True
    return False


def _makes_any(made: FunctionInfo, module: ModuleInfo) -> bool:
    """The constructor calls what the program looks up: `eval(kind)(8)`, `BLOCKS[name](*options)`, `kind(8)`."""
    for stmt in made.scope.body.walk():
        for call in stmt.calls:
            func = call.func
            if func.__class__ is cst.Attribute:
                continue
            asked = dotted(func.func) if type(func) is cst.Call else ""
            variable = type(func) is cst.Name and func.value in made.scope.locals
            if variable or type(func) is cst.Subscript or asked in ("eval", "getattr"):
                if module.value(func).kind in ("unknown", "str") and module.value(call).kind == "unknown":
                    return True
    return False


def _made_by(func: cst.BaseExpression, params: Sequence[str], module: ModuleInfo) -> bool:
    """What a constructor is given and calls may make any layer: `norm_layer(8)` of a `partial`, of a registry."""
    return type(func) is cst.Name and func.value in params and module.value(func).kind == "unknown"


def _may_be_sensitive(value: Value, given: bool, module: ModuleInfo, project: Project, seen: set[int]) -> bool:
    """What a class uses: a layer or a network, its class, or what may make one.

    Where its kind is not known, it counts only if it is `given` to the class: what the class makes is named there.
    """
    if value.kind == "function":
        return True
    if value.kind == "api":
        last = value.name.rpartition(".")[2]
        return last.startswith(SENSITIVE) if _of_torch(value) else _of_torchvision(value)
    if value.kind == "class" and value.name:
        found = [project.find(one.name, module) for one in choices(value)]
        return any(isinstance(one, ClassInfo) and _class_sensitive(one, project, seen) for one in found)
    if value.kind != "module":
        return any(_may_be_sensitive(one, given, module, project, seen) for one in value.parts)
    if _of_torch(value) and value.name.rpartition(".")[2] in CONTAINERS:
        held = (_may_be_sensitive(one, given, module, project, seen) for one in value.parts)
        return any(held) if value.parts else given and any(map(_mentions, project.modules.values()))
    if _of_torch(value):
        return value.name.rpartition(".")[2].startswith(SENSITIVE)
    if _of_torchvision(value):
        return True
    found_class = project.find(value.name, module) if value.name else None
    return _class_sensitive(found_class, project, seen) if isinstance(found_class, ClassInfo) else given


def _takes_sensitive(call: cst.Call, module: ModuleInfo, project: Project) -> bool:
    """`nn.Sequential(Block(8), nn.ReLU())`: a container, for which a layer is made that looks at its mode."""
    if module.value(call.func).name.rpartition(".")[2] not in CONTAINERS:
        return False
    made = [module.value(node) for node in descend(call) if type(node) is cst.Call and node is not call]
    lists = [module.value(arg.value) for arg in call.args if arg.star]
    made += [part for held in lists for part in (*held.parts, held.each) if part is not None and not part.place]
    if any(not held.parts and held.each is None for held in lists):  # whatever the program makes
        return project.says(ASKED) or any(map(_mentions, project.modules.values()))
    layers = (value for value in made if value.kind == "module" and value.name)
    return any(_may_be_sensitive(layer, True, module, project, set()) for layer in layers)


def _of_torch(value: Value) -> bool:
    """A layer of torch, or its class."""
    return value.name.startswith("torch.nn.")


def _of_torchvision(value: Value) -> bool:
    """A network of torchvision, or a layer of it that holds others."""
    name = value.name
    return name[:12] == "torchvision." and (name[12:18] == "models" or name.endswith(_HOLDING))


_HOLDING = ("ConvNormActivation", "Conv2dNormActivation", "MLP", "SqueezeExcitation", "StochasticDepth")


@once
def _mentions(module: ModuleInfo) -> bool:
    """Whether a mode-sensitive layer is named anywhere in the module."""
    return any(
        value.kind == "api" and value.name.rpartition(".")[2].startswith(SENSITIVE) for value in module.values.values()
    )
