"""Arguments and results on a way around: element types and tensors without dimensions that MindSpore does not take."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import code
from torch2ms.api import template
from torch2ms.api.facts import Use
from torch2ms.api.promotion import narrowed, promoted
from torch2ms.api.rules import Form, Rule
from torch2ms.api.signature import Bound, literal
from torch2ms.api.transforms import axes

WHOLE = ("int", "uint", "bool")
_DIMENSIONLESS = "0-d"
EMPTY = "empty"
ODD = {
    EMPTY: "MindSpore's form takes no tensors without elements",
    "nan": "MindSpore's form on CPU compares NaN another way than PyTorch's",
    "infinite": "MindSpore's form gives other values where a number is infinite",
}
_TUPLES = "tuple:"
ABSOLUTE = "absolute values"
_PLACES = {"dim", "dim0", "dim1", "dim2", "axis", "axis0", "axis1", "start_dim", "end_dim"}
_SIZES = {"kernel_size", "stride", "padding", "dilation", "output_size", "output_padding"}
TUPLED = {
    "torch.norm", "torch.Tensor.norm", "torch.linalg.norm", "torch.linalg.matrix_norm", "torch.frobenius_norm",
    "torch.std_mean", "torch.var_mean", "torch.affine_grid_generator", "torch.nn.functional.affine_grid",
}  # fmt: skip
_GIVEN = {"dim", "size"}  # what may be a list in their calls
_PYTHONIC = {"xlogy", "xlog1py", "bitwise_left_shift", "bitwise_right_shift"}  # which take numbers of Python alone
_COUNTS = _SIZES | _PLACES | {
    "in_features", "out_features", "in_channels", "out_channels", "num_features", "num_channels", "num_embeddings",
    "embedding_dim", "input_size", "hidden_size", "num_layers", "normalized_shape", "embed_dim", "d_model",
    "dim_feedforward", "in1_features", "in2_features", "groups", "num_groups",
}  # fmt: skip
_BOUNDS = {"start", "end", "step"}  # whole or not: `torch.linspace(np.log(low), np.log(high), 10)`
_DRAWN = {"low", "high"}


@dataclass(frozen=True)
class Detour:
    """What is written behind arguments, and behind the result."""

    before: dict[str, str]  # argument, or `self` -> the method call behind it
    behind: str = ""
    each: bool = False  # the result is a tuple: `behind` goes to each of its tensors
    parts: str = ""  # how the results for the real and the imaginary parts make one

    @property
    def halves(self) -> tuple[Detour, Detour]:
        """The ways of the real and of the imaginary parts."""
        return Detour(dict.fromkeys(self.before, ".real()")), Detour(dict.fromkeys(self.before, ".imag()"))

    def sent(self, use: Use, receiver: cst.BaseExpression | None) -> tuple[Use, cst.BaseExpression | None]:
        """The call's arguments and its receiver with what is written behind them."""
        single = dict(use.binding.single)
        for name, text in self.before.items():
            if name in single:
                value = _followed(single[name].updated.value, text)
                single[name] = replace(single[name], updated=single[name].updated.with_changes(value=value))
        if receiver is not None and "self" in self.before:
            receiver = _followed(receiver, self.before["self"])
        return replace(use, binding=replace(use.binding, single=single)), receiver

    def back(self, node: cst.BaseExpression) -> cst.BaseExpression:
        """The result as torch gives it."""
        if not self.behind:
            return node
        if self.each:
            return cst.parse_expression(f"tuple(part{self.behind} for part in {code(node)})")
        return _followed(node, self.behind)


def tupled(use: Use) -> Use:
    """Sizes of layers and of their functions given as lists: most of MindSpore's take tuples alone, those of one
    dimension numbers alone. So do some of its functions with dimensions."""
    single = dict(use.binding.single)
    for name in (_GIVEN if use.name in TUPLED else _SIZES) & single.keys():
        bound = single[name]
        value = bound.updated.value
        listed, sure = use.kind(name) == "list", not use.guessed(name)
        if listed and not sure and isinstance(value, cst.Name):
            either = f"tuple({value.value}) if isinstance({value.value}, list) else {value.value}"
            single[name] = replace(bound, updated=bound.updated.with_changes(value=cst.parse_expression(either)))
        elif listed and sure and not isinstance(value, cst.Tuple):
            as_tuple = axes(value) if isinstance(value, cst.List) else cst.Call(cst.Name("tuple"), [cst.Arg(value)])
            single[name] = replace(bound, updated=bound.updated.with_changes(value=as_tuple))
        elif use.short.endswith("Pad1d"):  # which takes the numbers of both ends
            continue
        elif use.short.endswith("1d") and use.kind(name) == "tuple" and isinstance(value, cst.Name):
            single[name] = replace(bound, updated=bound.updated.with_changes(value=_followed(value, "[0]")))
    changed = any(bound is not use.binding.single[name] for name, bound in single.items())
    return replace(use, binding=replace(use.binding, single=single)) if changed else use


def counted(use: Use) -> Use:
    """Numbers of NumPy (`nn.Linear(np.prod(shape), 3)`), and dimensions that are tensors: MindSpore takes Python's."""
    single, variadic = dict(use.binding.single), dict(use.binding.variadic)
    short = use.short
    for name in _COUNTS & single.keys():
        tensor = name in _PLACES and use.kind(name) == "tensor" and use.rank(name) == 0 and not use.guessed(name)
        if tensor or use.kind(name) == "numpy" and (use.number(name) or name not in _PLACES and not use.rank(name)):
            single[name] = _whole(single[name])
        elif name == "num_embeddings" and use.number(name):
            single[name] = _whole(single[name])
    for name in (_DRAWN if short in ("randint", "randint_like") else _BOUNDS) & single.keys():
        if use.kind(name) == "numpy" and not use.rank(name):
            arg = single[name].updated
            single[name] = replace(single[name], updated=arg.with_changes(value=_followed(arg.value, ".item()")))
    if short in _PYTHONIC and "other" in single and use.kind("other") == "numpy" and use.number("other"):
        arg = single["other"].updated
        single["other"] = replace(single["other"], updated=arg.with_changes(value=_followed(arg.value, ".item()")))
    if short in ("randn", "rand") and "size" in variadic:
        kinds = [use.facts.kind(bound.original.value) for bound in variadic["size"]]
        if "numpy" in kinds:
            given = zip(kinds, variadic["size"], strict=True)
            variadic["size"] = tuple(_whole(bound) if kind == "numpy" else bound for kind, bound in given)
    if (single, variadic) == (use.binding.single, use.binding.variadic):
        return use
    return replace(use, binding=replace(use.binding, single=single, variadic=variadic))


def _whole(bound: Bound) -> Bound:
    value = bound.updated.value.with_changes(lpar=[], rpar=[])
    return replace(bound, updated=bound.updated.with_changes(value=cst.Call(cst.Name("int"), [cst.Arg(value)])))


def floated(form: Form, use: Use) -> Detour:
    """Arguments of integers and booleans as float32, into which torch converts them by itself."""
    names = [n for n in ("self", *form.signature.by_name) if n not in _PLACES]
    whole = [n for n in names if (n == "self" or use.kind(n) == "tensor") and use.dtype(n).startswith(WHOLE)]
    return Detour(dict.fromkeys(whole, ".astype(ms.float32)"))


def around(rule: Rule, form: Form, use: Use) -> Detour | str | None:
    """The way around what the rule's function does not take, or why there is none; None where none is needed."""
    names = [n for n in ("self", *form.signature.by_name) if use.kind(n) == "tensor" and n not in _PLACES]
    if (odd := next((use.odd(n) for n in names if use.odd(n) in rule.lacks), "")) in ODD:
        return ODD[odd]
    for name in names:
        dtype = use.dtype(name)
        if not dtype.startswith(tuple(kind for kind in rule.lacks if kind != _DIMENSIONLESS)):
            continue
        wider = rule.through.get(dtype)
        alike = [n for n in names if use.dtype(n) == dtype]
        others = {use.dtype(n) for n in names} - {dtype}
        if rule.parted and dtype.startswith("complex"):
            return _parted(rule, use, alike, others)
        kept = form.returns in ("tensor", "tensor:int", "tensor:bool", "tensor:like") and not others
        if wider is None or not kept:
            return f"MindSpore's form takes no tensors of {dtype}"
        same = form.returns in ("tensor", "tensor:like") and not use.given("dtype")
        return Detour(dict.fromkeys(alike, f".astype(ms.{wider})"), f".astype(ms.{TYPES.get(dtype, dtype)})" * same)
    if _DIMENSIONLESS in rule.lacks and any(use.rank(n) == 0 for n in ("self", "input") if n in names):
        flat = [n for n in names if use.rank(n) == 0]
        if _DIMENSIONLESS not in rule.through or any(use.rank(n) is None for n in names):
            return "MindSpore's form takes no tensor without dimensions"
        return Detour(dict.fromkeys(flat, ".reshape(1)"), ".reshape(())", form.returns.startswith(_TUPLES))
    if rule.batched and use.rank("input") == rule.batched - 1:
        return Detour({"input": ".expand_dims(0)"}, ".squeeze(0)", form.returns.startswith(_TUPLES))
    return _made_alike(rule, form, use) if rule.alike else None


def _parted(rule: Rule, use: Use, names: list[str], others: set[str]) -> Detour | str:
    """Complex tensors part by part, or by their absolute values, where nothing but indices and masks stands beside."""
    if not all(other.startswith(WHOLE) for other in others) or any(use.varied(n) for n in names):
        return "MindSpore's form takes no complex tensors"
    if rule.parted == ABSOLUTE and use.value("p") == "nuc":
        return "MindSpore's form takes no complex tensors"
    if rule.parted == ABSOLUTE:
        return Detour(dict.fromkeys(names, ".abs().real()"))
    if not all(use.simple(n) for n in names):
        return "MindSpore's form takes no complex tensors"
    return Detour(dict.fromkeys(names, ""), parts=rule.parted)


def taken(rule: Rule, form: Form, use: Use) -> tuple[Form, Detour | str | None]:
    """The form of a call with the way around what its function does not take, or why there is none."""
    found = _void(rule, form, use) if rule.void else form
    if rule.watched and found is form and not use.asks("ignores_nan"):
        found = _watched(rule, form, use)
    return found, around(rule, form, use) if found is form and (rule.lacks or rule.alike or rule.batched) else None


def filled(
    detour: Detour | None, form: Form, use: Use, receiver: cst.BaseExpression | None, call: cst.Call
) -> cst.BaseExpression:
    """The translated call, on its way around."""
    if detour is None:
        return template.fill(form.template, use.binding, receiver, call)
    made = []
    for half in detour.halves if detour.parts else (detour,):
        sent, behind = half.sent(use, receiver)
        made.append(template.fill(form.template, sent.binding, behind, call))
    if detour.parts:
        return cst.parse_expression(detour.parts.format(real=code(made[0]), imag=code(made[1])))
    return detour.back(made[0])


def _watched(rule: Rule, form: Form, use: Use) -> Form:
    """The form that keeps NaN, for the projects that look for it; whole numbers have none."""
    first = "self" if rule.name.startswith("torch.Tensor.") else next(iter(form.signature.by_name), "")
    if use.dtype(first).startswith(WHOLE):
        return form
    return replace(form, to=rule.watched.replace("{first}", "{" + first + "}"))


def _void(rule: Rule, form: Form, use: Use) -> Form:
    """The form of a call on tensors without elements, where the result is known without the function."""
    first = "self" if rule.name.startswith("torch.Tensor.") else next(iter(form.signature.by_name), "")
    names = [n for n in ("self", *form.signature.by_name) if use.kind(n) == "tensor"]
    if first not in names or EMPTY not in (use.odd(n) for n in names) or not use.dtype(first):
        return form
    others = [n for n in form.signature.by_name if n != first and use.given(n)]
    alone = "ops." in rule.void  # the number that a reduction of nothing gives
    whole = use.dtype(first).startswith(WHOLE) and use.dtype(first) != "int64"
    if alone and (others or whole or use.dtype(first).startswith("complex") or not use.simple(first)):
        return form
    if "{second}" in rule.void:
        if len(names) != 2 or len(others) > 1 or {use.dtype(n) for n in names} != {use.dtype(first)}:
            return form
        to = rule.void.replace("{second}", "{" + next(n for n in names if n != first) + "}")
    elif {"dtype", "out"} & set(others) or len(names) != 1 or whole and not alone:
        return form
    else:
        to = rule.void
    return replace(form, to=to.replace("{first}", "{" + first + "}"), uses=tuple(others))


def usual(name: str, use: Use) -> bool:
    """`dtype=torch.float32`: layers have it anyway."""
    return name == "dtype" and use.text(name) in ("torch.float32", "torch.float")


def complex_beside(use: Use) -> bool:
    """`x.mul(2j)`: a complex number of Python, which MindSpore's functions do not take beside a tensor."""
    return any(
        (node := use.node(name)) is not None and (use.kind(name) == "complex" or isinstance(literal(node), complex))
        for name in use.written if name in _NUMBERS
    )  # fmt: skip


def _made_alike(rule: Rule, form: Form, use: Use) -> Detour | None:
    """Tensors of several types, for a function that takes one: those of another type are converted first."""
    aside = ("out", "condition", *_PLACES)
    names = [n for n in ("self", *form.signature.by_name) if use.kind(n) == "tensor" and n not in aside]
    types = {n: use.dtype(n) for n in names}
    if rule.alike == "narrower":
        common = narrowed(list(types.values()), [use.rank(n) for n in names])
        if any(t.startswith("complex") for t in types.values()):
            common = promoted(set(types.values()))
        return Detour({n: f".astype(ms.{common})" for n in names if types[n] != common}) if common else None
    if len(set(types.values())) < 2 or not all(types.values()):
        return None
    near = narrowed(list(types.values()), [use.rank(n) for n in names])
    common = near or promoted(set(types.values())) if rule.alike == "wider" else types[names[0]]
    if not common:
        return None
    return Detour({n: f".astype(ms.{TYPES.get(common, common)})" for n in names if types[n] != common})


TYPES = {"bool": "bool_"}
_NUMBERS = ("other", "exponent", "alpha")


def _followed(node: cst.BaseExpression, text: str) -> cst.BaseExpression:
    return cst.parse_expression(f"{code(parenthesised(node))}{text}")
