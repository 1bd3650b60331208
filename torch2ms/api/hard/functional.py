"""Functions of torch.nn.functional whose target depends on how a shape or a mask is written."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.tree import code
from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use


def layer_norm(use: Use) -> Choice:
    """MindSpore counts the normalised dimensions from the front unless it is the last; missing weights are written."""
    shape = use.node("normalized_shape")
    text = use.text("normalized_shape")
    last = isinstance(shape, (cst.Tuple, cst.List)) and len(shape.elements) == 1 and "*" not in text
    if not last and not text.endswith(("shape[-1:]", "size()[-1:]")):
        return Choice("layer_norm({input}, {normalized_shape}, {weight:weight}, {bias:bias}, {eps:eps})")
    weight = "{weight}" if use.given("weight") else "ops.ones({normalized_shape})"
    bias = "{bias}" if use.given("bias") else "ops.zeros({normalized_shape})"
    layer = "ops.LayerNorm(-1, -1, {eps!})"
    return Choice(f"{layer}({{input}}, {weight}, {bias})[0]", uses=("normalized_shape",))


def kl_loss(use: Use) -> Choice:
    """`nn.KLDivLoss`: MindSpore's passes over the gradients of the target."""
    if use.facts.varied_targets("torch.nn.KLDivLoss"):
        return Choice("partial(kl_div, reduction={reduction}, log_target={log_target})")
    assume = "the target is not differentiated"
    if use.value("log_target") is True:
        form = "lambda input, target: ops.kl_div(input, ops.exp(target), reduction={reduction!})"
        return Choice(form, assume=assume, uses=("log_target",))
    return Choice("nn.KLDivLoss(reduction={reduction})", assume=assume)


def attention(use: Use) -> Choice:
    """softmax(q k^T / sqrt(d) + mask) v, written out."""
    scale = "{scale}" if use.given("scale") else "{query}.shape[-1] ** -0.5"
    scores = f"ops.matmul({{query}}, {{key}}.swapaxes(-1, -2)) * {scale}"
    if use.value("is_causal") is not False or use.given("attn_mask") and not use.dtype("attn_mask"):
        return Choice(
            "scaled_dot_product_attention({query}, {key}, {value}, {attn_mask:attn_mask}, "
            "{dropout_p:dropout_p}, {is_causal:is_causal}, {scale:scale})"
        )
    if use.given("attn_mask"):
        kind = use.dtype("attn_mask")
        if kind == "bool":
            scores = f"({scores}).masked_fill(ops.logical_not({{attn_mask}}), float('-inf'))"
        elif kind.startswith("float"):
            scores = f"{scores} + {{attn_mask}}"
        else:
            return Choice(refuse="a mask of whole numbers is added", todo="write softmax(q @ k.T * scale + mask) @ v")
    weights = f"ops.softmax({scores}, axis=-1)"
    if use.given("dropout_p"):
        weights = f"ops.dropout({weights}, p={{dropout_p}})"
    return Choice(f"ops.matmul({weights}, {{value}})", uses=("is_causal",))


def avg_pool(use: Use) -> Choice:
    """`avg_pool2d`, `avg_pool3d`: the stride is written, and padding has two numbers for each dimension.

    MindSpore's gradient of a mean over windows has no gradient itself; that of a convolution has one.
    """
    dims = int(use.short[-2])
    counted = not use.given("count_include_pad") or use.value("count_include_pad") is True
    plain = counted and not (use.given("divisor_override") or use.given("ceil_mode"))
    if dims == 2 and plain and use.facts.differentiates_twice:
        return Choice(
            "average_pool({input}, {kernel_size}, {stride:stride}, {padding:padding})", uses=("count_include_pad",)
        )
    node, padding = use.node("padding"), "{padding:padding}"
    if isinstance(node, (cst.Tuple, cst.List)):
        parts = [code(element.value) for element in node.elements]
        if any(isinstance(element, cst.StarredElement) for element in node.elements) or len(parts) not in (1, dims):
            return Choice(refuse="cannot tell what the padding is", todo="write one number for each dimension")
        parts = parts * dims if len(parts) == 1 else parts
        padding = f"({', '.join(part for part in parts for _ in range(2))})"
    elif node is not None and use.kind("padding") != "int":
        padding = "padding=tuple(p for p in {padding} for _ in range(2))" if use.kind("padding") == "tuple" else padding
    stride = "{stride}" if use.given("stride") else "{kernel_size}"
    rest = "ceil_mode={ceil_mode}, count_include_pad={count_include_pad}, divisor_override={divisor_override}"
    if use.given("divisor_override") and use.given("count_include_pad"):  # its gradient divides by the count
        rest = "ceil_mode={ceil_mode}, divisor_override={divisor_override}"
    to = f"ops.{use.short}({{input}}, {{kernel_size}}, {stride}, {padding}, {rest})"
    return Choice(to, uses=("stride", "padding", "count_include_pad"))


def lp_pool(use: Use) -> Choice:
    """`lp_poolNd`."""
    rest = "{kernel_size:kernel_size}, {stride:stride}, {ceil_mode:ceil_mode}"
    return _any_dims(use, f"{{input}}, {{norm_type:norm_type}}, {rest}")


def max_unpool(use: Use) -> Choice:
    """`max_unpoolNd`."""
    rest = "{kernel_size:kernel_size}, {stride:stride}, {padding:padding}, {output_size:output_size}"
    return _any_dims(use, f"{{input}}, {{indices:indices}}, {rest}")


def _any_dims(use: Use, arguments: str) -> Choice:
    """One definition serves all numbers of dimensions, which are two unless it is told."""
    name, dims = use.short[:-2], use.short[-2]
    return Choice(f"{name}({arguments}{'' if dims == '2' else f', dims={dims}'})")
