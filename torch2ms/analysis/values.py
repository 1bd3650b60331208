"""What an expression is, as far as the source tells: the kinds that decisions rest on."""

from __future__ import annotations

import functools
from collections.abc import Set
from typing import Any, NamedTuple

NO_DEPS: frozenset[str] = frozenset()
ANY = ".<>"  # in a place: some item of a container
PART = ".<"  # in a place: what follows names an item or a slice of a container
PICKED = f"{PART}if "  # ... and here the parameters of a module that a condition picks
FORMER = "'"  # in a place: a number follows, the network is not what its local name means any more
GIVEN = "@*"  # among what an attribute is varied with: what callers handed to methods of its object
UNPLACED = "<"  # a place begins so: an object that a called function made and returned, not bound to a name yet


class Value(NamedTuple):
    """An abstract value: a tuple, as hundreds of thousands are made and compared.

    `kind` is one of tensor, module, optimizer, scheduler, scaler, loader, dataset, lossfn, params (an iterable of
    parameters), named_params, param, numpy, int, float, bool, str, none, list, tuple, dict, size, dtype, device, api
    (a torch name), class, function, method, object, unknown.
    `name` is the qualified name behind an api, class, function, module or object.
    `deps` holds the places whose gradients the value is varied with; `place` is where a module, an optimizer or a leaf
    lives. `owns` are the places an optimizer updates (None: not seen), or the modules a name stands for in turn.
    `likely` marks a guess from names and use.
    """

    kind: str = "unknown"
    name: str = ""
    deps: frozenset[str] = NO_DEPS
    place: str = ""
    items: tuple[Value, ...] | None = None
    owns: frozenset[str] | None = None
    likely: bool = False
    leaf: bool = False
    dtype: str = ""
    rank: int | None = None
    keys: tuple[tuple[str, bool], ...] | None = None  # of a dict, a record (`items` in their order): if it is certain
    starts: frozenset[str] = NO_DEPS  # of a module: what it does to its argument in place (see activations)

    ordered: bool = False  # an optimizer was made of the parameters of one module, in their order
    each: Value | None = None  # of a list, of layers: what every item is, where the items are not known one by one
    odd: str = ""  # of a tensor: what the source shows of its elements that few functions expect (see oddities)
    several: bool = False  # an object that is one of a list of them, each with networks and optimizers of its own

    def with_deps(self, deps: frozenset[str]) -> Value:
        return self if deps == self.deps else replace(self, deps=deps)

    def cut(self) -> Value:
        """The value without its graph, and what is in it likewise; leaves begin graphs, they have none."""
        if self.leaf:
            return self
        items = tuple(i.cut() for i in self.items) if self.items is not None else None
        deps = joined_deps(items or ())
        return replace(self, deps=deps, items=items) if self.deps != deps or items != self.items else self

    @property
    def parts(self) -> tuple[Value, ...]:
        """What a container holds, as far as that is known."""
        return self.items or ((self.each,) if self.each is not None else ())

    @property
    def of_leaves(self) -> bool:
        """A container that holds nothing but leaves."""
        return self.kind in ("list", "tuple", "dict") and bool(self.parts) and all(part.leaf for part in self.parts)

    @property
    def own(self) -> frozenset[str]:
        """Of a module: where its parameters are, and those of modules it was built or wrapped from."""
        if self.owns is not None:
            return self.owns
        built = frozenset(i.place for i in self.items or () if i.place)
        built |= {d for d in self.deps if not d.startswith(("^", "@")) and d != "self"}
        return built | {self.place} if self.place else built


ARRAY = "array or tensor"  # likewise: NumPy's where the caller gave it, and a tensor that is made where not
EITHER = "number or tensor"  # the name of an unknown value that is one or the other: `best = 0.0`, later a metric
OPTIMIZERS = "a class of optimizers"  # the name of an unknown value out of a table of them, or of a module of theirs
AROUND = "an optimizer or an object"  # the name of an unknown value: a factory gives the one, or a class around one
UNPACKED = "tuple or module"  # ... which is unpacked where it is a tuple: `return net, opt` here, `return net` there
SEQUENCE = "list or tuple"  # the name of an unknown value that is one or the other
NOT_RUN = "not run yet"  # the name of a value that a function of the project returns which was not run so far
FILLING = {"append", "extend", "insert", "update", "add", "appendleft"}  # methods by which containers take values in
MOST_ITEMS = 1000  # with those of its items
MASKED = "with infinite elements"  # the name of a tensor in which some elements are, or may be, infinite
ENDLESS = "infinite"  # ... and of such a number
UNTYPED = "none or a type"  # an element type that callers may leave out
STICKY = (MASKED, ENDLESS, UNTYPED)  # names of what may be the one or the other, of which one has them

ROWS = ("params", "named_params")  # kinds that are several parameters, one behind the other
FUNCTIONS = ("function", "method", "api")
OF_FUNCTIONS = "of functions"  # the name of a list of them: it holds no tensors, whatever its functions read
MIXED = "mixed"  # of parameters: not in the order of their module
ROW = "of param"  # the name of a list or a dict of parameters

_AT = {name: at for at, name in enumerate(Value._fields)}


def replace(value: Value, **changes: Any) -> Value:
    """A value with other fields; `Value._replace` takes three times as long."""
    fields = list(value)
    for name, new in changes.items():
        fields[_AT[name]] = new
    return Value._make(fields)


UNKNOWN = Value()
TENSOR = Value("tensor")
BOOL, INT, FLOAT, COMPLEX = Value("bool"), Value("int"), Value("float"), Value("complex")
STR, NONE = Value("str"), Value("none")


CHOSEN = ("class", "function", "method", "modulefile")  # what tables of names hold, and callers choose from
_ARRAYS = ("numpy", "tensor", "unknown", "none")
_NUMBERS = ("int", "float", "tensor", "unknown", "none")


def is_row(value: Value) -> bool:
    """Several parameters, one behind the other."""
    return value.kind in ROWS or value.name == ROW


def _either_row(one: Value, other: Value) -> Value:
    """Of two rows of parameters, one has all of a network and one a part of it: some of it is in either."""
    parts = {d for d in other.deps - one.deps if not d.endswith("requires_grad>")}
    wholes = {d for d in one.deps - other.deps if any(p.startswith(f"{d}.") for p in parts)}
    if not wholes:
        return one
    return one.with_deps(one.deps - wholes | {f"{whole}{PICKED}either>" for whole in wholes})


def join(a: Value, b: Value) -> Value:
    """The value that may be either; what the two disagree on is not known."""
    if a is b or a == b:
        return a
    if (a.name == ROW or a.kind in ROWS) and is_row(b):
        a, b = _either_row(a, b), _either_row(b, a)
    for one, other in ((a, b), (b, a)):
        if other.kind == "tensor" and one.kind in ("int", "float") or one.name == EITHER and other.kind in _NUMBERS:
            return Value("unknown", EITHER, a.deps | b.deps)
        if one.name == ARRAY and other.kind in _ARRAYS or one.kind == "numpy" and other.kind == "tensor":
            return Value("unknown", ARRAY if one.rank != 0 and not other.likely else "", a.deps | b.deps)
        bare = one.kind == "optimizer" and not one.likely and other.kind == "object" and other.name != ""
        if bare or one.name == AROUND and other.kind in ("object", "optimizer", "unknown", "none"):
            return Value("unknown", AROUND, a.deps | b.deps)
        rows = one.kind == "tuple" and other.kind == "list" and one.name == other.name == ""
        if rows or one.name == SEQUENCE and other.kind in ("list", "tuple", "unknown", "none"):
            return Value("unknown", SEQUENCE, a.deps | b.deps)
        if one.kind == "tuple" and one.items and one.keys is None and other.kind == "module" and not other.likely:
            return Value("unknown", UNPACKED, a.deps | b.deps, items=one.items)
    if "dtype" in (a.kind, b.kind) and "none" in (a.kind, b.kind):
        return Value("dtype", UNTYPED, likely=a.likely or b.likely)
    if a.kind == "unknown" or a.kind == "none":
        return replace(b, deps=a.deps | b.deps, likely=b.likely or a.kind == "unknown")
    if b.kind == "unknown" or b.kind == "none":
        return replace(a, deps=a.deps | b.deps, likely=a.likely or b.kind == "unknown")
    deps = a.deps | b.deps
    for one, other in ((a, b), (b, a)):
        if one.kind == other.kind == "list" and one.items == () and not one.name:  # the list before it was filled
            return replace(other, deps=deps, items=None)
        if one.kind == other.kind == "dict" and one.items == () and other.keys is None and other.name.startswith("of "):
            return replace(other, deps=deps)
        layers = one.kind == other.kind == "module" and one.name == other.name and one.place == other.place
        if layers and one.items == () and one.each is None and other.each is not None:
            return replace(other, deps=deps)
        bare = one.kind == other.kind == "object" and one.name == other.name and one.keys is None and not one.deps
        if bare and other.keys is not None:  # the object before it was given something with a graph
            return other
        empty = one.kind == other.kind == "dict" and one.items == () and one.keys == ()
        if empty and other.name == "of tensor":
            return replace(other, deps=deps)
    if a.kind != b.kind:
        # all of a network's parameters, or those that a loop has picked
        rows = is_row(a) and is_row(b) and "named_params" not in (a.kind, b.kind)
        return Value("list", ROW, deps, likely=a.likely or b.likely) if rows else Value("unknown", deps=deps)
    if a.kind in CHOSEN and a.name != b.name and "torch.func:" not in a.name + b.name:
        return Value(a.kind, deps=deps, items=tuple(dict.fromkeys((*choices(a), *choices(b)))))
    items = None
    named = [[key for key, _ in v.keys] if v.keys is not None else None for v in (a, b)]
    if a.items is not None and b.items is not None and len(a.items) == len(b.items) and named[0] == named[1]:
        items = tuple(join(x, y) for x, y in zip(a.items, b.items, strict=False))
    name = a.name if a.name == b.name else next((v.name for v in (a, b) if v.name in STICKY), "")
    if a.kind == "dict" and items is None and of_tensors(a) and of_tensors(b):
        name = "of tensor"
    return Value(
        a.kind,
        name,
        deps,
        a.place if a.place == b.place else "",
        items,
        (a.owns | b.owns) if a.owns is not None and b.owns is not None else None,
        a.likely or b.likely,
        a.leaf and b.leaf,
        a.dtype if a.dtype == b.dtype else "",
        a.rank if a.rank == b.rank else None,
        joined_keys(a.keys, b.keys, either=True) if a.keys is not None and b.keys is not None else None,
        either_start(a.starts, b.starts),
        a.ordered and b.ordered,
        a.each if a.each == b.each else every(a, *(b.parts if b.parts else (UNKNOWN,))),
        several=a.several or b.several,
    )


def every(held: Value, *more: Value) -> Value | None:
    """What is known of each item, where a list of tuples may hold more of them, with parts of the same kinds."""
    parts = (*held.parts, *more)
    if held.kind != "list" or not held.parts or any(part.kind != "tuple" or not part.items for part in parts):
        return None
    kinds = [tuple(item.kind for item in part.items or ()) for part in parts]
    return functools.reduce(join, parts) if kinds.count(kinds[0]) == len(kinds) else None


def of_tensors(held: Value) -> bool:
    """Every entry of the dict is a tensor."""
    items = held.items or ()
    return held.name == "of tensor" or bool(items) and all(i.kind == "tensor" and not i.name for i in items)


def entries(value: Value) -> dict[str, Value]:
    """What a dict holds under its keys, or a record in its fields, as far as that is known."""
    if (
        value.kind not in ("dict", "object", "tuple")
        or value.keys is None
        or value.items is None
        or len(value.items) != len(value.keys)
    ):
        return {}
    return {key: item for (key, _), item in zip(value.keys, value.items, strict=True)}


def choices(value: Value) -> tuple[Value, ...]:
    """The classes or functions that a value may be."""
    return value.items or () if value.kind in CHOSEN and not value.name else (value,)


def either_start(a: frozenset[str], b: frozenset[str]) -> frozenset[str]:
    """What one of two modules does to its argument; the empty text stands for: perhaps nothing."""
    return a | b | ({""} if bool(a) != bool(b) else NO_DEPS)


def is_weight(value: Value) -> bool:
    """A tensor that is a Parameter in MindSpore."""
    return value.leaf or value.name in ("module_param", "parameter")


def holds_networks(value: Value) -> bool:
    """A dict whose every entry is known, and is a network."""
    if value.kind != "dict" or not value.items or len(entries(value)) != len(value.items):
        return False
    return all(item.kind == "module" for item in value.items)


def joined_keys(
    one: tuple[tuple[str, bool], ...], other: tuple[tuple[str, bool], ...], either: bool = False
) -> tuple[tuple[str, bool], ...]:
    """The keys of a dict that was updated with another; `either`: of one that is the one or the other."""
    left, right = dict(one), dict(other)
    if either:
        return tuple(
            (k, left.get(k, False) and right.get(k, False)) for k in [*left, *(k for k in right if k not in left)]
        )
    return tuple((left | {k: sure or left.get(k, False) for k, sure in right.items()}).items())


def joined_deps(values: list[Value] | tuple[Value, ...]) -> frozenset[str]:
    """What any of the values is varied with."""
    return NO_DEPS.union(*[v.deps for v in values]) if values else NO_DEPS


def of_groups(value: Value) -> Value:
    """A list of groups of parameters with what these hold; of several, what one leaves out another has."""
    groups = [entries(group).get("params") for group in value.items or ()] if value.kind == "list" else []
    held = [group for group in groups if group is not None]
    if not held or len(held) < len(groups):
        return value
    deps = joined_deps(held)
    return replace(value, deps=frozenset(d.partition(PICKED)[0] for d in deps) if len(held) > 1 else deps)


def of_optimizer(value: Value) -> bool:
    """The groups of an optimizer's parameters, one of them, or what is in it."""
    return value.name.startswith("param_group")


def bounded(items: tuple[Value, ...]) -> tuple[Value, ...] | None:
    """The items of a container, None for too many: `t = (t, t)` again and again would double them each time."""
    left = MOST_ITEMS
    stack = [items]
    while stack:
        some = stack.pop()
        left -= len(some)
        if left < 0:
            return None
        stack += [item.items for item in some if item.items]
    return items


def overlaps(a: str, b: str) -> bool:
    """Whether two places share parameters: the same, or one inside the other.

    What a condition picks is in every part of the network, but not in what another condition picks of it.
    """
    if a == b or a.startswith(b + ".") or b.startswith(a + "."):
        return True
    if PICKED not in a and PICKED not in b:
        if ANY not in a and ANY not in b:
            return False
        return PART in a and PART in b and a.partition(PART)[0] == b.partition(PART)[0]  # one item, and whichever
    whole, other = a.partition(PICKED)[0], b.partition(PICKED)[0]
    return whole != other and overlaps(whole, other)


def any_overlap(left: Set[str], right: Set[str]) -> bool:
    for one in left:  # loops: places are compared with each other again and again
        for other in right:
            if overlaps(one, other):
                return True
    return False


def within(place: str, places: Set[str]) -> bool:
    """The place is one of these, or inside of one."""
    while place and place not in places:
        place = place.rpartition(".")[0]
    return bool(place)


def any_nested(left: frozenset[str], right: frozenset[str]) -> bool:
    """One place is, or is inside of, another: what two optimizers both hold, as they do not pick the same twice."""
    return any(a == b or a.startswith(f"{b}.") or b.startswith(f"{a}.") for a in left for b in right)
