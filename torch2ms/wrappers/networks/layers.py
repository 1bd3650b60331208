"""Layers written by hand as plain classes, with a list of their tensors, become modules.

`class Linear: ... def __call__(self, x): ... def parameters(self): return [self.weight, self.bias]`: the tensors begin
to accumulate gradients when the program flags them all. A module whose parameters they are from the start is the same.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.editing import layout
from torch2ms.editing.suites import Made, Suites
from torch2ms.wrappers.passes import each_module

Kept = dict[str, str]  # attribute -> what holds it: Parameter or ModuleList
HOLDERS = {False: "Parameter", True: "ModuleList"}


@each_module
def as_modules(module: ModuleInfo, _: Project) -> Plain | None:
    """What becomes of a module that has such classes."""
    if not module.has("requires_grad") or not module.has("def parameters"):
        return None
    library = next((n for n, full in module.imports.table.items() if full == "torch.nn"), "")
    if not library and module.imports.table.get("torch") == "torch":
        library = "torch.nn"
    layers = [c for c in module.classes.values() if _layer(c)]
    found = {id(c.scope.node): kept for c in layers if (kept := _kept(c)) is not None}
    return Layers(module, library, found).plain() if library and found and len(found) == len(layers) else None


def _layer(cls: ClassInfo) -> bool:
    """A class of no family that is called, and lists its parameters."""
    return all(base == "object" for base in cls.bases) and {"__call__", "parameters"} <= cls.methods.keys()


def _kept(cls: ClassInfo) -> Kept | None:
    """What the class lists, in the order in which it is made; None where that is not seen."""
    body = [s for s in cls.methods["parameters"].scope.body.stmts if not is_docstring(s.node)]
    returned = body[0].node if len(body) == 1 else None
    listed = _listed(returned.value) if isinstance(returned, cst.Return) and returned.value is not None else None
    if listed is None or not listed and "__init__" not in cls.methods:
        return listed
    if "__init__" not in cls.methods or "super" in {dotted(c.func) for s in _all(cls) for c in s.calls}:
        return None
    made = [name for s in _all(cls) if (name := _attribute(s.node)) in listed]
    elsewhere = {d for m in cls.methods.values() if m.name != "__init__" for s in m.scope.body.walk() for d in s.defs}
    return listed if made == list(listed) and not any(f"self.{n}" in elsewhere for n in listed) else None


def _all(cls: ClassInfo) -> list[Stmt]:
    return list(cls.methods["__init__"].scope.body.walk())


def _attribute(node: cst.CSTNode) -> str:
    """The attribute that a statement gives a value."""
    target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
    place = dotted(target) if isinstance(target, cst.Attribute) else ""
    return place.removeprefix("self.") if place.startswith("self.") and place.count(".") == 1 else ""


def _listed(node: cst.BaseExpression) -> Kept | None:
    """`[self.w] + ([] if self.b is None else [self.b])`, `[p for layer in self.layers for p in layer.parameters()]`"""
    if isinstance(node, cst.List):
        places = [dotted(e.value) for e in node.elements]
        own = all(p.startswith("self.") and p.count(".") == 1 for p in places)
        return {p.removeprefix("self."): HOLDERS[False] for p in places} if own else None
    if isinstance(node, (cst.BinaryOperation, cst.IfExp)):
        sides = (node.left, node.right) if isinstance(node, cst.BinaryOperation) else (node.body, node.orelse)
        parts = [_listed(side) for side in sides]
        if parts[0] is None or parts[1] is None or isinstance(node, cst.IfExp) and all(parts):
            return None
        return parts[0] | parts[1]
    if isinstance(node, cst.ListComp) and (inner := node.for_in.inner_for_in) is not None:
        layer, over, name = dotted(node.for_in.target), dotted(node.for_in.iter), dotted(inner.target)
        given = dotted(inner.iter.func) if isinstance(inner.iter, cst.Call) else ""
        if over.startswith("self.") and given == f"{layer}.parameters" and dotted(node.elt) == name:
            return {over.removeprefix("self."): HOLDERS[True]}
    return None


class Layers(Suites):
    """One module, with the classes to write as modules."""

    def __init__(self, module: ModuleInfo, library: str, classes: dict[int, Kept]) -> None:
        super().__init__(module)
        self.library = library
        self.classes = classes

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        kept = self.classes.get(id(original))
        if kept is None or not isinstance(updated, cst.ClassDef) or not isinstance(updated.body, cst.IndentedBlock):
            return [updated], ()  # type: ignore[list-item]
        body: list[cst.BaseStatement] = []
        comments: layout.Lines = ()
        for stmt in updated.body.body:
            name = stmt.name.value if isinstance(stmt, cst.FunctionDef) else ""
            if name == "parameters":
                comments += tuple(c for c in layout.inner_comments(stmt) if c.comment is not None)
            elif name == "__call__":
                body.append(self.changed(stmt, name=cst.Name("forward")))
            elif name == "__init__":
                assert isinstance(stmt, cst.FunctionDef)
                body.append(self.made(stmt, kept))
            else:
                body.append(stmt)
        base = cst.Arg(cst.parse_expression(f"{self.library}.Module"))
        suite = updated.body.with_changes(body=body, footer=[*comments, *updated.body.footer])
        return [self.changed(updated, bases=[base], lpar=cst.LeftParen(), rpar=cst.RightParen(), body=suite)], ()

    def changed(self, node: cst.CSTNode, **changes: object) -> cst.BaseStatement:
        made = node.with_changes(**changes)
        self.number(made, node)
        return made  # type: ignore[return-value]

    def made(self, init: cst.FunctionDef, kept: Kept) -> cst.BaseStatement:
        """The constructor, in which what is listed is held by the module."""
        assert isinstance(init.body, cst.IndentedBlock)
        first = layout.parse("super().__init__()")[0]
        self.number(first, init.body.body[0])
        self.number(first.body[0], init.body.body[0])  # type: ignore[attr-defined]
        body = init.body.visit(_Held(self, kept))
        assert isinstance(body, cst.IndentedBlock)
        return self.changed(init, body=body.with_changes(body=[first, *body.body]))


class _Held(cst.CSTTransformer):
    """`self.weight = torch.randn(n)` as `self.weight = torch.nn.Parameter(torch.randn(n))`, where that is no None."""

    def __init__(self, layers: Layers, kept: Kept) -> None:
        super().__init__()
        self.layers, self.kept = layers, kept

    def leave_Assign(self, original_node: cst.Assign, updated_node: cst.Assign) -> cst.Assign:
        name = _attribute(updated_node)
        if name not in self.kept:
            return updated_node
        made = updated_node.with_changes(value=self.held(updated_node.value, self.kept[name]))
        self.layers.number(made, original_node)
        return made

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        self.layers.number(updated_node, original_node)
        return updated_node

    def held(self, value: cst.BaseExpression, holder: str) -> cst.BaseExpression:
        if isinstance(value, cst.IfExp):
            return value.with_changes(body=self.held(value.body, holder), orelse=self.held(value.orelse, holder))
        if dotted(value) == "None":
            return value
        return cst.Call(cst.parse_expression(f"{self.layers.library}.{holder}"), [cst.Arg(value)])
