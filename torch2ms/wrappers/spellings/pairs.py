"""Complex parameters as pairs of real numbers: `self.w = nn.Parameter(torch.rand(n, dtype=torch.cfloat))`.

No optimizer of MindSpore takes complex weights. torch's own see them as pairs of real numbers anyway, so a parameter
that holds `torch.view_as_real(...)`, and is read as `torch.view_as_complex(self.w)`, trains as the complex one does.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.classes import ClassInfo
from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier

COMPLEX = re.compile(r"\b(?:complex(?:64|128)?|cfloat|cdouble|view_as_complex|polar)\b")
PARAMETER = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
LIST = "torch.nn.ParameterList"
CHANGING = {"data", "grad", "requires_grad", "requires_grad_", "register_hook", "retain_grad", "detach_", "set_"}
AROUND: list[tuple[type[cst.CSTNode], str]] = [(cst.Attribute, "value"), (cst.Subscript, "value")]
AROUND += [(kind, "target") for kind in (cst.AssignTarget, cst.AugAssign, cst.Del)]
OTHERS = {"unknown", "param", "object", "tensor"}  # what may be the module, as far as is seen
# what gives something else for a pair than for the complex number, in loops over parameters
MEASURING = set(
    "abs abs_ absolute pow pow_ square sign sgn sqrt sqrt_ conj real imag angle max min amax amin clamp clamp_ prod "
    "std var addcmul addcmul_ addcdiv addcdiv_".split()
)
WHY = (
    "a pair of real numbers for each complex one, as torch's optimizers see it: MindSpore's take no complex weights; "
    "assumed: nobody counts them, or asks for their shape, but through their class"
)


def paired(project: Project) -> dict[str, Plain]:
    """What becomes of the modules whose classes have complex parameters, by name."""
    found: dict[str, set[int]] = {}
    for module in project.modules.values():
        if not module.has("Parameter") or not module.says(COMPLEX) or module.uses_mindspore:
            continue
        for cls in module.classes.values():
            for name, values in _complex_parameters(cls).items():
                reads = _reads(cls, name, project)
                for where, node in [(module.name, v) for v in values] + reads if reads is not None else []:
                    found.setdefault(where, set()).add(id(node))
    if found and any(map(_measures, project.modules.values())):
        return {}  # refused as complex weights
    return {name: _Pairs(project.modules[name], nodes).plain() for name, nodes in found.items()}


def _measures(module: ModuleInfo) -> bool:
    """An optimizer of the project's own, or a loop over parameters, may ask for the size or sign of each number."""
    if any(base.startswith("torch.optim") for cls in module.classes.values() for base in (cls.torch_base, *cls.bases)):
        return True
    loops: list[cst.CSTNode] = [n for n in module.of_kind(cst.For) if "param" in code(n.iter)]
    for kind in (cst.GeneratorExp, cst.ListComp, cst.DictComp, cst.SetComp):
        loops += [n for n in module.of_kind(kind) if "param" in code(n.for_in.iter)]
    inside = [inner for loop in loops for inner in descend(loop)]
    asked = any(type(n) is cst.Attribute and n.attr.value in MEASURING for n in inside)
    return asked or any(type(n) is cst.BinaryOperation and type(n.operator) is cst.Power for n in inside)


def _torch(module: ModuleInfo) -> str:
    """The name of torch in a module."""
    return next((name for name, full in module.imports.table.items() if full == "torch"), "")


def _complex_parameters(cls: ClassInfo) -> dict[str, list[cst.BaseExpression]]:
    """The Parameters that `self.NAME = nn.Parameter(value)` sets, where all that the attribute gets are complex."""
    found: dict[str, list[cst.BaseExpression]] = {}
    others: set[str] = set()
    for method in cls.methods.values() if _torch(cls.module) else ():
        for stmt in method.scope.body.walk():
            node = stmt.node
            for target in node.targets if isinstance(node, cst.Assign) else ():
                name = dotted(target.target).removeprefix("self.") if isinstance(target.target, cst.Attribute) else ""
                assert isinstance(node, cst.Assign)
                values = _held(node.value, cls.module)
                found.setdefault(name, []).extend(values)
                others |= set() if values and len(node.targets) == 1 and "." not in name else {name}
    return {name: values for name, values in found.items() if name not in others}


def _held(node: cst.BaseExpression, module: ModuleInfo) -> list[cst.BaseExpression]:
    """The calls that make complex Parameters: one, or all of a ParameterList."""
    if not isinstance(node, cst.Call) or not node.args or node.args[0].star:
        return []
    first, name = node.args[0], module.value(node.func).name
    if name in PARAMETER:
        given = first.keyword is None or first.keyword.value == "data"
        return [node] if given and _is_complex(first.value, module) else []
    if name != LIST:
        return []
    if isinstance(first.value, (cst.ListComp, cst.GeneratorExp)):
        return _held(first.value.elt, module)
    parts = [_held(e.value, module) for e in first.value.elements] if isinstance(first.value, cst.List) else []
    return [v for part in parts for v in part] if all(parts) else []


def _is_complex(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A product or sum is where one side is."""
    if isinstance(node, cst.BinaryOperation):
        return _is_complex(node.left, module) or _is_complex(node.right, module)
    value = module.value(node)
    return value.kind == "tensor" and value.dtype.startswith("complex")


def _reads(cls: ClassInfo, name: str, project: Project) -> list[tuple[str, cst.CSTNode]] | None:
    """Where the attribute is read, by the module; None where it is changed, or whose it is is not seen."""
    family = [cls, *cls.below()]
    listed = (value := cls.attr(name)) is None or value.kind != "tensor" and not value.leaf
    found: list[tuple[str, cst.CSTNode]] = []
    for module in project.modules.values():
        if re.search(rf"""["']{name}["']""", module.source):
            return None
        asked = [n for n in module.of_kind(cst.Attribute) if n.attr.value == name] if module.has(f".{name}") else []
        inside = {id(n) for one in family if asked and one.module is module for n in descend(one.scope.node)}
        around = _around(module) if asked else {}
        for node in asked:
            of = module.value(node.value)
            if id(node) not in inside or dotted(node.value) != "self":
                if of.kind in OTHERS or of.kind == "module" and of.name in {one.qualified for one in family}:
                    return None
                continue
            read: cst.BaseExpression = node
            outer = around.get(id(node))
            if isinstance(outer, cst.AssignTarget):
                continue
            if listed and isinstance(outer, cst.Call) and dotted(outer.func) == "len":
                continue
            if listed:
                if not isinstance(outer, cst.Subscript) or len(outer.slice) != 1 or ":" in code(outer.slice[0]):
                    return None
                read, outer = outer, around.get(id(outer))
            if not _torch(module) or outer is not None and _changes(outer):
                return None
            found.append((module.name, read))
    return found


def _around(module: ModuleInfo) -> dict[int, cst.CSTNode]:
    """What asks for an attribute or for elements of a node, or gives it a value, by the id of the node."""
    found: dict[int, cst.CSTNode] = {}
    for kind, part in AROUND:
        found |= {id(getattr(node, part)): node for node in module.of_kind(kind)}
    changing = [c for c in module.of_kind(cst.Call) if (called := name_called(c)) == "len" or called.endswith("_")]
    return found | {id(arg.value): call for call in changing for arg in call.args}


def _changes(outer: cst.CSTNode) -> bool:
    """`self.w.data`, `self.w.mul_`, `self.w += x`, `nn.init.normal_(self.w)`"""
    if isinstance(outer, cst.Attribute):
        name = outer.attr.value
        return name in CHANGING or name.endswith("_") and not name.endswith("__")
    return isinstance(outer, (cst.AugAssign, cst.AssignTarget, cst.Del, cst.Call))


class _Pairs(Suites):
    """One module with real parameters for the complex ones."""

    def __init__(self, module: ModuleInfo, found: set[int]) -> None:
        super().__init__(module)
        self.found, self.torch = found, _torch(module)

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        if id(original) not in self.found:
            return updated
        self.findings.append(Finding("T2M604", Tier.ASSUMED, "complex Parameter", WHY, line=self.line))
        return updated.with_changes(args=[self.seen("view_as_real", updated.args[0]), *updated.args[1:]])

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        return self.read(updated) if id(original) in self.found else updated

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        return self.read(updated) if id(original) in self.found else updated

    def read(self, node: cst.BaseExpression) -> cst.Call:
        func = cst.Attribute(cst.Name(self.torch), cst.Name("view_as_complex"))
        return cst.Call(func, [cst.Arg(node)])

    def seen(self, name: str, arg: cst.Arg) -> cst.Arg:
        func = cst.Attribute(cst.Name(self.torch), cst.Name(name))
        return arg.with_changes(value=cst.Call(func, [cst.Arg(arg.value)]))
