"""What torchvision's functions, layers and transforms give."""

from __future__ import annotations

from torch2ms.analysis.evaluation.arguments import Given
from torch2ms.analysis.values import Value

MAKE_TENSORS = {"ToTensor", "PILToTensor"}
COMPOSED = "ComposedTensors"  # a Compose with one of them in it: what it gives are tensors


def called(name: str, given: Given) -> Value | None:
    """What torchvision computes of tensors, and its layers."""
    owner, _, last = name.rpartition(".")
    if owner.startswith("torchvision.ops"):
        if last[:1].isupper():
            return Value("module", name=name)
        return Value("tensor", dtype="int64", rank=1) if last.endswith("nms") else Value("tensor", deps=given.deps)
    if name == "torchvision.transforms.Compose":
        steps = {step.name.rpartition(".")[2] for step in given.first.items or ()}
        return Value("unknown", name=f"{owner}.{COMPOSED}", deps=given.deps) if steps & MAKE_TENSORS else None
    if owner != "torchvision.transforms.functional" or last.startswith("get_") or last in ("five_crop", "ten_crop"):
        return None
    made = last in ("to_tensor", "pil_to_tensor", "normalize")
    return Value("tensor", deps=given.deps) if made or given.first.kind == "tensor" else None


def gives_tensors(name: str) -> bool:
    """Whether a network of torchvision gives one tensor; those with further heads give them beside it in training."""
    owner, _, last = name.rpartition(".")
    return owner == "torchvision.models" and last not in ("googlenet", "inception_v3")


def transformed_image(name: str, given: Given) -> Value | None:
    """What a transform of torchvision, which has this name, makes of the image that it is given."""
    if name.startswith(("torchvision.models.", "torchvision.ops.")):  # a network or a layer
        return None
    last = name.rpartition(".")[2]
    made = last == COMPOSED or last in MAKE_TENSORS or given.first.kind == "tensor"
    return Value("tensor", deps=given.deps) if made else None
