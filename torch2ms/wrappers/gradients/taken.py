"""What networks have under names that nn.Cell has for something else: `self.cells` becomes `self.cells_`.

Likewise what a program keeps on an optimizer under a name that MindSpore's have: `optimizer.parameters = ...`.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import Value
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier

# what nn.Cell has and nn.Module has not, as far as it is a word that somebody would use
TAKEN = {
    "add_flags", "cast_inputs", "cells", "cells_and_names", "check_names", "cls_name", "compiled", "construct",
    "create_time", "extend_repr", "get_flags", "get_inputs", "get_parameters", "get_scope", "global_cells",
    "init_parameters_data", "name_cells", "offload", "param_prefix", "parameters_dict", "phase", "recompute",
    "run_construct", "set_boost", "set_grad", "set_inputs", "set_train", "shard", "to_float", "trainable_params",
    "untrainable_params", "_add_attr", "_backward_hook", "_complex_call", "_forward_hook", "_init_check", "_recompute",
    "_self_check", "_set_scope",
}  # fmt: skip
# what MindSpore's optimizers have and torch's have not; they are cells, too
OF_OPTIMIZERS = TAKEN | {"accum", "group_start_id", "implementation", "lrs", "map_", "parameters", "stat"}
KEPT = re.compile(rf"\.({'|'.join(sorted(OF_OPTIMIZERS))})[ \t]*=(?!=)")


def out_of_the_way(project: Project) -> dict[str, Plain]:
    """What becomes of the modules that name such attributes or methods, by name."""
    classes = [c for m in project.modules.values() for c in m.classes.values()]
    cells = [cls for cls in classes if cls.kind == "module"]
    names = {name for cls in cells for name in TAKEN & (cls.attrs.keys() | cls.methods.keys())}
    kept = {name for module in project.modules.values() if module.says(KEPT) for name in _kept(module)}
    if not names and not kept:
        return {}
    # methods that nothing but networks have: a call finds them wherever it stands
    theirs = {name for name in names if all(cls in cells for cls in classes if name in cls.methods)}
    theirs = {name for name in theirs if any(name in cls.methods for cls in cells)}
    plain: dict[str, Plain] = {}
    for module in project.modules.values():
        if module.uses_mindspore or module.directives.off:
            continue
        found = _found(names, theirs, module, project) if names else {}
        found |= _on_optimizers(kept, module) if kept else {}
        if found:
            plain[module.name] = _Renamer(module, found).plain()
    return plain


def _found(names: set[str], theirs: set[str], module: ModuleInfo, project: Project) -> dict[int, str]:
    """The names to change in a module, by id of their nodes."""
    found: dict[int, str] = {}
    for cls in module.classes.values() if module.classes else ():
        for name in names & cls.methods.keys() if cls.kind == "module" else ():
            if cls.methods[name].cls is cls and isinstance(made := cls.methods[name].scope.node, cst.FunctionDef):
                found[id(made.name)] = f"{name}_"
    for scope in module.scope.walk():
        own = module.classes.get(scope.cls.name) if scope.cls is not None else None
        for stmt in scope.body.walk():
            called = {id(call.func) for call in stmt.calls if name_called(call) in theirs}
            nodes = stmt.nodes if not stmt.blocks else [n for e in _heads(stmt.node) for n in descend(e)]
            for node in nodes:
                if type(node) is not cst.Attribute or node.attr.value not in names:
                    continue
                value = module.value(node.value)
                unseen = id(node) in called and value.kind in ("unknown", "object", "module")
                if unseen or _has(node.attr.value, node.value, value, own, module, project):
                    found[id(node.attr)] = f"{node.attr.value}_"
    return found


def _kept(module: ModuleInfo) -> set[str]:
    """The names under which a module keeps something on an optimizer."""
    targets = [t.target for n in module.of_kind(cst.Assign) for t in n.targets]
    return {t.attr.value for t in targets if type(t) is cst.Attribute and _on_optimizer(t, OF_OPTIMIZERS, module)}


def _on_optimizers(names: set[str], module: ModuleInfo) -> dict[int, str]:
    """The names to change in a module where it speaks of what is kept so, by id of their nodes."""
    nodes = [n for n in module.of_kind(cst.Attribute) if _on_optimizer(n, names, module)]
    return {id(node.attr): f"{node.attr.value}_" for node in nodes}


def _on_optimizer(node: cst.Attribute, names: set[str], module: ModuleInfo) -> bool:
    return node.attr.value in names and module.value(node.value).kind == "optimizer"


def _heads(node: cst.CSTNode) -> list[cst.CSTNode]:
    """The expressions of a compound statement itself."""
    if isinstance(node, (cst.If, cst.While)):
        return [node.test]
    if isinstance(node, cst.For):
        return [node.target, node.iter]
    return [i.item for i in node.items] if isinstance(node, cst.With) else []


def _has(
    name: str, node: cst.BaseExpression, value: Value, own: ClassInfo | None, module: ModuleInfo, project: Project
) -> bool:
    """The object is a network with the attribute, for all that is seen."""
    if dotted(node) == "self" or isinstance(node, cst.Call) and dotted(node.func) == "super":
        return own is not None and own.kind == "module" and _named(name, own)
    if value.kind != "module":
        return False
    cls = project.find(value.name, module) if value.name else None
    return not isinstance(cls, ClassInfo) or _named(name, cls)


def _named(name: str, cls: ClassInfo) -> bool:
    return cls.attr(name) is not None or cls.method(name) is not None


class _Renamer(Suites):
    """One module with other names for these attributes and methods."""

    def __init__(self, module: ModuleInfo, found: dict[int, str]) -> None:
        super().__init__(module)
        self.found = found

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.Name:
        name = self.found.get(id(original))
        if name is None:
            return updated
        has = "nn.Cell has" if original.value in TAKEN else "MindSpore's optimizers have"
        why = f"{has} something else under this name: {name}"
        self.findings.append(Finding("T2M515", Tier.EXACT, original.value, why, line=self.line))
        return updated.with_changes(value=name)
