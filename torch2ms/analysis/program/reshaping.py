"""Whether a source gives tensors another number of dimensions in place."""

from __future__ import annotations

import re

RESHAPING = ("squeeze_(", "resize_(", "resize_as_(", "set_(", "set_default_dtype(", "as_strided_(")
RESHAPED = re.compile(r"\b(?:(?:un)?squeeze_|as_strided_|resize_|resize_as_|set_|set_default_dtype)\(")
REPLACED = re.compile(  # begins with a text of its own, found faster than one of several; data sets have `self.data`
    r"\.data(?<!\bself\.data)(?<!\bp\.data)(?<!\bparam\.data)(?<!\bweight\.data)(?<!\bbias\.data)\s*=[^=]"
)


def reshapes(source: str) -> bool:
    """Whether a text gives a tensor another number of dimensions in place."""
    if REPLACED.search(source):
        return True
    return any(word in source for word in RESHAPING) and RESHAPED.search(source) is not None
