"""`functional_call(model, params, (x,))`, written as a method of the model that takes its weights.

MindSpore differentiates functions of tensors, and compiled code needs to see what is done with them. The forward of the
class is known, so a second one is written beside it, with the weights out of a dict: `model.forward_with(params, x)`.
What differentiates that, once or twice, is planned like any other program. Where a forward cannot be written so, the
call stays and is refused.
"""

from __future__ import annotations

from torch2ms.analysis.program.project import Plain, Project
from torch2ms.stateless.calls import sites
from torch2ms.stateless.forwards import Forwards
from torch2ms.stateless.gradients import as_calls
from torch2ms.stateless.write import Writer


def without_state(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that have such calls, or classes that they run, by name."""
    if not any(m.has("functional_call") for m in project.modules.values()):
        return {}
    forwards = Forwards(project)
    found = [site for module in project.modules.values() for site in sites(module, project, forwards)]
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        own = [s for s in found if s.module is module]
        classes = [c for c in forwards.classes if c.module is module]
        if own or classes:
            plain[module.name] = Writer(module, own, classes, forwards).plain()
    return plain


__all__ = ["as_calls", "without_state"]
