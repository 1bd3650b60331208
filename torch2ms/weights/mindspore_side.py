"""Compares the renamed arrays with the translated model and writes the checkpoint; runs in a process of its own."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import mindspore as ms
import numpy as np

from torch2ms.weights.model import Like


def compared(entries: list[dict[str, Any]], arrays: Any, model: Any) -> list[str]:
    """What does not fit between the entries and the model; entries that a cell makes itself are marked."""
    own = dict(model.parameters_and_names())
    buffers = dict(model.named_buffers()) if hasattr(model, "named_buffers") else {}
    problems = []
    for entry in entries:
        name, array = entry["name"], arrays[entry["array"]]
        entry["left_out"] = name not in own
        if name in own and tuple(own[name].shape) != array.shape:
            problems.append(f"{entry['key']}: {name} has shape {tuple(own[name].shape)}, not {array.shape}")
        elif name not in own and entry["buffer"]:
            problems += _buffer_problem(entry, array, buffers.get(name, _attribute(model, name)))
        elif name not in own and not entry["shared"]:
            problems.append(f"{entry['key']}: the translated model has no parameter {name}")
    known = {entry["name"] for entry in entries}
    problems += [f"{name}: the translated model has it, the checkpoint does not" for name in own if name not in known]
    return problems


def _buffer_problem(entry: dict[str, Any], array: Any, value: Any) -> list[str]:
    """A MindSpore checkpoint holds parameters only; a buffer that is no parameter must have its value already."""
    if isinstance(value, ms.Tensor) and value.shape == array.shape and np.allclose(value.asnumpy(), array):
        return []
    return [f"{entry['key']}: a buffer that is no parameter in MindSpore and has another value there"]


def _attribute(model: Any, name: str) -> Any:
    for part in name.split("."):
        model = getattr(model, part, None)
    return model


def save(entries: list[dict[str, Any]], arrays: Any, path: Path) -> None:
    """Write .ckpt or .safetensors."""
    found = [
        {"name": e["name"], "data": ms.Tensor(arrays[e["array"]], ms.bfloat16 if e["bfloat16"] else None)}
        for e in entries
        if not e.get("left_out")
    ]
    ms.save_checkpoint(found, str(path), format=path.suffix.removeprefix("."))


def main() -> None:
    """The order is a JSON file; the answer goes beside it."""
    order = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    folder = Path(sys.argv[1]).parent
    answer = json.loads((folder / "torch.json").read_text(encoding="utf-8"))
    entries, arrays = answer["entries"], np.load(folder / "weights.npz")
    problems: list[str] = []
    if order["translated"] is not None:
        os.chdir(order["cwd"])
        problems = compared(entries, arrays, Like.parse(order["like"]).make(Path(order["translated"])))
    if not problems:
        save(entries, arrays, Path(order["out"]))
    (folder / "mindspore.json").write_text(json.dumps({"entries": entries, "problems": problems}), encoding="utf-8")


if __name__ == "__main__":
    main()
