"""Whether a program has parameters that are not trained: frozen somewhere, or made so."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import qualified
from torch2ms.analysis.syntax.tree import constant

MAKING = re.compile(r"Parameter\(|from_pretrained\(")


def frozen(project: Project) -> bool:
    """Lists of all parameters have more of them than those of what is trained."""
    return project.freezes or _made(project)


@once
def _made(project: Project) -> bool:
    """`nn.Parameter(x, requires_grad=False)`, and `nn.Embedding.from_pretrained(x)`, which freezes by default."""
    modules = (m for m in project.modules.values() if m.says(MAKING))
    calls = ((m, call) for m in modules for s in m.scope.walk() for stmt in s.body.walk() for call in stmt.calls)
    return any(_untrained(call, qualified(call.func, m.imports)) for m, call in calls)


def _untrained(call: cst.Call, name: str) -> bool:
    last = name.rpartition(".")[2]
    if last == "from_pretrained":
        given = argument(call, 1, "freeze")
        return name.startswith("torch.nn.") and (given is None or constant(given) is not False)
    given = argument(call, 1, "requires_grad") if last == "Parameter" and name.startswith("torch.") else None
    return given is not None and constant(given) is not True
