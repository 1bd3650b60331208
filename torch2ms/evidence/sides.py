"""Runs many snippets on one framework, in one process: `python -m torch2ms.evidence.sides SIDE JOBS RESULTS DEVICE`.

A job is {"text": ..., "grad": [input names]}; a result holds the outputs, the gradients of a weighted sum of the
floating ones, or the error. Results are written one by one, behind a header with the versions, so that a snippet that
kills the process takes nothing along.
"""

from __future__ import annotations

import importlib
import pickle
import re
import signal
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

SECONDS = 60  # per snippet; then the process is killed
FLOATS = ("x", "y", "z", "p", "q", "u", "a", "b", "c", "im", "v", "w", "s", "sq", "spd", "tri", "up")


def inputs() -> dict[str, Any]:
    """The values behind the single-letter names of the cases."""
    import numpy as np

    rng = np.random.RandomState(0)

    def f(*shape: int) -> Any:
        return rng.randn(*shape).astype(np.float32)

    square = f(3, 3)
    return {
        "x": f(3, 4),
        "y": f(3, 4),
        "z": f(4, 5),
        "p": np.abs(f(3, 4)) + 0.5,
        "q": np.abs(f(3, 4)) + 0.3,
        "u": np.tanh(f(3, 4)) * 0.9,
        "a": f(2, 3, 4),
        "b": f(2, 4, 5),
        "c": f(2, 3, 5),
        "im": f(2, 3, 6, 6),
        "v": f(4),
        "w": f(3),
        "s": np.float32(0.7),
        "k": rng.randint(-5, 6, (3, 4)),
        "k2": rng.randint(1, 6, (3, 4)),
        "k1": rng.randint(0, 6, 8),
        "ki": np.array([2, 0, 1]),
        "i": rng.randint(0, 3, (3, 4)),
        "t": np.array([1, 3, 0]),
        "m": rng.rand(3, 4) > 0.5,
        "m2": rng.rand(3, 4) > 0.5,
        "sq": square + 3 * np.eye(3, dtype=np.float32),
        "spd": (square @ square.T + np.eye(3)).astype(np.float32),
        "tri": np.tril(square + 3 * np.eye(3)).astype(np.float32),
        "up": np.sort(f(6)),
    }


def flat(value: Any, tensor: type) -> list[Any]:
    """Every number and tensor of a result, in order."""
    if isinstance(value, (list, tuple)):
        return [item for part in value for item in flat(part, tensor)]
    if isinstance(value, dict):
        return [item for key in value for item in flat(value[key], tensor)]
    return [value]


def weights(shape: tuple[int, ...]) -> NDArray[Any]:
    """A cotangent without symmetry."""
    import numpy as np

    size = int(np.prod(shape))
    wave: NDArray[Any] = np.cos(np.arange(size) * 1.3 + 0.4).astype(np.float32)
    return wave.reshape(shape)


def plain(value: Any, to_numpy: Any, tensor: type) -> Any:
    """A result as numpy and plain Python, so that it can leave the process."""
    import numpy as np

    if isinstance(value, tensor):
        return to_numpy(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray):
        return value
    return value if isinstance(value, (bool, int, float, str, type(None))) else str(type(value))


def prepared(text: str, scope: dict[str, Any], inputs: list[str]) -> str:
    """Run the leading statements that touch no input (they make layers) into `scope`; the rest of the text."""
    statements = text.split(";")
    while len(statements) > 1 and not set(re.findall(r"\b[a-z]\w*\b", statements[0])) & set(inputs):
        exec(statements.pop(0).strip(), scope)
    return ";".join(statements)


def evaluate(text: str, names: dict[str, Any]) -> Any:
    """The value of the last expression of `stmt; stmt; expr`."""
    head, _, last = text.rpartition(";")
    scope = dict(names)
    exec(head.strip() or "pass", scope)
    return eval(last.strip(), scope)


def values_of(name: str, shape: tuple[int, ...]) -> NDArray[Any]:
    """The same values for a parameter on both sides: by its torch name, whatever MindSpore calls it."""
    import numpy as np

    for own, torch_name in (
        ("gamma", "weight"),
        ("beta", "bias"),
        ("embedding_table", "weight"),
        ("dense", "linear"),
        ("bn2d.", ""),
    ):
        name = name.replace(own, torch_name)
    name = "weight" if name == "w" else name
    draws = np.random.RandomState(zlib.crc32(name.encode()))
    drawn: NDArray[Any] = draws.randn(int(np.prod(shape))) * 0.3
    return drawn.astype(np.float32).reshape(shape)


def run_torch(jobs: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The version, then the result of every job; later jobs are not hurt by an error."""
    import numpy as np
    import torch
    import torch.nn.functional as F
    import torch.nn.utils.prune  # which does not come with torch
    from torch import nn

    yield {"version": torch.__version__}

    def filled(net: Any) -> Any:
        with torch.no_grad():
            for name, parameter in net.named_parameters():
                parameter.copy_(torch.from_numpy(values_of(name, tuple(parameter.shape))))
        return net

    def steps(net: Any, opt: Any, x: Any, sched: Any = None, metric: Any = None) -> list[Any]:
        def closure() -> Any:
            opt.zero_grad()
            loss = (net(x) ** 2).sum()
            loss.backward()
            return loss

        seen = []
        for _ in range(5):
            opt.step(closure)
            if sched is not None:
                sched.step(*([metric] if metric is not None else []))
            seen += [float(group["lr"]) for group in opt.param_groups]
        return [*seen, *(p.detach() for p in net.parameters())]

    for job in jobs:
        torch.manual_seed(0)
        names = {k: torch.tensor(v) for k, v in inputs().items()}
        for name in job["grad"]:
            names[name].requires_grad_(True)
        scope = {
            "torch": torch,
            "F": F,
            "nn": nn,
            "np": np,
            "device": "cpu",
            "size": (2, 3),
            "filled": filled,
            "steps": steps,
            "optim": torch.optim,
            "lr_scheduler": torch.optim.lr_scheduler,
            "init": torch.nn.init,
            "data": torch.utils.data,
            **names,
        }
        try:
            outs = flat(evaluate(job["text"], scope), torch.Tensor)
            total = sum(
                (o * torch.from_numpy(weights(tuple(o.shape))).to(o.dtype)).sum()
                for o in outs
                if isinstance(o, torch.Tensor) and o.requires_grad and o.is_floating_point()
            )
            grads = None
            if isinstance(total, torch.Tensor) and job["grad"]:
                found = torch.autograd.grad(total, [names[n] for n in job["grad"]], allow_unused=True)
                grads = [
                    np.zeros(names[n].shape, np.float32) if g is None else g.resolve_neg().numpy()
                    for n, g in zip(job["grad"], found, strict=True)
                ]
            counted = [bool(job["grad"]) and isinstance(o, torch.Tensor) and o.requires_grad for o in outs]
            shown = [plain(o, lambda v: v.detach().resolve_conj().resolve_neg().numpy(), torch.Tensor) for o in outs]
            result: dict[str, Any] = {"outs": shown, "counted": counted, "grads": grads}
        except Exception as error:  # the report shows whatever a snippet raises
            result = {"error": f"{type(error).__name__}: {error}"}
        yield result


def run_mindspore(jobs: list[dict[str, Any]], device: str) -> Iterator[dict[str, Any]]:
    """The version, then the result of every job up to the first error: after an exception inside a differentiated
    function MindSpore is not reliable any more, the caller starts another process behind it."""
    import mindspore as ms

    from torch2ms.api import definitions
    from torch2ms.api.imports import IMPORTS

    folder = tempfile.TemporaryDirectory()  # a file of their own: MindSpore's compiler reads their source
    texts = [*sorted(set(IMPORTS.values())), *(d.text for d in definitions.closure(definitions.table()))]
    Path(folder.name, "written_definitions.py").write_text("\n\n\n".join(texts) + "\n", encoding="utf-8")
    sys.path.insert(0, folder.name)
    imported: dict[str, Any] = {k: v for k, v in vars(importlib.import_module("written_definitions")).items()
                                if not k.startswith("__")}  # fmt: skip

    def filled(net: Any) -> Any:
        for name, parameter in net.parameters_and_names():
            if parameter.requires_grad:
                parameter.set_data(ms.Tensor(values_of(name, tuple(parameter.shape))))
        return net.set_train()

    def steps(net: Any, opt: Any, x: Any, sched: Any = None, metric: Any = None) -> list[Any]:
        seen = []
        grad_fn = ms.value_and_grad(lambda x: (net(x) ** 2).sum(), None, opt.parameters)
        for _ in range(5):
            if hasattr(opt, "step"):  # L-BFGS asks for gradients itself
                opt.step(lambda: grad_fn(x))
            else:
                opt(grad_fn(x)[1])
            if sched is not None:
                sched.step(*([metric] if metric is not None else []))
            seen += [float(group["lr"]) for group in opt.param_groups]
        return [*seen, *(p.value() for p in net.trainable_params())]

    ms.set_device(device)
    ms.runtime.launch_blocking()
    (ms.Tensor([1.0]) + 1).asnumpy()  # fails here where the device is not there
    yield {"version": ms.__version__, "device": device}
    for job in jobs:
        mask = job["counted"]
        ms.set_seed(0)
        names = {k: ms.Tensor(v) for k, v in inputs().items()}
        scope = {**imported, "size": (2, 3), "filled": filled, "steps": steps, **names}
        held: list[Any] = []
        made: list[str] = []

        def forward(
            *values: Any, job: Any = job, mask: Any = mask, scope: Any = scope, held: Any = held, made: Any = made
        ) -> Any:
            found = flat(evaluate(made[0], {**scope, **dict(zip(job["grad"], values, strict=True))}), ms.Tensor)
            held[:] = found
            total = ms.Tensor(0.0)
            for out, counts in zip(found, mask):  # noqa: B905  the comparison reports a differing number of results
                if counts:
                    total = total + (out * ms.Tensor(weights(tuple(out.shape))).astype(out.dtype)).sum()
            return total

        try:
            grads = None
            made.append(prepared(job["text"], scope, job["grad"]))
            if any(mask):
                grads = ms.grad(forward, tuple(range(len(job["grad"]))))(*[names[n] for n in job["grad"]])
                grads = [g.asnumpy() for g in (grads if isinstance(grads, tuple) else (grads,))]
            else:
                forward(*[names[n] for n in job["grad"]])
            yield {"outs": [plain(o, lambda v: v.asnumpy(), ms.Tensor) for o in held], "grads": grads}
        except Exception as error:  # whatever a snippet raises
            yield {"error": f"{type(error).__name__}: {error}"[:300]}
            return


def main() -> None:
    """Read the jobs, write the results."""
    side, source, target, device = sys.argv[1:]
    with open(source, "rb") as stream:
        jobs = pickle.load(stream)
    results = run_torch(jobs) if side == "torch" else run_mindspore(jobs, device)
    with open(target, "wb") as stream:
        for result in results:
            pickle.dump(result, stream)
            stream.flush()
            if hasattr(signal, "alarm"):
                signal.alarm(SECONDS)  # the default action ends the process, native code or not


if __name__ == "__main__":
    main()
