"""Elements that are put into a tensor by their places."""

from mindspore import ops


def scatter(x, dim, index, src):
    """As many elements of the source as there are indices."""
    return ops.scatter(x, dim, index, src[tuple(slice(n) for n in index.shape)])


def scatter_add(x, dim, index, src):
    places = list(ops.meshgrid(*(ops.arange(n, dtype=index.dtype) for n in index.shape), indexing="ij"))
    places[dim] = index
    return ops.tensor_scatter_add(x, ops.stack(places, -1), src[tuple(slice(n) for n in index.shape)])
