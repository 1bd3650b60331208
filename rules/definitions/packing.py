"""Tensors of which the shapes agree but for some axes, as one: what einops has for it."""

import math

from mindspore import ops


def pack(tensors, pattern):
    """The tensors as one, with one axis for those at the star of the pattern, and the lengths that these have."""
    axes = pattern.split()
    before, behind = axes.index("*"), len(axes) - axes.index("*") - 1
    shapes = [tuple(t.shape[before : t.ndim - behind]) for t in tensors]
    flat = [t.reshape(*t.shape[:before], math.prod(s), *t.shape[t.ndim - behind :]) for t, s in zip(tensors, shapes)]
    return ops.cat(flat, axis=before), shapes


def unpack(tensor, packed_shapes, pattern):
    """The tensors that `pack` has made one of."""
    at, start, tensors = pattern.split().index("*"), 0, []
    for shape in packed_shapes:
        part = tensor.narrow(at, start, math.prod(shape))
        start += math.prod(shape)
        tensors.append(part.reshape(*part.shape[:at], *shape, *part.shape[at + 1 :]))
    return tensors
