"""Give the MindSpore program the draws torch made.

The replacement happens at the primitives (`StandardNormal`, `UniformReal`, `Dropout`, ...) that every public
function ends in, so that shapes, scaling and argument checks of MindSpore stay in force. A function that does not
run on a device natively is not made to run.
"""

from __future__ import annotations

import functools
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import mindspore as ms
import numpy as np
from mindspore import dataset, nn, ops
from mindspore.common import initializer
from mindspore.ops import operations as P

from torch2ms.verify.sides.replay import RANDOM_INITIALIZERS, Stream
from torch2ms.verify.sides.samples import own_streams
from torch2ms.verify.sides.session import Quiet
from torch2ms.verify.trace import Array


class MindSporeDraws:
    """Replaces MindSpore's sources of randomness by the recorded stream."""

    def __init__(self, stream: Stream, quiet: Quiet) -> None:
        self.stream = stream
        self.quiet = quiet
        self.loaders = 0
        self.of_gumbel = False  # ops.gumbel_softmax is running

    def install(self) -> None:
        """Patch primitives, initializers, dataset shuffling and the global seed."""
        self._replace(P.StandardNormal, self._standard_normal)
        self._replace(P.UniformReal, self._uniform_real)
        self._replace(P.UniformInt, self._uniform_int)
        self._replace(P.Bernoulli, self._bernoulli)
        for cls in (P.Dropout, P.Dropout2D, P.Dropout3D):
            self._replace(cls, self._dropout)
        self._replace_function("multinomial", self._multinomial)
        self._replace_function("randperm", self._randperm)
        self._watch_gumbel()
        self._watch_initializers()
        self._watch_shuffles()
        self._keep_python_streams()

    def _replace(self, cls: Any, draw: Callable[..., Any]) -> None:
        original = cls.__call__

        @functools.wraps(original)
        def __call__(primitive: Any, *args: Any, **kwargs: Any) -> Any:
            if self.quiet.active:
                return original(primitive, *args, **kwargs)
            result = draw(primitive, *args, **kwargs)
            return original(primitive, *args, **kwargs) if result is None else result

        cls.__call__ = __call__

    def _replace_function(self, name: str, draw: Callable[..., Any]) -> None:
        """Replace a function of `ops`, and its older namesake that the distributions call."""
        for home in (ops, ops.composite):
            if hasattr(home, name):
                self._replace_in(home, name, draw)

    def _replace_in(self, home: Any, name: str, draw: Callable[..., Any]) -> None:
        original = getattr(home, name)

        @functools.wraps(original)
        def replayed(*args: Any, **kwargs: Any) -> Any:
            result = None if self.quiet.active else draw(*args, **kwargs)
            return original(*args, **kwargs) if result is None else result

        setattr(home, name, replayed)

    def _standard_normal(self, primitive: Any, shape: Any) -> Any:
        event = self.stream.take(("normal",), tuple(shape), "standard normal")
        return None if event is None else ms.Tensor(self._standardised(event), ms.float32)

    def _standardised(self, event: dict[str, Any]) -> Array:
        value = self.stream.value(event).astype(np.float64)
        if event["draw"] == "normal":
            mean, std = (self.stream.parameter(event.get(n)) for n in ("mean", "std"))
            return (value - mean) / np.where(np.asarray(std) == 0, 1.0, std)
        low, high = (self.stream.parameter(event.get(n)) for n in ("low", "high"))
        return (value - low) / (high - low)

    def _watch_gumbel(self) -> None:
        """torch's gumbel_softmax draws from the exponential distribution, MindSpore's from the uniform one."""
        original = ops.gumbel_softmax

        @functools.wraps(original)
        def watched(*args: Any, **kwargs: Any) -> Any:
            self.of_gumbel = True
            try:
                return original(*args, **kwargs)
            finally:
                self.of_gumbel = False

        ops.gumbel_softmax = watched

    def _uniform_real(self, primitive: Any, shape: Any) -> Any:
        kinds = ("exponential",) if self.of_gumbel else ("uniform", "bernoulli", "exponential")
        event = self.stream.take(kinds, tuple(shape), "uniform")
        if event is not None and event["draw"] == "bernoulli":
            return ms.Tensor(self._below_chance(event), ms.float32)
        if event is not None and event["draw"] == "exponential":  # `-log(u)` of the one, `-log(1 - u)` of the other
            rest = np.exp(-self.stream.value(event).astype(np.float64) * self.stream.parameter(event.get("rate")))
            return ms.Tensor(rest if self.of_gumbel else 1 - rest, ms.float32)
        return None if event is None else ms.Tensor(self._standardised(event), ms.float32)

    def _below_chance(self, event: dict[str, Any]) -> Array:
        """Uniform numbers that are below the chance where torch drew a one: `rand(shape) < p` gives torch's draw."""
        value = self.stream.value(event).astype(np.float64)
        p = np.asarray(self.stream.parameter(event.get("p")), np.float64)
        return np.where(value > 0, p / 2, (1 + p) / 2)

    def _uniform_int(self, primitive: Any, shape: Any, low: Any, high: Any) -> Any:
        event = self.stream.take(("randint",), tuple(shape), "randint", low=int(low), high=int(high))
        return None if event is None else ms.Tensor(self.stream.value(event), ms.int32)

    def _bernoulli(self, primitive: Any, tensor: Any, p: Any) -> Any:
        event = self.stream.take(("bernoulli",), tuple(tensor.shape), "bernoulli", p=p.asnumpy())
        return None if event is None else ms.Tensor(self.stream.value(event), tensor.dtype)

    def _dropout(self, primitive: Any, tensor: Any) -> Any:
        p = 1.0 - float(primitive.keep_prob)
        if p == 0.0:  # nothing is drawn: torch's functions return at once
            return None
        event = self.stream.take(("dropout",), tuple(tensor.shape), "dropout", p=p)
        if event is None:
            return None
        mask = self.stream.value(event).reshape(tensor.shape)
        scale = ms.Tensor(mask / (1.0 - event["p"]), tensor.dtype)
        return tensor * scale, ms.Tensor(mask)

    def _multinomial(self, input: Any, num_samples: int, replacement: bool = True, seed: Any = None) -> Any:
        shape = (*input.shape[:-1], int(num_samples))
        event = self.stream.take(("multinomial",), shape, "multinomial")
        return None if event is None else ms.Tensor(self.stream.value(event).reshape(shape), ms.int32)

    def _randperm(self, n: Any, seed: Any = 0, offset: Any = 0, dtype: Any = ms.int64) -> Any:
        event = self.stream.take(("randperm",), (int(n),), "randperm")
        return None if event is None else ms.Tensor(self.stream.value(event), dtype)

    # -- initial values ---------------------------------------------------------------------------------------------

    def _watch_initializers(self) -> None:
        call = initializer.Initializer.__call__

        @functools.wraps(call)
        def __call__(source: Any, arr: Any) -> Any:
            state = np.random.get_state()
            try:
                result = call(source, arr)
            finally:
                np.random.set_state(state)
            if not self.quiet.active and type(source).__name__ in RANDOM_INITIALIZERS:
                value = self._initial(source, tuple(arr.shape))
                if value is not None:
                    arr[...] = value
            return result

        initializer.Initializer.__call__ = __call__

    def _initial(self, source: Any, shape: tuple[int, ...]) -> Array | None:
        name = type(source).__name__
        plain: dict[str, Any] = {}
        if name == "Normal":
            plain = {"kind": "normal", "mean": source.mean, "std": source.sigma}
        elif name == "Uniform":
            plain = {"kind": "uniform", "low": -source.scale, "high": source.scale}
        recorded = self.stream.take_initial(shape, **plain)
        if recorded is not None:
            return recorded
        if name == "Normal":
            event = self.stream.take(("normal",), shape, "Normal initializer")
            return None if event is None else self._standardised(event) * source.sigma + source.mean
        if name == "Uniform":
            event = self.stream.take(("uniform",), shape, "Uniform initializer")
            return None if event is None else (self._standardised(event) * 2 - 1) * source.scale
        self.stream.take(("init",), shape, f"{name} initializer")
        return None

    # -- data -------------------------------------------------------------------------------------------------------

    def _watch_shuffles(self) -> None:
        construct = dataset.GeneratorDataset.__init__
        passes = self.stream.passes()

        @functools.wraps(construct)
        def __init__(data: Any, source: Any, *args: Any, **kwargs: Any) -> None:
            sampler, shuffle = kwargs.get("sampler"), kwargs.get("shuffle")
            indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__")
            follow = functools.partial(Samples, stream=self.stream, number=self.loaders)
            owner: Any = sys._getframe(1).f_locals.get("self")
            if isinstance(source, range) and hasattr(owner, "source"):  # a pipeline of indices brings an order only
                if self.loaders in passes:
                    data.samples = owner.source = follow(owner.source, passes=passes[self.loaders])
            elif indexed and self.loaders in passes:
                source = follow(source, passes=passes[self.loaders])
            self.loaders += 1
            shuffles = shuffle is True or (shuffle is None and sampler is None)
            if indexed and not args[5:] and (shuffles or isinstance(sampler, dataset.RandomSampler)):
                kwargs.update(sampler=RecordedOrder(self.stream, range(len(source))), shuffle=None)
            elif indexed and not args[5:] and isinstance(sampler, dataset.SubsetRandomSampler):
                kwargs.update(sampler=RecordedOrder(self.stream, [int(i) for i in sampler.indices]))
            elif indexed and sampler is not None and type(sampler).__name__ == "IndexSampler":  # the program draws
                kwargs.update(sampler=RecordedOrder(self.stream, range(len(sampler))))
            construct(data, source, *args, **kwargs)

        dataset.GeneratorDataset.__init__ = __init__
        for name in ("create_tuple_iterator", "create_dict_iterator"):
            self._watch_iterator(name)
        self._watch_orders()

    def _watch_orders(self) -> None:
        """A sampler that the program iterates itself draws its order from NumPy's stream, torch's does not."""
        permute = np.random.permutation

        @functools.wraps(permute)
        def permutation(x: Any) -> Any:
            asked = _asked_by_sampler()
            if not asked:
                return permute(x)
            indices = np.arange(x) if isinstance(x, int) else np.asarray(x)
            order = self.stream.take_shuffle(len(indices)) if asked == "__iter__" else None  # else only their number
            return indices if order is None else order

        np.random.permutation = permutation

    def _watch_iterator(self, name: str) -> None:
        create = getattr(dataset.Dataset, name)

        @functools.wraps(create)
        def started(data: Any, *args: Any, **kwargs: Any) -> Any:
            for part in _replayed(data):
                part.begin()
            return create(data, *args, **kwargs)

        setattr(dataset.Dataset, name, started)

    def _keep_python_streams(self) -> None:
        """`ms.set_seed` seeds numpy and `random`, too; `torch.manual_seed` does not: their streams must not part."""
        seed = ms.set_seed

        @functools.wraps(seed)
        def set_seed(value: int) -> None:
            state, python = np.random.get_state(), random.getstate()
            seed(value)
            np.random.set_state(state)
            random.setstate(python)

        ms.set_seed = ms.common.set_seed = set_seed
        for base in (nn.LSTM.__base__, nn.LSTMCell.__base__):  # they draw their first weights from NumPy's own stream
            base.__init__ = _beside(base.__init__)


def _asked_by_sampler() -> str:
    """The method of a sampler of the translation that asks NumPy for an order, itself or through a function."""
    frames = (sys._getframe(2), sys._getframe(3), sys._getframe(4))
    return next((f.f_code.co_name for f in frames if type(f.f_locals.get("self")).__name__ == "IndexSampler"), "")


def _beside(make: Callable[..., None]) -> Callable[..., None]:
    """The same constructor, which leaves NumPy's stream to the program."""

    @functools.wraps(make)
    def __init__(*args: Any, **kwargs: Any) -> None:
        state = np.random.get_state()
        make(*args, **kwargs)
        np.random.set_state(state)

    return __init__


class RecordedOrder(dataset.Sampler):  # type: ignore[misc]
    """A sampler that serves the recorded permutations of its indices, one for every pass over the data."""

    def __init__(self, stream: Stream, indices: Sequence[int]) -> None:
        super().__init__(len(indices))
        self.stream, self.indices = stream, indices
        self.order: list[int] | None = None

    def __deepcopy__(self, memo: Any) -> RecordedOrder:
        return self  # a pipeline copies its datasets, the position in the stream must not be copied

    def begin(self) -> None:
        """Take the permutation of a pass in the program's own thread; the pipeline asks for it later, in another."""
        order = self.stream.take_shuffle(len(self.indices))
        self.order = list(self.indices) if order is None else [int(i) for i in order]

    def __iter__(self) -> Iterator[int]:
        order, self.order = self.order, None
        yield from order if order is not None else self.indices


class Samples:
    """The samples of a dataset that draws random numbers, made in the program's own thread when a pass begins."""

    def __init__(self, source: Any, stream: Stream, number: int, passes: list[list[int]]) -> None:
        self.source, self.stream, self.number, self.passes = source, stream, number, passes
        self.begun = 0
        self.made: dict[int, Any] = {}

    def __deepcopy__(self, memo: Any) -> Samples:
        return self  # like the order of a pass

    def begin(self) -> None:
        """Make what torch fetched in this pass."""
        indices = self.passes[self.begun] if self.begun < len(self.passes) else []
        self.made = {}
        for index in indices:
            self.stream.sample = [self.number, self.begun, index]
            try:
                with own_streams(self.stream.sample):
                    self.made[index] = self.source[index]
            finally:
                self.stream.sample = None
        self.begun += 1

    def __len__(self) -> int:
        return len(self.source)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)

    def __getitem__(self, index: int) -> Any:
        """A sample torch did not fetch is fetched ahead and thrown away: any does."""
        index = int(index)
        if index in self.made or not self.made:
            return self.made[index] if self.made else self.source[index]
        return next(iter(self.made.values()))


def _replayed(data: Any) -> list[RecordedOrder | Samples]:
    """The orders and samples in a pipeline that follow the recording."""
    held = (getattr(data, "sampler", None), getattr(data, "source", None), getattr(data, "samples", None))
    own = [part for part in held if isinstance(part, (RecordedOrder, Samples))]
    return own + [part for child in getattr(data, "children", []) for part in _replayed(child)]
