"""Which of MindSpore's optimizers do as torch's when parameters are frozen, thawed and added while they work.

`python -m benchmarks phases [NAME...]` takes twelve steps with the same gradients on both sides: once with parameters
that are frozen for some of the steps (`skip_frozen`), once with a group that is added after the third one
(`add_param_group`), and prints the largest difference of the weights. Exit status 1 if an optimizer that translations
use so is off.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from torch2ms.api import definitions
from torch2ms.api.imports import IMPORTS
from torch2ms.tape.uses.skipping import FIT

LIMIT = 2e-5  # the steps of RMSprop and RAdam differ by a few roundings as they are
STEPS, LATE = 12, 3
SHAPES = ((3, 4), (4,), (4, 2), (2,))
CASES: dict[str, list[dict[str, Any]]] = {
    "SGD": [{"momentum": 0.9}, {"momentum": 0.9, "nesterov": True, "weight_decay": 0.1},
            {"momentum": 0.9, "dampening": 0.5}],
    "Adam": [{}, {"weight_decay": 0.1}, {"amsgrad": True}], "AdamW": [{}], "RMSprop": [{"momentum": 0.5}],
    "Adagrad": [{"lr_decay": 0.1}], "Adadelta": [{}], "Adamax": [{}], "NAdam": [{}], "RAdam": [{}], "ASGD": [{}],
    "Rprop": [{}],
}  # fmt: skip


def main() -> None:
    """Measure the optimizers, and judge those that are used."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks phases", description=__doc__)
    parser.add_argument("names", nargs="*", default=list(CASES), help="of torch.optim; default: all")
    good = True
    for name in parser.parse_args().names:
        for settings in CASES[name]:
            for grows in (False, True):
                found = difference(name, settings, grows)
                fits = found < LIMIT
                good &= fits or name not in FIT
                what = "a group added" if grows else "frozen and thawed"
                print(f"{name:10} {what:18} {found:9.1e} {'' if fits else 'off':4} {settings or ''}")
    sys.exit(not good)


def difference(name: str, settings: dict[str, Any], grows: bool) -> float:
    """The largest difference of a weight behind the steps, nan where MindSpore fails."""
    import mindspore as ms
    import torch

    names = ("Optimizers", "skip_frozen", "add_param_group")
    space = _imported("\n".join([*IMPORTS.values(), *(d.text for d in definitions.closure(names))]))
    random = np.random.RandomState(0)
    values = [random.randn(*shape).astype("f") for shape in SHAPES]
    ours = [ms.Parameter(ms.Tensor(v), name=f"w{n}") for n, v in enumerate(values)]
    theirs = [torch.nn.Parameter(torch.tensor(v)) for v in values]
    first, late = slice(2 if grows else 0, None), slice(0, 2)
    cls = getattr(space["Optimizers"], name)
    optimizer = space["skip_frozen"](cls(ours[first], lr=0.1, **settings))
    reference = getattr(torch.optim, name)(theirs[first], lr=0.1, **settings)
    order = [2, 3] if grows else [0, 1, 2, 3]
    try:
        for step, trained in enumerate(_trained(grows)):
            if grows and step == LATE:
                space["add_param_group"](optimizer, {"params": ours[late], "lr": 0.05})
                reference.add_param_group({"params": theirs[late], "lr": 0.05})
                order = [2, 3, 0, 1]
            gradients = [random.randn(*shape).astype("f") * on for shape, on in zip(SHAPES, trained, strict=True)]
            for mine, other, gradient, on in zip(ours, theirs, gradients, trained, strict=True):
                mine.requires_grad = on
                other.grad = torch.tensor(gradient) if on else None
            reference.step()
            optimizer(tuple(ms.Tensor(gradients[n]) for n in order))
    except (RuntimeError, ValueError):
        return float("nan")
    pairs = zip(ours, theirs, strict=True)
    return max(float(np.abs(mine.asnumpy() - other.detach().numpy()).max()) for mine, other in pairs)


def _imported(text: str) -> dict[str, Any]:
    """What a module of this text has; MindSpore compiles only what stands in a file."""
    with tempfile.NamedTemporaryFile("w", suffix=".py", delete=False) as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location(Path(file.name).stem, file.name)
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return vars(module)


def _trained(grows: bool) -> Iterator[list[bool]]:
    """Which of the four parameters are trained, step by step."""
    for step in range(STEPS):
        if grows:
            yield [step >= LATE] * 2 + [True] * 2
        else:
            yield [step >= LATE, step >= LATE and step != 7] + [not 6 <= step < 9] * 2
