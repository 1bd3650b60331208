"""`criterion.reduction`: what a layer was made with and MindSpore's does not keep, where that is seen."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.signature import UNKNOWN, BindError, Binding, bind
from torch2ms.api.stars import bound_once
from torch2ms.rewrite.translation import Translation

AS_GIVEN = frozenset(
    "reduction inplace dim alpha lambd negative_slope approximate min_val max_val beta threshold value lower upper "
    "ignore_index label_smoothing elementwise_affine affine padding_mode output_size num_parameters upscale_factor "
    "downscale_factor mode align_corners size margin full log_input log_target delta swap d_model nhead start_dim "
    "end_dim blank zero_infinity keepdim k unflattened_size return_indices ceil_mode count_include_pad "
    "divisor_override track_running_stats momentum in1_features in2_features out_features norm_type p eps norm_first "
    "init output_ratio kernel_size stride padding dilation output_padding".split()
)  # arguments that torch keeps the way they are given, but for what `_kept` does to sizes


def as_made(original: cst.Attribute, name: str, work: Translation) -> cst.BaseExpression | None:
    """The value of an argument of the layer, `name` being its class; None where it is not written down."""
    attr, made = original.attr.value, original.value
    if attr not in AS_GIVEN or work.module.has("setattr("):
        return None
    held = bound_once(made.value, work.stmt, work.module) if isinstance(made, cst.Name) else made
    rule = work.rules.find(name)
    if not isinstance(held, cst.Call) or rule is None or work.module.value(held.func).name != name:
        return None
    for form in rule.forms:
        try:
            binding = bind(form.signature, held, held)
        except BindError:
            continue
        if attr not in form.signature.by_name or any(binding.passed(old) for old in ("size_average", "reduce")):
            continue
        value = _kept(name.rpartition(".")[2], attr, binding)
        return None if value is UNKNOWN else cst.parse_expression(repr(value))
    return None


def _kept(layer: str, attr: str, binding: Binding) -> object:
    """What torch makes of an argument: a stride left out is the size of the kernel, a number one for each side."""
    value = binding.value(attr)
    if attr == "stride" and value is None and not layer.startswith("LPPool"):
        value = binding.value("kernel_size")
    dims = int(layer[-2]) if layer[-2:-1].isdigit() else 0
    if attr in ("padding", "kernel_size", "stride", "dilation", "output_padding", "output_ratio") and dims:
        every = 2 * dims if "Pad" in layer else dims
        spread = "Pad" in layer or "Conv" in layer or "Unpool" in layer or "Fractional" in layer or layer == "AvgPool1d"
        if spread and isinstance(value, (int, float)):
            return (value,) * every
        return tuple(value) if spread and isinstance(value, list) else value
    return value
