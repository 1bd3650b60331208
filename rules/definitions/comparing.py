"""Comparisons that raise where they fail."""

import mindspore as ms
import numpy as np


def assert_close(actual, expected, rtol=None, atol=None, equal_nan=False, msg=None):
    if isinstance(expected, dict):
        assert actual.keys() == expected.keys(), msg
        actual, expected = list(actual.values()), list(expected.values())
    if isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), msg
        for one, other in zip(actual, expected):
            assert_close(one, other, rtol, atol, equal_nan, msg)
        return
    relative = {"float16": 1e-3, "float32": 1.3e-6, "float64": 1e-7, "complex64": 1.3e-6, "complex128": 1e-7}
    absolute = {"float16": 1e-5, "float32": 1e-5, "float64": 1e-7, "complex64": 1e-5, "complex128": 1e-7}
    actual, expected = (x.asnumpy() if isinstance(x, ms.Tensor) else np.asarray(x) for x in (actual, expected))
    assert actual.shape == expected.shape, msg
    rtol = relative.get(str(expected.dtype), 0) if rtol is None else rtol
    atol = absolute.get(str(expected.dtype), 0) if atol is None else atol
    np.testing.assert_allclose(actual, expected, rtol, atol, equal_nan, msg or "")


def equal(x, other):
    return x.shape == other.shape and bool((x == other).all())


def asserted(condition, message):
    assert condition, message


def checked(condition, message=None):
    if not condition:
        raise RuntimeError(message() if message is not None else "Expected cond to be True, but got False")


def made_tensor(shape, dtype, low=None, high=None):
    """Evenly drawn numbers between two, whole ones for types of whole numbers."""
    whole = dtype not in (ms.float16, ms.bfloat16, ms.float32, ms.float64)
    if dtype == ms.bool_:
        low, high = low or 0, high or 2
    low = (0 if dtype == ms.uint8 else -9) if low is None else low
    high = (10 if whole else 9) if high is None else high
    drawn = low + (high - low) * np.random.rand(*shape)
    return ms.Tensor(np.floor(drawn) if whole else drawn, dtype)
