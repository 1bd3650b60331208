"""Complex arithmetic in parts: MindSpore has no gradient of a product of complex tensors, and a wrong one of a quotient."""

import mindspore as ms
from mindspore import ops


def complex_parts(x):
    """The real and the imaginary part; a real tensor has none."""
    whole = isinstance(x, ms.Tensor) and x.dtype not in (ms.complex64, ms.complex128)
    return (x, 0) if whole else (ops.real(x), ops.imag(x))


def complex_product(a, b):
    (a_real, a_imag), (b_real, b_imag) = complex_parts(a), complex_parts(b)
    return ops.Complex()(a_real * b_real - a_imag * b_imag, a_real * b_imag + a_imag * b_real)


def complex_quotient(a, b):
    (a_real, a_imag), (b_real, b_imag) = complex_parts(a), complex_parts(b)
    size = b_real * b_real + b_imag * b_imag
    return ops.Complex()((a_real * b_real + a_imag * b_imag) / size, (a_imag * b_real - a_real * b_imag) / size)
