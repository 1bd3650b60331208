"""Rearrangements whose text depends on literal dimensions."""

from __future__ import annotations

from torch2ms.api.apply import Choice
from torch2ms.api.facts import Use


def roll(use: Use) -> Choice:
    """`torch.roll` along one literal dimension: two slices change places."""
    receiver = "input" if "input" in use.binding.signature.by_name else "self"
    shift, dim = use.value("shifts"), use.value("dims")
    if isinstance(shift, tuple) and len(shift) == 1 and isinstance(dim, tuple) and len(dim) == 1:
        shift, dim = shift[0], dim[0]
    if type(shift) is not int or type(dim) is not int or dim < -1 or shift == 0:
        return Choice(refuse="only a literal shift along one literal dimension has a short form",
                      todo="cut the tensor into two slices and join them in the other order")
    before = "..., " if dim == -1 else ":, " * dim
    text = f"ops.cat(({{{receiver}}}[{before}{-shift}:], {{{receiver}}}[{before}:{-shift}]), axis={dim})"
    return Choice(text, assume="" if abs(shift) == 1 else f"the dimension has at least {abs(shift)} elements")
