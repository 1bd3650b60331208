"""What layers compute inside, as functions of their weights."""

import mindspore as ms
from mindspore import ops


def lstm_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    gates = ops.dense(x, w_ih, b_ih) + ops.dense(hx[0], w_hh, b_hh)
    enter, forget, new, leave = gates.chunk(4, -1)
    c = ops.sigmoid(forget) * hx[1] + ops.sigmoid(enter) * ops.tanh(new)
    return ops.sigmoid(leave) * ops.tanh(c), c


def gru_cell(x, hx, w_ih, w_hh, b_ih=None, b_hh=None):
    fresh, kept = ops.dense(x, w_ih, b_ih).chunk(3, -1), ops.dense(hx, w_hh, b_hh).chunk(3, -1)
    reset, update = ops.sigmoid(fresh[0] + kept[0]), ops.sigmoid(fresh[1] + kept[1])
    new = ops.tanh(fresh[2] + reset * kept[2])
    return new + update * (hx - new)


def feature_dropout(x, p, train):
    """Whole channels become zero."""
    if not train or p == 0:
        return x
    if p == 1:
        return x * 0.0
    return x * ops.dropout(ops.ones((*x.shape[:2], *(1,) * (x.ndim - 2)), x.dtype), p=p)


def native_dropout(x, p, train):
    kept = ops.rand(x.shape) >= p
    return x * kept.astype(x.dtype) * (0.0 if p == 1 else 1 / (1 - p)), kept


def standardised(x, axes, eps):
    """Without mean, of variance one; the mean and the reciprocal deviation."""
    mean = x.mean(axes, keep_dims=True)
    scale = ops.rsqrt(ops.square(x - mean).mean(axes, keep_dims=True) + eps)
    return (x - mean) * scale, mean, scale


def native_layer_norm(x, normalized_shape, weight, bias, eps):
    x, mean, scale = standardised(x, tuple(range(-len(normalized_shape), 0)), eps)
    x = x if weight is None else x * weight
    return x if bias is None else x + bias, mean, scale


def native_group_norm(x, weight, bias, samples, channels, size, groups, eps):
    parts, mean, scale = standardised(x.reshape(samples, groups, channels // groups * size), -1, eps)
    out, shape = parts.reshape(x.shape), (1, channels) + (1,) * (x.ndim - 2)
    out = out if weight is None else out * weight.reshape(shape)
    out = out if bias is None else out + bias.reshape(shape)
    return out, mean.squeeze(-1), scale.squeeze(-1)


def native_batch_norm(x, weight, bias, running_mean, running_var, momentum, eps):
    axes, shape, count = (0, *range(2, x.ndim)), (1, -1) + (1,) * (x.ndim - 2), x.size // x.shape[1]
    out, mean, scale = standardised(x, axes, eps)
    mean, scale = mean.reshape(-1), scale.reshape(-1)
    if running_mean is not None:
        keep_running(running_mean, mean, momentum)
        keep_running(running_var, (1 / ops.square(scale) - eps) * count / (count - 1), momentum)
    out = out if weight is None else out * weight.reshape(shape)
    return out if bias is None else out + bias.reshape(shape), mean, scale


def norm_except_dim(v, dim):
    """The lengths along all dimensions but one; -1: of the whole."""
    if dim == -1:
        return ops.sqrt(ops.square(v).sum())
    return ops.sqrt(ops.square(v).sum(tuple(i for i in range(v.ndim) if i != dim), keepdims=True))


def select_copy(x, dim, index):
    return x[(slice(None),) * (dim % x.ndim) + (int(index),)].copy()


def slice_copy(x, dim, start=None, end=None, step=1):
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)].copy()


def fake_quantize_per_channel(x, scale, zero_point, axis, low, high):
    shape = [-1 if i == axis % x.ndim else 1 for i in range(x.ndim)]
    return fake_quantize(x, scale.reshape(shape), zero_point.astype(ms.float32).reshape(shape), low, high)


def causal_lower_right(rows, columns):
    return ops.ones((rows, columns), ms.bool_).tril(columns - rows)
