"""What containers hold and what iterating over them yields."""

from __future__ import annotations

import re
from itertools import takewhile

import libcst as cst

from torch2ms.analysis import oddities, shapes
from torch2ms.analysis.evaluation import guess
from torch2ms.analysis.known import starts
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import (
    CHOSEN,
    MASKED,
    NO_DEPS,
    OPTIMIZERS,
    PART,
    PICKED,
    UNKNOWN,
    Value,
    entries,
    is_row,
    join,
    replace,
)

WITH_GRADIENTS = re.compile(r"\.(?:requires_grad|grad)\b")
STORED = Value("tensor", name="buffer")  # what a state dict holds: parameters and buffers themselves, without graphs
LEARNERS = "of objects that train"  # the name of a list: each of them has networks and optimizers of its own
ELEMENTS = ("tensor", "int", "float", "str", "param", "numpy", "module")  # kinds a list is known to hold


def element(value: Value) -> Value:
    """What iterating over a value yields."""
    if value.kind == "loader":
        return Value("tensor", name="batch", likely=True)
    if value.kind == "params":
        return Value("param", deps=value.deps)
    if value.kind == "named_params":
        return Value("tuple", items=(Value("str"), Value("param", deps=value.deps)))
    if value.name in ("of param_groups", "param_groups"):
        return Value("dict", name="param_group", place=value.place)
    if value.kind == "dataset":
        return Value("tuple", items=value.items) if value.items else UNKNOWN
    if value.items and value.kind != "module":
        return one_of(value, value.items)
    if value.name == "range":
        return Value("int")
    if value.name == LEARNERS:
        return Value("unknown", deps=value.deps)
    if value.each is not None and value.kind in ("list", "tuple"):
        return value.each
    if value.name == "of tensor" and value.kind != "dict":
        return one_tensor(value)
    if value.name.startswith("of ") and value.kind in ("list", "tuple"):
        kind = value.name[3:]
        place, owns = (value.place, value.owns) if kind == "module" else ("", None)
        acts = value.starts if kind == "module" else NO_DEPS
        return Value(kind if kind in ELEMENTS else "unknown", deps=value.deps, place=place, owns=owns, starts=acts)
    if value.kind == "tensor":
        inner = value.rank - 1 if value.rank else None
        return shapes.shaped(Value("tensor", deps=value.deps, likely=value.likely), (value.dtype, inner))
    if value.kind == "module":
        return one_layer(value)
    if value.kind == "numpy":
        return Value("numpy", rank=value.rank - 1 if value.rank else None)
    return Value("unknown", deps=value.deps)


def picked(params: Value, by: str) -> Value:
    """One of the parameters that a condition picks, or all of them; those that it leaves out may have gradients."""
    if params.kind != "param" and not is_row(params) or not by or WITH_GRADIENTS.search(by):
        return params
    return replace(params, deps=frozenset(f"{dep}{PICKED}{by.replace('.', '_')}>" for dep in params.deps))


def layers(node: cst.ListComp, value: Value, by: str) -> Value | None:
    """`[m for m in net.modules() if isinstance(m, nn.Linear)]`: a list of layers of one network, perhaps not all."""
    if value.kind != "module" or not value.place or type(node.elt) is not cst.Name:
        return None
    return some_layers(value, by) if by else Value("list", name="of module", place=value.place)


def some_layers(held: Value, by: str) -> Value:
    """A list of those layers of a network that a condition or a slice picks."""
    name = held.name if held.kind == "module" else ""
    some = f"{held.place}{PICKED}{by.replace('.', '_')}>"
    return Value("list", name="of module", each=Value("module", name=name, owns=frozenset({some})))


def chosen(params: Value, stmt: Stmt, by: str) -> Value:
    """Parameters that a statement keeps where the conditions around it, in the innermost loop, hold."""
    params = _at_home(params, stmt)
    around = takewhile(lambda outer: type(outer.node) is not cst.For, stmt.ancestors())
    tests = " and ".join(code(outer.node.test) for outer in around if type(outer.node) is cst.If)
    return params if not tests or WITH_GRADIENTS.search(tests) else picked(params, f"in {by}")


def _at_home(params: Value, stmt: Stmt) -> Value:
    """Parameters of what a loop goes over: those of the container, whatever the loop calls its items."""
    turning = {d for outer in stmt.ancestors() if type(outer.node) is cst.For for d in outer.defs}
    home = frozenset(d for d in params.deps if d not in turning)
    return replace(params, deps=home) if any(PART in d for d in home) and home != params.deps else params


def in_loop(stmt: Stmt) -> bool:
    return any(type(outer.node) is cst.For for outer in stmt.ancestors())


def cut(row: Value, part: cst.Slice) -> Value:
    """The parameters in a slice."""
    if len(row.deps) == 1 and (text := _cut(part)):
        return Value("params", deps=frozenset({f"{next(iter(row.deps))}{PART}{text}>"}))
    return picked(replace(row, items=None), f"in {code(part)}")


def is_state(value: Value) -> bool:
    """The state dict of a module, which nothing was put into."""
    return value.kind == "dict" and value.name == "state_dict" and not value.items


def entered(held: Value, method: str) -> Value | None:
    """What the `items()` or `values()` of a dict are, as far as their kind is known; None where it is not."""
    if held.kind == "module":
        one = one_layer(held)
        each = one if method == "values" else Value("tuple", items=(Value("str"), one))
        return Value("list", "of module", deps=held.deps, place=held.place, each=each)
    if is_state(held):
        one = STORED
    elif held.name == "of tensor":
        one = Value("tensor", deps=held.deps, likely=held.likely)
    elif held.name == "of module":
        one = Value("module", starts=held.starts)
    elif held.name == "of param":
        return Value("named_params" if method == "items" else "params", deps=held.deps)
    elif held.items and held.keys is not None:
        one = one_of(Value("dict"), held.items)
    else:
        return None
    if one.leaf:
        one = Value("param", deps=held.deps)
    if one.deps:
        param = one if one.kind in ("param", "params") or one.kind == "list" and one.name == "of param" else None
        if method == "values":
            return Value("list", deps=held.deps, name=held.name, each=param)
        return Value("list", each=Value("tuple", items=(Value("str"), param))) if param is not None else None
    each = one if method == "values" else Value("tuple", items=(Value("str", likely=True), one))
    return Value("list", each=each)


def picked_out(held: Value) -> Value | None:
    """What `get()` and its like take out of a dict of tensors, or what stands for an entry that is not there."""
    one = one_of(held, held.items) if held.items else one_tensor(held) if held.name == "of tensor" else UNKNOWN
    return replace(one, likely=True) if one.kind == "tensor" else None


def housed(value: Value, node: cst.CSTNode, key: str = "") -> Value:
    """What is taken out of the container `node`: a module that has no other place lives in the container.

    `key`: the one of a dict that it stands under, where that is seen.
    """
    if value.kind == "tuple" and value.items and any(item.kind == "module" for item in value.items):
        return replace(value, items=tuple(housed(item, node) for item in value.items))
    if value.kind != "module" or value.place or value.owns is not None:
        return value
    if isinstance(node, cst.Call) and not node.args and isinstance(node.func, cst.Attribute):
        node = node.func.value if node.func.attr.value in ("values", "items") else node
    home = dotted(node)
    return replace(value, deps=value.deps | {f"{home}{PART}{key}>"}) if home else value


def known_key(base: Value, node: cst.Subscript) -> str:
    """The key that `base["key"]` takes, where the dict is seen to have it."""
    index = node.slice[0].slice
    key = constant(index.value) if type(index) is cst.Index else None
    return key if isinstance(key, str) and key in entries(base) else ""


def subscript(base: Value, node: cst.Subscript, known: dict[int, Value]) -> Value:
    """What `base[...]` is; `known` has the values of the indices."""
    only = node.slice[0].slice if len(node.slice) == 1 else None
    index = constant(only.value) if type(only) is cst.Index else ...
    items = base.items or ()
    item = items[index] if isinstance(index, int) and -len(items) <= index < len(items) else None
    if base.kind == "dict" and isinstance(index, str) and index in (held := entries(base)):
        return held[index]
    if base.kind == "dict" and items:
        if all(i.kind == "api" and is_optimizer(i.name) for i in items):
            return Value("unknown", name=OPTIMIZERS)
        one = one_of(base, items)
        return one if one.kind in CHOSEN or one.kind in ELEMENTS else Value("unknown", deps=one.deps)
    if base.kind in ("tuple", "list") and items:
        if type(only) is cst.Slice:
            return _part(base, only)
        return item if item is not None else one_of(base, items)
    if is_state(base):
        return STORED
    if base.kind == "dict" and base.name == "of param":
        return Value("param", deps=base.deps)
    if base.kind == "dict" and base.name == "of numpy":
        return Value("numpy")
    if base.kind == "dict" and base.name == "of module":
        return element(replace(base, kind="list"))
    if base.name == LEARNERS and base.each is not None and type(only) is cst.Index:
        return base.each
    if base.name == "of tensor" and type(only) is cst.Index:
        return one_tensor(base)
    if type(only) is cst.Slice and is_row(base):
        return cut(base, only)
    if type(index) is int and is_row(base):
        return picked(Value("param", deps=base.deps), f"at {index}")
    if base.kind in ("list", "tuple") and (base.name.startswith("of ") or base.each is not None):
        if type(only) is cst.Slice and base.name == "of module" and base.place and _cuts(only):
            return some_layers(base, f"in {code(only)}")
        return replace(base, starts=_first_of(base, only)) if type(only) is cst.Slice else element(base)
    by = known.get(id(only.value)) if type(only) is cst.Index and base.kind == "module" and base.likely else None
    if by is not None and by.kind == "tensor":
        return Value("tensor", deps=base.deps, likely=True)  # no network takes one, whatever it was taken for
    if base.kind in ("tensor", "param"):
        name = MASKED if base.name == MASKED else ""
        value = Value("tensor", name=name, deps=base.deps, likely=base.likely, odd=oddities.sliced(base, node, known))
        return shapes.shaped(value, shapes.element(base, node, known))
    if base.kind == "size":
        return Value("int" if type(node.slice[0].slice) is cst.Index else "size")
    if base.name == "torch.nn.ParameterDict":
        own = frozenset({base.place}) if base.place else base.deps
        return Value("tensor", name="module_param", deps=own, place=base.place)
    if base.kind == "module":
        if isinstance(index, str) and (layer := named_layer(base, index)) is not None:
            return layer
        if item is not None:
            return replace(item, place=base.place)
        if type(only) is cst.Slice and base.place and base.name == "torch.nn.Sequential":
            place = f"{base.place}{PART}in {code(only)}>".replace(" ", "_")
            return Value("module", place=place, likely=True, starts=_first_of(base, only))
        return one_layer(base) if type(only) is cst.Index else Value("module", place=base.place, likely=True)
    if base.kind == "numpy":
        return Value("numpy", rank=shapes.element(base, node, known)[1])
    if base.name == "param_groups":  # some of them, or one
        return base if type(only) is cst.Slice else Value("dict", name="param_group", place=base.place)
    if base.name == "param_group":
        if index == "params":
            return Value("params", name="param_group_params", place=base.place)
        return Value("float", name="param_group_item", place=base.place)
    if base.kind == "unknown" and type(only) is cst.Index and isinstance(index, int) and _is_shape(node.value):
        return Value("int")
    if isinstance(index, str) and base.deps and _of_settings(base, dotted(node.value)):
        return UNKNOWN  # a number or a name: it brings no graph along
    return Value("unknown", deps=base.deps)


def _of_settings(base: Value, name: str) -> bool:
    """A parameter that holds the settings of a program, by its name, and no layers or tensors that callers show."""
    return base.deps <= {f"@{name}"} and guess.of_settings(f"{name}.")


def one_tensor(held: Value) -> Value:
    """One of the tensors of a list, which knows of each what is the same of all."""
    return Value("tensor", deps=held.deps, likely=held.likely, dtype=held.dtype, rank=held.rank)


def _part(base: Value, part: cst.Slice) -> Value:
    """Some of the items of a tuple; of a list, which may hold more by then, whatever its items are."""
    bounds = [None if b is None else constant(b) for b in (part.lower, part.upper, part.step)]
    items = base.items or ()
    if base.kind == "list" or not all(b is None or isinstance(b, int) for b in bounds) or bounds[2] == 0:
        return replace(base, items=None, keys=None, each=one_of(base, items))
    lower, upper, step = (b if isinstance(b, int) else None for b in bounds)
    return replace(base, items=items[lower:upper:step], keys=None)


def _cuts(part: cst.Slice) -> bool:
    """It may leave something out: `[:]` does not."""
    return part.lower is not None or part.upper is not None or part.step is not None


def _cut(part: cst.Slice) -> str:
    """`:2`, `n:`: the parameters before or behind a place of the list, "" for other slices."""
    ends = (part.lower, part.upper)
    known = [b is None or isinstance(b, (cst.Integer, cst.Name)) or constant(b) is not ... for b in ends]
    halved = (part.lower is None) != (part.upper is None)
    return code(part).replace(".", "").replace(" ", "") if halved and all(known) and part.step is None else ""


def _is_shape(node: cst.BaseExpression) -> bool:
    """`x.shape` or `x.size()`, whatever `x` is."""
    if type(node) is cst.Call and not node.args:
        return isinstance(node.func, cst.Attribute) and node.func.attr.value == "size"
    return type(node) is cst.Attribute and node.attr.value == "shape"


def is_optimizer(name: str) -> bool:
    """A class of torch.optim, by its full name."""
    home, _, last = name.rpartition(".")
    return home == "torch.optim" and last[:1].isupper()


def one_layer(held: Value) -> Value:
    """One of the layers that a list or a dict of them holds: of the class that all of them are of."""
    names = {item.name for item in held.items or () if item.kind == "module"}
    name = held.each.name if held.each is not None else names.pop() if len(names) == 1 else ""
    known = name.startswith("torch.nn.")
    acts = starts.within(held)
    return Value("module", name=name if known else "", place=held.place, likely=not known, starts=acts)


def _first_of(base: Value, part: cst.Slice) -> frozenset[str]:
    """What a slice of a Sequential does to its argument: as its first layer does."""
    lower = constant(part.lower) if part.lower is not None else 0
    at = base.items[lower : lower + 1] if base.items and isinstance(lower, int) and lower >= 0 else ()
    return starts.begins(at[0]) if at else starts.perhaps(base.each, lower == 0)


def same_layer(value: Value, before: Value | None = None) -> Value | None:
    """What every item of a container is that takes a layer of torch in; None for other values."""
    if value.kind != "module" or not value.name.startswith("torch.nn.") or value.items:
        return None
    made = Value("module", name=value.name)
    return made if before is None or before == made else None


def named_layer(base: Value, name: str) -> Value | None:
    """A layer that a `ModuleDict` was made with."""
    names = [key for key, _ in base.keys or ()]
    if base.items is None or name not in names or len(names) != len(base.items):
        return None
    layer = base.items[names.index(name)]
    return replace(layer, place=f"{base.place}.{name}" if base.place else "") if layer.kind == "module" else None


def layers_by_name(base: Value) -> dict[str, Value]:
    """All layers that a `ModuleDict` was made with, where all are seen."""
    found = {key: named_layer(base, key) for key, _ in base.keys or ()} if base.name == "torch.nn.ModuleDict" else {}
    known = {key: layer for key, layer in found.items() if layer is not None}
    return known if len(known) == len(found) else {}


def grouped_optimizer(node: cst.CSTNode) -> cst.BaseExpression | None:
    """The optimizer of `[p for group in optimizer.param_groups for p in group["params"]]`."""
    if (type(node) is not cst.ListComp and type(node) is not cst.GeneratorExp) or node.for_in.inner_for_in is None:
        return None
    outer, inner = node.for_in, node.for_in.inner_for_in
    group = inner.iter
    plain = not outer.ifs and not inner.ifs and inner.inner_for_in is None and dotted(node.elt) == dotted(inner.target)
    if not plain or not dotted(node.elt) or not isinstance(group, cst.Subscript) or len(group.slice) != 1:
        return None
    index = group.slice[0].slice
    named = isinstance(index, cst.Index) and constant(index.value) == "params"
    if not named or dotted(group.value) != dotted(outer.target) or not isinstance(outer.iter, cst.Attribute):
        return None
    return outer.iter.value if outer.iter.attr.value == "param_groups" else None


def one_of(container: Value, items: tuple[Value, ...]) -> Value:
    """One of the items, which of them is not known."""
    value = items[0]
    for item in items[1:]:
        value = join(value, item)
    if value.kind == "module" and len(items) > 1 and all(item.kind == "module" and item.place for item in items):
        value = replace(value, owns=frozenset().union(*(item.own for item in items)))
    return value.with_deps(container.deps | value.deps)
