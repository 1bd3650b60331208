"""MindSpore's elementary functions in double precision: what its own kernels lose is then not lost.

Some kernels of a device are far coarser than single precision (on the CPU `tanh` is off by 1e-4 where it saturates,
`exp` by 80 units in the last place, measured against float64). A program that amplifies such an error trains apart
from torch though its translation is right. The rest of the program stays in single precision.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import mindspore as ms
from mindspore import mint, ops

FUNCTIONS = (
    *("exp", "expm1", "log", "log1p", "log2", "log10", "logsumexp", "tanh", "sigmoid", "erf", "erfc"),
    *("softmax", "log_softmax", "softmin", "softplus", "logsigmoid", "elu", "silu", "gelu", "cumsum"),
)
PRIMITIVES = ("Exp", "Expm1", "Log", "Log1p", "Tanh", "Sigmoid", "Erf", "Erfc", "Softmax", "LogSoftmax", "Elu", "GeLU")


def log_softmax(logits: Any, axis: int) -> Any:
    """`ops.log_softmax`, whose kernel computes in single precision whatever it is given."""
    return logits - ops.logsumexp(logits, axis, True)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    """`ops.softplus`, likewise."""
    low = ops.minimum(x * beta, ops.full_like(x, threshold))
    return ops.where(x * beta > threshold, x, ops.log1p(ops.exp(low)) / beta)


def compute_finely() -> set[str]:
    """Patch the functions of this process; the set fills with the names of those that are called in float32."""
    used: set[str] = set()
    instead: dict[str, Callable[..., Any]] = {
        "log_softmax": lambda _, logits, axis=-1, **rest: log_softmax(logits, rest.get("dim", axis)),
        "softplus": lambda _, *args, **kwargs: softplus(*args, **kwargs),
        "LogSoftmax": lambda _, primitive, logits: log_softmax(logits, primitive.axis),
    }
    replaced: dict[int, tuple[Any, Callable[..., Any]]] = {}
    for name in FUNCTIONS:
        for namespace in (ops, mint, mint.nn.functional):
            function = getattr(namespace, name, None)
            if function is not None:
                replaced.setdefault(id(function), (function, _finer(function, name, used, instead.get(name))))
        method = getattr(ms.Tensor, name, None)
        if method is not None:
            setattr(ms.Tensor, name, _finer(method, name, used, instead.get(name)))
    for module in [m for n, m in sys.modules.items() if n.partition(".")[0] == "mindspore"]:
        for name, value in list(vars(module).items()):
            if id(value) in replaced and replaced[id(value)][0] is value:
                setattr(module, name, replaced[id(value)][1])
    for name in PRIMITIVES:
        primitive = getattr(ops, name)
        primitive.__call__ = _finer(primitive.__call__, name.lower(), used, instead.get(name))
    return used


def _finer(
    function: Callable[..., Any], name: str, used: set[str], instead: Callable[..., Any] | None = None
) -> Callable[..., Any]:
    """The function with its float32 tensors made float64, and its results float32 again."""
    wide = functools.partial(instead, function) if instead else function

    @functools.wraps(function)
    def finer(*args: Any, **kwargs: Any) -> Any:
        if not any(_single(value) for value in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        used.add(name)
        result = wide(*map(_wide, args), **{key: _wide(value) for key, value in kwargs.items()})
        return result.astype(ms.float32) if isinstance(result, ms.Tensor) else result

    return finer


def _single(value: Any) -> bool:
    return isinstance(value, ms.Tensor) and value.dtype == ms.float32


def _wide(value: Any) -> Any:
    return value.astype(ms.float64) if _single(value) else value
