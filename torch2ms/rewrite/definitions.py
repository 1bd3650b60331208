"""Functions and classes: heads, decorators and bases around translated bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, Project
from torch2ms.analysis.syntax.annotations import as_written
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import changed, descend
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.calls import own_name
from torch2ms.rewrite.leftovers import kept_whole
from torch2ms.rewrite.parameters.growing import growing
from torch2ms.rewrite.signatures import with_parameters

if TYPE_CHECKING:
    from torch2ms.rewrite.emit import Emitter

COMPILERS = {
    "torch.compile",
    *(f"torch.jit.{name}" for name in ("script", "script_method", "ignore", "unused", "export")),
    *(f"torch.jit.{name}" for name in ("_overload", "_overload_method")),
}  # decorators that a function works without
# what torch calls itself where states are saved and loaded
STATE_METHODS = ("get_extra_state", "set_extra_state", "_load_from_state_dict", "_save_to_state_dict")
RECORDERS = ("torch.enable_grad", "torch.autograd.enable_grad")


@once
def _loaded(project: Project) -> frozenset[str]:
    """The names of what loaders take their samples from."""
    calls = ((m, c) for m in project.modules.values() for s in m.scope.walk() for t in s.body.walk() for c in t.calls)
    return frozenset(m.value(c.args[0].value).name for m, c in calls if c.args and m.value(c).kind == "loader")


class Definitions:
    """`def` and `class` statements of a module."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.writer = emitter.writer
        self.module = emitter.writer.module

    def function_def(self, node: cst.FunctionDef) -> cst.FunctionDef:
        scope = self.emitter.by_node[id(node)]
        info = self.module.functions[id(scope)]
        outer, outer_scope = self.writer.differentiated, self.writer.scope
        head = self.writer.plan.heads.get(id(node))
        self.writer.differentiated = info.differentiated and head is None
        self.writer.scope = scope
        decorators, above = self.decorators(node, info)
        if info.cls is not None and info.cls.kind == "module" and info.name in STATE_METHODS:
            why, todo = "no cell of MindSpore calls it", "call it where the program saves and loads states"
            self.writer.refuse("T2M605", f"torch.nn.Module.{info.name}", why, todo)
        params = self.writer.expression(head.params if head is not None else node.params)
        if head is None:
            assert isinstance(params, cst.Parameters)
            params = with_parameters(node, params, self.writer.plan)
        typed = node.returns is not None and (head is None or head.returns)
        returns = self.writer.expression(node.returns) if typed and node.returns is not None else None
        name = head.name if head is not None else self.method_name(info)
        held, self.writer.marked = self.writer.marked, []
        waiting, self.writer.above = self.writer.above, []
        body = self.emitter.body(scope.body)
        self.writer.marked, self.writer.above = held, waiting
        self.writer.differentiated, self.writer.scope = outer, outer_scope
        if info.name == "__init__" and growing(info) > 1 and isinstance(body, cst.IndentedBlock):
            self.writer.tell("T2M514", "names of parameters", "lists filled one by one give their layers equal names")
            last = layout.parse("self.update_parameters_name()")
            body = body.with_changes(body=[*body.body, *last])
        if body is None:
            body = self.emitter.emptied(scope.body)
        if index := self.tensor_index(info):
            body = layout.prepended(layout.opened(body), layout.parse(f"{index} = int({index})"))
        named = changed(node.name, value=name)
        result = changed(node, body=body, params=params, decorators=decorators, returns=returns, name=named)
        if above:
            result = result.with_changes(leading_lines=[*result.leading_lines, *above])
        return result

    def decorators(self, node: cst.FunctionDef, info: FunctionInfo) -> tuple[list[cst.Decorator], layout.Lines]:
        kept: list[cst.Decorator] = []
        above: layout.Lines = ()
        head = self.writer.plan.heads.get(id(node))
        for decorator in node.decorators:
            called = decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator
            if head is not None and dotted(called).rpartition(".")[2] in head.dropped:
                above += layout.inner_comments(decorator)
            elif any(line.comment is not None and "T2M304" in line.comment.value for line in node.leading_lines):
                kept.append(decorator)  # an earlier conversion refused it
            elif self.module.value(called).name in COMPILERS:
                above += layout.inner_comments(decorator)
                name, why = self.module.value(called).name, "dropped: it steers PyTorch's compiler and changes no value"
                self.writer.findings.append(Finding("T2M602", Tier.EXACT, name, why, line=self.writer.line))
            elif self.module.value(called).name in RECORDERS and not info.differentiated:
                above += layout.inner_comments(decorator)
                why = "its gradient functions record by themselves: the decorator goes"
                self.writer.findings.append(
                    Finding("T2M301", Tier.EXACT, "enable_grad decorator", why, line=self.writer.line)
                )
            elif is_no_grad(decorator.decorator, self.module):
                above += layout.inner_comments(decorator)
                why = "nothing is recorded outside gradient functions: the decorator goes"
                tier, code_ = Tier.EXACT, "T2M301"
                finding = Finding(code_, tier, "no_grad decorator", why, line=self.writer.line)
                cut = self.returns(info) if info.differentiated else []
                if cut is None:
                    finding = Finding("T2M304", Tier.REFUSED, "no_grad decorator",
                                      "the function also runs inside a gradient function",
                                      "put ops.stop_gradient around what it returns", self.writer.line)  # fmt: skip
                    self.writer.marked.append(finding)
                    kept.append(decorator)
                self.writer.findings.append(finding)
                for value in cut or ():
                    self.emitter.statements.stopped.add(id(value))
            else:
                kept.append(changed(decorator, decorator=self.writer.expression(decorator.decorator)))
        return kept, above

    def returns(self, info: FunctionInfo) -> list[cst.BaseExpression] | None:
        """The tensors a no_grad function returns, whose gradients are stopped; None where they are not seen."""
        found: list[cst.BaseExpression] = []
        for stmt in info.scope.body.walk():
            if not isinstance(stmt.node, cst.Return) or stmt.node.value is None:
                continue
            value = stmt.node.value
            parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
            if any(type(part) is cst.StarredElement for part in parts):
                return None
            found += parts
        return found

    def class_def(self, node: cst.ClassDef) -> cst.ClassDef:
        scope = self.emitter.by_node[id(node)]
        cls = self.module.classes[node.name.value]
        if cls.scope.node is not node and (cls.kind == "module" or node.bases):
            why, todo = "another class of the file has this name, and is taken for it", "give one of them another name"
            self.writer.refuse("T2M501", f"class {node.name.value}", why, todo)
        bases = self.bases(cls, node)
        if cls.refused:
            todo = f"write a Cell with construct and bprop: {cls.refused}"
            self.writer.refuse("T2M402", "autograd.Function", cls.refused, todo)
            return kept_whole(as_written(node, self.module.annotated), scope, cls.refused, self.writer)
        decorators = [changed(d, decorator=self.writer.expression(d.decorator)) for d in node.decorators]
        held, self.writer.marked = self.writer.marked, []
        outer, self.writer.scope = self.writer.scope, scope
        body = self.emitter.body(scope.body)
        self.writer.scope = outer
        self.writer.marked = held
        result = changed(node, body=body or self.emitter.emptied(scope.body), decorators=decorators)
        if bases != list(node.bases):
            result = result.with_changes(bases=bases)
            if not bases and not node.keywords:
                result = result.with_changes(lpar=cst.MaybeSentinel.DEFAULT, rpar=cst.MaybeSentinel.DEFAULT)
        return result

    def bases(self, cls: ClassInfo, node: cst.ClassDef) -> list[cst.Arg]:
        kept = []
        for arg in node.bases:
            name = qualified(arg.value, self.module.imports)
            if name in ("torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.modules.Module"):
                self.writer.needs.add("nn")
                self.writer.tell("T2M501", "nn.Module", "nn.Cell; forward becomes construct")
                alias = self.writer.aliases.get("nn", "nn")
                kept.append(arg.with_changes(value=cst.Attribute(cst.Name(alias), cst.Name("Cell"))))
            elif name.startswith("torch.utils.data.") and name.rpartition(".")[2] in ("Dataset", "IterableDataset"):
                self.writer.tell(
                    "T2M504", "Dataset", "any object with __getitem__ and __len__ is a source of a MindSpore dataset"
                )
            elif name.startswith("torch.autograd") and name.endswith("Function"):
                if cls.refused:
                    kept.append(arg)
                else:
                    self.writer.needs.add("nn")
                    kept.append(
                        arg.with_changes(value=cst.parse_expression(f"{self.writer.aliases.get('nn', 'nn')}.Cell"))
                    )
            elif name.startswith("torch.utils.data.") and name.endswith(".DataLoader"):
                kept.append(arg.with_changes(value=self.writer.expression(arg.value)))  # one that takes its arguments
            else:
                kept.append(changed(arg, value=self.writer.base(arg.value, cls)))
        if kept and len(kept) < len(node.bases):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return kept

    def tensor_index(self, info: FunctionInfo) -> str:
        """The index a dataset's `__getitem__` puts into a tensor: the pipeline's NumPy integers are refused there."""
        if info.cls is None or info.name != "__getitem__" or len(info.scope.params) != 2:
            return ""
        if info.cls.kind != "dataset" and not self.loaded(info.cls):
            return ""
        names, found = {info.scope.params[1]}, False  # ... and what is computed from it
        for stmt in info.scope.body.walk():
            for node in stmt.nodes if not stmt.blocks else ():
                if isinstance(node, cst.Subscript) and self.module.value(node.value).kind == "tensor":
                    found = found or any(
                        type(n) is cst.Name and n.value in names for e in node.slice for n in descend(e)
                    )
            if type(stmt.node) is cst.Assign and isinstance(stmt.node.value, (cst.Name, cst.BinaryOperation)):
                names |= stmt.defs if names & stmt.uses else set()
        if not found:
            return ""
        why = "a NumPy integer in MindSpore, which tensors refuse: made an int"
        self.writer.tell("T2M504", "index of a dataset", why)
        return info.scope.params[1]

    def loaded(self, cls: ClassInfo) -> bool:
        """A loader takes its samples from an object of the class, which has no base of torch."""
        return cls.qualified in _loaded(self.writer.project)

    def method_name(self, info: FunctionInfo) -> str:
        if info.cls is not None and info.cls.kind == "module":
            name = own_name(info)
            if name == "set_train":
                why = "set_train; assumed: it is called on this module, MindSpore does not call those of cells inside"
                self.writer.tell("T2M306", "train of its own", why, Tier.ASSUMED)
            return name
        return "construct" if id(info.scope.node) in self.writer.plan.steps else info.name
