"""Parameters out of lists, of which some may be weights of one-dimensional convolutions: MindSpore's have an axis more.

Most of what asks for shapes does the same with either (`p.ndim > 1`, `p.view(p.size(0), -1)`, `zeros(p.shape)`). What
does not gets the shape that torch's has; where the project has images as well, the two cannot be told apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.translation import Translation

_IMAGES = re.compile(r"\bConv(?:Transpose)?2d\(")
ASKING = ("shape", "ndim", "size", "dim", "ndimension")
_SAME_SHAPE = ("grad", "data", "detach", "clone", "cpu", "cuda", "to", "abs", "float")
_AROUND = ("tuple", "list", "str", "sum", "len")
_AT_LEAST = (cst.GreaterThanEqual, cst.LessThan)
_SHAPED = re.compile(
    r"\b(?:view|reshape|expand|unflatten|zeros|ones|randn?|empty|full|normal)\(\s*(?:\*?[a-z]\w*|[\w.]+\[\w+\])\s*[,)]"
)
_AXES = {"sum", "mean", "std", "var", "amax", "amin", "max", "min", "transpose", "permute", "select", "narrow"}
_WHY = "whether it is a weight of a one-dimensional convolution is not seen: MindSpore's has an axis more"


def among(node: cst.BaseExpression, value: Value, work: Translation) -> bool:
    """`p` of `for p in net.parameters()`, in a project that has one-dimensional convolutions."""
    if not work.project.in_rows or type(node) is cst.Attribute:
        return False
    if value.kind == "param" or (value.kind, value.name) == ("tensor", "buffer"):
        return value.name in ("", "buffer")
    return value.kind == "tensor" and _root(node) in like_parameters(work.module)


def asked(
    original: cst.Attribute | cst.Call, updated: cst.Attribute | cst.Call, work: Translation
) -> cst.BaseExpression:
    """`p.shape`, `p.ndim`, `p.size()` and `p.dim()`, which stand where their values tell."""
    func = original.func if type(original) is cst.Call else original
    if type(func) is not cst.Attribute:
        return updated
    receiver = func.value
    if id(original) not in telling(work.module) or not among(receiver, work.module.value(receiver), work):
        return updated
    if work.project.says(_IMAGES):
        work.refuse("T2M605", f"Tensor.{func.attr.value}", _WHY, "ask the layers for their shapes by hand")
        return updated
    why = "torch's shape; assumed: what has four axes, the third of length one, is a weight of such a convolution"
    work.notes.findings.append(Finding("T2M601", Tier.ASSUMED, "Conv1d.weight.shape", why))
    work.notes.needs.add("shape_of_rows")
    shape = f"shape_of_rows({code(receiver)})"
    if type(original) is cst.Call and original.args:
        shape = f"{shape}[{code(original.args[0].value)}]"
    counted = func.attr.value in ("ndim", "dim", "ndimension")
    return cst.parse_expression(f"len({shape})" if counted else shape)


def by_axis(original: cst.Call, work: Translation) -> None:
    """Refuses `p.mean(dim=(1, 2))`: the last axis of such a weight is another one."""
    func = original.func
    if type(func) is not cst.Attribute or not any(_axis(a, func.attr.value) for a in original.args):
        return
    name, given = func.attr.value, list(original.args)
    if work.module.value(func).name.startswith("torch.") and work.module.value(func).kind == "api":
        about, given = (given[0].value, given[1:]) if given else (None, [])
    else:
        about = func.value
    if about is None or not any(_axis(a, name) for a in given) or not among(about, work.module.value(about), work):
        return
    work.refuse("T2M605", f"Tensor.{name}(dim=)", _WHY, "name the axes by what the layer is")


@once
def like_parameters(module: ModuleInfo) -> frozenset[str]:
    """Names of lists of gradients and copies, one for each parameter, and of their items in loops."""
    names = {name for name, made in _bindings(module) if _one_for_each(made)}
    for loop in module.of_kind(cst.For):
        names |= _items_of(loop.target, loop.iter, names)
    for turn in module.of_kind(cst.CompFor):
        names |= _items_of(turn.target, turn.iter, names)
    return frozenset(names)


def _bindings(module: ModuleInfo) -> Iterator[tuple[str, cst.BaseExpression]]:
    for assign in module.of_kind(cst.Assign):
        yield dotted(assign.targets[0].target), assign.value


def _one_for_each(made: cst.BaseExpression) -> bool:
    """`[p.grad.clone() for p in net.parameters()]`: what has the shape of the parameter."""
    if isinstance(made, cst.Call) and dotted(made.func).rpartition(".")[2] == "grad":
        return any(_of_parameters(arg.value) for arg in made.args[1:])
    given = made.value if isinstance(made, cst.DictComp) else getattr(made, "elt", None)
    if given is None or not _of_parameters(made.for_in.iter):  # type: ignore[attr-defined]
        return False
    target = made.for_in.target  # type: ignore[attr-defined]
    parameter = dotted(target.elements[-1].value if isinstance(target, cst.Tuple) else target)
    while isinstance(given, (cst.Attribute, cst.Call)):
        if isinstance(given, cst.Attribute) and given.attr.value in _SAME_SHAPE:
            given = given.value
        elif isinstance(given, cst.Call) and dotted(given.func).endswith("_like") and given.args:
            given = given.args[0].value
        elif isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute):
            given = given.func
        else:
            return False
    return bool(parameter) and dotted(given) == parameter


def _of_parameters(node: cst.BaseExpression) -> bool:
    """`net.parameters()`, in a list as well."""
    if isinstance(node, cst.Call) and dotted(node.func) in ("list", "tuple") and node.args:
        node = node.args[0].value
    return isinstance(node, cst.Call) and dotted(node.func).endswith((".parameters", ".named_parameters"))


def _items_of(target: cst.BaseExpression, iterated: cst.BaseExpression, names: set[str]) -> set[str]:
    """What a loop calls the items of such a list, of several in step, or of such a dictionary."""
    if dotted(iterated) in names:
        return {dotted(target)}
    if not isinstance(iterated, cst.Call) or not isinstance(target, cst.Tuple):
        return set()
    told, parts = dotted(iterated.func), [e.value for e in target.elements]
    if told == "enumerate" and iterated.args:
        return _items_of(parts[-1], iterated.args[0].value, names)
    if told == "zip":
        pairs = zip(parts, iterated.args, strict=False)
        return {name for part, arg in pairs for name in _items_of(part, arg.value, names)}
    return {dotted(parts[-1])} if told.removesuffix(".items") in names else set()


def _root(node: cst.BaseExpression) -> str:
    """`grads` of `grads[0]`."""
    return dotted(node.value if type(node) is cst.Subscript else node)


def _axis(arg: cst.Arg, method: str) -> bool:
    """The argument names an axis behind the second."""
    if arg.keyword is None:
        return method in _AXES and arg.star == "" and _later(arg.value)
    return arg.keyword.value in ("dim", "axis") and _later(arg.value)


def _later(node: cst.BaseExpression) -> bool:
    """An axis behind the second, counted from either side: the last one alone is the last in both."""
    elements = [e.value for e in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]
    numbers = [constant(e) for e in elements]
    return any(type(n) is int and (n >= 2 or n <= -2) for n in numbers)


@once
def telling(module: ModuleInfo) -> frozenset[int]:
    """What is printed, taken apart, or compared with a number that tells three axes from four."""
    found: list[cst.BaseExpression] = []
    printed: Counter[str] = Counter()
    shaped = module.says(_SHAPED)  # where shapes are what something gets, those that are collected stay MindSpore's
    for call in module.of_kind(cst.Call):
        name = dotted(call.func)
        if name == "print" or name.rpartition(".")[2] in ("info", "debug", "format", "write"):
            found += (part for arg in call.args for part in _shown(arg.value))
            read = [n for arg in call.args for n in descend(arg.value)]
            parts = {id(n.attr) for n in read if type(n) is cst.Attribute}
            printed.update(n.value for n in read if type(n) is cst.Name and id(n) not in parts)
        if name.endswith(".append") and call.args and not shaped:
            found += _shown(call.args[0].value)
        if name == "sum" and call.args:  # the sum of numbers of axes is no number of axes
            found += _shown(call.args[0].value)
        if name.rpartition(".")[2] == "size" and len(call.args) == 1 and _later(call.args[0].value):
            found.append(call)
    for held in module.of_kind(cst.FormattedStringExpression):
        found += _shown(held.expression)
    for item in module.of_kind(cst.Subscript):
        if len(item.slice) == 1 and isinstance(at := item.slice[0].slice, cst.Index) and _later(at.value):
            found.append(item.value)
    for given in () if shaped else module.of_kind(cst.Return):
        found += _shown(given.value) if given.value is not None else ()
    for assign in module.of_kind(cst.Assign):
        target = assign.targets[0].target
        if type(target) is cst.Tuple and len(target.elements) == 3:
            found.append(assign.value)
        if (name := dotted(target)) in printed and module.naming[name] == printed[name] + 1:
            found += _shown(assign.value)
    for comparison in module.of_kind(cst.Comparison):
        found += (part for c in comparison.comparisons if _tells(c) for part in _shown(comparison.left))
    return frozenset(map(id, found))


def _tells(compared: cst.ComparisonTarget) -> bool:
    node = compared.comparator
    elements = [e.value for e in getattr(node, "elements", ())] or [node]
    numbers = [n for n in map(constant, elements) if type(n) is int]
    return any(n > 3 or n == 3 and not isinstance(compared.operator, _AT_LEAST) for n in numbers)


def _shown(node: cst.BaseExpression) -> Iterator[cst.BaseExpression]:
    """The parts that a value is put together of: `tuple(p.shape)`, `[p.shape for p in params]`."""
    if type(node) is cst.Call and dotted(node.func) in _AROUND and node.args:
        yield from _shown(node.args[0].value)
    elif isinstance(node, (cst.ListComp, cst.GeneratorExp)):
        yield from _shown(node.elt)
    elif isinstance(node, cst.DictComp):
        yield from _shown(node.value)
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _shown(element.value)
    elif isinstance(node, cst.BinaryOperation):
        yield from _shown(node.left)
        yield from _shown(node.right)
    else:
        yield node
