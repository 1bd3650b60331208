"""Sums of products of any number of tensors."""

import numpy as np
from mindspore import ops


def fmod(x, y):
    """MindSpore's loses what is left of multiples that are not whole, and the slope of its Mod is that of a floor."""
    rest, whole = ops.Mod()(x, ops.stop_gradient(y)), ops.div(x, y, rounding_mode="trunc")
    return rest - (y - ops.stop_gradient(y)) * ops.stop_gradient(whole).astype(rest.dtype)


def cosine_similarity(x1, x2, dim=1, eps=1e-08):
    """Norms below eps count as eps; MindSpore bounds the product of both, and gives zero for small vectors."""
    shape, units = np.broadcast_shapes(x1.shape, x2.shape), []
    for x in (x1.broadcast_to(shape), x2.broadcast_to(shape)):
        norm = euclidean_norm(x, dim, True)
        units.append(x / (norm + ops.stop_gradient(ops.clamp(norm, min=eps) - norm)))
    return (units[0] * units[1]).sum(dim)


def einsum(equation, *operands):
    """One operand after the other as a product of matrices."""
    operands = list(operands[0]) if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else list(operands)
    terms, result = letters_of(equation, operands)
    done, term = repeated_once(operands[0], terms[0])
    for i in range(1, len(operands)):
        later = set(result).union(*terms[i + 1 :])
        done, term = product_of(done, term, *repeated_once(operands[i], terms[i]), later)
    alone = [axis for axis, letter in enumerate(term) if letter not in result]
    done = done.sum(tuple(alone)) if alone else done
    term = "".join(letter for letter in term if letter in result)
    return done.permute(tuple(term.index(letter) for letter in result)) if term != result else done


def letters_of(equation, operands):
    """The letters of every operand and of the result; an ellipsis gets letters of its own."""
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    counts = [x.ndim - len(term) + 3 if "..." in term else 0 for term, x in zip(terms, operands)]
    spare = "".join(c for c in map(chr, range(65, 123)) if c.isalpha() and c not in equation)[: max(counts)]
    if not arrow:
        once = [c for c in sorted(set(left) - set(",.")) if left.count(c) == 1]
        result = "..." * ("..." in left) + "".join(once)
    terms = [term.replace("...", spare[len(spare) - count :]) for term, count in zip(terms, counts)]
    return terms, result.replace("...", spare)


def repeated_once(x, term):
    """The diagonal of dimensions that have the same letter."""
    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first, second = term.index(letter), term.rindex(letter)
            x = ops.diagonal(x, 0, first, second)
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term


def product_of(x, a, y, b, later):
    """Two operands as matrices, in batches of the letters that both have and that are needed later."""
    for _ in range(2):  # what only one of them has, and nothing later needs, is summed before
        alone = [axis for axis, letter in enumerate(a) if letter not in b and letter not in later]
        x, a = x.sum(tuple(alone)) if alone else x, "".join(c for c in a if c in b or c in later)
        x, a, y, b = y, b, x, a
    batch = [c for c in a if c in b and c in later]
    inner = [c for c in a if c in b and c not in later]
    rows, columns = [c for c in a if c not in b], [c for c in b if c not in a]
    left, right = dict(zip(a, x.shape)), dict(zip(b, y.shape))
    x = x.permute(tuple(a.index(c) for c in [*batch, *rows, *inner])) if len(a) > 1 else x
    y = y.permute(tuple(b.index(c) for c in [*batch, *inner, *columns])) if len(b) > 1 else y
    depth = 1
    for c in inner:
        depth *= left[c]
    heads = [[sizes[c] for c in batch] for sizes in (left, right)]
    out = ops.matmul(x.reshape((*heads[0], -1, depth)), y.reshape((*heads[1], depth, -1)))
    sizes = [max(left[c], right[c]) for c in batch] + [left[c] for c in rows] + [right[c] for c in columns]
    return out.reshape(tuple(sizes)), "".join(batch + rows + columns)
def batched_cdist(x1, x2, p=2.0):
    """The distances of rows in any number of batches, where MindSpore takes one."""
    batch = np.broadcast_shapes(x1.shape[:-2], x2.shape[:-2])
    rows, others = (x.broadcast_to((*batch, *x.shape[-2:])).reshape(-1, *x.shape[-2:]) for x in (x1, x2))
    return ops.cdist(rows, others, p).reshape(*batch, x1.shape[-2], x2.shape[-2])


def cumprod(x, dim, dtype=None):
    """Products whose gradient holds where an element is zero; that of MindSpore's divides by it."""
    x, size, step = x if dtype is None else x.astype(dtype), x.shape[dim], 1
    while step < size:
        rest = size - step
        x = ops.cat((ops.narrow(x, dim, 0, step), ops.narrow(x, dim, step, rest) * ops.narrow(x, dim, 0, rest)), dim)
        step *= 2
    return x
