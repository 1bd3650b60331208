"""`criterion.reduction`: what a layer was made with and MindSpore's does not keep, where that is seen."""

from __future__ import annotations

import libcst as cst

from torch2ms.api.signature import UNKNOWN, BindError, bind
from torch2ms.api.stars import bound_once
from torch2ms.rewrite.translation import Translation

AS_GIVEN = frozenset(
    "reduction inplace dim alpha lambd negative_slope approximate min_val max_val beta threshold value lower upper "
    "ignore_index label_smoothing elementwise_affine affine padding_mode output_size num_parameters upscale_factor "
    "downscale_factor mode align_corners size margin full log_input log_target delta swap d_model nhead start_dim "
    "end_dim blank zero_infinity keepdim k unflattened_size".split()
)  # arguments that torch keeps the way they are given


def as_made(original: cst.Attribute, name: str, work: Translation) -> cst.BaseExpression | None:
    """The value of an argument of the layer, `name` being its class; None where it is not written down."""
    attr, made = original.attr.value, original.value
    if attr not in AS_GIVEN:
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
        value = binding.value(attr)
        return None if value is UNKNOWN else cst.parse_expression(repr(value))
    return None
