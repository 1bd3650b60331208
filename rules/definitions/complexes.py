"""Complex arithmetic in parts: MindSpore has no gradient of a complex product, and a wrong one of a quotient."""

import mindspore as ms
from mindspore import ops


def complex_parts(x):
    """The real and the imaginary part; what is real has none."""
    both = isinstance(x, ms.Tensor) and x.dtype in (ms.complex64, ms.complex128)
    return (ops.real(x), ops.imag(x)) if both else (x, 0)


def complex_product(a, b):
    (a_real, a_imag), (b_real, b_imag) = complex_parts(a), complex_parts(b)
    return ops.Complex()(a_real * b_real - a_imag * b_imag, a_real * b_imag + a_imag * b_real)


def complex_quotient(a, b):
    (a_real, a_imag), (b_real, b_imag) = complex_parts(a), complex_parts(b)
    size = b_real * b_real + b_imag * b_imag
    return ops.Complex()((a_real * b_real + a_imag * b_imag) / size, (a_imag * b_real - a_real * b_imag) / size)


def complex_power(x, exponent):
    if exponent != int(exponent) or exponent == 0:
        return ops.exp(exponent * ops.log(x))
    made = x
    for _ in range(abs(int(exponent)) - 1):
        made = complex_product(made, x)
    return made if exponent > 0 else complex_quotient(1, made)


def complex_mean(x, dim=None, keepdim=False):
    return ops.Complex()(ops.mean(ops.real(x), dim, keepdim), ops.mean(ops.imag(x), dim, keepdim))


def polar(abs, angle):
    return ops.Complex()(abs * ops.cos(angle), abs * ops.sin(angle))


def absolute(x):
    """The lengths of complex numbers are real."""
    made = ops.abs(x)
    return ops.real(made) if made.dtype in (ms.complex64, ms.complex128) else made
