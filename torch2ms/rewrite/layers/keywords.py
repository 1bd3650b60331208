"""Keywords in calls of layers: `criterion(input=out, target=y)`. MindSpore's layers name their inputs otherwise."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.values import Value

PAIR = ("input1", "input2")
INPUTS = {
    "Bilinear": PAIR, "CosineSimilarity": ("x1", "x2"), "PairwiseDistance": ("x1", "x2"),
    "CosineEmbeddingLoss": (*PAIR, "target"), "MarginRankingLoss": (*PAIR, "target"),
    "TripletMarginLoss": ("anchor", "positive", "negative"),
    "TripletMarginWithDistanceLoss": ("anchor", "positive", "negative"),
    "CTCLoss": ("log_probs", "targets", "input_lengths", "target_lengths"),
    "GaussianNLLLoss": ("input", "target", "var"), "PoissonNLLLoss": ("log_input", "target"),
}  # fmt: skip
# inputs of torch's layers in their order; other losses have an input and a target, other layers an input
ALONE = re.compile(r"\.(Sequential|Identity|Linear|Conv\dd|Dropout\w*|\w+Norm\w*|GELU|ReLU|SiLU|Tanh|Sigmoid)$")


def positional(original: cst.Call, updated: cst.Call, layer: Value) -> cst.Call:
    """The call of a layer of torch with its inputs by position, where nothing between them is left out."""
    name = layer.name.rpartition(".")[2]
    if not layer.name.startswith("torch.nn.") or all(a.keyword is None for a in original.args):
        return updated
    inputs = _inputs(name)
    named = {a.keyword.value: a for a in updated.args if a.keyword is not None}
    plain = [a for a in updated.args if a.keyword is None]
    wanted = inputs[len(plain) : len(plain) + len(named)]
    if set(named) != set(wanted) or any(a.star for a in updated.args):
        return updated
    ordered = [*plain, *(named[n] for n in wanted)]
    args = [
        old.with_changes(value=new.value, keyword=None, equal=cst.MaybeSentinel.DEFAULT, star="")
        for old, new in zip(updated.args, ordered, strict=True)
    ]
    return updated.with_changes(args=args)


def complete(call: cst.Call, layer: Value) -> bool:
    """The only input of a layer of torch is there by position: what is spread beside it can hold nothing."""
    plain = [a for a in call.args if a.keyword is None and not a.star]
    return bool(plain) and ALONE.search(layer.name) is not None


def _inputs(name: str) -> tuple[str, ...]:
    return INPUTS.get(name, ("input", "target") if name.endswith("Loss") else ("input",))


__all__ = ["complete", "positional"]
