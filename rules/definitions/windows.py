"""Windows over a tensor, places by strides, spectra over time, and what is scattered with a choice of reductions."""

import itertools
import math

import mindspore as ms
import numpy as np
from mindspore import ops


def windows(x, dim, size, step):
    """The windows of `size` elements along a dimension, every `step`; their elements stand last."""
    starts = np.arange(0, x.shape[dim] - size + 1, step)
    found = ops.gather(x, ms.Tensor(starts[:, None] + np.arange(size)), dim % x.ndim)
    return ops.movedim(found, dim % x.ndim + 1, -1)


def dim_order(x):
    return tuple(sorted(range(x.ndim), key=lambda axis: -x.stride()[axis]))


def as_strided(x, size, stride, storage_offset=0):
    """A copy of the places that the strides reach; of a view that is turned, they count in the memory behind it."""
    x = x.permute(dim_order(x))
    places = np.full((1,) * len(size), storage_offset or 0)
    for axis, (count, step) in enumerate(zip(size, stride)):
        places = places + (np.arange(count) * step).reshape((-1,) + (1,) * (len(size) - 1 - axis))
    return ops.gather(x.reshape(-1), ms.Tensor(places.reshape(-1)), 0).reshape(tuple(size))


def vander(x, N=None):
    """Rising powers of each number, row by row; a single number is a row of one."""
    x = x if x.ndim else x.reshape(1)
    return ops.pow(x.expand_dims(-1), ops.arange(x.shape[-1] if N is None else N))


def broadcast_tensors(*tensors):
    shape = np.broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(ops.broadcast_to(tensor, shape) for tensor in tensors)


def combinations(x, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    index = np.array(list(choose(range(x.shape[0]), r)), np.int64).reshape(-1, r)
    return ops.gather(x, ms.Tensor(index), 0) if index.size else ops.zeros(index.shape, dtype=x.dtype)


def index_put(x, indices, values, accumulate=False):
    split = [ops.unbind(ops.nonzero(index), 1) if index.dtype == ms.bool_ else (index,) for index in indices]
    indices = [index for parts in split for index in parts]
    indices = ops.stack(broadcast_tensors(*indices), -1)
    values = ops.broadcast_to(values, indices.shape[:-1] + x.shape[indices.shape[-1] :]).astype(x.dtype)
    return (ops.tensor_scatter_add if accumulate else ops.tensor_scatter_update)(x, indices, values)


def scatter_reduce(x, dim, index, src, reduce, include_self=True):
    """Every element of `src` reduced into the place of `x` that the index names."""
    places, stride = 0, 1
    for axis in reversed(range(x.ndim)):
        shape = [1] * index.ndim
        shape[axis] = -1
        place = index if axis == dim % x.ndim else ops.arange(index.shape[axis]).reshape(shape)
        places, stride = places + place * stride, stride * x.shape[axis]
    src = src[tuple(slice(count) for count in index.shape)] if index.ndim else src
    places = (places if x.ndim else index).reshape(-1, 1)
    return scattered(x.reshape(-1), places, src.reshape(-1).astype(x.dtype), reduce, include_self).reshape(x.shape)


def scattered_product(x, places, src):
    """`x` times the values that belong to each place; the gradient of each is the product of the others."""
    held, given = ops.stop_gradient(x), ops.stop_gradient(src)
    plain, factors = (ops.where(value == 0, ops.ones_like(value), value) for value in (held, given))
    product = ops.tensor_scatter_mul(plain, places, factors)
    zeros = ops.tensor_scatter_add((held == 0).astype(x.dtype), places, (given == 0).astype(x.dtype))
    at = places.reshape(-1)
    alone, each_alone = zeros == (held == 0).astype(x.dtype), zeros[at] == (given == 0).astype(x.dtype)
    slope = ops.where(alone, product / plain, ops.zeros_like(product))
    slopes = ops.where(each_alone, product[at] / factors, ops.zeros_like(given))
    value = ops.where(zeros == 0, product, ops.zeros_like(product)) + slope * (x - held)
    return ops.tensor_scatter_add(value, places, slopes * (src - given))


def scattered(x, places, src, reduce, include_self):
    count = ops.tensor_scatter_add(ops.zeros_like(x), places, ops.ones_like(src))
    if reduce in ("sum", "mean"):
        kept = x if include_self else ops.where(count > 0, ops.zeros_like(x), x)
        total = ops.tensor_scatter_add(kept, places, src)
        if reduce == "sum":
            return total
        count = count + 1 if include_self else ops.where(count > 0, count, ops.ones_like(count))
        return total / count if x.is_floating_point() else ops.floor_divide(total, count)
    if reduce == "prod":
        kept = x if include_self else ops.where(count > 0, ops.ones_like(x), x)
        return (scattered_product if x.is_floating_point() else ops.tensor_scatter_mul)(kept, places, src)
    return extreme(x, places, src, count, reduce, include_self)


def without_value(x):
    """Zeros that have the gradient of a tensor, which may be infinite."""
    x = ops.where(ops.isfinite(x), x, ops.zeros_like(x))
    return x - ops.stop_gradient(x)


def extreme(x, places, src, count, reduce, include_self):
    """The largest or smallest; equal ones share the gradient."""
    worst = np.inf if x.is_floating_point() else np.iinfo(np.int32).max
    start = ops.stop_gradient(x)
    if not include_self:
        start = ops.where(count > 0, ops.full_like(start, -worst if reduce == "amax" else worst), start)
    scatter = ops.tensor_scatter_max if reduce == "amax" else ops.tensor_scatter_min
    found = scatter(start, places, ops.stop_gradient(src))
    if not x.is_floating_point():
        return found
    own = (start == found).astype(x.dtype)
    given = (src == found[places[:, 0]]).astype(x.dtype)
    shares = ops.tensor_scatter_add(own, places, given)
    moved = without_value(x) * own
    moved = ops.tensor_scatter_add(moved, places, without_value(src) * given)
    return found + moved / shares


def index_reduce(x, dim, index, source, reduce, include_self=True):
    if x.ndim == 0:
        return scattered(x.reshape(1), index.reshape(-1, 1), source.reshape(-1), reduce, include_self).reshape(())
    shape = [1] * x.ndim
    shape[dim] = -1
    index = ops.broadcast_to(index.reshape(shape), source.shape)
    return scatter_reduce(x, dim, index, source, reduce, include_self)


def stft(
    x,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    pad_mode="reflect",
    normalized=False,
    onesided=None,
    return_complex=True,
):
    hop, length = hop_length or n_fft // 4, win_length or n_fft
    window = ops.ones(length, dtype=x.dtype) if window is None else window
    before = (n_fft - length) // 2
    window = ops.pad(window, (before, n_fft - length - before))
    rows = x if x.ndim == 2 else x.unsqueeze(0)
    if center:
        rows = ops.pad(rows.unsqueeze(1), (n_fft // 2, n_fft // 2), pad_mode).squeeze(1)
    frames = windows(rows, 1, n_fft, hop) * window
    found = ops.fft(frames) if onesided is False else ops.rfft(frames)
    found = (found / math.sqrt(n_fft) if normalized else found).swapaxes(-1, -2)
    found = found if x.ndim == 2 else found[0]
    return found if return_complex else ops.stack((ops.real(found), ops.imag(found)), -1)


def istft(
    spectrum,
    n_fft,
    hop_length=None,
    win_length=None,
    window=None,
    center=True,
    normalized=False,
    onesided=None,
    length=None,
):
    hop, size = hop_length or n_fft // 4, win_length or n_fft
    window = ops.ones(size, dtype=ms.float32) if window is None else window
    before = (n_fft - size) // 2
    window = ops.pad(window, (before, n_fft - size - before))
    rows = (spectrum if spectrum.ndim == 3 else spectrum.unsqueeze(0)).swapaxes(-1, -2)
    frames = ops.real(ops.ifft(rows)) if onesided is False else ops.irfft(rows, n_fft)
    frames = (frames * math.sqrt(n_fft) if normalized else frames) * window
    count = frames.shape[1]
    places = ms.Tensor((np.arange(count)[:, None] * hop + np.arange(n_fft)).reshape(-1, 1))
    zeros = ops.zeros((n_fft + hop * (count - 1), frames.shape[0]), dtype=frames.dtype)
    summed = ops.tensor_scatter_add(zeros, places, frames.reshape(frames.shape[0], -1).swapaxes(0, 1))
    weight = ops.tensor_scatter_add(zeros[:, 0], places, ops.square(window).tile((count,)))
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else zeros.shape[0] - start
    found = (summed[start:end] / weight[start:end].unsqueeze(1)).swapaxes(0, 1)
    return found if spectrum.ndim == 3 else found[0]


def type_category(dtype):
    """The order in which types convert: booleans, integers, floats, complex numbers."""
    name = str(dtype).lower()
    return 0 if name.startswith("bool") else 1 if "int" in name else 3 if name.startswith("complex") else 2


def result_type(one, other):
    """The type of what two values give together: numbers and tensors without dimensions count by their category."""
    kinds = {bool: ms.bool_, int: ms.int64, float: ms.float32, complex: ms.complex64}
    sides = [(v.dtype, 1 + (v.ndim > 0)) if isinstance(v, ms.Tensor) else (kinds[type(v)], 0) for v in (one, other)]
    (weak, low), (strong, high) = sorted(sides, key=lambda side: side[1])
    return promote_types(weak, strong) if low == high or type_category(weak) > type_category(strong) else strong


def promote_types(one, other):
    """The element type that both convert to."""
    if one == other:
        return one
    if 3 in (type_category(one), type_category(other)):
        return ms.complex128 if {one, other} & {ms.complex128, ms.float64} else ms.complex64
    return (ops.zeros((1,), dtype=one) * ops.zeros((1,), dtype=other)).dtype
