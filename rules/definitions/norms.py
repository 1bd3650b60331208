"""Normalisation that MindSpore lacks, or has without the settings that were asked for."""

import mindspore as ms
from mindspore import nn, ops


class RMSNorm(nn.Cell):
    def __init__(self, normalized_shape, eps=None, elementwise_affine=True, device=None, dtype=None):
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.gamma = ms.Parameter(ops.ones(shape, dtype or ms.float32)) if elementwise_affine else None

    def construct(self, x):
        return rms_norm(x, self.normalized_shape, self.gamma, self.eps)


def rms_norm(x, normalized_shape, weight=None, eps=None):
    axes = tuple(range(-len(normalized_shape), 0))
    x = x * ops.rsqrt(ops.square(x).mean(axes, keep_dims=True) + (1.1920929e-07 if eps is None else eps))
    return x if weight is None else x * weight


class LayerNorm(nn.LayerNorm):
    def __init__(self, normalized_shape, eps=1e-05, elementwise_affine=True, bias=True, device=None, dtype=None):
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        super().__init__(shape, -len(shape), -len(shape), epsilon=eps, dtype=dtype or ms.float32)
        if not elementwise_affine:
            self.gamma = None
        if not elementwise_affine or not bias:
            self.beta = None

    def construct(self, x):
        return layer_norm(x, self.normalized_shape, self.gamma, self.beta, self.epsilon)


def layer_norm(x, normalized_shape, weight=None, bias=None, eps=1e-05):
    axis = x.ndim - len(normalized_shape)
    weight = ops.ones(tuple(normalized_shape)) if weight is None else weight
    bias = ops.zeros(tuple(normalized_shape)) if bias is None else bias
    return ops.LayerNorm(axis, axis, eps)(x, weight, bias)[0]


class BatchNorm1d(nn.BatchNorm1d):
    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        own = None if track_running_stats else True
        super().__init__(num_features, eps, 1 - momentum, affine, use_batch_statistics=own, dtype=dtype or ms.float32)
        self.num_batches_tracked = ms.Tensor(0) if track_running_stats else None  # a forward of one's own counts


class BatchNorm2d(nn.BatchNorm2d):
    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        own = None if track_running_stats else True
        super().__init__(num_features, eps, 1 - momentum, affine, use_batch_statistics=own, dtype=dtype or ms.float32)
        self.num_batches_tracked = ms.Tensor(0) if track_running_stats else None  # a forward of one's own counts


class BatchNorm3d(nn.BatchNorm3d):
    def __init__(
        self, num_features, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True, device=None, dtype=None
    ):
        own = None if track_running_stats else True
        super().__init__(num_features, eps, 1 - momentum, affine, use_batch_statistics=own, dtype=dtype or ms.float32)
        self.num_batches_tracked = ms.Tensor(0) if track_running_stats else None  # a forward of one's own counts


def keep_running(kept, value, momentum):
    value = ops.stop_gradient(kept * (1 - momentum) + momentum * value)
    if isinstance(kept, ms.Parameter):
        ops.assign(kept, value)
    else:
        kept[()] = value


def batch_norm(x, running_mean, running_var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-05):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if training:
        axes = (0, *range(2, x.ndim))
        mean, var = x.mean(axes), ops.square(x - x.mean(axes, keep_dims=True)).mean(axes)
        if running_mean is not None:
            count = x.size // x.shape[1]
            keep_running(running_mean, mean, momentum)
            keep_running(running_var, var * count / (count - 1), momentum)
    else:
        mean, var = running_mean, running_var
    x = (x - mean.reshape(shape)) / ops.sqrt(var.reshape(shape) + eps)
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


def instance_norm(x, running_mean=None, running_var=None, weight=None, bias=None, use_input_stats=True, eps=1e-05):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    if use_input_stats:
        axes = tuple(range(2, x.ndim))
        mean = x.mean(axes, keep_dims=True)
        var = ops.square(x - mean).mean(axes, keep_dims=True)
    else:
        mean, var = running_mean.reshape(shape), running_var.reshape(shape)
    x = (x - mean) / ops.sqrt(var + eps)
    x = x if weight is None else x * weight.reshape(shape)
    return x if bias is None else x + bias.reshape(shape)


class InstanceNorm(nn.Cell):
    def __init__(self, num_features, eps=1e-05, momentum=0.1, affine=False):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.gamma = ms.Parameter(ops.ones(num_features)) if affine else None
        self.beta = ms.Parameter(ops.zeros(num_features)) if affine else None
        self.running_mean = ms.Parameter(ops.zeros(num_features), requires_grad=False)
        self.running_var = ms.Parameter(ops.ones(num_features), requires_grad=False)

    def construct(self, x):
        if self.training:
            axes = tuple(range(2, x.ndim))
            fixed = ops.stop_gradient(x)
            mean, count = fixed.mean(axes), x[0, 0].size
            var = ops.square(fixed - fixed.mean(axes, keep_dims=True)).sum(axes) / (count - 1)
            ops.assign(self.running_mean, self.running_mean * (1 - self.momentum) + self.momentum * mean.mean(0))
            ops.assign(self.running_var, self.running_var * (1 - self.momentum) + self.momentum * var.mean(0))
        return instance_norm(x, self.running_mean, self.running_var, self.gamma, self.beta, self.training, self.eps)


class CumulativeBatchNorm(nn.Cell):
    def __init__(self, num_features, eps=1e-05, affine=True):
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.batches = 0
        self.gamma = ms.Parameter(ops.ones(num_features)) if affine else None
        self.beta = ms.Parameter(ops.zeros(num_features)) if affine else None
        self.moving_mean = ms.Parameter(ops.zeros(num_features), requires_grad=False)
        self.moving_variance = ms.Parameter(ops.ones(num_features), requires_grad=False)

    def construct(self, x):
        if not self.training:
            return batch_norm(x, self.moving_mean, self.moving_variance, self.gamma, self.beta, eps=self.eps)
        self.batches += 1
        axes = (0, *range(2, x.ndim))
        fixed = ops.stop_gradient(x)
        count = x.size // self.num_features
        var = ops.square(fixed - fixed.mean(axes, keep_dims=True)).sum(axes) / (count - 1)
        ops.assign(self.moving_mean, self.moving_mean + (fixed.mean(axes) - self.moving_mean) / self.batches)
        ops.assign(self.moving_variance, self.moving_variance + (var - self.moving_variance) / self.batches)
        return batch_norm(x, None, None, self.gamma, self.beta, training=True, eps=self.eps)


class CumulativeBatchNorm3d(CumulativeBatchNorm):
    @property
    def bn2d(self):
        """Where MindSpore's nn.BatchNorm3d has its parameters."""
        return self


class LocalResponseNorm(nn.Cell):
    def __init__(self, size, alpha=0.0001, beta=0.75, k=1.0):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def construct(self, x):
        return local_response_norm(x, self.size, self.alpha, self.beta, self.k)


def local_response_norm(x, size, alpha=0.0001, beta=0.75, k=1.0):
    square = x * x
    before = ops.zeros((x.shape[0], size // 2, *x.shape[2:]), dtype=x.dtype)
    after = ops.zeros((x.shape[0], (size - 1) // 2, *x.shape[2:]), dtype=x.dtype)
    padded = ops.cat((before, square, after), axis=1)
    total = sum(padded[:, i : i + x.shape[1]] for i in range(size))
    return x / ops.pow(k + alpha * total / size, beta)


class CrossMapLRN2d(nn.Cell):
    def __init__(self, size, alpha=0.0001, beta=0.75, k=1):
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def construct(self, x):
        side = (self.size - 1) // 2
        edge = ops.zeros((x.shape[0], side, *x.shape[2:]), dtype=x.dtype)
        padded = ops.cat((edge, x * x, edge), axis=1)
        total = sum(padded[:, i : i + x.shape[1]] for i in range(2 * side + 1))
        if x.shape[1] > side + 1:  # the first channel never leaves the window of the original
            total = ops.cat((total[:, : side + 1], total[:, side + 1 :] + x[:, :1] * x[:, :1]), axis=1)
        return x * ops.pow(self.k + self.alpha * total / self.size, -self.beta)


def set_momentum(layer, momentum):
    layer = getattr(layer, "bn2d", layer)
    layer.momentum = momentum
    layer.bn_train.add_prim_attr("momentum", float(momentum))


def set_eps(layer, eps):
    layer = getattr(layer, "bn2d", layer)
    layer.eps = eps
    layer.bn_train.add_prim_attr("epsilon", float(eps))
    layer.bn_infer.add_prim_attr("epsilon", float(eps))
