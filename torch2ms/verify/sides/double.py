"""The torch program once more in double precision, with the draws of single precision: what exact numbers would be.

Neither side's float32 is the truth. Where they differ, the distance of either from this run says which side drifts,
and torch's own distance is the rounding that has accumulated up to there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FUNCTIONS = (
    *("rand", "rand_like", "randn", "randn_like", "normal", "bernoulli", "multinomial", "poisson", "_standard_gamma"),
    *("_sample_dirichlet", "binomial"),
)
METHODS = (
    *("normal_", "uniform_", "bernoulli_", "exponential_", "geometric_", "cauchy_", "log_normal_", "random_"),
    *("bernoulli", "multinomial"),
)
FACTORIES = {"from_numpy": torch.from_numpy, "frombuffer": torch.frombuffer, "load": torch.load}
WIDER = {torch.float32: torch.float64, torch.complex64: torch.complex128}
NARROWER = {wide: narrow for narrow, wide in WIDER.items()}
PLAIN = {"__get__", "__set__", "backward", "set_default_dtype"}


class DoublePrecision(TorchFunctionMode):  # type: ignore[misc]
    """Every float32 tensor that goes into or comes out of a function of torch is a float64 one, complex ones too."""

    def __torch_function__(
        self, function: Callable[..., Any], types: Any, args: Sequence[Any] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        name, kwargs = getattr(function, "__name__", ""), kwargs or {}
        if name in PLAIN or getattr(function, "__module__", "") == "torch.nn.init":
            return function(*args, **kwargs)
        kwargs = {k: WIDER[v] if isinstance(v, torch.dtype) and v in WIDER else v for k, v in kwargs.items()}
        args = [WIDER[a] if isinstance(a, torch.dtype) and a in WIDER else a for a in args]
        start = 1 if name.endswith("_") and not name.endswith("__") else 0  # what is written to stays what it is
        result = function(*args[:start], *map(widened, args[start:]), **{k: widened(v) for k, v in kwargs.items()})
        return result if start else widened(result)


def widened(value: Any) -> Any:
    """The value with float32 tensors made double, in lists and tuples, too."""
    if isinstance(value, torch.Tensor):
        wide = WIDER.get(value.dtype)
        if wide is None:
            return value
        leaf = value.is_leaf and value.requires_grad
        return value.detach().to(wide).requires_grad_() if leaf else value.to(wide)
    if type(value) in (list, tuple):
        return type(value)(map(widened, value))
    return value


def _narrowed(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(NARROWER[value.dtype]) if value.dtype in NARROWER else value
    return NARROWER.get(value, value) if isinstance(value, torch.dtype) else value


def _single(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of random numbers, drawing in single precision: a generator gives other numbers in double."""

    @functools.wraps(function)
    def draw(*args: Any, **kwargs: Any) -> Any:
        torch.set_default_dtype(torch.float32)
        try:
            with torch._C.DisableTorchFunction():
                result = function(*map(_narrowed, args), **{k: _narrowed(v) for k, v in kwargs.items()})
        finally:
            torch.set_default_dtype(torch.float64)
        if not function.__name__.endswith("_"):
            return widened(result)
        with torch.no_grad():
            args[0].copy_(result)
        return args[0]

    return draw


def install_double() -> None:
    """Compute in double precision from now on; before anything is watched."""
    torch.set_default_dtype(torch.float64)
    torch.FloatTensor = torch.DoubleTensor
    for name, make in FACTORIES.items():
        setattr(torch, name, lambda *args, make=make, **kwargs: widened(make(*args, **kwargs)))
    for owner, names in ((torch, FUNCTIONS), (torch.Tensor, METHODS)):
        for name in names:
            setattr(owner, name, _single(getattr(owner, name)))
    for name in ("backward", "grad"):
        setattr(torch.autograd, name, _straight(getattr(torch.autograd, name)))
    DoublePrecision().__enter__()


def _straight(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function without the detour over the mode, which would call, and so observe, it twice."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with torch._C.DisableTorchFunction():
            return function(*args, **kwargs)

    return call
