"""Which API rules have right second derivatives: `python -m torch2ms.evidence.twice` writes rules/twice.toml.

The gradient of every probe is compiled, as the translation compiles the inner gradient of `create_graph=True`, and
differentiated again. What is not in the table does not stand in a forward that is differentiated twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch2ms.api import Rules
from torch2ms.evidence.compare import forward_difference, gradient_difference
from torch2ms.evidence.graph import OUTSIDE, program
from torch2ms.evidence.matrix import Probe, probes_of
from torch2ms.evidence.probes import read_cases
from torch2ms.evidence.processes import run_side
from torch2ms.evidence.sides import flat, weights
from torch2ms.evidence.tables import Found, holding, holding_bare, text, write
from torch2ms.tape.forms.graphmode import measured

# what stands in the losses and networks that people differentiate twice
WORDS = frozenset(
    "sigmoid Sigmoid tanh Tanh softplus Softplus silu SiLU gelu GELU elu ELU relu ReLU softmax linear Linear conv2d "
    "Conv2d LayerNorm BatchNorm1d mse_loss MSELoss binary_cross_entropy_with_logits BCEWithLogitsLoss exp log pow sqrt "
    "square mean sum matmul mm view reshape flatten Flatten squeeze unsqueeze cat abs sin cos float size shape norm "
    "leaky_relu LeakyReLU mul add sub div t detach log_softmax expand expand_as permute transpose stack where clamp "
    "maximum minimum log1p logsumexp var std rsqrt reciprocal neg clone contiguous chunk split bmm einsum outer dot mv "
    "Conv1d conv1d AvgPool2d avg_pool2d AdaptiveAvgPool2d adaptive_avg_pool2d MaxPool2d max_pool2d GroupNorm Identity "
    "InstanceNorm2d Hardtanh Softmax LogSigmoid logsigmoid smooth_l1_loss SmoothL1Loss huber_loss HuberLoss l1_loss "
    "L1Loss sinh cosh atan erf prod cumsum gather index_select zeros_like ones_like Embedding normalize "
    "selu SELU".split()
)
PROBES = 2  # per rule: each is compiled, and most that fail end their process


def asked(rules: Rules) -> list[Probe]:
    """The probes to differentiate twice: the shortest with a gradient whose rules hold in compiled functions."""
    compiled = measured() | measured("bare")
    left = {name: PROBES for name in compiled if name.rpartition(".")[2] in WORDS}
    chosen: list[Probe] = []
    seen = set()
    for probe in sorted(probes_of(read_cases(), rules), key=lambda p: len(p.text)):
        names = {name for name, _ in probe.taken}
        fit = probe.case.mode not in ("=", "~") and probe.case.grad and not any(w in probe.text for w in OUTSIDE)
        twin = (probe.text, frozenset(names)) in seen
        if fit and not twin and names and names <= left.keys() and any(left[name] for name in names):
            chosen.append(probe)
            seen.add((probe.text, frozenset(names)))
            for name in names:
                left[name] = max(0, left[name] - 1)
    return chosen


def first(value: Any, inputs: Sequence[Any]) -> list[Any]:
    """The gradients of a weighted sum of the results, as part of a graph (on torch's side)."""
    import torch

    outs = [o for o in flat(value, torch.Tensor) if isinstance(o, torch.Tensor) and o.requires_grad]
    total = sum((o * torch.from_numpy(weights(tuple(o.shape))).to(o.dtype)).sum() for o in outs)
    found = torch.autograd.grad(total, inputs, create_graph=True, allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]


def twice(probe: Probe, one: dict[str, Any]) -> str | None:
    """The module whose `first` is the compiled gradient of a probe; None where there is nothing to differentiate."""
    made = program(probe.text)
    varied = [i for i, counts in enumerate(one["counted"]) if counts]
    if made is None or not varied or any(n not in made[1] for n in probe.case.grad):
        return None
    arguments = ", ".join(made[1])
    shapes = [getattr(one["outs"][i], "shape", ()) for i in varied]
    picks = [f"out[{i}]" if len(one["outs"]) > 1 else "out" for i in varied]
    terms = " + ".join(f"({pick} * COTANGENTS[{n}]).sum()" for n, pick in enumerate(picks))
    positions = ", ".join(str(made[1].index(n)) for n in probe.case.grad)
    return (
        made[0].replace("\n@ms.jit\n", "\n")
        + "\n\nfrom torch2ms.evidence.sides import weights\n\n"
        + f"COTANGENTS = [{', '.join(f'ms.Tensor(weights({tuple(s)!r}))' for s in shapes)}]\n\n\n"
        + f"def total({arguments}):\n    out = run({arguments})\n    return {terms}\n\n\n"
        + f"@ms.jit\ndef first({arguments}):\n    return ms.grad(total, ({positions},))({arguments})\n"
    )


def differentiated(probes: Sequence[Probe], folder: Path) -> list[tuple[Probe, str]]:
    """Every probe with a gradient, and how torch and MindSpore differ in what the gradient of it gives."""
    plain = run_side("torch", [{"text": p.case.text, "grad": p.case.grad} for p in probes], folder)
    jobs, wanted, kept = [], [], []
    for number, (probe, one) in enumerate(zip(probes, plain, strict=True)):
        text = twice(probe, one) if "error" not in one else None
        if text is None:
            continue
        (folder / f"twice_{number}.py").write_text(text, encoding="utf-8")
        head, _, last = probe.case.text.rpartition(";")
        inputs = ", ".join(probe.case.grad)
        call = f"__import__('torch2ms.evidence.twice', fromlist=['first']).first(({last}), [{inputs}])"
        wanted.append({"text": f"{head}; {call}" if head else call, "grad": probe.case.grad})
        made = program(probe.text)
        assert made is not None
        jobs.append(
            {"text": f"import twice_{number}; twice_{number}.first({', '.join(made[1])})", "grad": probe.case.grad}
        )
        kept.append(probe)
    left = run_side("torch", wanted, folder)
    ready = [(p, one, {**job, "counted": one["counted"]})
             for p, one, job in zip(kept, left, jobs, strict=True) if "error" not in one]  # fmt: skip
    right = run_side("mindspore", [j for *_, j in ready], folder, told=lambda n: print(".", end="", flush=True))
    found = []
    for (probe, one, _), other in zip(ready, right, strict=True):
        problem = forward_difference(one, other, False)
        if problem is None and any(one["counted"]):
            problem = gradient_difference(one, other)
        found.append((probe, problem or ""))
    return found


def failing(found: Found) -> list[str]:
    """Rules that no probe shows right, and one does alone: where they stand there is no second derivative."""
    right = {name for probe, problem in found if not problem for name, _ in probe.taken}
    alone = {name for probe, problem in found if problem and len({n for n, _ in probe.taken}) == 1
             for name, _ in probe.taken}  # fmt: skip
    return sorted(alone - right)


def table(found: Found, version: str) -> str:
    """The text of rules/twice.toml."""
    holds = holding(found)
    head = [
        f"Rules whose probes give torch's second derivatives, the first compiled, MindSpore {version} on CPU,",
        "by `python -m torch2ms.evidence.twice`; `bare` holds those that do so only when called without arguments,",
        "`fails` those that do so in no probe.",
    ]
    return text(head, {"holds": holds, "bare": holding_bare(found, holds), "fails": failing(found)})


def main() -> None:
    """Measure and write the table."""
    probes = asked(Rules.load())
    write("twice", lambda folder: differentiated(probes, folder), table)


if __name__ == "__main__":
    main()
