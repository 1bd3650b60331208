"""Which modules are Sequentials, or may be: MindSpore's run a list of their cells, which has to follow every change."""

from __future__ import annotations

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.values import Value

SEQUENTIAL = "torch.nn.Sequential"


def is_sequential(value: Value, module: ModuleInfo, project: Project) -> bool | None:
    """Whether a module is one or its class is derived from one, None where a class above it is not seen."""
    if value.kind != "module" or not value.name:
        return None
    cls = class_of(value, module, project)
    if cls is None:
        return value.name == SEQUENTIAL if value.name.startswith("torch.nn.") else None
    lineage = list(cls.lineage())
    bases = [base for c in lineage for base in c.bases]
    if SEQUENTIAL in bases:
        return True
    seen = {name for c in lineage for name in (c.scope.name, c.qualified)}
    known = all(base.startswith("torch.nn.") or base in seen or base.rpartition(".")[2] in seen for base in bases)
    return False if bases and known else None
