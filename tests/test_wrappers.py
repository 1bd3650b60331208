"""Wrappers around training: what is taken off, what that is told, and what stays."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source
from torch2ms.config import Config
from torch2ms.pipeline import convert_project

LOOP = """
import torch
from accelerate import Accelerator

accelerator = Accelerator({arguments})
net = torch.nn.Linear(3, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(8, 3), torch.ones(8, 1)), batch_size=2)
net, optimizer{names} = accelerator.prepare(net, optimizer{names})
for x, y in loader:
    {before}
    with accelerator.accumulate(net):
        loss = ((net(x) - y) ** 2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
"""


def loop(arguments: str = "gradient_accumulation_steps=2", names: str = ", loader", before: str = "pass") -> str:
    return LOOP.format(arguments=arguments, names=names, before=before)


def refusals(source: str) -> list[str]:
    return [f"{f.what}: {f.why}" for f in convert_source(source).findings if f.tier is Tier.REFUSED]


def test_accumulation_divides_the_loss_and_guards_the_step() -> None:
    text = convert_source(loop()).text
    assert "for step, (x, y) in enumerate(loader):" in text
    assert "if (step + 1) % 2 == 0 or step + 1 == len(loader):" in text
    assert "return (loss / 2)" in text and "accelerat" not in text


def test_without_steps_nothing_is_guarded() -> None:
    text = convert_source(loop(arguments="")).text
    assert "% " not in text and "/ " not in text and "optimizer(grads)" in text


@pytest.mark.parametrize(
    ("source", "why"),
    [
        (loop(names=""), "the loader is not seen to be prepared"),
        (loop(before="optimizer.zero_grad()"), "it would go by the batch before"),
        (loop(before="if x is None: continue"), "batches may be left out"),
        (loop(arguments="gradient_accumulation_plugin=plugin()"), "how many batches it accumulates is not seen"),
    ],
)
def test_steps_that_are_not_seen_are_refused(source: str, why: str) -> None:
    assert any(why in refusal for refusal in refusals(source))
    assert "accelerator.backward(loss)" in convert_source(source).text


def test_findings_stand_on_the_lines_of_the_source() -> None:
    source = loop()
    lines = source.splitlines()
    found = {f.what: lines[f.line - 1].strip() for f in convert_source(source).findings}
    assert found["accelerator.prepare"].startswith("net, optimizer, loader = ")
    assert found["backward call"] == "accelerator.backward(loss)"
    assert found["optimizer step"] == "optimizer.step()"


def test_a_directive_leaves_its_statement_alone() -> None:
    source = "from accelerate import Accelerator\nimport torch\naccelerator = Accelerator()\n"
    text = convert_source(source + "accelerator.print(torch.ones(3))  # torch2ms: off\n").text
    assert "accelerator.print(torch.ones(3))  # torch2ms: off" in text
    assert "accelerator = Accelerator()" in text


def test_functions_lose_the_accelerator_that_they_are_handed() -> None:
    helper = "import torch\n\ndef report(accelerator, value, every=1):\n    accelerator.print(torch.abs(value))\n"
    imports = "import torch\nfrom accelerate import Accelerator\nfrom helper import report\n\n"
    main = imports + "acc = Accelerator()\nreport(acc, torch.ones(2), every=2)\n"
    made = convert_project({"helper.py": helper, "main.py": main}, Config())
    assert "def report(value, every=1):\n    print(ops.abs(value))" in made["helper.py"].text
    assert "report(ops.ones(2), every=2)" in made["main.py"].text and "acc" not in made["main.py"].text


def test_the_loss_that_apex_scales_is_the_loss() -> None:
    source = """
import torch
from apex import amp

def train(net, optimizer, x, half):
    optimizer.zero_grad()
    loss = net(x).mean()
    if half:  # only on newer cards
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
    else:
        loss.backward()
    optimizer.step()
"""
    result = convert_source(source)
    assert not result.error and result.count(Tier.REFUSED) == 0
    assert "apex" not in result.text and "half:" not in result.text and "# only on newer cards" in result.text


def test_one_process_of_torch_distributed() -> None:
    source = """
import torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, total):
    dist.init_process_group("nccl", rank=rank, world_size=total)
    value = torch.ones(2)
    if dist.get_world_size() > 1:
        dist.all_reduce(value)
    print(f"{dist.get_rank()} {value.sum()}")

mp.spawn(main, args=(4,), nprocs=4)
"""
    result = convert_source(source)
    assert result.count(Tier.REFUSED) == 0 and "main(0, 4)" in result.text
    assert "dist" not in result.text and "if " not in result.text
    assert any(f.code == "T2M531" and f.tier is Tier.ASSUMED for f in result.findings)


def test_an_asynchronous_collective_is_refused() -> None:
    source = "import torch\nimport torch.distributed as dist\nwork = dist.all_reduce(torch.ones(2), async_op=True)\n"
    assert any("all_reduce" in refusal for refusal in refusals(source))
