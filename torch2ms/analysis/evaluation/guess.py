"""Kinds guessed from the names people give: always marked likely."""

from __future__ import annotations

import re
from functools import lru_cache

from torch2ms.analysis.values import UNKNOWN, Value

_GUESSES = [
    (re.compile(r"sched", re.I), "scheduler"),
    (re.compile(r"(^|_)(opt|optim)(_|$)|optim(izer)?s?(_|$|[A-Z])|^opt[A-Z_]?\w?$|optimi[sz]er", re.I), "optimizer"),
    (re.compile(r"scaler$", re.I), "scaler"),
    (
        re.compile(r"criterion|^crit(_|$)|loss_?(fn|func|function|module|criterion)$|^(mse|bce|l1|ce)_?loss$", re.I),
        "lossfn",
    ),
    (re.compile(r"loader$|^dataloader|_dl$", re.I), "loader"),
    (re.compile(r"^device$|_device$", re.I), "device"),
    (re.compile(r"^dtype$"), "dtype"),
    (
        re.compile(
            r"^(model|net|network|module|generator|discriminator|critic|actor|policy|encoder|decoder|backbone|classifier|"
            r"(?-i:[GD])|net_?[A-Z]\w*|\w+_net|\w+_?model|"
            r"model_(?!(names?|lists?|zoo|versions?|paths?|dirs?|files?|types?|class|classes|cls|fn|func|factory|builder|cfg|config|args|kwargs|opts?|params|"
            r"state|dict|id|key|out|outputs?|inputs?|loss|size|dim)$)\w+|student|teacher|ema|target_\w*net\w*|lstm|rnn|gru|gpt|bert|"
            r"resnet|vgg|unet|vae|autoencoder|transformer)$",
            re.I,
        ),
        "module",
    ),
]

ANNOTATIONS = {
    "torch.Tensor": "tensor", "torch.FloatTensor": "tensor", "torch.LongTensor": "tensor", "torch.nn.Module": "module",
    "torch.optim.Optimizer": "optimizer", "torch.utils.data.DataLoader": "loader", "torch.device": "device",
    "torch.dtype": "dtype", "int": "int", "float": "float", "bool": "bool", "str": "str", "numpy.ndarray": "numpy",
    "torch.optim.optimizer.Optimizer": "optimizer", "torch.nn.Parameter": "tensor",
}  # fmt: skip


# a thing that belongs to one of these, or says something about it: `optimizer_kwargs`, `model_name`, `opt_state`
_ABOUT = re.compile(
    r"_(hooks?|states?|config|cfg|name|type|params|args|kwargs|class|cls|factory|idx|dict|path|settings|defaults|dims?|sizes?|"
    r"shapes?|widths?|depths?|archs?|architectures?|specs?)$"
)


_MAKING = re.compile(r"^(opt|optim|optimi[sz]er)_?(class|cls|func|fn|factory|type|ctor|constructor)$", re.I)


_SETTINGS = re.compile(r"(^|_)(cfg|config|configs|conf|args|hparams|hps?|settings|options|flags)$", re.I)


def makes_optimizers(place: str) -> bool:
    """A variable that holds a class of optimizers, for all that its name says."""
    return _MAKING.match(place.rpartition(".")[2]) is not None


@lru_cache(maxsize=10_000)
def by_name(name: str) -> Value:
    """A likely value for a variable or parameter called `name`."""
    if _ABOUT.search(name):
        return UNKNOWN
    for pattern, kind in _GUESSES:
        if pattern.search(name):
            return Value(kind, place=name, likely=True)
    return UNKNOWN


def of_attribute(place: str, attr: str) -> Value:
    """A likely value for an attribute: `cfg.model` says what the network is to be like, it is none."""
    guessed = by_name(attr)
    return UNKNOWN if guessed.kind not in ("device", "dtype") and of_settings(place) else guessed


def of_settings(place: str) -> bool:
    """An attribute of what holds the settings of a program, or of a part of these, by its name."""
    return any(_SETTINGS.search(part) for part in place.split(".")[:-1])
