"""What a translated training step costs beside the same step written by hand in MindSpore.

`python -m benchmarks steps [--rounds 30]` translates four fixtures, runs each in turn with the `by_hand.py` beside it
in one process, and prints the ratio of the processor time from one optimizer call to the next. Of every such interval
the best of all rounds counts, and the slowest quarter (data pipelines that start) is left out. It also counts how often
layers run, in PyTorch, in the translation and in the hand-written program: no forward may be evaluated twice.
Exit status 1 if a ratio is above the limit, or a layer runs more often than in PyTorch.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "fixtures" / "examples"
NAMES = ("train_accumulate", "train_amp", "train_canonical", "train_gan_bn")
LIMIT = 1.05
LAYERS = {"Linear", "Dense", "Conv2d", "BatchNorm1d", "BatchNorm2d"}


def main() -> None:
    """Measure the fixtures that have a counterpart, and judge."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks steps", description=__doc__)
    parser.add_argument("names", nargs="*", default=NAMES, help="of fixtures/examples; default: %(default)s")
    parser.add_argument("--rounds", type=int, default=30, help="how often each program runs")
    options = parser.parse_args()
    print(f"{'fixture':20} {'steps':>6} {'translated':>12} {'by hand':>12} {'ratio':>7}   layer calls")
    good = True
    for name in options.names:
        original = EXAMPLES / name / "original.py"
        with tempfile.TemporaryDirectory() as folder:
            translated = Path(folder) / "translated.py"
            translated.write_text(_translated(original), encoding="utf-8")
            found = _child("mindspore", str(options.rounds), str(translated), str(EXAMPLES / name / "by_hand.py"))
        torch_calls = _child("torch", "1", str(original))["calls"][0]
        (ours, theirs), calls = found["seconds"], found["calls"]
        ratio = ours / theirs
        good &= ratio <= LIMIT and calls[0] <= torch_calls
        times = f"{1e3 * ours:9.2f} ms {1e3 * theirs:9.2f} ms"
        told = f"PyTorch {torch_calls}, translated {calls[0]}, by hand {calls[1]}"
        print(f"{name:20} {found['steps']:6} {times} {ratio:7.3f}   {told}", flush=True)
    sys.exit(0 if good else 1)


def _translated(original: Path) -> str:
    from torch2ms import convert_source

    result = convert_source(original.read_text(encoding="utf-8"), path=original.name)
    assert not result.error, result.error
    return result.text


def _child(*arguments: str) -> dict[str, Any]:
    environment = {"GLOG_v": "3", "OMP_NUM_THREADS": "1", **os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "benchmarks.steps", "--child", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode:
        sys.exit(done.stderr)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- in the child


def child(side: str, rounds: int, paths: list[str]) -> dict[str, Any]:
    """Run the programs in turn; per program the best time of a step and how many layers ran."""
    programs = [compile(Path(path).read_bytes(), path, "exec") for path in paths]
    if side == "torch":
        return {"calls": [_counted(programs[0], _torch_layers())]}
    ticks: list[float] = []
    _watch_optimizers(ticks)
    best: list[list[float]] = [[] for _ in programs]
    for turn in range(rounds + 1):
        for number in range(len(programs)):
            which = (number + turn) % len(programs)
            ticks.clear()
            _run(programs[which])
            steps = [after - before for before, after in zip(ticks, ticks[1:], strict=False)]
            if turn:  # the first run warms up
                best[which] = [min(pair) for pair in zip(best[which] or steps, steps, strict=True)]
    layers = _mindspore_layers()
    calls = [_counted(program, layers) for program in programs]
    kept = sorted(range(len(best[-1])), key=best[-1].__getitem__)[: max(1, len(best[-1]) * 3 // 4)]
    seconds = [sum(times[i] for i in kept) / len(kept) for times in best]
    return {"seconds": seconds, "steps": len(kept), "calls": calls}


def _run(program: Any) -> None:
    with contextlib.redirect_stdout(io.StringIO()):
        exec(program, {"__name__": "__main__"})


def _watch_optimizers(ticks: list[float]) -> None:
    from mindspore.experimental.optim.optimizer import Optimizer

    call: Callable[..., Any] = Optimizer.__call__

    def timed(self: Any, *args: Any, **kwargs: Any) -> Any:
        result = call(self, *args, **kwargs)
        ticks.append(time.process_time())
        return result

    Optimizer.__call__ = timed


def _counted(program: Any, calls: list[str]) -> int:
    calls.clear()
    _run(program)
    return sum(name in LAYERS for name in calls)


def _torch_layers() -> list[str]:
    from torch.nn.modules.module import register_module_forward_hook

    calls: list[str] = []
    register_module_forward_hook(lambda module, *_: calls.append(type(module).__name__))
    return calls


def _mindspore_layers() -> list[str]:
    from mindspore import nn

    calls: list[str] = []
    call = nn.Cell.__call__

    def counted(self: Any, *args: Any, **kwargs: Any) -> Any:
        calls.append(type(self).__name__)
        return call(self, *args, **kwargs)

    nn.Cell.__call__ = counted
    return calls


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        print(json.dumps(child(sys.argv[2], int(sys.argv[3]), sys.argv[4:])))
    else:
        main()
