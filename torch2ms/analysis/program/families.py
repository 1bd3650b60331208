"""What the items of a list are by the methods that are called on them: hooks, callbacks, plugins.

`for cb in self.callbacks: cb.on_batch_end(self)` calls that method of a class of the project, or of the classes below
it, where no others have a method of that name: what the list was made of is rarely seen.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.program.structure import Stmt

if TYPE_CHECKING:
    from torch2ms.analysis.program.project import Project

# methods that objects of torch and of Python have, too
COMMON = frozenset({*dir(list), *dir(dict), *dir(set), *dir(str), *dir(open)}) | {
    "add_module", "add_param_group", "backward", "close", "compute", "cpu", "cuda", "detach", "eval", "fit", "forward",
    "get_last_lr", "item", "load_state_dict", "named_parameters", "numpy", "parameters", "predict", "read",
    "requires_grad_", "reset", "run", "sample", "start", "state_dict", "step", "stop", "to", "train", "transform",
    "unscale_", "write", "zero_grad",
}  # fmt: skip


def families(project: Project) -> dict[str, str]:
    """By the name of a method: the one class that has it, or that all which have it are derived from."""
    first: dict[str, set[str]] = defaultdict(set)
    for module in project.modules.values():
        for cls in module.classes.values():
            for name in cls.methods.keys() - COMMON:
                owner = [c for c in cls.lineage() if name in c.methods][-1]
                first[name].add(owner.qualified if owner.kind == "object" else "")
    return {name: next(iter(owners)) for name, owners in first.items() if len(owners) == 1 and "" not in owners}


def called_in(loop: Stmt, name: str) -> frozenset[str]:
    """The methods that a loop calls on what it goes through under this name."""
    return frozenset(
        call.func.attr.value
        for stmt in loop.walk()
        for call in stmt.calls
        if type(call.func) is cst.Attribute and type(call.func.value) is cst.Name and call.func.value.value == name
    )


def of_family(methods: frozenset[str], project: Project) -> str:
    """The one class whose these methods are, "" where it is not one."""
    found = {project.families.get(method, "") for method in methods}
    return found.pop() if len(found) == 1 else ""
