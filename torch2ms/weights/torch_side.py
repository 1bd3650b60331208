"""Reads a PyTorch checkpoint and the classes of the model's layers; runs in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch

from torch2ms.verify.sides.layers import layer_table
from torch2ms.weights.model import Like
from torch2ms.weights.names import place_of

WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "module", "params")


def state_of(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint by name, wherever in it they are."""
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        found: Any = load_file(path)
    else:
        found = torch.load(path, map_location="cpu", weights_only=True)
    while not _is_state(found):
        inner = next((found[key] for key in WRAPPERS if key in found), None) if isinstance(found, dict) else None
        if inner is None:
            told = f"keys: {', '.join(map(str, list(found)[:8]))}" if isinstance(found, dict) else type(found).__name__
            raise ValueError(f"{path.name} holds no state_dict ({told})")
        found = inner
    return dict(found)


def _is_state(found: Any) -> bool:
    return isinstance(found, dict) and bool(found) and all(isinstance(v, torch.Tensor) for v in found.values())


def without_wrapper(state: dict[str, Any], known: set[str]) -> dict[str, Any]:
    """The names without what DataParallel and torch.compile put before them, unless the model has it itself."""
    for prefix in ("module.", "_orig_mod."):
        if all(key.startswith(prefix) for key in state) and not known & set(state):
            state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def classes_of(model: torch.nn.Module) -> dict[str, str]:
    """The row of rules/params.toml for each module path that has one."""
    found = {}
    for path, module in model.named_modules():
        for cls in type(module).__mro__:
            if cls.__module__.startswith("torch.") and cls.__name__ in layer_table():
                found[path] = cls.__name__
                break
    return found


def shared_names(model: torch.nn.Module) -> dict[str, str]:
    """Names that mean the same parameter as an earlier name."""
    first: dict[int, str] = {}
    shared = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        if first.setdefault(id(parameter), name) != name:
            shared[name] = first[id(parameter)]
    return shared


def convert(checkpoint: Path, model: torch.nn.Module, folder: Path) -> dict[str, Any]:
    """Write the arrays under their new names; tell what became of every entry."""
    own = model.state_dict()
    state = without_wrapper(state_of(checkpoint), set(own))
    classes, shared = classes_of(model), shared_names(model)
    buffers = {name for name, _ in model.named_buffers()}
    arrays: dict[str, Any] = {}
    entries: list[dict[str, Any]] = []
    dropped: list[str] = []
    problems: list[str] = []
    for key in sorted(set(own) - set(state) - set(shared)):
        if place_of(key, classes) is not None:
            problems.append(f"{key}: the model has it, the checkpoint does not")
    for key, value in state.items():
        place = place_of(key, classes)
        if place is None:
            dropped.append(key)
        elif key not in own:
            problems.append(f"{key}: the checkpoint has it, the model does not")
        elif own[key].shape != value.shape:
            problems.append(f"{key}: {tuple(value.shape)} in the checkpoint, {tuple(own[key].shape)} in the model")
        else:
            value = torch.view_as_real(value) if value.is_complex() and key not in buffers else value
            value = value if place.expand is None else value.unsqueeze(place.expand)
            half = value.dtype == torch.bfloat16
            arrays[f"a{len(entries)}"] = (value.float() if half else value).contiguous().numpy()
            entry = {"key": key, "name": place.name, "array": f"a{len(entries)}", "bfloat16": half}
            entries.append({**entry, "shared": key in shared, "buffer": key in buffers})
    np.savez(folder / "weights.npz", **arrays)
    return {"entries": entries, "dropped": dropped, "problems": problems}


def main() -> None:
    """The order is a JSON file; the answer goes beside it."""
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[1]).parent
    os.chdir(order["cwd"])
    model = Like.parse(order["like"]).make(Path(order["program"]))
    answer = convert(Path(order["checkpoint"]), model, folder)
    (folder / "torch.json").write_text(json.dumps(answer), encoding="utf-8")


if __name__ == "__main__":
    main()
