"""Elements that are put into a tensor by their places."""

import mindspore as ms
from mindspore import ops


def scatter(x, dim, index, src):
    """As many elements of the source as there are indices, or a number for all of them."""
    src = src[tuple(slice(n) for n in index.shape)] if isinstance(src, ms.Tensor) else float(src)
    return ops.scatter(x, dim, index, src)


def scatter_add(x, dim, index, src):
    places = list(ops.meshgrid(*(ops.arange(n, dtype=index.dtype) for n in index.shape), indexing="ij"))
    places[dim] = index
    return ops.tensor_scatter_add(x, ops.stack(places, -1), src[tuple(slice(n) for n in index.shape)])
