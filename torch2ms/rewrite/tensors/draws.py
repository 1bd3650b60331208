"""`torch.empty_like(x).uniform_(a, b)`, `torch.empty(n).normal_()`: a temporary filled at random, as one draw."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.syntax.tree import code, constant

OF_A_SHAPE = {f"torch.{name}" for name in ("empty", "zeros", "ones", "FloatTensor")}
LIKE = {f"torch.{name}_like" for name in ("empty", "zeros", "ones", "rand", "randn", "full")}
CREATORS = {"ops.zeros", "ops.ones"}
PARAMETERS = {"uniform_": ("from", "to"), "normal_": ("mean", "std")}
DEFAULTS = {"uniform_": ("0", "1"), "normal_": ("0", "1")}


def draw(original: cst.Call, updated: cst.Call, module: ModuleInfo) -> str:
    """The draw as text, "" where the call is none of these."""
    if not isinstance(original.func, cst.Attribute) or not isinstance(updated.func, cst.Attribute):
        return ""
    name, made, now = original.func.attr.value, original.func.value, updated.func.value
    if name not in PARAMETERS or not isinstance(made, cst.Call) or not isinstance(now, cst.Call) or not now.args:
        return ""
    creator = module.value(made.func).name
    if creator not in LIKE | OF_A_SHAPE or made.args[0].keyword is not None:
        return ""
    if creator in OF_A_SHAPE and (len(now.args) != 1 or now.args[0].star or code(now.func) not in CREATORS):
        return ""
    given = list(DEFAULTS[name])
    for position, arg in enumerate(updated.args):
        if arg.star or (arg.keyword is not None and arg.keyword.value not in PARAMETERS[name]) or position > 1:
            return ""
        given[position if arg.keyword is None else PARAMETERS[name].index(arg.keyword.value)] = code(arg.value)
    how = "_like" if creator in LIKE else ""
    text = f"ops.{'rand' if name == 'uniform_' else 'randn'}{how}({code(now.args[0].value)})"
    return _uniform(text, *given) if name == "uniform_" else _normal(text, *given)


def _uniform(text: str, low: str, high: str) -> str:
    if low == f"-{high}":
        return f"((2 * {text} - 1) * {_factor(high)})"
    if (low, high) == ("0", "1"):
        return text
    return (
        f"({text} * ({high} - {_factor(low)}) + {_factor(low)})"
        if constant(cst.parse_expression(low)) != 0
        else f"({text} * {_factor(high)})"
    )


def _normal(text: str, mean: str, std: str) -> str:
    scaled = text if std in ("1", "1.0") else f"{text} * {_factor(std)}"
    if mean in ("0", "0.0"):
        return f"({scaled})" if scaled != text else text
    return f"({scaled} + {_factor(mean)})"


def _factor(text: str) -> str:
    node = cst.parse_expression(text)
    plain = isinstance(node, (cst.Name, cst.Attribute, cst.Call, cst.Subscript, cst.Integer, cst.Float))
    return text if plain or node.lpar else f"({text})"
