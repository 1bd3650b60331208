"""The public names of the installed MindSpore, with their parameters: one file of `rules/targets/` per version.

`python -m torch2ms.evidence.names rules/targets`, by an interpreter that has the version, writes mindspore-X.Y.toml.
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

MODULES = (
    "mindspore", "mindspore.amp", "mindspore.common.initializer", "mindspore.communication", "mindspore.dataset",
    "mindspore.dataset.transforms", "mindspore.dataset.vision", "mindspore.experimental.optim",
    "mindspore.experimental.optim.lr_scheduler", "mindspore.mint", "mindspore.mint.linalg", "mindspore.mint.nn",
    "mindspore.mint.nn.functional", "mindspore.mint.optim", "mindspore.mint.special", "mindspore.nn",
    "mindspore.nn.probability.distribution", "mindspore.ops", "mindspore.runtime", "mindspore.train",
)  # fmt: skip
CLASSES = ("mindspore.Tensor", "mindspore.Parameter", "mindspore.nn.Cell")
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


def main() -> None:
    """Write the file into the folder named."""
    import mindspore

    version = mindspore.__version__
    short = ".".join(re.split(r"\D+", version)[:2])
    path = Path(sys.argv[1]) / f"mindspore-{short}.toml"
    path.write_text(document(version), encoding="utf-8")


if __name__ == "__main__":
    main()
