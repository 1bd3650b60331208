"""Kinds that use gives away: who asks something for its parameters takes it for a module.

What is told both to forget its gradients and to take a step is an optimizer, whatever it is called. In the sets of
places here `trainer.step()` stands for a place `trainer` that is told so, `gan.` for one that has modules in it,
`opt[]` for a dict, and `self.[actor]` for what stands under the key "actor" in a dict that nobody sees, whatever it is
called in the other methods of a class, and `self.[parts]*` for any item of `parts`.
"""

from __future__ import annotations

from collections.abc import Set

import libcst as cst

from torch2ms.analysis.evaluation.methods import NAMED_PARAMETERS, PARAMETERS
from torch2ms.analysis.program.project import FunctionInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import AROUND, PART, STR, UNKNOWN, Value

ASKED = {
    "forward",
    "modules",
    "named_modules",
    "named_children",
    "register_forward_hook",
    *PARAMETERS,
    *NAMED_PARAMETERS,
}
OPTIMIZERS = frozenset("Adadelta Adagrad Adam AdamW Adamax ASGD NAdam RAdam RMSprop Rprop SGD".split())
GIVING = PARAMETERS | NAMED_PARAMETERS
OFTEN = ("__init__", "forward")  # most of what networks have: neither gives parameters
CHANGED = ("cuda", "half", "float", "double", "bfloat16")  # in place, where nobody takes what is returned
TOLD = ("zero_grad", "step")
OF_DICTS = ("pop", "get", "items", "keys", "setdefault")
SCALES = ("scale", "step", "update")
NONE: frozenset[str] = frozenset()
Known = dict[int, Value]


def used(value: Value, place: str, uses: frozenset[str]) -> Value:
    """The value of a place, or a module where nothing is known of it or it was taken for a tensor, which has none.

    What it was made of has its parameters.
    """
    if not uses:
        return value
    if place in uses and (value.kind == "unknown" or value.kind == "tensor" and value.likely):
        deps = frozenset(
            d for d in value.deps if any(m == d or m.startswith(f"{d}.") for m in uses if not m.endswith((")", "]")))
        )
        return Value("module", place=place, deps=deps, likely=True)
    if value.kind == "tensor" and f"{place}." in uses and not value.leaf:
        return Value("unknown", deps=value.deps)  # `gan = gan.cuda()`: what is in it is used as a module
    if value.kind == "unknown" and value.name != AROUND and steps(place, uses):
        return Value("optimizer", place=place, likely=True)
    if value.kind == "unknown" and _scales(place, uses):
        return Value("scaler", place=place, likely=True)
    return value


def a_dict(place: str, uses: frozenset[str]) -> bool:
    """The place is used as a dict: `opt.pop("type")` of the options of a program."""
    return f"{place}[]" in uses


def keyed(base: Value, node: cst.Subscript, uses: frozenset[str]) -> Value | None:
    """What `parts["actor"]` is: a network that lives in a container that is not seen, where that is how it is used."""
    key, home = _key(node), base.place or dotted(node.value)
    asked = bool(key) and f"self.[{key}]" in uses
    if not home or not asked and not {f"self.[{_last(home)}]*", f"self.[{_last(dotted(node.value))}]*"} & uses:
        return None
    return Value("module", deps=frozenset({f"{home}{PART}{key}>"}), likely=True)


def turned(loop: cst.For, item: Value, known: Known) -> Value | None:
    """The networks that a loop takes out of a container that is not seen: `for part in parts.values()`."""
    target = loop.target
    pair = isinstance(target, cst.Tuple) and len(target.elements) == 2
    holder = _container(loop.iter, pair)
    if holder is None:
        return None
    held = known.get(id(holder), UNKNOWN)
    home = held.place or dotted(holder)
    if held.kind not in ("unknown", "dict") or held.items or not home or not item.deps <= {home, f"@{home}"}:
        return None
    module = Value("module", deps=frozenset({f"{home}{PART}>"}), likely=True)
    return Value("tuple", items=(STR, module)) if pair else module


def _container(over: cst.BaseExpression, pair: bool) -> cst.BaseExpression | None:
    """The dict or list whose items a loop goes over; `pair`: with their keys."""
    if not isinstance(over, cst.Call):
        return None if pair else over
    method = over.func.attr.value if isinstance(over.func, cst.Attribute) and not over.args else ""
    return over.func.value if method == ("items" if pair else "values") else None  # type: ignore[attr-defined]


def _last(place: str) -> str:
    return place.rpartition(".")[2]


def steps(place: str, uses: frozenset[str]) -> bool:
    """The place is used as an optimizer."""
    return f"{place}.zero_grad()" in uses and f"{place}.step()" in uses


def _scales(place: str, uses: frozenset[str]) -> bool:
    """The place is used as a scaler: of a loss, the optimizer, and then the scale."""
    return f"{place}.scale()" in uses and f"{place}.step()" in uses and f"{place}.update()" in uses


def by_use(scope: Scope, giving: Set[str] = NONE) -> dict[int, frozenset[str]]:
    """For each scope below this one, the places that are used as modules there or where they come from, and more.

    Attributes of `self` are shared by the methods of a class, other names by the scopes that see them. `giving` are
    methods that no object but a network has.
    """
    found: dict[int, set[str]] = {}
    _collect(scope, found, ASKED | giving)
    _share(scope, found, set())
    return {key: frozenset(places) for key, places in found.items()}


def givers(project: Project) -> frozenset[str]:
    """Methods that give parameters, of which it is a network's: no other class of the project has one of that name."""
    found: set[str] = set()
    others: set[str] = set()
    for module in project.modules.values():
        for cls in module.classes.values():
            if cls.kind != "module":
                others |= cls.methods.keys()
            elif len(cls.methods) > 2 and module.has("parameters("):
                found |= {name for name, info in cls.methods.items() if name not in OFTEN and _gives(info)}
    return frozenset(found - others)


def _gives(info: FunctionInfo) -> bool:
    """The method asks for parameters, and returns something."""
    asks = returns = False
    for stmt in info.scope.body.walk():
        returns |= type(stmt.node) is cst.Return and stmt.node.value is not None
        for call in stmt.calls:
            func = call.func
            asks |= type(func) is cst.Attribute and func.attr.value in GIVING
    return asks and returns


def _trained(call: cst.Call, scope: Scope) -> set[str]:
    """What is called with inputs, and gives an optimizer its parameters by a method: `SGD(base.optim_groups())`."""
    given: list[cst.CSTNode] = [call.args[0].value]
    if type(call.args[0].value) is cst.Name:
        name = call.args[0].value.value
        given = [s.node.value for s in scope.body.walk() if name in s.defs and type(s.node) is cst.Assign]
    asked = [n for node in given for n in descend(node) if type(n) is cst.Call and type(n.func) is cst.Attribute]
    places = {dotted(n.func.value) for n in asked if all(a.keyword is not None for a in n.args)}  # type: ignore[attr-defined]
    if not places - {"", "self"}:
        return set()
    around = [scope, *(scope.cls.walk() if scope.cls is not None else ())]
    called = {dotted(c.func) for each in around for s in each.body.walk() for c in s.calls}
    return places & called - {"", "self"}


def _collect(scope: Scope, found: dict[int, set[str]], asked: Set[str]) -> None:
    """What a scope and the scopes inside it use so, by the scope that uses it or owns the name."""
    own = found.setdefault(id(scope), set())
    for stmt in scope.body.walk():
        for call in stmt.calls:
            method = call.func.attr.value if type(call.func) is cst.Attribute else ""
            if (method or type(call.func) is cst.Name and call.func.value) in OPTIMIZERS and call.args:
                own |= _trained(call, scope)
            if method in asked and (place := dotted(call.func.value)) and place != "self":  # type: ignore[attr-defined]
                own.add(place)
                if "." in place:
                    own.add(f"{place.rpartition('.')[0]}.")
                elif home := _turning(place, stmt):
                    own.add(f"self.[{_last(home)}]*")
            elif method in asked and (key := _key(call.func.value)):  # type: ignore[attr-defined]
                own.add(f"self.[{key}]")
            elif method in CHANGED and type(stmt.node) is cst.Expr and stmt.node.value is call:
                own |= {place for place in [dotted(call.func.value)] if place}  # type: ignore[attr-defined]
            elif method in OF_DICTS and (place := dotted(call.func.value)):  # type: ignore[attr-defined]
                own.add(f"{place}[]")
            elif method in (*TOLD, *SCALES) and (place := dotted(call.func)) and place != f"self.{method}":
                own.add(f"{place}()")
    for child in scope.children:
        _collect(child, found, asked)
        is_class = type(scope.node) is cst.ClassDef
        shared = {p for p in found[id(child)] if p.startswith("self.") or p.partition(".")[0] not in child.locals}
        own |= {p for p in shared if p.startswith("self.") == is_class or not scope.is_module}


def _key(node: cst.BaseExpression) -> str:
    """The text under which something is taken out of a dict; "" where it is no text."""
    index = node.slice[0].slice if type(node) is cst.Subscript and len(node.slice) == 1 else None
    key = constant(index.value) if type(index) is cst.Index else None
    return key if type(key) is str else ""


def _turning(name: str, stmt: Stmt) -> str:
    """The container whose items a loop around a statement gives a name."""
    for loop in stmt.ancestors():
        if type(loop.node) is cst.For and name in loop.defs:
            over = _container(loop.node.iter, type(loop.node.target) is cst.Tuple)
            return dotted(over) if over is not None else ""
    return ""


def _share(scope: Scope, found: dict[int, set[str]], seen: set[str]) -> None:
    own = found[id(scope)]
    own |= {p for p in seen if p.startswith("self.") or p.partition(".")[0] not in scope.locals}
    inside = own if type(scope.node) is not cst.ClassDef else {p for p in own if p.startswith("self.")} | seen
    for child in scope.children:
        is_class = type(child.node) is cst.ClassDef
        _share(child, found, {p for p in inside if not (is_class and p.startswith("self."))})
