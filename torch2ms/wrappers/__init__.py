"""Wrappers around training, taken off before anything is planned: what is left is the PyTorch that they run.

`accelerator.prepare`, `fabric.setup`, `amp.initialize` and their kin give back what they were given as long as one
process runs in float32; `accelerator.backward(loss)` is `loss.backward()`. Written that way the program needs no rules
of its own: ledger, regions and forms see plain PyTorch. Lines of findings stay those of the source.
"""

from __future__ import annotations

from torch2ms.analysis.infer import infer
from torch2ms.analysis.project import Project
from torch2ms.inlining import inlined
from torch2ms.wrappers.distributed import mentioned
from torch2ms.wrappers.objects import wraps
from torch2ms.wrappers.unwrap import unwrapped


def understood(project: Project) -> Project:
    """The project with its values inferred, without wrappers around training and functions that only differentiate."""
    infer(project)
    wrapped = [m for m in project.modules.values() if not m.uses_mindspore and (wraps(m) or mentioned(m))]
    plain = unwrapped(project, wrapped) if wrapped else {}
    if not plain:
        return inlined(project)
    made = Project()
    for name, module in project.modules.items():
        made.add(module.path, module.tree, module.source, module.directives.off, plain.get(name))
    infer(made)
    return inlined(made)


__all__ = ["understood"]
