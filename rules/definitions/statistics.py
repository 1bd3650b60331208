"""What torch measures of a tensor's elements and MindSpore does not: quantiles, modes, norms without a kink at zero."""

import math

import mindspore as ms
import numpy as np
from mindspore import ops


def median(x):
    """All elements that equal the median share its gradient; MindSpore gives it to one of them."""
    middle = ops.median(ops.stop_gradient(x).reshape(-1))[0]
    equal = x == middle
    return ops.where(equal, x, ops.zeros_like(x)).sum() / equal.sum()


def max_or_min(name, input, dim=None, keepdim=False, other=None):
    """What torch.max and torch.min are by what they get: of all elements, along a dimension, or of two tensors."""
    other = dim if isinstance(dim, ms.Tensor) else other
    if other is not None:
        return getattr(ops, f"{name}imum")(input, other)
    if dim is None:
        return getattr(input, name)()
    values, places = getattr(ops, name)(input, axis=dim, keepdims=keepdim)
    return values, places.astype(ms.int64)


def median_of(input, dim=None, keepdim=False):
    """Of all elements, or along a dimension, with its places."""
    return median(input) if dim is None else ops.median(input, dim, keepdim)


def spread(made, input, dim=None, unbiased=True, keepdim=False, correction=None):
    """What torch.std and torch.var are by what they get: the second argument may be `unbiased`."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    axis = tuple(dim) if isinstance(dim, list) else dim
    return made(input, axis, ddof=int(unbiased) if correction is None else correction, keepdims=keepdim)


def unique(x, return_inverse=False, return_counts=False, dim=None):
    found = np.unique(x.asnumpy(), return_inverse=return_inverse, return_counts=return_counts, axis=dim)
    if not isinstance(found, tuple):
        return ms.Tensor(found)
    values, *others = found
    if return_inverse and dim is None:
        others[0] = others[0].reshape(x.shape)
    return tuple(ms.Tensor(part) for part in (values, *others))


def long_places(found):
    """Values and their places, these as int64."""
    values, places = found
    return values, places.astype(ms.int64)


def kthvalue(x, k, dim=-1, keepdim=False):
    """The k-th smallest element, and its place."""
    values, places = (part.swapaxes(dim, -1)[..., k - 1 : k].swapaxes(dim, -1) for part in ops.sort(x, axis=dim))
    if not keepdim:
        values, places = values.squeeze(dim), places.squeeze(dim)
    return values, places.astype(ms.int64)


def cummax(x, axis):
    """The largest elements so far, and their places; MindSpore's has no gradient."""
    places = ops.cummax(ops.stop_gradient(x), axis)[1]
    return ops.gather_elements(x, axis, places), places


def cummin(x, axis):
    """The smallest elements so far, and their places; MindSpore's has no gradient."""
    places = ops.cummin(ops.stop_gradient(x), axis)[1]
    return ops.gather_elements(x, axis, places), places


def corrcoef(x):
    """The correlations between the rows."""
    covariance = ops.cov(x)
    if covariance.ndim == 0:
        return covariance / covariance
    spread = ops.sqrt(ops.diagonal(covariance))
    found = covariance / spread.unsqueeze(-1) / spread
    return ops.where(ops.isnan(found), found, ops.clamp(found, -1, 1))


def renorm(x, p, dim, maxnorm):
    """The slices along a dimension, none of them longer than this."""
    size = vector_norm(x, p, tuple(axis for axis in range(x.ndim) if axis != dim % x.ndim), True)
    return x * ops.where(size > maxnorm, maxnorm / (size + 1e-7), ops.ones_like(size))


def cumulative_trapezoid(y, x=None, dx=1, dim=-1):
    """The integral up to each place."""
    y = y.swapaxes(dim, -1)
    if x is not None:
        x = x if x.ndim == 1 else x.swapaxes(dim, -1)
        dx = x[..., 1:] - x[..., :-1]
    return ops.cumsum((y[..., 1:] + y[..., :-1]) / 2 * dx, -1).swapaxes(dim, -1)


def trapezoid(y, x=None, dx=1, dim=-1):
    """MindSpore's counts in float32, whatever it is given."""
    y = ops.movedim(y, dim, -1)
    if x is not None:
        x = x if x.ndim == 1 else ops.movedim(x, dim, -1)
        dx = x[..., 1:] - x[..., :-1]
    return ((y[..., 1:] + y[..., :-1]) / 2 * dx).sum(-1)


def aminmax(x, dim=None, keepdim=False):
    """The smallest and the largest elements; NaN where there is one."""
    found = ops.amin(x, dim, keepdim), ops.amax(x, dim, keepdim)
    if x.dtype not in (ms.float16, ms.bfloat16, ms.float32, ms.float64):
        return found
    missing = ops.isnan(x).any(dim, keepdim)
    return tuple(ops.where(missing, ops.full_like(one, math.nan), one) for one in found)


def vector_norm(x, ord=2, dim=None, keepdim=False):
    """The norm of the elements; its gradient at zero is zero."""
    size = ops.abs(x)
    size = ops.real(size) if size.is_complex() else size
    if abs(ord) == math.inf:
        return ops.amax(size, dim, keepdim) if ord > 0 else ops.amin(size, dim, keepdim)
    if ord == 0:
        return (size != 0).astype(size.dtype).sum(dim, keepdims=keepdim)
    if ord == 1:
        return size.sum(dim, keepdims=keepdim)
    if ord < 1:  # whose slope at zero is infinite; torch hands nothing back there
        size = ops.where(size == 0, ops.stop_gradient(size), size)
    total = (size * size if ord == 2 else size**ord).sum(dim, keepdims=keepdim)
    above = ops.where(total == 0, ops.ones_like(total), total)
    return ops.where(total == 0, ops.zeros_like(total), ops.sqrt(above) if ord == 2 else above ** (1 / ord))


def euclidean_norm(x, dim=None, keepdim=False):
    """The root of the sum of squares; its gradient at zero is zero."""
    total = (x * x).sum(dim, keepdims=keepdim)
    above = ops.where(total == 0, ops.ones_like(total), total)
    return ops.where(total == 0, ops.zeros_like(total), ops.sqrt(above))


def corrected_var(x, axis=None, correction=1, keepdims=False):
    """The variance whose divisor is less by any number; its gradients are numbers where all elements are equal."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    spread = ops.square(x - x.mean(axis, True))
    count = x.size // spread.sum(axis).size
    return spread.sum(axis, keepdims=keepdims) / max(count - correction, 0)


def corrected_std(x, axis=None, correction=1, keepdims=False):
    variance = corrected_var(x, axis, correction, keepdims)
    above = ops.where(variance == 0, ops.ones_like(variance), variance)
    return ops.where(variance == 0, ops.zeros_like(variance), ops.sqrt(above))


def standard_deviation(x, axis=None, ddof=1, keepdims=False):
    """Its gradient is zero where all elements are equal; that of MindSpore's is NaN."""
    variance = x.var(tuple(axis) if isinstance(axis, list) else axis, ddof=ddof, keepdims=keepdims)
    above = ops.where(variance == 0, ops.ones_like(variance), variance)
    return ops.where(variance == 0, ops.zeros_like(variance), ops.sqrt(above))


def std_mean(x, axis=None, ddof=1, keepdims=False):
    axis = tuple(axis) if isinstance(axis, list) else axis
    return standard_deviation(x, axis, ddof, keepdims), x.mean(axis, keepdims)


def var_mean(x, axis=None, ddof=1, keepdims=False):
    """Their gradients are numbers where all elements are equal; those of MindSpore's are NaN."""
    axis = tuple(axis) if isinstance(axis, list) else axis
    return x.var(axis, ddof=ddof, keepdims=keepdims), x.mean(axis, keepdims)


def finite(x, nan=None, posinf=None, neginf=None):
    """Numbers for what is none, in double precision too."""
    most = float(np.finfo(np.float64).max)
    given = (0.0 if nan is None else nan, most if posinf is None else posinf, -most if neginf is None else neginf)
    none, above, below = (ms.Tensor(number, x.dtype) for number in given)
    x = ops.where(ops.isnan(x), none, x)
    return ops.where(x == -math.inf, below, ops.where(x == math.inf, above, x))


def signbit(x):
    """Where the sign is set, that of -0.0 too."""
    bits = {ms.float16: ms.int16, ms.bfloat16: ms.int16, ms.float32: ms.int32, ms.float64: ms.int64}
    return (x.view(bits[x.dtype]) if x.dtype in bits else x) < 0


def angle(x):
    """The angle of complex numbers; of real ones, half a turn where they are negative."""
    if x.is_complex():
        return ops.angle(x)
    return ops.where(x < 0, ops.full_like(x, math.pi), x - x)


def quantile(x, q, dim=None, keepdim=False, interpolation="linear"):
    rows = x.reshape(-1) if dim is None else ops.movedim(x, dim, -1)
    count = ops.full(rows.shape[:-1] + (1,), rows.shape[-1], dtype=x.dtype)
    found = quantiles_of(rows, q, count, interpolation)
    missing = ops.isnan(rows).any(-1)
    return shaped_quantiles(ops.where(missing, ops.full_like(found, math.nan), found), x, q, dim, keepdim)


def nanquantile(x, q, dim=None, keepdim=False, interpolation="linear"):
    rows = x.reshape(-1) if dim is None else ops.movedim(x, dim, -1)
    missing = ops.isnan(rows)
    count = ops.logical_not(missing).astype(x.dtype).sum(-1, keepdims=True)
    filled = ops.where(missing, ops.full_like(rows, math.inf), rows)
    found = quantiles_of(filled, q, ops.maximum(count, ops.ones_like(count)), interpolation)
    found = ops.where(count[..., 0] == 0, ops.full_like(found, math.nan), found)
    return shaped_quantiles(found, x, q, dim, keepdim)


def quantiles_of(rows, q, count, interpolation):
    """The quantiles of the first `count` elements of every sorted row, the levels in front."""
    ordered = ops.sort(rows, axis=-1)[0]
    levels = q.reshape(-1) if isinstance(q, ms.Tensor) else ms.Tensor([q], rows.dtype)
    place = levels * (count - 1)
    if interpolation in ("lower", "higher", "nearest"):
        rounding = {"lower": ops.floor, "higher": ops.ceil, "nearest": ops.round}[interpolation]
        found = ops.gather_elements(ordered, -1, rounding(place).astype(ms.int64))
    else:
        low = ops.gather_elements(ordered, -1, ops.floor(place).astype(ms.int64))
        high = ops.gather_elements(ordered, -1, ops.ceil(place).astype(ms.int64))
        share = 0.5 if interpolation == "midpoint" else place - ops.floor(place)
        gap = high - low
        found = low + ops.where(ops.isnan(gap), ops.zeros_like(gap), gap) * share  # between infinities is none
    return ops.movedim(found, -1, 0)


def shaped_quantiles(found, x, q, dim, keepdim):
    if keepdim and dim is None:
        found = found.reshape((-1,) + (1,) * x.ndim)
    elif keepdim:
        found = found.unsqueeze(dim % x.ndim + 1)
    return found if isinstance(q, ms.Tensor) and q.ndim else found[0]


def mode(x, dim=-1, keepdim=False):
    """The smallest of the most frequent elements, and where it stands last."""
    if x.ndim == 0:
        return x, ops.zeros((), dtype=ms.int64)

    def last_place(row):
        values, counts = np.unique(row, return_counts=True)
        return np.flatnonzero(row == values[counts.argmax()])[-1]

    index = ms.Tensor(np.expand_dims(np.apply_along_axis(last_place, dim, x.asnumpy()), dim))
    found = ops.gather_elements(x, dim, index), index
    return found if keepdim else tuple(part.squeeze(dim) for part in found)


def histogram(x, bins, range=None, weight=None, density=False):
    """Every bin holds its lower edge, the last one both; the edges are those of torch.linspace."""
    values = x.asnumpy().reshape(-1)
    if isinstance(bins, ms.Tensor):
        edges = bins.asnumpy()
    else:
        low, high = range or ((values.min(), values.max()) if values.size else (0, 1))
        low, high = np.array([low, high] if low != high else [low - 0.5, high + 0.5], values.dtype)
        step, places = (high - low) / values.dtype.type(bins), np.arange(bins + 1, dtype=values.dtype)
        edges = np.where(places < (bins + 1) // 2, low + step * places, high - step * (bins - places))
    inside = (values >= edges[0]) & (values <= edges[-1])
    places = np.minimum(np.searchsorted(edges, values[inside], "right") - 1, len(edges) - 2)
    weight = None if weight is None else weight.asnumpy().reshape(-1)[inside]
    counts = np.bincount(places, weight, len(edges) - 1).astype(values.dtype)
    counts = counts / counts.sum() / np.diff(edges) if density else counts
    return ms.Tensor(counts, x.dtype), ms.Tensor(edges, x.dtype)


def gradient(x, spacing=1, dim=None, edge_order=1):
    """The slopes along every dimension, from the places of the elements or the steps between them."""
    spacing = 1 if spacing is None else spacing
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    spacings = spacing if isinstance(spacing, (tuple, list)) else (spacing,) * len(dims)
    return tuple(slope_along(x, one, axis, edge_order) for one, axis in zip(spacings, dims))


def slope_along(x, spacing, axis, edge_order):
    x = ops.movedim(x, axis, -1)
    if isinstance(spacing, ms.Tensor) and spacing.ndim:
        steps = spacing[1:] - spacing[:-1]
    else:
        steps = ops.ones(x.shape[-1] - 1, dtype=x.dtype) * spacing
    slopes = (x[..., 1:] - x[..., :-1]) / steps
    before, after = steps[:-1], steps[1:]
    inner = (slopes[..., :-1] * after + slopes[..., 1:] * before) / (before + after)
    first, last = slopes[..., :1], slopes[..., -1:]
    if edge_order == 2:
        first = first - (slopes[..., 1:2] - first) * steps[0] / (steps[0] + steps[1])
        last = last + (last - slopes[..., -2:-1]) * steps[-1] / (steps[-1] + steps[-2])
    return ops.movedim(ops.cat((first, inner, last), -1), -1, axis)


def drawn_poisson(rate):
    return ms.Tensor(np.random.poisson(rate.asnumpy()), rate.dtype)


def drawn_binomial(count, prob):
    return ms.Tensor(np.random.binomial(count.asnumpy().astype(np.int64), prob.asnumpy()), prob.dtype)


def diff(x, n, dim=-1, prepend=None, append=None):
    """Differences of differences, n times."""
    parts = [part for part in (prepend, x, append) if part is not None]
    x = ops.cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        x = ops.diff(x, axis=dim)
    return x


def histc(x, bins=100, low=0, high=0):
    if low == high:
        low, high = x.min(), x.max()
        if low == high:
            low, high = low - 1, high + 1
    inside = ops.logical_and(x >= low, x <= high)
    places = ((x - low) * bins / (high - low)).astype(ms.int32).clip(0, bins - 1)
    return ops.unsorted_segment_sum(inside.astype(x.dtype).reshape(-1), places.reshape(-1), bins)


def histogramdd(x, bins, range=None, weight=None, density=False):
    if range is not None:
        range = list(zip(range[::2], range[1::2]))
    if isinstance(bins, (list, tuple)):
        bins = [edges.asnumpy() if isinstance(edges, ms.Tensor) else edges for edges in bins]
    weight = None if weight is None else weight.asnumpy()
    counts, edges = np.histogramdd(x.asnumpy().reshape(-1, x.shape[-1]), bins, range, density, weight)
    return ms.Tensor(counts, x.dtype), tuple(ms.Tensor(part, x.dtype) for part in edges)


def segment_reduce(x, reduce, lengths=None, offsets=None, initial=None):
    """One result for each of the stretches that the rows are cut into."""
    ends = np.cumsum(lengths.asnumpy()).tolist() if offsets is None else offsets.asnumpy().tolist()[1:]
    empty = {"sum": 0, "mean": math.nan, "prod": 1, "max": -math.inf, "min": math.inf}[reduce]
    results = []
    for begin, end in zip([0, *ends], ends):
        part = x[begin:end]
        if initial is not None:
            part = ops.cat([part, ops.full((1, *x.shape[1:]), initial, dtype=x.dtype)]) if reduce != "mean" else part
        if part.shape[0] == 0:
            results.append(ops.full(x.shape[1:], empty if initial is None else initial, dtype=x.dtype))
            continue
        one = {"sum": ops.sum, "mean": ops.mean, "prod": ops.prod, "max": ops.amax, "min": ops.amin}[reduce]
        found = one(part, 0)
        if reduce == "mean" and initial is not None:
            found = found + initial / part.shape[0]
        results.append(found)
    return ops.stack(results)
class BFloat16Info:
    """What NumPy knows of types of floats, for the one that it has not."""

    bits, eps, resolution, dtype = 16, 2.0**-7, 0.01, "bfloat16"
    max, min = (2 - 2.0**-7) * 2.0**127, -(2 - 2.0**-7) * 2.0**127
    tiny = smallest_normal = 2.0**-126


def sum_of_picked(x):
    """The sum of all elements, 0 where a mask chose none: there MindSpore's is whatever the memory holds."""
    return (x if x.size else ops.zeros(1, dtype=x.dtype)).sum()


def loss_of_picked(loss, input, target):
    """The loss of what a mask chose; where it chose nothing, MindSpore's sum is whatever the memory holds."""
    summed = loss.reduce and not loss.average
    return loss(input, target) if input.size or not summed else ops.zeros((), dtype=input.dtype)
