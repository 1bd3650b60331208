"""Layers as functions of their weights."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code, constant

PLAIN = frozenset(
    "ReLU ReLU6 LeakyReLU ELU SELU CELU GELU SiLU Mish Softplus Softsign Tanh Sigmoid LogSigmoid Hardtanh Hardsigmoid "
    "Hardswish Softmax LogSoftmax Identity Flatten Unflatten Dropout Dropout1d Dropout2d MaxPool1d MaxPool2d AvgPool1d "
    "AvgPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveMaxPool2d Upsample PixelShuffle ZeroPad2d ReflectionPad2d"
    .split()
)  # fmt: skip
CONV = ("stride", "padding", "dilation", "groups", "bias", "padding_mode")
# of a layer: its function, the names of its arguments in their order, those that the function takes as well
WEIGHTED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "Linear": ("linear", ("in_features", "out_features", "bias"), ()),
    "Conv1d": ("conv1d", ("in_channels", "out_channels", "kernel_size", *CONV), CONV[:4]),
    "Conv2d": ("conv2d", ("in_channels", "out_channels", "kernel_size", *CONV), CONV[:4]),
    "LayerNorm": ("layer_norm", ("normalized_shape", "eps", "elementwise_affine", "bias"), ("eps",)),
    "GroupNorm": ("group_norm", ("num_groups", "num_channels", "eps", "affine"), ("eps",)),
    "Embedding": ("embedding", ("num_embeddings", "embedding_dim"), ()),
    "PReLU": ("prelu", ("num_parameters", "init"), ()),
}
UNBIASED = ("Embedding", "PReLU")
LEADING = {"LayerNorm": "normalized_shape", "GroupNorm": "num_groups"}  # what stands between the input and the weights
SWITCHES = ("elementwise_affine", "affine", "bias")


class Unfit(Exception):
    """Why a forward has no form with its weights as an argument."""


def made_by(node: cst.BaseExpression | None) -> cst.Call | None:
    """The call that makes an object, without what moves it: `nn.Linear(2, 3).to(device)`."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
        if node.func.attr.value not in ("to", "cuda", "cpu", "float", "double", "train", "requires_grad_"):
            return node
        node = node.func.value
    return node if isinstance(node, cst.Call) else None


def weights_of(kind: str, call: cst.Call) -> list[str]:
    """The names of a layer's weights."""
    given = _given(kind, call)
    switched = [given[name] for name in SWITCHES if name in given]
    if any(constant(value) not in (True, False) for value in switched):
        raise Unfit("whether a layer has a bias is not seen")
    if kind not in ("Linear", "Conv1d", "Conv2d") and any(constant(v) is False for v in switched):
        raise Unfit("a normalisation without weights")
    unbiased = kind in UNBIASED or any(constant(value) is False for value in switched)
    return ["weight"] if unbiased else ["weight", "bias"]


def applied(kind: str, call: cst.Call, values: list[str], to: str, functional: str) -> str:
    """The code of a layer's function for its weights."""
    given, (name, _, also) = _given(kind, call), WEIGHTED[kind]
    if constant(given.get("padding_mode", cst.SimpleString("'zeros'"))) != "zeros":
        raise Unfit("a convolution with its own way of padding")
    lead = LEADING.get(kind)
    parts = [to, *([_leading(kind, given[lead])] if lead and lead in given else []), *values]
    parts += [f"{option}={_steady(given[option])}" for option in also if option in given]
    if name == "embedding":
        parts[1:] = values
    return f"{functional}.{name}({', '.join(parts)})"


def _given(kind: str, call: cst.Call) -> dict[str, cst.BaseExpression]:
    order = WEIGHTED[kind][1]
    given: dict[str, cst.BaseExpression] = {}
    for position, arg in enumerate(call.args):
        name = arg.keyword.value if arg.keyword is not None else order[position] if position < len(order) else ""
        if name in ("device", "dtype"):
            continue
        if arg.star or name not in order:
            raise Unfit("the arguments of a layer are not seen")
        given[name] = arg.value
    return given


def _leading(kind: str, node: cst.BaseExpression) -> str:
    """What a normalisation normalises; the function of a layer norm takes a tuple alone."""
    return f"({_steady(node)},)" if kind == "LayerNorm" and isinstance(node, cst.Integer) else _steady(node)


def _steady(node: cst.BaseExpression) -> str:
    """The code of an argument that means the same in another function."""
    parts = [e.value for e in node.elements] if isinstance(node, (cst.Tuple, cst.List)) else [node]
    if any(constant(part) is ... for part in parts):
        raise Unfit("an argument of a layer is no plain number")
    return code(node)
