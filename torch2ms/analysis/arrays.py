"""What functions of NumPy make: arrays, and numbers that are no arrays, with their element type where it is written."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.shapes import BITS, category, literal
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import Value

NUMBERS = "numbers of an array"  # the name of a list of them, which may be empty, or hold lists
PLACES = "of numpy"  # the name of a tuple of arrays, one for each axis, as `np.where(mask)` gives them
_OWN_NAMES = {"bool_": "bool", "bool": "bool", "float": "float64", "int": "int64", "float_": "float64",
              "int_": "int64", "single": "float32", "double": "float64", "half": "float16"}  # fmt: skip
_WIDE = {"float32": "float64", "complex64": "complex128"}  # what NumPy makes of numbers that torch takes for the other
_NUMPY_FUNCTIONS = set("sqrt exp log log2 log10 log1p expm1 abs absolute power sin cos tan tanh floor ceil sign "
                       "maximum minimum square add subtract multiply divide".split())  # fmt: skip
# of a torch tensor these give one as well, whatever stands beside it
_GIVEN_BACK = set("arccos arccosh arcsin arcsinh arctan arctanh argpartition argsort around cbrt clip cosh cumprod "
                  "cumsum exp2 isfinite isinf isnan negative reciprocal rint round sinh trunc".split())  # fmt: skip
_NUMPY_DRAWS = {"uniform": 2, "normal": 2, "random": 0, "rand": 0, "randn": 0, "random_sample": 0}  # Python's own
_NUMPY_NUMBERS = {
    "argmax": 1,
    "argmin": 1,
    "choice": 1,
    "integers": 2,
    "mean": 1,
    "sum": 1,
    "std": 1,
    "var": 1,
    "median": 1,
    "prod": 1,
    "max": 1,
    "min": 1,
    "average": 1,
}  # a number, given so many arguments at most


# methods that tensors have, and no array
NONE_OF_NUMPY = {
    "float",
    "long",
    "int",
    "double",
    "half",
    "bool",
    "unsqueeze",
    "to",
    "cpu",
    "cuda",
    "detach",
    "expand_as",
}


def numpy_made(name: str, node: cst.Call, values: Sequence[Value], method: bool = False) -> Value:
    """What a function of NumPy returns; its rank where it matters to an index: 0 is a number, which is no array."""
    count = sum(arg.keyword is None for arg in node.args)
    named = {arg.keyword.value for arg in node.args if arg.keyword is not None}
    if name == "randint" and count <= 2 and "size" not in named:
        return Value("int")
    if count <= _NUMPY_DRAWS.get(name, -1) and "size" not in named:
        return Value("float")
    own = _OWN_NAMES.get(name, name)
    if own in BITS and not method and count == 1 and values[0].kind in ("int", "float", "bool"):  # `np.int64(1)`
        return Value("numpy", rank=0, dtype=own)
    most = _NUMPY_NUMBERS.get(name, 0) - (method and name not in ("choice", "integers"))
    if name in _NUMPY_NUMBERS and count <= most and not named & {"size", "axis", "keepdims"}:
        one = not method and name in ("max", "min") and values and values[0].kind == "numpy"
        return Value("numpy", rank=0, dtype=values[0].dtype if one else "")
    if name == "nonzero" or name == "where" and len(node.args) == 1 and not method:
        return Value("tuple", PLACES, each=Value("numpy", rank=1, dtype="int64"))
    if not method and name in ("array", "asarray") and node.args:
        return _written(node, values[0])
    if not method and name in ("zeros", "ones", "empty", "full") and values:
        return Value("numpy", rank=None, dtype=_typed(node, "float64" if name != "full" else ""))
    if method and name == "tolist":
        return Value("list", NUMBERS)
    if method and name == "item":
        return Value("unknown")
    if method and name == "astype" and node.args:
        return Value("numpy", rank=None, dtype=_named(node.args[0].value))
    if not method and name in _NUMPY_FUNCTIONS and any(v.kind == "tensor" and not v.likely for v in values):
        return Value("tensor")
    if not method and name in _GIVEN_BACK and values and values[0].kind == "tensor" and not values[0].likely:
        return Value("tensor")
    if not method and values and name in _NUMPY_FUNCTIONS:
        numbers = [0 if value.kind in ("int", "float", "bool") else value.rank for value in values]
        known = [rank for rank in numbers if rank is not None]
        return Value("numpy", rank=max(known) if len(known) == len(numbers) else None)
    row = (
        name in ("arange", "linspace", "flatnonzero")
        or name == "permutation"
        and bool(values)
        and values[0].kind == "int"
    )
    row = row or name == "unique" and not method and len(node.args) == 1
    return Value("numpy", rank=1 if row else 2 if name == "argwhere" else None)


def _written(node: cst.Call, data: Value) -> Value:
    """`np.array([1.0, 2.0])`, with the type that NumPy gives numbers written out."""
    if _sizes(node.args[0].value):
        return Value("numpy", rank=1, dtype=_typed(node, "int64"))
    found, rank = literal(node.args[0].value, data)
    own = found if data.kind in ("numpy", "tensor") else _WIDE.get(found, found)
    return Value("numpy", rank=rank, dtype=_typed(node, own))


def made_plain(node: cst.BaseExpression, value: Value) -> bool:
    """`return texts, max(lengths)`: what takes the integer as a size, out of sight, wants one of Python's."""
    return type(node) is cst.Call and value.kind == "numpy" and value.rank == 0 and value.dtype in ("int32", "int64")


def _sizes(node: cst.BaseExpression) -> bool:
    """`[len(x) for x in texts]`, `[mel.shape[0] for mel in mels]`: integers."""
    one = node.elt if isinstance(node, cst.ListComp) else None
    if isinstance(one, cst.Call):
        return dotted(one.func) == "len" or name_called(one) == "size" and len(one.args) == 1
    if not isinstance(one, cst.Subscript) or isinstance(one.slice[0].slice, cst.Slice):
        return False
    return isinstance(one.value, cst.Attribute) and one.value.attr.value == "shape"


def _typed(node: cst.Call, otherwise: str) -> str:
    """The type that a call asks for, or gives by itself."""
    asked = next((arg.value for arg in node.args if arg.keyword is not None and arg.keyword.value == "dtype"), None)
    plain = sum(arg.keyword is None for arg in node.args) <= 1
    return _named(asked) if asked is not None else otherwise if plain and category(otherwise) else ""


def _named(node: cst.BaseExpression) -> str:
    """The type behind `np.int32`, `float` or `'float32'`."""
    text = constant(node)
    name = text if isinstance(text, str) else dotted(node).rpartition(".")[2]
    name = _OWN_NAMES.get(name, name)
    return name if name in BITS else ""
