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


def take_along_dim(x, indices, dim):
    """Both are broadcast in every dimension but the one that is looked into."""
    common = [b if a == 1 else a for a, b in zip(x.shape, indices.shape)]
    at = dim % x.ndim
    of = [tuple(t.shape[at] if i == at else n for i, n in enumerate(common)) for t in (x, indices)]
    return ops.gather_elements(x.broadcast_to(of[0]), dim, indices.broadcast_to(of[1]))


def item_at(x, *places):
    """`x[i, j]`; of numbers one after the other, since MindSpore has no gradient of a single element."""
    if not all(type(place) is int or getattr(place, "ndim", None) == 0 for place in places):
        return x[places]
    for place in places:
        x = x[place if isinstance(place, ms.Tensor) else int(place)]
    return x
