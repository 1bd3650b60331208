"""`hasattr(optimizer, "is_second_order") and ...`, asked of optimizers of torch, which have nothing of that name.

What it decides is then known: a backward call that would keep its graph for such an optimizer keeps none.
"""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

OWN = {"param_groups", "state", "defaults", "step", "zero_grad", "state_dict", "load_state_dict", "add_param_group"}
KEEPS = ("create_graph", "retain_graph")
NOBODY = "it is off, and no caller of the project turns it on"
READ = re.compile(r"\.grad\b(?!\()|\bhook|[\"']grad[\"']")  # who may see that gradients have a graph
UNREAD = "torch's optimizers alone take these gradients, and leave their graph"
WHY = "an optimizer of torch has nothing of this name"


@each_module
def asked(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that asks optimizers so."""
    if not module.has("hasattr(opt"):
        return None
    writer = Asked(module)
    made = writer.plain()
    return made if writer.findings else None


def lacks(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """`hasattr` of an optimizer and a name that those of torch do not have."""
    if not isinstance(node, cst.Call) or dotted(node.func) != "hasattr" or len(node.args) != 2:
        return False
    value, name = module.value(node.args[0].value), constant(node.args[1].value)
    of_torch = not value.name or value.name.startswith("torch.")
    return value.kind == "optimizer" and of_torch and isinstance(name, str) and name not in OWN


def never(node: cst.CSTNode, module: ModuleInfo) -> bool:
    """A condition that begins with such a question."""
    if isinstance(node, cst.BooleanOperation) and isinstance(node.operator, cst.And):
        return never(node.left, module)
    return lacks(node, module)


class Asked(Suites):
    """One module with the answers."""

    def __init__(self, module: ModuleInfo) -> None:
        super().__init__(module)
        self.flags = {key for scope in module.scope.walk() for key in _flags(scope, module)}

    def leave_BooleanOperation(
        self, original: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        return cst.Name("False") if never(original, self.module) else updated

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if not lacks(original, self.module):
            return updated
        self.findings.append(Finding("T2M535", Tier.EXACT, "hasattr", WHY, line=self.line))
        return cst.Name("False")

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        return updated.with_changes(value=cst.Name("False")) if id(original) in self.flags else updated


def _flags(scope: Scope, module: ModuleInfo) -> set[int]:
    """Arguments that keep graphs, by id, whose names the scope binds to such a condition alone."""
    stmts = list(scope.body.walk())
    bound = [d for s in stmts for d in s.defs]
    names = {
        d for s in stmts if isinstance(s.node, cst.Assign) and never(s.node.value, module)
        for d in s.defs if bound.count(d) == 1
    }  # fmt: skip
    calls = [n for s in stmts if not s.blocks for n in s.nodes if type(n) is cst.Call] if names else []
    return {
        id(a) for c in calls for a in c.args
        if a.keyword is not None and a.keyword.value in KEEPS and dotted(a.value) in names
    }  # fmt: skip


def unkept(project: Project) -> dict[str, Plain]:
    """What becomes of modules whose functions keep graphs if their callers ask for it, where nobody does, by name."""
    found: dict[str, Plain] = {}
    for module in project.modules.values():
        if not module.uses_mindspore and (args := _never(module, project) | _unread(module, project)):
            found[module.name] = Unkept(module, args).plain()
    return found


class Unkept(Suites):
    """One module, without these graphs."""

    def __init__(self, module: ModuleInfo, args: set[int]) -> None:
        super().__init__(module)
        self.args = args

    def leave_Arg(self, original: cst.Arg, updated: cst.Arg) -> cst.Arg:
        if id(original) not in self.args:
            return updated
        on = constant(original.value) is True
        tier, why = (Tier.EXACT, UNREAD) if on else (Tier.ASSUMED, NOBODY)
        self.findings.append(Finding("T2M535", tier, code(original), why, line=self.line))
        if on:  # the graph of the loss is kept as well then
            return updated.with_changes(keyword=cst.Name("retain_graph"))
        return updated.with_changes(value=cst.Name("False"))


def _never(module: ModuleInfo, project: Project) -> set[int]:
    """`loss.backward(create_graph=create_graph)`, by id of the argument, where no caller asks for what is off."""
    found: set[int] = set()
    for scope in module.scope.walk() if "create_graph=create_graph" in module.source.replace(" ", "") else ():
        if not scope.is_function or not _off(scope.node) or any("create_graph" in s.defs for s in scope.body.walk()):
            continue
        args = [a for s in scope.body.walk() for c in s.calls for a in c.args]
        own = [a for a in args if a.keyword is not None and a.keyword.value == dotted(a.value) == "create_graph"]
        if own and not _wanted(scope, project):
            found |= {id(a) for a in own}
    return found


def _unread(module: ModuleInfo, project: Project) -> set[int]:
    """`loss.backward(create_graph=True)`, by id of the argument, whose gradients only optimizers of torch take."""
    if not module.has("create_graph=True") or project.says(READ):
        return set()
    made = [v for m in project.modules.values() for v in m.values.values() if v.kind == "optimizer"]
    if not made or not all(v.name.startswith("torch.optim.") for v in made):
        return set()
    calls = [n for n in module.nodes if type(n) is cst.Call and dotted(n.func).endswith(".backward")]
    alone = [c.args[0] for c in calls if len(c.args) == 1]
    return {id(a) for a in alone if a.keyword and a.keyword.value == "create_graph" and constant(a.value) is True}


def _off(node: cst.CSTNode) -> bool:
    """A function keeps no graph unless callers ask for it, by name."""
    params = [*node.params.params, *node.params.kwonly_params] if isinstance(node, cst.FunctionDef) else []
    return any(p.name.value == "create_graph" and p.default is not None and not constant(p.default) for p in params)


def _wanted(scope: Scope, project: Project) -> bool:
    """Somebody may ask for it: by its name, or among other arguments."""
    params = scope.params
    before = params.index("create_graph") - (scope.cls is not None) if "create_graph" in params else 0
    for module in project.modules.values():
        flags = {key for inner in module.scope.walk() for key in _flags(inner, module)}
        for node in module.nodes:
            if type(node) is not cst.Call:
                continue
            named = [a for a in node.args if a.keyword is not None and a.keyword.value == "create_graph"]
            if any(constant(a.value) is not False and dotted(a.value) != "create_graph" and id(a) not in flags
                   for a in named):  # fmt: skip
                return True
            may_be = module.value(node.func).kind not in ("api", "builtin", "class", "module", "tensor")
            many = len([a for a in node.args if a.keyword is None]) > before or any(a.star for a in node.args)
            if may_be and many and dotted(node.func).rpartition(".")[2] not in ("print", "zip"):
                return True
    return False


# `if torch.is_grad_enabled(): optimizer.zero_grad()` and `if loss.requires_grad: loss.backward()` in a closure: an
# optimizer calls the closure that its `step` is handed with gradients on, so that both conditions hold

CONDITIONS = ("is_grad_enabled():", ".requires_grad:")  # the ends of such conditions
OFF = ("no_grad", "inference_mode", "set_grad_enabled")
CALLED = "an optimizer calls its closure with gradients on"


@each_module
def recording(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module whose closures ask so."""
    source = module.source
    if CONDITIONS[0] not in source and CONDITIONS[1] not in source or not _hands(source):
        return None
    closures = _closures(module)
    writer = Recording(module, {id(n) for f in closures for n in _held(f, module)})
    return writer.plain() if writer.known else None


def _hands(source: str) -> bool:
    """`step` may be handed a function of the module: a cheap question, of its text."""
    given = {part.partition(")")[0].rpartition(".")[2].strip() for part in source.split(".step(")[1:]} - {""}
    return any(f"def {name}(" in source for name in given)


class Recording(Suites):
    """One module, whose closures ask no more."""

    def __init__(self, module: ModuleInfo, known: set[int]) -> None:
        super().__init__(module)
        self.known = known

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        if id(original) not in self.known or type(updated) is not cst.If or type(original) is not cst.If:
            return super().compound(original, updated)
        self.findings.append(Finding("T2M535", Tier.EXACT, code(original.test), CALLED, line=self.line))
        return self.opened(updated)


def _closures(module: ModuleInfo) -> list[cst.FunctionDef]:
    """The functions that `step` is handed; where gradients are off somewhere in the module, nobody else has them."""
    given: dict[str, int] = {}
    mentions: dict[str, int] = {}
    found: list[cst.FunctionDef] = []
    for node in module.nodes:
        if type(node) is cst.FunctionDef:
            found.append(node)
            mentions[node.name.value] = mentions.get(node.name.value, 0) - 1
        elif type(node) is cst.Name:
            mentions[node.value] = mentions.get(node.value, 0) + 1
        elif type(node) is cst.Call and type(node.func) is cst.Attribute and node.func.attr.value == "step":
            for arg in node.args:
                name = dotted(arg.value).rpartition(".")[2]
                given[name] = given.get(name, 0) + 1
    always = not any(module.has(word) for word in OFF)
    return [f for f in found if (n := given.get(f.name.value, 0)) and (always or n == mentions[f.name.value])]


def _held(function: cst.FunctionDef, module: ModuleInfo) -> list[cst.If]:
    """The conditions in a closure that hold whenever the optimizer calls it."""
    return [n for n in descend(function.body) if type(n) is cst.If and n.orelse is None and _asks(n, module)]


def _asks(node: cst.If, module: ModuleInfo) -> bool:
    test = node.test
    if type(test) is cst.Call:
        return module.value(test.func).name == "torch.is_grad_enabled"
    if type(test) is not cst.Attribute or test.attr.value != "requires_grad" or type(test.value) is not cst.Name:
        return False
    calls = (dotted(n.func) for n in descend(node.body) if type(n) is cst.Call)
    return f"{test.value.value}.backward" in calls
