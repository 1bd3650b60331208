"""Record every random draw the torch program makes, in call order."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
from collections.abc import Iterator
from numbers import Integral
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch.utils.data import DataLoader, dataloader, dataset, sampler
from torch.utils.data._utils import fetch as fetching

from torch2ms.verify.sides.samples import own_streams
from torch2ms.verify.sides.session import Quiet, Session
from torch2ms.verify.sides.torch_values import as_pairs, to_array

if TYPE_CHECKING:
    from torch2ms.verify.sides.torch_side import TorchSide

CREATORS = {"rand": "uniform", "rand_like": "uniform", "randn": "normal", "randn_like": "normal", "normal": "normal"}
OTHERS = ("randint", "randint_like", "randperm", "bernoulli", "multinomial", "poisson")
METHODS = {
    "normal_": "normal",
    "uniform_": "uniform",
    "bernoulli_": "bernoulli",
    "random_": "randint",
    "exponential_": "exponential",
    "bernoulli": "bernoulli",
    "multinomial": "multinomial",
    "geometric_": "geometric",
    "cauchy_": "cauchy",
    "log_normal_": "log_normal",
}
DROPOUTS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
INITIALIZERS = (
    "uniform_",
    "normal_",
    "trunc_normal_",
    "xavier_uniform_",
    "xavier_normal_",
    "kaiming_uniform_",
    "kaiming_normal_",
    "orthogonal_",
    "sparse_",
)
CONSTANT_INITIALIZERS = ("zeros_", "ones_", "constant_", "eye_", "dirac_")


class TorchDraws:
    """Wraps torch's sources of randomness; a draw made inside a recorded one is part of it."""

    def __init__(self, session: Session, side: TorchSide) -> None:
        self.session, self.trace = session, session.trace
        self.side = side
        self.loaders = 0
        self.quiet = side.quiet
        self.applied = Quiet()  # a function is applied to all layers: what it draws begins them, or is lost
        self.again = Quiet()  # a part of the forward runs once more: its draws are made, and are recorded already

    def install(self) -> None:
        """Wrap functions, tensor methods, dropout, initializers and samplers."""
        for name in (*CREATORS, *OTHERS):
            self._wrap(torch, name, CREATORS.get(name, name.removesuffix("_like")), name)
        for name, kind in METHODS.items():
            self._wrap(torch.Tensor, name, kind, f"Tensor.{name}")
        for name in DROPOUTS:
            self._wrap_dropout(F, name)
        for name in ("dropout", "feature_dropout", "alpha_dropout"):
            self._wrap_dropout(torch, name)
        for name in INITIALIZERS:
            # between any two bounds: the other side may draw the numbers itself
            self._wrap(torch.nn.init, name, "uniform" if name == "uniform_" else "init", f"init.{name}")
        for name in CONSTANT_INITIALIZERS:
            self._wrap(torch.nn.init, name, "constant", f"init.{name}")
        self._wrap_attention()
        self._wrap_checkpoint()
        self._wrap_apply()
        dataset.randperm = torch.randperm  # random_split imported it by name
        self._load_in_process()
        self._watch_samples()
        for cls in (sampler.RandomSampler, sampler.SubsetRandomSampler, sampler.WeightedRandomSampler):
            self._wrap_sampler(cls)

    def _wrap(self, owner: Any, name: str, kind: str, label: str) -> None:
        draw = getattr(owner, name)

        @functools.wraps(draw)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            with self.quiet:
                result = draw(*args, **kwargs)
            if not self.quiet.active and not _from_loader():
                self._record(kind, label, result, self._parameters(label, args, kwargs))
            return result

        setattr(owner, name, recorded)

    def _record(self, kind: str, label: str, result: Any, parameters: dict[str, Any]) -> None:
        array = to_array(result)
        if array is None:
            return
        if np.iscomplexobj(array):  # MindSpore draws the parts, of a variance of one
            array = as_pairs(array, 0) * (np.sqrt(2) if kind == "normal" else 1)
        of_init = label.startswith("init.")
        into = self.side.stored_in(result) if of_init or label.endswith("_") else ""
        self._add(
            draw=kind,
            source=label,
            sample=self.session.sample,
            initial=of_init or bool(into) or self.applied.active,
            into=into,
            shape=list(array.shape),
            dtype=str(result.dtype)[6:],
            value=self.trace.keep(array),
            **parameters,
        )

    def _add(self, **fields: Any) -> None:
        if not self.again.active:
            self.trace.add("draw", **fields)

    def _parameters(self, label: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """The distribution's parameters where the other side may ask for the same family with other ones."""

        def given(position: int, *names: str, default: Any = None) -> Any:
            found = next((kwargs[n] for n in names if n in kwargs), None)
            if found is None and position < len(args):
                found = args[position]
            return default if found is None else self._number(found)

        match label:
            case "rand" | "rand_like":
                return {"low": 0.0, "high": 1.0}
            case "randn" | "randn_like":
                return {"mean": 0.0, "std": 1.0}
            case "normal":
                return {"mean": given(0, "mean"), "std": given(1, "std", default=1.0)}
            case "Tensor.normal_":
                return {"mean": given(1, "mean", default=0.0), "std": given(2, "std", default=1.0)}
            case "init.uniform_":
                return {"low": given(1, "a", default=0.0), "high": given(2, "b", default=1.0)}
            case "Tensor.uniform_":
                return {"low": given(1, "from", default=0.0), "high": given(2, "to", default=1.0)}
            case "Tensor.exponential_":
                return {"rate": given(1, "lambd", default=1.0)}
            case "bernoulli" | "Tensor.bernoulli":
                return {"p": given(0, "input")} if given(1, "p") is None else {"p": given(1, "p")}
            case "Tensor.bernoulli_":
                return {"p": given(1, "p", default=0.5)}
            case "randint":
                bounds = [a for a in args if isinstance(a, Integral)]
                low = kwargs.get("low", bounds[0] if len(bounds) > 1 else 0)
                return {"low": int(low), "high": int(kwargs.get("high", bounds[-1] if bounds else 0))}
        return {}

    def _number(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return float(value) if value.numel() == 1 else {"array": self.trace.keep(value.detach().cpu().numpy())}
        return float(value) if isinstance(value, (int, float)) else None

    def _wrap_apply(self) -> None:
        """`net.apply(init_weights)`: values for weights that layers compute, as under weight_norm, reach nothing."""
        apply = torch.nn.Module.apply

        @functools.wraps(apply)
        def applied(*args: Any, **kwargs: Any) -> Any:
            with self.applied:
                return apply(*args, **kwargs)

        torch.nn.Module.apply = applied

    def _wrap_checkpoint(self) -> None:
        """What a checkpoint runs once more in the backward pass draws what it drew in the forward one."""
        checkpoint = torch.utils.checkpoint.checkpoint

        @functools.wraps(checkpoint)
        def recorded(function: Any, *args: Any, **kwargs: Any) -> Any:
            ran = False

            @functools.wraps(function, updated=())
            def once(*inputs: Any, **options: Any) -> Any:
                nonlocal ran
                with self.again if ran else contextlib.nullcontext():
                    ran = True
                    return function(*inputs, **options)

            return checkpoint(once, *args, **kwargs)

        torch.utils.checkpoint.checkpoint = recorded

    def _wrap_dropout(self, owner: Any, name: str) -> None:
        dropout = getattr(owner, name)

        @functools.wraps(dropout)
        def recorded(input: Any, p: float = 0.5, *args: Any, **kwargs: Any) -> Any:
            position = {"training": 0}
            training = kwargs.get("training", args[position["training"]] if args else kwargs.get("train", True))
            if self.quiet.active or not training or p == 0.0:
                return dropout(input, p, *args, **kwargs)
            with self.quiet:
                mask = self._mask(name, input, float(p))
            self._add(
                draw="dropout",
                source=name,
                sample=self.session.sample,
                initial=False,
                shape=list(input.shape),
                dtype="bool",
                value=self.trace.keep(mask.expand(input.shape).numpy()),
                p=float(p),
            )
            mask = mask.to(input.device)
            if "alpha" in name:
                return _alpha(input, mask, p)
            scaled = mask.to(input.dtype) / (1.0 - p) if p < 1.0 else mask.to(input.dtype)
            return input.mul_(scaled) if _in_place(args, kwargs) else input * scaled

        setattr(owner, name, recorded)

    def _wrap_attention(self) -> None:
        """Fused attention draws its dropout out of sight; with dropout it is computed by its documented formula."""
        fused = F.scaled_dot_product_attention

        @functools.wraps(fused)
        def attention(
            query: Any,
            key: Any,
            value: Any,
            attn_mask: Any = None,
            dropout_p: float = 0.0,
            is_causal: bool = False,
            scale: float | None = None,
            enable_gqa: bool = False,
        ) -> Any:
            if not dropout_p or enable_gqa or self.quiet.active:
                return fused(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
            scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
            if is_causal:
                attn_mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
            if attn_mask is not None and attn_mask.dtype == torch.bool:
                scores = scores.masked_fill(~attn_mask, float("-inf"))
            elif attn_mask is not None:
                scores = scores + attn_mask
            return F.dropout(torch.softmax(scores, dim=-1), dropout_p) @ value

        F.scaled_dot_product_attention = attention

    def _mask(self, name: str, tensor: Any, p: float) -> Any:
        shape = tuple(tensor.shape)
        if name in ("dropout1d", "dropout2d", "dropout3d", "feature_dropout", "feature_alpha_dropout"):
            spatial = {"dropout1d": 1, "dropout2d": 2, "dropout3d": 3}.get(name, len(shape) - 2)
            shape = shape[: len(shape) - spatial] + (1,) * spatial
        return torch.rand(shape) >= p

    def _load_in_process(self) -> None:
        """What a DataLoader's worker processes draw would be lost: the samples are made in this one."""
        construct = DataLoader.__init__

        @functools.wraps(construct)
        def __init__(loader: Any, *args: Any, **kwargs: Any) -> None:
            bound = inspect.signature(construct).bind(loader, *args, **kwargs)
            bound.arguments["num_workers"] = 0
            for name in ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout"):
                bound.arguments.pop(name, None)
            construct(*bound.args, **bound.kwargs)
            loader.__dict__.update(torch2ms_number=self.loaders, torch2ms_passes=0)
            self.loaders += 1

        DataLoader.__init__ = __init__

    def _watch_samples(self) -> None:
        """Let every sample draw from streams of its own, and note which loaders' samples draw."""
        begin, fetch = dataloader._SingleProcessDataLoaderIter.__init__, fetching._MapDatasetFetcher.fetch

        @functools.wraps(begin)
        def __init__(iterator: Any, loader: Any) -> None:
            begin(iterator, loader)
            place = [loader.torch2ms_number, loader.torch2ms_passes]
            loader.__dict__["torch2ms_passes"] += 1
            iterator._dataset_fetcher.torch2ms = place, self.trace.add("fetch", place=place, draws=False, indices=[])

        @functools.wraps(fetch)
        def fetched(fetcher: Any, index: Any) -> Any:
            if not fetcher.auto_collation:
                return fetch(fetcher, index)
            return fetcher.collate_fn([self._sample(fetcher, int(i)) for i in index])

        dataloader._SingleProcessDataLoaderIter.__init__ = __init__
        fetching._MapDatasetFetcher.fetch = fetched

    def _sample(self, fetcher: Any, index: int) -> Any:
        place, event = fetcher.torch2ms
        before = len(self.trace.events)
        self.session.sample = [*place, index]
        try:
            with own_streams(self.session.sample) as drew:
                sample = fetcher.dataset[index]
        finally:
            self.session.sample = None
        event["draws"] = event["draws"] or drew[0] or len(self.trace.events) > before
        event["indices"].append(index)
        return sample

    def _wrap_sampler(self, cls: Any) -> None:
        iterate = cls.__iter__

        @functools.wraps(iterate)
        def __iter__(source: Any) -> Iterator[int]:
            with self.quiet:
                order = [int(i) for i in iterate(source)]
            self.trace.add("shuffle", shape=[len(order)], value=self.trace.keep(order))
            return iter(order)

        cls.__iter__ = __iter__


def _in_place(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    return bool(kwargs.get("inplace", args[1] if len(args) > 1 else False))


def _alpha(tensor: Any, mask: Any, p: float) -> Any:
    """torch's alpha dropout: mean and variance kept, dropped units at the negative saturation value."""
    saturation = -1.7580993408473766
    a = ((1 - p) * (1 + p * saturation**2)) ** -0.5
    keep = mask.to(tensor.dtype)
    return (tensor * keep + saturation * (1 - keep)) * a - a * saturation * p


def _from_loader() -> bool:
    """True for the seed a DataLoader draws for its workers, which no other side has."""
    return str(sys._getframe(2).f_globals.get("__name__", "")).startswith("torch.utils.data.dataloader")
