"""Whether what a dataset computes in the pipeline's thread gets in the way of the training in the main one.

`python -m benchmarks threads [--runs 20] [--processes 3] [WAY...]` trains a small network over a GeneratorDataset whose
samples are made in one of several ways, and over the same samples made beforehand, and counts the runs whose losses
differ and the processes that crash. Exit status 1 if a way that translations leave to the pipeline is off.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

LEFT_TO_THE_PIPELINE = ("arrays", "items")  # see torch2ms/rewrite/tensors/computing.py
WAYS = (*LEFT_TO_THE_PIPELINE, "casts", "products")
SAMPLES, BATCH, EPOCHS = 80, 4, 3


def main() -> None:
    """Run each way in several processes, as a crash ends one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks threads", description=__doc__)
    parser.add_argument("ways", nargs="*", metavar="WAY", help=f"of {WAYS}; default: all")
    parser.add_argument("--runs", type=int, default=20, help="in each process")
    parser.add_argument("--processes", type=int, default=3)
    parser.add_argument("--one", choices=WAYS, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(sum(_differs(given.one) for _ in range(given.runs)), "of", given.runs)
        return
    good = True
    for way in given.ways or WAYS:
        command = [sys.executable, "-m", "benchmarks", "threads", "--one", way, "--runs", str(given.runs)]
        ended = [subprocess.run(command, capture_output=True, text=True, check=False) for _ in range(given.processes)]
        crashed = sum(p.returncode != 0 for p in ended)
        wrong = [p.stdout.split("\n")[0] for p in ended if p.returncode == 0]
        print(f"{way:10s} crashed {crashed} of {given.processes}, runs with other losses: {', '.join(wrong) or '-'}")
        off = crashed or any(not text.startswith("0 ") for text in wrong)
        good = good and not (off and way in LEFT_TO_THE_PIPELINE)
    sys.exit(0 if good else 1)


def _differs(way: str) -> bool:
    """One run beside the training and one with the samples made before it: their losses."""
    from mindspore.dataset import GeneratorDataset

    source = _Samples(way)
    beside = GeneratorDataset(source, ["x", "y"], shuffle=False).batch(BATCH)
    return bool(np.abs(_losses(beside) - _losses(source.batches())).max() > 0)


class _Samples:
    def __init__(self, way: str) -> None:
        import mindspore as ms

        self.way = way
        self.raw = np.random.RandomState(0).randn(SAMPLES, 8, 8).astype(np.float32)
        self.tensor = ms.Tensor(self.raw)

    def __len__(self) -> int:
        return SAMPLES

    def __getitem__(self, index: Any) -> tuple[Any, Any]:
        import mindspore as ms
        from mindspore import ops

        i = int(index)
        if self.way == "arrays":
            return (self.raw[i] @ self.raw[i].T).mean(0) / 8, self.raw[i].sum()
        if self.way == "items":
            return self.tensor[i][0], self.tensor[i, 1:][0, 0]
        x = ms.Tensor(self.raw[i])
        if self.way == "casts":
            return (x.float() / 255).mean(0), x.sum()
        for _ in range(3):
            x = ops.tanh(ops.matmul(x, x.T) / 8)
        return x.mean(0), x.sum()

    def batches(self) -> list[tuple[Any, ...]]:
        """All batches, made in this thread."""
        import mindspore as ms

        rows = [[np.asarray(part.asnumpy() if isinstance(part, ms.Tensor) else part) for part in self[i]]
                for i in range(SAMPLES)]  # fmt: skip
        starts = range(0, SAMPLES, BATCH)
        return [tuple(ms.Tensor(np.stack([r[k] for r in rows[b : b + BATCH]])) for k in (0, 1)) for b in starts]


def _losses(batches: Any) -> np.ndarray[Any, Any]:
    import mindspore as ms
    from mindspore import nn
    from mindspore.experimental import optim

    rng = np.random.RandomState(3)
    net = nn.SequentialCell(nn.Dense(8, 32), nn.Tanh(), nn.BatchNorm1d(32), nn.Dense(32, 1))
    net.set_train()
    for p in net.trainable_params():
        p.set_data(ms.Tensor(rng.randn(*p.shape).astype(np.float32) * 0.3))
    optimizer = optim.SGD(net.trainable_params(), lr=0.01, momentum=0.9)

    def forward(x: Any, y: Any) -> Any:
        return ((net(x).squeeze(1) - y) ** 2).mean()

    step: Callable[..., Any] = ms.value_and_grad(forward, None, optimizer.parameters)
    found = []
    for _ in range(EPOCHS):
        for x, y in batches:
            loss, grads = step(x, y)
            optimizer(grads)
            found.append(float(loss))
    return np.array(found)


if __name__ == "__main__":
    main()
