"""Datasets whose samples are computed with tensors: MindSpore's pipeline would do it beside the training.

GeneratorDataset asks for samples in a thread of its own. Operators of that thread and of the one that trains get in
each other's way: `python -m benchmarks threads` shows wrong losses and crashes of MindSpore 2.10, with
`x.float() / 255` and `x.sum()` in `__getitem__` already. Tensors may be made there, and taken apart into items.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import resolve
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value

HANDED = ("unknown", "function", "object")  # what is called where nobody sees the function
ARRAYS = ("torch.utils.data.TensorDataset", "torchvision.")
# no operators
MAKING = {"tensor", "as_tensor", "asarray", "from_numpy", "Tensor", "FloatTensor", "LongTensor", "IntTensor",
          "DoubleTensor", "BoolTensor", "ByteTensor", "HalfTensor", "ShortTensor", "CharTensor",
          "to_tensor", "pil_to_tensor"}  # fmt: skip
ASKING = {"to", "cpu", "cuda", "detach", "contiguous", "numpy", "item", "tolist", "size", "dim", "numel", "nelement"}


def computed(dataset: Value, module: ModuleInfo, project: Project) -> bool:
    """What a loader is given may be such a dataset, or a part of one."""
    computing = _computing(project)
    if not computing or dataset.name.startswith(ARRAYS):
        return False
    return dataset.name in computing or not isinstance(project.find(dataset.name, module), ClassInfo)


@once
def _computing(project: Project) -> frozenset[str]:
    """The classes by their full names."""
    found = set()
    for cls in (c for m in project.modules.values() for c in m.classes.values()):
        method = cls.method("__getitem__")
        if method is not None and cls.kind != "module" and _computes(method, project, set()):
            found.add(cls.qualified)
    return frozenset(found)


def _computes(info: FunctionInfo, project: Project, asked: set[int], known: bool = False) -> bool:
    """A function runs an operator of tensors, or one that it calls does; only those that are `known`, perhaps."""
    if id(info) in asked:
        return False
    asked.add(id(info))
    module = info.module
    for stmt in info.scope.body.walk():
        if any(_operates(node, module) for node in stmt.nodes):
            return True
        for call in stmt.calls:
            other = resolve(call, info.scope, module, project)
            if other is not None and _computes(other, project, asked, known):
                return True
            if other is None and not known and module.value(call.func).kind in HANDED and _any_handed(project):
                return True
    return False


@once
def _any_handed(project: Project) -> bool:
    """What is called as `self.transform(x)` may be an object, a function or a lambda of the project that computes."""
    for module in project.modules.values():
        called = [cls.methods["__call__"] for cls in module.classes.values() if "__call__" in cls.methods]
        passed = {dotted(n.value) for n in module.of_kind(cst.Arg)} | {
            dotted(n.value) for n in module.of_kind(cst.Element)
        }
        called += [info for info in module.functions.values() if info.cls is None and info.name in passed]
        if any(_computes(info, project, set(), known=True) for info in called):
            return True
        if any(_operates(n, module) for made in module.of_kind(cst.Lambda) for n in descend(made.body)):
            return True
    return False


def _operates(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """The expression is the result of an operator."""
    if isinstance(node, (cst.BinaryOperation, cst.UnaryOperation, cst.Comparison)):
        return module.value(node).kind == "tensor"
    if not isinstance(node, cst.Call) or module.value(node).kind != "tensor":
        return False
    func = module.value(node.func)
    if func.kind in ("module", "lossfn"):
        return True
    if func.kind == "api":
        return func.name.startswith(("torch.", "torchvision.")) and func.name.rpartition(".")[2] not in MAKING
    receiver = module.value(node.func.value).kind if isinstance(node.func, cst.Attribute) else ""
    return receiver == "tensor" and name_called(node) not in ASKING
