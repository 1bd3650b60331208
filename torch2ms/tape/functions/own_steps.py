"""Steps of optimizers that the program defines: their callers call the optimizer with the gradients."""

from __future__ import annotations

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope


def own_step(scope: Scope, module: ModuleInfo) -> bool:
    """Such a step: it is given gradients, or stays as it is."""
    cls = module.classes.get(scope.cls.name) if scope.cls is not None and scope.name == "step" else None
    return cls is not None and cls.kind == "optimizer"


def around_torchs(scope: Scope, module: ModuleInfo) -> bool:
    """... of a class that has one of torch's optimizers above it: `class Noisy(torch.optim.SGD)`."""
    if not own_step(scope, module) or scope.cls is None:
        return False
    return module.classes[scope.cls.name].torch_base.rpartition(".")[2] != "Optimizer"
