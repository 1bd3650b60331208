"""`optimizer.state_dict()["param_groups"]` to read a learning rate, written as `optimizer.param_groups`.

`optimizer.param_groups[0].update(lr=0.1)` becomes a statement for each setting.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import constant
from torch2ms.editing.suites import Suites
from torch2ms.wrappers.passes import each_module


@each_module
def direct(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that reads groups so."""
    if not (module.has("state_dict()[") or module.has(".update(")):
        return None
    if not _reads_groups(module):
        return None
    groups = Groups(module)
    made = groups.plain()
    return made if groups.changed else None


def _reads_groups(module: ModuleInfo) -> bool:
    """A group is updated, or the state of something asked for what it holds."""
    for call in module.of_kind(cst.Call):
        func = call.func
        name = func.attr.value if isinstance(func, cst.Attribute) else ""
        held = func.value if isinstance(func, cst.Attribute) else func
        if name == "state_dict" or name == "update" and module.value(held).name == "param_group":
            return True
    return False


class Groups(Suites):
    """One module, with the groups themselves."""

    changed = False

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.numbered: set[int] = set()  # groups whose parameters are asked for: a state has their numbers

    def visit_Subscript(self, node: cst.Subscript) -> bool | None:
        key = node.slice[0].slice
        if isinstance(key, cst.Index) and constant(key.value) == "params" and isinstance(node.value, cst.Subscript):
            self.numbered.add(id(node.value.value))
        return None

    def small(self, node: cst.BaseSmallStatement) -> list[cst.CSTNode]:
        call = node.value if type(node) is cst.Expr else None
        func = call.func if type(call) is cst.Call else None
        if type(call) is not cst.Call or type(func) is not cst.Attribute or func.attr.value != "update":
            return super().small(node)
        settings = _settings(call)
        if self.module.value(func.value).name != "param_group" or not settings:
            return super().small(node)
        self.changed = True
        return [_write(func.value, key, value) for key, value in settings.items()]

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        call, index = updated.value, original.slice[0].slice
        if not isinstance(original.value, cst.Call) or not isinstance(original.value.func, cst.Attribute):
            return updated
        asked = constant(index.value) if isinstance(index, cst.Index) and len(original.slice) == 1 else None
        func = original.value.func
        if func.attr.value != "state_dict" or asked != "param_groups" or not dotted(func.value):
            return updated
        if id(original) in self.numbered:
            return updated
        if self.module.value(func.value).kind != "optimizer" or not isinstance(call, cst.Call):
            return updated
        self.changed = True
        assert isinstance(call.func, cst.Attribute)
        return call.func.with_changes(attr=cst.Name("param_groups"))


def _settings(call: cst.Call) -> dict[str, cst.BaseExpression]:
    """What `update` writes, by key; nothing where that is not seen."""
    args = list(call.args)
    found: dict[str, cst.BaseExpression] = {}
    if args and args[0].keyword is None and isinstance(listed := args[0].value, cst.Dict) and not args[0].star:
        args.pop(0)
        for element in listed.elements:
            key = constant(element.key) if isinstance(element, cst.DictElement) else None
            if not isinstance(key, str):
                return {}
            found[key] = element.value
    if any(arg.keyword is None for arg in args):
        return {}
    return found | {arg.keyword.value: arg.value for arg in args if arg.keyword is not None}


def _write(group: cst.BaseExpression, key: str, value: cst.BaseExpression) -> cst.Assign:
    """`group["lr"] = 0.1`"""
    index = cst.SubscriptElement(cst.Index(cst.SimpleString(f'"{key}"')))
    target = cst.Subscript(group.deep_clone(), [index])
    return cst.Assign([cst.AssignTarget(target)], value.deep_clone())
