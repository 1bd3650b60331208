"""Element type and number of dimensions of tensors, where the source tells: rules ask for them.

Both are facts or unknown ("" and None), never guesses. A tensor of no dimensions does not decide a type among tensors
that have some, as in torch; where a rank is not known, types of one category are still certain if they are equal.
"""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value, replace

Shape = tuple[str, int | None]
UNKNOWN_SHAPE: Shape = ("", None)
Arguments = dict[str, tuple[cst.BaseExpression, Value]]

BITS = {"bool": 1, "uint8": 8, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "uint16": 16, "uint32": 32,
         "uint64": 64, "float16": 16, "bfloat16": 16, "float32": 32, "float64": 64, "complex64": 64,
         "complex128": 128}  # fmt: skip
_OTHER_NAMES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
                "short": "int16", "cfloat": "complex64", "cdouble": "complex128", "byte": "uint8",
                "char": "int8"}  # fmt: skip
_OLD_TYPES = {"Tensor": "float32", "FloatTensor": "float32", "DoubleTensor": "float64", "LongTensor": "int64",
              "IntTensor": "int32", "BoolTensor": "bool", "HalfTensor": "float16", "ShortTensor": "int16",
              "ByteTensor": "uint8", "CharTensor": "int8"}  # fmt: skip
_SAME = set(
    "clone neg negative positive round floor ceil trunc fix frac square relu detach contiguous flip fliplr flipud roll "
    "tril triu cumsum_ cummax_ clamp clip clamp_min clamp_max permute transpose swapaxes swapdims movedim moveaxis t "
    "adjoint gather masked_fill index_fill index_add index_copy index_put scatter scatter_add scatter_reduce sort_ "
    "index_select narrow repeat_interleave_ nan_to_num conj conj_physical sgn sign renorm msort rot90 zeros_like "
    "ones_like full_like empty_like rand_like randn_like requires_grad_ cpu cuda masked_scatter select_scatter "
    "slice_scatter diagonal_scatter fill logcumsumexp diff put unfold_ resolve_conj resolve_neg relu_ fftshift "
    "ifftshift".split()
)
_SUMS = {"addmm", "addmv", "addcmul", "addcdiv", "lerp", "softsign"}  # complex where the first is
_FLOATING = set(
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh arcsin "
    "arccos arctan arcsinh arccosh arctanh sigmoid erf erfc erfinv sinc lgamma digamma reciprocal i0 deg2rad rad2deg "
    "logit expit softmax_ log_softmax_ polygamma".split()
)
_BINARY = set("add sub subtract mul multiply remainder fmod maximum minimum fmax fmin bitwise_and bitwise_or "
              "bitwise_xor gcd lcm rsub bitwise_left_shift bitwise_right_shift pow".split())  # fmt: skip
_COMPLEX = set(
    "fft ifft rfft ihfft fft2 ifft2 rfft2 ihfft2 fftn ifftn rfftn ihfftn complex polar view_as_complex eigvals".split()
)
_DIVIDING = set("div divide true_divide atan2 arctan2 hypot logaddexp logaddexp2 copysign xlogy".split())
_COMPARING = set("eq ne gt ge lt le greater less not_equal greater_equal less_equal isclose logical_and logical_or "
                 "logical_xor".split())  # fmt: skip
_ASKING = set("isnan isinf isfinite isposinf isneginf isreal signbit logical_not".split())
_REDUCING = {"sum": "sum", "nansum": "sum", "prod": "sum", "mean": "same", "nanmean": "same", "amax": "same",
             "amin": "same", "logsumexp": "float", "std": "same", "var": "same", "all": "bool", "any": "bool",
             "argmax": "int64", "argmin": "int64", "count_nonzero": "int64"}  # fmt: skip
_RESHAPING = {"view", "reshape", "expand", "broadcast_to", "permute"}
_PARTS = {"chunk", "split", "tensor_split", "sort", "topk", "cummax", "cummin"}  # of their first argument's rank
_PICKING = {"max", "min", "median", "nanmedian", "mode", "kthvalue"}
_MADE = {"zeros", "ones", "empty", "rand", "randn"}
_TYPES_AS_METHODS = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
                     "short": "int16", "bool": "bool", "byte": "uint8", "char": "int8", "bfloat16": "bfloat16",
                     "cfloat": "complex64", "cdouble": "complex128"}  # fmt: skip
_PARAMETERS = {
    "sum": ("input", "dim", "keepdim"), "matmul": ("input", "other"), "unsqueeze": ("input", "dim"),
    "flatten": ("input", "start_dim", "end_dim"), "stack": ("tensors", "dim"), "cat": ("tensors", "dim"),
    "pow": ("input", "exponent"), "linspace": ("start", "end", "steps"), "eye": ("n", "m"),
    "full": ("size", "fill_value"), "reshape": ("input", "shape"), "diag": ("input", "diagonal"),
}  # fmt: skip


def category(dtype: str) -> str:
    """b, i, f or c; "" for an unknown type."""
    if dtype == "bool":
        return "b"
    return {"i": "i", "u": "i", "f": "f", "b": "f", "c": "c"}.get(dtype[:1], "") if dtype else ""


def dtype_of(value: Value) -> str:
    """The type that an expression like `torch.float32` names."""
    if value.kind != "dtype":
        return ""
    last = value.name.rpartition(".")[2]
    last = _OTHER_NAMES.get(last, last)
    return last if last in BITS else ""


def shaped(value: Value, shape: Shape) -> Value:
    """The value with what is known of it; tensors carry it, lists of equal ones, and tuples for their first."""
    if value.kind == "tuple" and value.name == "return_types" and value.items and len(value.items) == 2:
        first, second = value.items
        return replace(value, items=(shaped(first, shape), shaped(second, (second.dtype, shape[1]))))
    if value.kind != "tensor" and value.name != "of tensor" or (value.dtype, value.rank) == shape:
        return value
    return replace(value, dtype=shape[0], rank=shape[1])


def forgotten(value: Value) -> Value:
    """A value seen from where it may be another one by then; what is odd about it may still be."""
    if value.each is not None:
        value = replace(value, each=forgotten(value.each))
    elif value.items is None and value.rank is None and not value.dtype:
        return value  # most: nothing of the kind is known
    items = tuple(forgotten(i) for i in value.items) if value.items is not None else None
    known = value.dtype or value.rank is not None
    if known and (value.kind in ("tensor", "numpy") or value.name == "of tensor"):
        return replace(value, dtype="", rank=None, items=items)
    return value if items == value.items else replace(value, items=items)


def arguments(name: str, node: cst.Call, values: Sequence[Value], receiver: Value | None) -> Arguments | None:
    """Arguments by name; None where a star hides them."""
    if any(arg.star for arg in node.args):
        return None
    places = _PARAMETERS.get(name, _PARAMETERS["sum"] if name in _REDUCING else ("input", "other"))
    found: Arguments = {}
    if receiver is not None:
        assert type(node.func) is cst.Attribute
        found[places[0]] = (node.func.value, receiver)
        places = places[1:]
    position = 0
    for arg, value in zip(node.args, values, strict=False):
        if arg.keyword is not None:
            key = {"axis": "dim", "keepdims": "keepdim", "x1": "input", "x2": "other"}.get(arg.keyword.value)
            found[key or arg.keyword.value] = (arg.value, value)
        else:
            found[places[position] if position < len(places) else f"#{position}"] = (arg.value, value)
            position += 1
    if receiver is None and node.args and node.args[0].keyword is not None:  # `torch.gcd(out=out, other=y, input=x)`
        found = {key: found[key] for key in (*places, *(k for k in found if k != "out"), "out") if key in found}
    return found


def called(name: str, node: cst.Call, values: Sequence[Value], receiver: Value | None = None) -> Shape:
    """Type and rank of what the torch function or method `name` (its last part) gives."""
    given = arguments(name, node, values, receiver)
    if given is None:
        return (receiver.dtype, None) if receiver is not None and name in _RESHAPING else UNKNOWN_SHAPE
    dtype, rank = _called(name, node, values, given, receiver is not None)
    if "dtype" in given and given["dtype"][1].kind != "none":
        written, asked = given["dtype"]
        dtype = dtype_of(asked) or ("bool" if dotted(written) == "bool" else "")
    return dtype, rank


def _called(name: str, node: cst.Call, values: Sequence[Value], given: Arguments, method: bool) -> Shape:
    first = next(iter(given.values()))[1] if given else Value()
    one = _shape(first)
    if name in ("tensor", "as_tensor", "asarray", "scalar_tensor", "from_numpy") and not method and node.args:
        return literal(node.args[0].value, first)
    if name in _OLD_TYPES and not method:
        data = node.args[0].value if len(node.args) == 1 else None
        return _OLD_TYPES[name], literal(data, first)[1] if isinstance(data, (cst.List, cst.Tuple)) else None
    if name in _MADE and not method:
        return "float32", _sizes(node, values)
    if name in ("new_zeros", "new_ones", "new_empty"):
        return one[0], _sizes(node, values)
    if name in ("repeat", "tile"):
        return one[0], None
    if name in _RESHAPING and (method or len(values) > 1):
        return one[0], _sizes(node, values, 0 if method else 1)
    if name in ("arange", "range", "linspace", "logspace", "eye", "randperm", "full", "randint"):
        return _sequence(name, given)
    if method and name in ("to", "type", "type_as"):
        kinds = [v for v in values if v.kind in ("dtype", "tensor")]
        plain = all(v.kind in ("device", "str", "bool") for v in values) and name == "to"
        return (dtype_of(kinds[0]) or kinds[0].dtype if kinds else one[0] if plain else ""), one[1]
    if method and name in _TYPES_AS_METHODS:
        return _TYPES_AS_METHODS[name], one[1]
    if name in _REDUCING:
        return _reduced(_REDUCING[name], one, given)
    if name in _PICKING:
        return _picked(name, one, given)
    if name == "unbind":
        return one[0], one[1] - 1 if one[1] else None
    if name in _SAME or name in _PARTS:
        return one
    if name in _SUMS and one[0].startswith("complex"):
        return one[0], None
    if name in _COMPLEX:
        return "complex128" if one[0] in ("float64", "complex128") else "complex64", None
    if name == "stft" and "return_complex" in given:
        written = constant(given["return_complex"][0])
        return ("complex64" if written is True else "float32" if written is False else ""), None
    if name in ("abs", "absolute", "angle", "view_as_real", "irfft", "irfft2", "irfftn", "hfft", "hfft2", "hfftn"):
        rank = one[1] if name in ("abs", "absolute", "angle") else None
        return {"complex64": "float32", "complex128": "float64"}.get(one[0], one[0]), rank
    if name in _FLOATING:
        return _floating(one[0]), one[1]
    if name in _ASKING:
        return "bool", one[1]
    return _several(name, given, one)


def _several(name: str, given: Arguments, one: Shape) -> Shape:
    values = [value for _, value in list(given.values())[:2]]
    if name in _COMPARING and len(values) == 2:
        return "bool", _broadcast(values)
    if name in _BINARY | _DIVIDING and len(values) == 2 and "rounding_mode" not in given:
        dtype, rank = promoted(values[0], values[1])
        return (_floating(dtype) if name in _DIVIDING else dtype), rank
    if name == "unsqueeze":
        return one[0], one[1] + 1 if one[1] is not None else None
    if name == "flatten" and len(given) == 1:
        return one[0], 1
    if name in ("ravel", "masked_select"):
        return one[0], 1
    if name in ("matmul", "mm", "bmm", "mv", "dot") and len(values) == 2:
        return promoted(*values)[0], _product(values[0].rank, values[1].rank)
    if name in ("cat", "concat", "concatenate", "stack") and given:
        items = next(iter(given.values()))[1].items or ()
        shapes = {_shape(item) for item in items}
        if len(shapes) == 1:
            dtype, rank = shapes.pop()
            return dtype, rank + (name == "stack") if rank is not None else None
    if name in ("diag", "diagonal", "diag_embed") and one[1] in (1, 2):
        return one[0], {"diag": 3 - one[1], "diagonal": 1, "diag_embed": one[1] + 1}[name]
    return UNKNOWN_SHAPE


def _shape(value: Value) -> Shape:
    return (value.dtype, value.rank) if value.kind == "tensor" and not value.likely else UNKNOWN_SHAPE


def _floating(dtype: str) -> str:
    return "float32" if category(dtype) in ("b", "i") else dtype


def promoted(left: Value, right: Value) -> Shape:
    """Type and rank of an elementwise operation on both."""
    one, two = _weighed(left), _weighed(right)
    rank = _broadcast([left, right])
    if not one[0] or not two[0]:
        return next((dtype for dtype, _ in (one, two) if dtype.startswith("complex")), ""), rank
    order = "bifc"
    high, low = (one, two) if order.index(category(one[0])) >= order.index(category(two[0])) else (two, one)
    if category(high[0]) == category(low[0]):
        if high[0] == low[0]:
            return high[0], rank
        if high[1] == low[1]:
            wide, thin = (high, low) if BITS[high[0]] > BITS[low[0]] else (low, high)
            return wide[0] if "u" not in (wide[0][0], thin[0][0]) and BITS[wide[0]] > BITS[thin[0]] else "", rank
        if None in (high[1], low[1]):
            return "", rank
        return max(high, low, key=lambda one: one[1] or 0)[0], rank
    if high[1] == -1:  # a number of a higher category: the default type of it, at the width of the tensor
        pair = "complex128" if low[0] == "float64" else "complex64"
        return {"f": "float32", "c": pair, "i": "int64"}.get(category(high[0]), ""), rank
    if high[1] == 0 and low[1] != 0 or high[1] is None:  # a tensor without dimensions: as a number, but by its own type
        return high[0] if high[0] in ("float32", "int64", "complex64") else "", rank
    return high[0], rank


def _weighed(value: Value) -> Shape:
    """(type, weight): 0 for tensors without dimensions, 1 for others, -1 for Python numbers."""
    if value.kind == "tensor":
        dtype, rank = _shape(value)
        return dtype, None if rank is None else min(rank, 1)
    return {"int": "int64", "float": "float32", "bool": "bool", "complex": "complex64"}.get(value.kind, ""), -1


def _broadcast(values: Sequence[Value]) -> int | None:
    ranks = [0 if v.kind in ("int", "float", "bool", "complex") else _shape(v)[1] for v in values]
    return max(r for r in ranks if r is not None) if None not in ranks else None


def _product(left: int | None, right: int | None) -> int | None:
    if left is None or right is None or not left or not right:
        return None
    return {(1, 1): 0, (2, 1): left - 1, (1, 2): right - 1}.get((min(left, 2), min(right, 2)), max(left, right))


def _reduced(kind: str, one: Shape, given: Arguments) -> Shape:
    dtype = {"same": one[0], "float": _floating(one[0]), "sum": "int64" if category(one[0]) in ("b", "i") else one[0]}
    if kind == "bool" and one[0] == "uint8":
        return UNKNOWN_SHAPE
    result = dtype.get(kind, kind)
    keep = constant(given["keepdim"][0]) if "keepdim" in given else False
    if keep is True:
        return result, one[1]
    if "dim" not in given or constant(given["dim"][0]) is None:
        return result, 0 if keep is False else None
    dim = given["dim"][0]
    count = 1 if given["dim"][1].kind == "int" else len(dim.elements) if isinstance(dim, (cst.Tuple, cst.List)) else 0
    return result, max(one[1] - count, 0) if one[1] is not None and count and keep is False else None


def _picked(name: str, one: Shape, given: Arguments) -> Shape:
    """The smallest of all, or along a dimension; the larger of two."""
    others = [value for key, (_, value) in list(given.items())[1:] if key != "out"]
    if name in ("max", "min") and len(others) == 1 and others[0].kind == "tensor":
        return promoted(next(iter(given.values()))[1], others[0])
    if not others and name not in ("mode", "kthvalue"):
        return one[0], 0
    plain = others[1:] if name == "kthvalue" else others  # its first is no dimension
    along = not plain or len(plain) == 1 and plain[0].kind == "int"
    return one[0], one[1] - 1 if one[1] and along else None


def _sizes(node: cst.Call, values: Sequence[Value], start: int = 0) -> int | None:
    """The rank that sizes written at a call give."""
    plain = [v for a, v in zip(node.args, values, strict=False) if a.keyword is None][start:]
    if not plain:
        plain = [v for a, v in zip(node.args, values, strict=False)
                 if a.keyword is not None and a.keyword.value in ("size", "shape", "dims")]  # fmt: skip
    if len(plain) == 1 and plain[0].kind in ("tuple", "list"):
        return len(plain[0].items) if plain[0].items is not None and plain[0].name == "" else None
    return len(plain) if len(plain) > 1 or plain and plain[0].kind == "int" else None


def _sequence(name: str, given: Arguments) -> Shape:
    if name == "eye":
        return "float32", 2
    if name == "randperm":
        return "int64", 1
    if name == "randint":
        return "int64", None
    if name == "full":
        size, fill = given.get("size", (None, Value()))[1], given.get("fill_value", (None, Value()))[1]
        dtype = {"int": "int64", "float": "float32", "bool": "bool", "complex": "complex64"}.get(fill.kind, "")
        return dtype, len(size.items) if size.items is not None and size.kind in ("tuple", "list") else None
    if name == "arange":
        numbers = [v for key, (_, v) in given.items() if key in ("start", "end", "step", "input", "other", "#2")]
        if numbers and all(v.kind == "int" for v in numbers):
            return "int64", 1
        plain = any(v.kind == "float" for v in numbers) and all(v.kind in ("int", "float") for v in numbers)
        return "float32" if plain else "", 1
    return "float32", 1


def literal(node: cst.BaseExpression | None, value: Value) -> Shape:
    """The type and rank that torch.tensor gives data written out."""
    if value.kind == "tensor":
        return _shape(value)
    if value.kind == "numpy":
        return value.dtype, value.rank
    if value.kind in ("int", "float", "bool"):
        return {"int": "int64", "float": "float32", "bool": "bool"}[value.kind], 0
    if type(node) is cst.Imaginary or type(node) is cst.Call and dotted(node.func) == "complex":
        return "complex64", 0
    if type(node) is cst.UnaryOperation or type(node) is cst.BinaryOperation:
        parts = [node.expression] if isinstance(node, cst.UnaryOperation) else [node.left, node.right]
        return ("complex64", 0) if any(isinstance(p, cst.Imaginary) for p in parts) else UNKNOWN_SHAPE
    if not isinstance(node, (cst.List, cst.Tuple)):
        return (value.dtype, value.rank) if value.kind in ("list", "tuple") and not value.name else UNKNOWN_SHAPE
    if not node.elements:
        return "float32", 1
    shapes = [literal(e.value, _number(e.value)) for e in node.elements]
    if any(type(e) is cst.StarredElement for e in node.elements) or len({rank for _, rank in shapes}) != 1:
        return UNKNOWN_SHAPE
    rank = shapes[0][1]
    types = {dtype for dtype, _ in shapes}
    order = [dtype for dtype in ("bool", "int64", "float32", "complex64") if dtype in types]
    if "" in types:
        return "", rank + 1 if rank is not None else None
    return order[-1], rank + 1 if rank is not None else None


def _number(node: cst.BaseExpression) -> Value:
    """The kind of a literal number, also of `float('nan')` and `-1.5`."""
    inner = node.expression if type(node) is cst.UnaryOperation else node
    if type(inner) is cst.Call and dotted(inner.func) == "float":
        return Value("float")
    found = constant(node)
    return Value(type(found).__name__) if type(found) in (bool, int, float) else Value()


def element(value: Value, node: cst.Subscript, known: dict[int, Value]) -> Shape:
    """Type and rank of `tensor[...]`, and the rank of `array[...]`; `known` has the values of the indices."""
    dtype, rank = _shape(value) if value.kind != "numpy" else ("", value.rank)
    for part in node.slice:
        index = part.slice
        if type(index) is cst.Slice:
            continue
        assert isinstance(index, cst.Index)
        if index.star is not None:
            return dtype, None
        if type(index.value) is cst.Ellipsis:
            continue
        found = known.get(id(index.value), Value())
        if constant(index.value) is None:
            rank = rank + 1 if rank is not None else None
        elif type(constant(index.value)) is int or found.kind == "int":
            rank = rank - 1 if rank else None
        elif len(node.slice) == 1 and found.kind == "tensor" and category(_shape(found)[0]) == "i" and rank:
            rank = rank - 1 + found.rank if found.rank is not None else None
        else:
            rank = None
    return dtype, rank


def combined(operator: cst.CSTNode | None, left: Value, right: Value) -> Shape:
    """Type and rank of `left operator right`."""
    if type(operator) is cst.MatrixMultiply:
        return promoted(left, right)[0], _product(_shape(left)[1], _shape(right)[1])
    dtype, rank = promoted(left, right)
    return (_floating(dtype) if type(operator) is cst.Divide else dtype), rank
