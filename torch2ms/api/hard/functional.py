"""Functions of torch.nn.functional whose target depends on how a shape or a mask is written."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use


def layer_norm(use: Use) -> Choice:
    """The normalised dimensions are counted from the end; missing weights are ones and zeros."""
    shape = use.node("normalized_shape")
    count, assume = 1, "normalized_shape names the last dimension alone"
    if isinstance(shape, (cst.Tuple, cst.List)):
        if any(isinstance(element, cst.StarredElement) for element in shape.elements):
            return Choice(refuse="the number of normalised dimensions is not written", todo="write the shape out")
        count, assume = len(shape.elements), ""
    elif use.text("normalized_shape").endswith(("shape[-1:]", "size()[-1:]")):
        assume = ""
    elif use.text("normalized_shape").endswith(("shape[1:]", "size()[1:]")):
        rank = use.rank("input")
        if rank is None:
            return Choice(refuse="the number of normalised dimensions is not known", todo="write the shape out")
        count, assume = rank - 1, ""
    weight = "{weight}" if use.given("weight") else "ops.ones({normalized_shape})"
    bias = "{bias}" if use.given("bias") else "ops.zeros({normalized_shape})"
    axis = -1
    if count > 1:  # MindSpore counts these axes from the front
        rank = use.rank("input")
        if rank is None:
            return Choice(refuse="the number of dimensions of the input is not known", todo="use nn.LayerNorm")
        axis = rank - count
    layer = f"ops.LayerNorm({axis}, {axis}, {{eps!}})"
    uses = ("normalized_shape",)
    return Choice(f"{layer}({{input}}, {weight}, {bias})[0]", assume=assume, uses=uses)


def attention(use: Use) -> Choice:
    """softmax(q k^T / sqrt(d) + mask) v, written out."""
    scale = "{scale}" if use.given("scale") else "{query}.shape[-1] ** -0.5"
    scores = f"ops.matmul({{query}}, {{key}}.swapaxes(-1, -2)) * {scale}"
    if use.value("is_causal") is not False:
        return Choice(refuse="a causal mask depends on the lengths", todo="build the mask with ops.triu and add it")
    if use.given("attn_mask"):
        kind = use.dtype("attn_mask")
        if kind == "bool":
            scores = f"({scores}).masked_fill(ops.logical_not({{attn_mask}}), float('-inf'))"
        elif kind.startswith("float"):
            scores = f"{scores} + {{attn_mask}}"
        else:
            return Choice(refuse="cannot tell a boolean mask from one that is added",
                          todo="write softmax(q @ k.T * scale + mask) @ v")
    weights = f"ops.softmax({scores}, axis=-1)"
    if use.given("dropout_p"):
        weights = f"ops.dropout({weights}, p={{dropout_p}})"
    return Choice(f"ops.matmul({weights}, {{value}})", uses=("is_causal",))
