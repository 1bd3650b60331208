"""Datasets that a program changes while it goes through a loader of them: a curriculum, sizes that are drawn anew.

torch's loader asks for samples when their batch is due. MindSpore's pipeline reads ahead, and would give some as they
were before the change.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.values import Value
from torch2ms.rewrite.tensors.samples import runs_over_loader

ARRAYS = ("torch.utils.data.TensorDataset", "torchvision.")
OTHERS = ("module", "optimizer", "scheduler", "scaler", "tensor", "param", "list", "dict", "tuple", "lossfn", "loader")


def changed_meanwhile(dataset: Value, module: ModuleInfo, project: Project) -> bool:
    """What a loader is given may be such a dataset, or a part of one."""
    changed = _changed(project)
    if not changed or dataset.name.startswith(ARRAYS):
        return False
    return dataset.name in changed or not isinstance(project.find(dataset.name, module), ClassInfo)


@once
def _changed(project: Project) -> frozenset[str]:
    """The classes by their full names."""
    datasets = [c for m in project.modules.values() for c in m.classes.values() if c.method("__getitem__") is not None]
    loops = list(_loops(project)) if datasets else []
    return frozenset(cls.qualified for cls in datasets if any(_touches(s, m, cls) for s, m in loops))


def _loops(project: Project) -> Iterator[tuple[Stmt, ModuleInfo]]:
    """The simple statements inside of loops over loaders."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            for loop in scope.body.walk():
                if isinstance(loop.node, cst.For) and runs_over_loader(loop.node, module):
                    yield from ((s, module) for s in loop.walk() if not s.blocks)


def _touches(stmt: Stmt, module: ModuleInfo, cls: ClassInfo) -> bool:
    """The statement writes what samples are made of, by name or by a method of the class."""
    read, writers = _parts(cls)
    written = {place.rpartition(".")[2] for place in stmt.defs | stmt.muts if "." in place and place[:5] != "self."}
    return bool(written & read) or any(
        name_called(call) in writers
        and isinstance(call.func, cst.Attribute)
        and module.value(call.func.value).kind not in OTHERS
        for call in stmt.calls
    )


def _parts(cls: ClassInfo) -> tuple[set[str], set[str]]:
    """The attributes that samples are made of, and the methods that write one of them."""
    read: set[str] = set()
    writes: dict[str, set[str]] = {}
    for name, info in cls.methods.items():
        for stmt in info.scope.body.walk() if name != "__init__" else ():
            own = {p.split(".")[1] for p in stmt.defs | stmt.muts if p.startswith("self.")}
            read |= {u.split(".")[1] for u in stmt.uses if u.startswith("self.")} - own
            if name != "__getitem__":
                writes.setdefault(name, set()).update(own)
    return read, {name for name, own in writes.items() if own & read}
