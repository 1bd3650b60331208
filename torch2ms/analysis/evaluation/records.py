"""Objects that only hold what they were made of: named tuples, dataclasses, classes that keep their arguments."""

from __future__ import annotations

import re
import sys

import libcst as cst

from torch2ms.analysis.evaluation.arguments import Given, bind_arguments
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import UNKNOWN, Value, bounded, entries, joined_deps, replace

NAMED_TUPLES = ("typing.NamedTuple", "NamedTuple", "typing_extensions.NamedTuple")
KEEPERS = ("dict", "OrderedDict", "UserDict", "defaultdict", "SimpleNamespace", "Namespace", "list", "tuple",
           "UserList")  # fmt: skip
KEPT_ELSEWHERE = ("params", "named_params", "param", "module", "optimizer", "scheduler", "object")  # not by the record
DATACLASSES = ("dataclass", "dataclasses.dataclass")


def record(cls: ClassInfo, given: Given) -> Value | None:
    """The object a call of the class makes, its fields known; None for a class that is no record."""
    init = cls.method("__init__")
    if _open(cls):
        return _named(cls, init, given)
    if any(a.star for a in given.node.args):
        return None
    if init is None:
        names = _declared(cls)
        if names is None:
            return None
        return made(cls.qualified, names, given, "tuple" if _is_tuple(cls) else "object")
    bound = bind_arguments(init, given.node, given.args, skip_self=True)
    kept: dict[str, Value] = {}
    for stmt in init.scope.body.walk():
        for target, value in assigned(stmt.node):
            place = dotted(target)
            if place.startswith("self.") and place.count(".") == 1 and (field := _field(value, bound, cls)) is not None:
                kept[place[5:]] = field
    return _holding(cls.qualified, kept, "object") if any(v.deps and _keeps(v) for v in kept.values()) else None


def _open(cls: ClassInfo) -> bool:
    """Its objects have attributes of whatever names they are given: `self.__dict__.update(kwargs)`, or are dicts."""
    for each in cls.lineage():
        own = {parent.scope.name for parent in each.parents}
        if any(_keeping(base) for base in each.bases if base.rpartition(".")[2] not in own):
            return True
        stmts = [s for info in each.methods.values() for s in info.scope.body.walk()]
        if any(d.startswith("self.__dict__") for s in stmts for d in s.defs | s.muts):
            return True
        if any(_sets(call) for s in stmts for call in s.calls):
            return True
    return False


def _keeping(base: str) -> bool:
    """A class outside of the project whose objects keep what they are given under any name."""
    head, _, last = base.partition("[")[0].rpartition(".")
    if head.partition(".")[0] in ("torch", "torchvision", "abc", "typing", "enum"):
        return False
    return last in KEEPERS or bool(head) and head.partition(".")[0] not in sys.stdlib_module_names


def _sets(call: cst.Call) -> bool:
    """`setattr(self, name, value)`, `object.__setattr__(self, ...)`, `vars(self)`."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    of_self = bool(call.args) and dotted(call.args[0].value) == "self"
    return name == "__setattr__" or name in ("setattr", "vars") and of_self


def _named(cls: ClassInfo, init: FunctionInfo | None, given: Given) -> Value | None:
    """The object with a field for each further keyword, and with whatever else it is given in one of any name."""
    params = init.scope.params if init is not None else []
    fields = {
        arg.keyword.value: value for arg, value in zip(given.node.args, given.args, strict=False)
        if arg.keyword is not None and arg.keyword.value not in params
    }  # fmt: skip
    held = _holding(cls.qualified, fields, "object")
    return held.with_deps(given.deps) if given.deps else None


def _field(node: cst.BaseExpression, bound: dict[str, Value], cls: ClassInfo) -> Value | None:
    """What an attribute is of the arguments: one of them, or a distribution made of them."""
    if isinstance(node, cst.Name):
        return bound.get(node.value)
    made = cls.module.value(node)
    if not isinstance(node, cst.Call) or not _is_distribution(made):
        return None
    used = {n.value for n in descend(node) if isinstance(n, cst.Name)}
    return Value("object", made.name, joined_deps(tuple(v for k, v in bound.items() if k in used)))


def _is_distribution(value: Value) -> bool:
    return value.kind == "object" and value.name.startswith("torch.distributions.")


def _keeps(value: Value) -> bool:
    """The record knows the value, not the class of what it is."""
    return value.kind not in KEPT_ELSEWHERE or _is_distribution(value)


def kept(cls: ClassInfo, given: Given) -> Value | None:
    """The object a call of the class makes, with what it keeps of its arguments; None where that is nothing."""
    fields = record(cls, given) if given.deps else None
    held = _held(cls, given)
    if not held:
        return fields
    if fields is None:
        return _of(cls, held)
    return replace(_of(cls, entries(fields) | held), deps=fields.deps)


def unnamed(cls: ClassInfo, given: Given) -> dict[str, Value]:
    """Networks without a name that the object is given, by the attribute: `Stage(nn.Linear(3, 2))`.

    The name that the class has for them may be another network's outside, or that of another object's.
    """
    init = cls.method("__init__")
    if init is None or init.cls is None or any(a.star for a in given.node.args):
        return {}
    if not any(a.kind == "module" and not a.place for a in given.args):
        return {}
    bound = bind_arguments(init, given.node, given.args, skip_self=True)
    found: dict[str, Value] = {}
    for attr, value in init.cls.attrs.items():
        passed = bound.get(value.place) if value.kind == "module" else None
        if passed is not None and passed.kind == "module" and not passed.place and value.place in init.scope.params:
            found[attr] = passed
    return found


def parts(cls: ClassInfo, given: Given) -> tuple[Value, ...]:
    """The networks that a new module is given and may be made of: those that its constructor only copies are not."""
    networks = tuple(a for a in given.args if a.kind == "module" and a.place)
    init = cls.method("__init__")
    if not networks or init is None or not cls.module.has("deepcopy") or any(a.star for a in given.node.args):
        return networks
    bound = bind_arguments(init, given.node, given.args, skip_self=True)
    copied = {v.place for name, v in bound.items() if v.kind == "module" and _only_copied(name, init.scope)}
    return tuple(a for a in networks if a.place not in copied)


def _only_copied(name: str, scope: Scope) -> bool:
    """`self.shadow = copy.deepcopy(net)`, and nothing else of the parameter is kept."""
    stmts = scope.body.walk()
    parts = (
        n.attr if type(n) is cst.Attribute else n.keyword if type(n) is cst.Arg else None
        for s in stmts
        for n in s.nodes
    )  # `self.net`, `net=...`: names, and no reads
    others = {id(part) for part in parts}
    read = sum(type(n) is cst.Name and n.value == name and id(n) not in others for s in stmts for n in s.nodes)
    copies = (c for s in stmts for c in s.calls if dotted(c.func) in ("copy.deepcopy", "deepcopy"))
    return 0 < read == sum(isinstance(n, cst.Name) and n.value == name for c in copies for n in descend(c))


def _of(cls: ClassInfo, fields: dict[str, Value]) -> Value:
    return Value("object", cls.qualified, items=bounded(tuple(fields.values())), keys=tuple((k, True) for k in fields))


def _held(cls: ClassInfo, given: Given) -> dict[str, Value]:
    """The models and optimizers that the object was given and always holds."""
    init = cls.method("__init__")
    if init is None or init.cls is None or any(a.star for a in given.node.args):
        return {}
    bound = bind_arguments(init, given.node, given.args, skip_self=True)
    held: dict[str, Value] = {}
    for attr, value in init.cls.attrs.items():
        passed = bound.get(value.place) if value.kind in ("module", "optimizer") else None
        if passed is None or passed.kind != value.kind or value.place not in init.scope.params:
            continue
        if not passed.place and not passed.owns:
            continue
        if _stays(attr, init.cls) and not any(value.place in s.defs for s in init.scope.body.walk()):
            held[attr] = replace(passed, likely=False) if value.kind == "optimizer" else passed
    return held


def _stays(attr: str, cls: ClassInfo) -> bool:
    """The attribute is bound once, in the `__init__` of the class, and never from outside."""
    if len(cls.bound.get(attr, ())) != 1 or any(attr in other.attrs for other in (*cls.lineage()[1:], *cls.below())):
        return False
    outside = re.compile(rf"(?<!\bself)\.{attr}\s*(?::[^=\n]*)?=(?!=)")
    return outside.search(cls.module.source) is None


def made(name: str, names: list[str], given: Given, kind: str = "tuple") -> Value:
    """A record of the fields `names` as the call gives them."""
    fields = dict.fromkeys(names, UNKNOWN)
    position = 0
    for arg, value in zip(given.node.args, given.args, strict=False):
        if arg.keyword is not None and arg.keyword.value in fields:
            fields[arg.keyword.value] = value
        elif arg.keyword is None and position < len(names):
            fields[names[position]] = value
            position += 1
    return _holding(name, fields, kind)


def named_tuple(node: cst.Call) -> Value | None:
    """`namedtuple('Batch', 'x y')`: a class of records, None where the fields are not written out."""
    if len(node.args) < 2:
        return None
    given = node.args[1].value
    if isinstance(given, (cst.Tuple, cst.List)):
        names = [constant(e.value) for e in given.elements]
    else:
        text = constant(given)
        names = [*text.replace(",", " ").split()] if isinstance(text, str) else []
    if not names or not all(isinstance(n, str) for n in names):
        return None
    return Value("namedtuple", keys=tuple((str(n), True) for n in names))


def _holding(name: str, fields: dict[str, Value], kind: str) -> Value:
    named = kind == "object"  # by the place where they are: `Modules(policy, policy)` has one network
    held = tuple(v if _keeps(v) or named and v.kind == "module" and v.place else UNKNOWN for v in fields.values())
    return Value(kind, name, joined_deps(held), items=bounded(held), keys=tuple((key, True) for key in fields))


def _is_tuple(cls: ClassInfo) -> bool:
    return any(base in NAMED_TUPLES for c in cls.lineage() for base in c.bases)


def _declared(cls: ClassInfo) -> list[str] | None:
    """The fields of a named tuple or a dataclass in order, None for other classes."""
    node = cls.scope.node
    assert isinstance(node, cst.ClassDef)
    decorators = [d.decorator.func if isinstance(d.decorator, cst.Call) else d.decorator for d in node.decorators]
    full = [cls.module.imports.table.get(dotted(d), dotted(d)) for d in decorators]
    if not _is_tuple(cls) and not any(name in DATACLASSES for name in full):
        return None
    inherited = [name for parent in cls.parents for name in _declared(parent) or ()]
    own = [
        stmt.node.target.value
        for stmt in cls.scope.body.stmts
        if isinstance(stmt.node, cst.AnnAssign) and isinstance(stmt.node.target, cst.Name)
    ]
    return list(dict.fromkeys([*inherited, *own]))
