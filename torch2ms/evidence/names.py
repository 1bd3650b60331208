"""The public names of the installed MindSpore, with their parameters: one file of `rules/targets/` per version.

`python -m torch2ms.evidence.names rules/targets`, by an interpreter that has the version, writes mindspore-X.Y.toml.
That of the newest version also writes platforms.toml: which names MindSpore's own pages give to some devices only.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from torch2ms.config import TARGETS

MODULES = (
    "mindspore", "mindspore.amp", "mindspore.common.initializer", "mindspore.communication", "mindspore.dataset",
    "mindspore.dataset.transforms", "mindspore.dataset.vision", "mindspore.experimental.optim",
    "mindspore.experimental.optim.lr_scheduler", "mindspore.mint", "mindspore.mint.linalg", "mindspore.mint.nn",
    "mindspore.mint.nn.functional", "mindspore.mint.optim", "mindspore.mint.special", "mindspore.nn",
    "mindspore.nn.probability.distribution", "mindspore.ops", "mindspore.runtime", "mindspore.train",
)  # fmt: skip
CLASSES = ("mindspore.Tensor", "mindspore.Parameter", "mindspore.nn.Cell")
PLATFORMS = re.compile(r"Supported Platforms:\s*\n\s*([^\n]+)")
DEVICES = ("CPU", "GPU", "Ascend")
HIDDEN = "..."  # the parameters are not told by the signature


def public_names(module: str) -> dict[str, str]:
    """The names of a module or class with the parameters of what can be called."""
    owner = _found(module)
    names = {}
    for name in sorted(dir(owner)):
        if name.startswith("_"):
            continue
        try:
            value = getattr(owner, name)
        except Exception:  # some attributes need an object, a device or another package
            value = None
        if not isinstance(value, ModuleType) and getattr(value, "__module__", "") not in ("typing", "__future__"):
            names[name] = parameters(value) if callable(value) else ""
    return names


def _found(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        module, _, leaf = name.rpartition(".")
        return getattr(import_module(module), leaf)


def parameters(value: Any) -> str:
    """The parameters by which it can be called, separated by commas."""
    try:
        found = list(inspect.signature(value).parameters.values())
    except (TypeError, ValueError):
        return HIDDEN
    if not found or any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in found):
        return HIDDEN
    return ", ".join(one.name for one in found)


def document(version: str) -> str:
    """The file of the installed version."""
    lines = [f"# Public names of MindSpore {version} with their parameters, by `python -m torch2ms.evidence.names`."]
    for module in (*MODULES, *CLASSES):
        lines += ["", f'["{module}"]']
        lines += [f"{name} = {json.dumps(told)}" for name, told in public_names(module).items()]
    return "\n".join(lines) + "\n"


def platforms(version: str) -> str:
    """The file of names that are documented for some of the devices alone."""
    made = "by `python -m torch2ms.evidence.names`"
    lines = [f"# Devices that the pages of MindSpore {version} name, where not all, {made}."]
    for module in MODULES:
        told = {name: _devices(getattr(_found(module), name, None)) for name in public_names(module)}
        some = {name: found for name, found in told.items() if 0 < len(found) < len(DEVICES)}
        written = [f'{name} = "{", ".join(found)}"' for name, found in some.items()]
        lines += ["", f'["{module}"]', *written] if some else []
    return "\n".join(lines) + "\n"


def _devices(value: Any) -> list[str]:
    said = PLATFORMS.search(getattr(value, "__doc__", None) or "")
    return [device for device in DEVICES if said is not None and f"``{device}``" in said[1]]


def main() -> None:
    """Write the file into the folder named; that of platforms by the newest version alone."""
    import mindspore

    version = mindspore.__version__
    short = ".".join(re.split(r"\D+", version)[:2])
    path = Path(sys.argv[1]) / f"mindspore-{short}.toml"
    path.write_text(document(version), encoding="utf-8")
    if short == TARGETS[-1]:
        (path.parent / "platforms.toml").write_text(platforms(version), encoding="utf-8")


if __name__ == "__main__":
    main()
