"""Transforms of functions whose arguments and results are dicts or tuples of tensors, which MindSpore's do not take."""

import mindspore as ms
from mindspore import ops


def leaves_of(tree):
    """The tensors in a dict, list or tuple."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves_of(value)]
    if isinstance(tree, (list, tuple)):
        return [leaf for value in tree for leaf in leaves_of(value)]
    return [tree]


def rebuilt(tree, leaves):
    """The same dict, list or tuple of the next tensors of an iterator."""
    if isinstance(tree, dict):
        return {key: rebuilt(value, leaves) for key, value in tree.items()}
    if isinstance(tree, (list, tuple)):
        return type(tree)(rebuilt(value, leaves) for value in tree)
    return next(leaves)


def over_samples(function, in_axes=0, out_axes=0):
    """The function of one sample after the other, which need not be compiled."""

    def mapped(*args):
        axes = in_axes if isinstance(in_axes, (list, tuple)) else (in_axes,) * len(args)
        pairs = [(leaf, axis) for arg, axis in zip(args, axes) if axis is not None for leaf in leaves_of(arg)]
        size = pairs[0][0].shape[pairs[0][1]]
        results = []
        for place in range(size):
            picked = [
                arg if axis is None else rebuilt(arg, iter([ops.movedim(t, axis, 0)[place] for t in leaves_of(arg)]))
                for arg, axis in zip(args, axes)
            ]
            results.append(function(*picked))
        columns = zip(*[leaves_of(result) for result in results])
        return rebuilt(results[0], iter([ops.stack(list(column), out_axes) for column in columns]))

    return mapped


def gradient_of_dicts(function, argnums=0, valued=False):
    """The gradient with respect to arguments that may be dicts, in their form."""
    places = argnums if isinstance(argnums, tuple) else (argnums,)

    def gradient(*args):
        leaves = [ops.stop_gradient(leaf) for place in places for leaf in leaves_of(args[place])]

        def of_leaves(*tensors):
            given, left = list(args), iter(tensors)
            for place in places:
                given[place] = rebuilt(args[place], left)
            return function(*given)

        value, found = ms.value_and_grad(of_leaves, tuple(range(len(leaves))))(*leaves)
        left = iter(found if isinstance(found, tuple) else (found,))
        result = tuple(rebuilt(args[place], left) for place in places)
        result = result if isinstance(argnums, tuple) else result[0]
        return (result, value) if valued else result

    return gradient


def jacobian_of_dicts(function, argnums=0):
    """The Jacobian with respect to an argument that may be a dict, in its form: a gradient for each number."""

    def jacobian(*args):
        value = function(*args)
        rows = []
        for place in range(value.size):
            row = gradient_of_dicts(lambda *given, place=place: function(*given).reshape(-1)[place], argnums)(*args)
            rows.append(leaves_of(row))
        columns = [ops.stack(list(column)) for column in zip(*rows)]
        return rebuilt(args[argnums], iter([c.reshape(value.shape + c.shape[1:]) for c in columns]))

    return jacobian


def jacobian_of(function):
    """The derivatives of a function's values at a tensor, row by row."""

    def number(x, place):
        return function(x).reshape(-1)[place]

    row = ms.grad(number)

    def jacobian(x):
        values = function(x)
        return ops.stack([row(x, place) for place in range(values.size)]).reshape(values.shape + x.shape)

    return jacobian


def hessian_product(function, x, v):
    """A function's value at a tensor, and its second derivative there along v; compiled, as it is right there alone."""

    def value(x):  # compiled code does not know the defaults of what it is given
        return function(x)

    def along(x, v):
        return (ms.grad(value)(x) * v).sum()

    return function(x), ms.jit(ms.grad(along))(x, v)


def hessian_of(function):
    """The second derivatives of a function at a tensor, row by row; compiled, as they are right there alone."""

    def value(x):  # compiled code does not know the defaults of what it is given
        return function(x)

    def along(x, v):
        return (ms.grad(value)(x) * v).sum()

    @ms.jit
    def row(x, v):
        return ms.grad(along)(x, v)

    def hessian(x):
        basis = ops.eye(x.size, x.size, x.dtype).reshape((x.size, *x.shape))
        return ops.stack([row(x, v) for v in basis]).reshape(x.shape + x.shape)

    return hessian
