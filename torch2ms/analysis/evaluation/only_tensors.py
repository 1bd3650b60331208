"""Calls that only tensors take: `batch["x"].median()`, `v.repeat(1, 1, k)`, `mask.nonzero(as_tuple=True)`.

Arrays, tables and layers have methods of these names too, or MindSpore's tensors have them with another meaning. It is
the arguments that tell whose method it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.tree import code, constant

if TYPE_CHECKING:
    from torch2ms.analysis.evaluation.evaluate import Evaluator

OF_TABLES = ("median", "unique", "quantile")  # which arrays do not have
WORDS = {
    "std": {"unbiased", "correction"},
    "var": {"unbiased", "correction"},
    "nonzero": {"as_tuple"},
    "unique": {"return_inverse", "return_counts"},
    "div": {"rounding_mode"},
}
OF_ARRAYS = ("any", "cumprod", "dot", "outer", "corrcoef")  # and of tables: nothing else has them
BARE = ("svd", "slogdet", "int", "bool")  # without arguments
ASKED = frozenset({"norm", "equal", "repeat", "mode", "unflatten", "histogram", *BARE, *OF_TABLES, *OF_ARRAYS, *WORDS})


def only_of_tensors(name: str, call: cst.Call, ev: Evaluator) -> bool:
    """Whether what a method of an unknown receiver is given says that this is a tensor; `name` is one of ASKED."""
    if name in own_methods(ev.project):  # `history.median(20)` of a class of the project
        return False
    plain = [arg.value for arg in call.args if arg.keyword is None and not arg.star]
    if len(plain) < len(call.args):
        named = {arg.keyword.value for arg in call.args if arg.keyword is not None}
        if named & WORDS.get(name, set()):
            return True
    if name in ("std", "var"):  # `x.std(1, False)`: unbiased or not
        return any(isinstance(constant(value), bool) for value in plain[:2])
    if name in OF_TABLES:
        return not any(module.has("pandas") for module in ev.project.modules.values())
    if name in OF_ARRAYS:
        return not _arrays(ev)
    if name == "norm":  # a layer of the name would be given a tensor; without an argument both have the same norm
        values = [arg.value for arg in call.args]
        return bool(values) and all(constant(value) is not ... or "inf" in code(value) for value in values)
    if name == "equal":  # a test case compares two
        return len(plain) == len(call.args) == 1
    if name in BARE:
        return not call.args
    if name == "mode":
        return len(plain) == 1 and type(constant(plain[0])) is int
    if name == "histogram":  # that of an image is asked for no bins
        return (
            bool(plain)
            and constant(plain[0]) is not ...
            or any(arg.keyword is not None and arg.keyword.value == "bins" for arg in call.args)
        )
    if name == "unflatten":  # a layer of the name would be given a tensor
        return len(call.args) == 2
    whole = len(plain) > 2 or len(plain) == 2 and constant(plain[0]) == 1
    return name == "repeat" and (whole or bool(plain) and (len(plain) == 2 or _tuple(plain[0])) and not _arrays(ev))


def _tuple(node: cst.BaseExpression) -> bool:
    return isinstance(node, (cst.Tuple, cst.List))


def _arrays(ev: Evaluator) -> bool:
    """The file may have arrays of NumPy, or tables."""
    return any(ev.module.has(library) for library in ("numpy", "np.", "pandas", "scipy", "sklearn"))


@once
def own_methods(project: Project) -> frozenset[str]:
    """The names of the methods that classes of the project define."""
    classes = (cls for module in project.modules.values() for cls in module.classes.values())
    return frozenset(name for cls in classes for name in cls.methods)
