"""Writes forwards of weights into classes, and calls of them in place of `functional_call`."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program import flow
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.editing.suites import Made, Suites
from torch2ms.findings import Finding, Tier
from torch2ms.stateless.calls import Site
from torch2ms.stateless.forwards import Forwards, functional

WHY = "a forward that takes the weights as an argument is written beside the network's own; assumed: all are given"


class Writer(Suites):
    """One module, with the calls to replace and the classes that get such a forward."""

    def __init__(self, module: ModuleInfo, found: list[Site], classes: list[ClassInfo], forwards: Forwards) -> None:
        super().__init__(module)
        self.sites = {id(s.call): s for s in found}
        self.classes = {id(c.scope.node): c for c in classes}
        self.forwards = forwards
        self.functions: dict[int, str] = {}  # by id of `nn.Sequential(...)`: the function beside it
        self.empty = {id(c) for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls if self.none(c)}
        self.waiting: list[tuple[str, Site]] = []  # functions that are not written yet

    def none(self, call: cst.Call) -> bool:
        """The buffers of a network that has none."""
        func = call.func
        if not isinstance(func, cst.Attribute) or func.attr.value not in ("buffers", "named_buffers"):
            return False
        value = self.module.value(func.value)
        bare = {c.qualified for c in self.forwards.classes} | {"torch.nn.Sequential"} & {
            self.module.value(s.model).name for s in self.sites.values() if s.layers is not None and s.model is not None
        }
        return value.kind == "module" and value.name in bare

    def suite(self, body: Sequence[cst.CSTNode]) -> Made:
        """Functions beside networks without a class go above the first statement of the module that calls them."""
        if body is not self.module.tree.body:
            return super().suite(body)
        made, pending = super().suite(body)
        for name, site in self.waiting:
            first = next(i for i, stmt in enumerate(made) if _calls(stmt, name))
            definition = self.function(name, site)
            for node in flow.in_order([definition]):
                self.number(node, site.call)
                self.numbers.setdefault(id(node), self.numbers[id(next(iter(flow.in_order([made[first]]))))])
                self.held.append(node)
            lines = made[first].leading_lines  # type: ignore[attr-defined]
            made[first] = self.renumbered(made[first], leading_lines=lines or [cst.EmptyLine(indent=False)])
            made.insert(first, definition)
        return made, pending

    def function(self, name: str, site: Site) -> cst.FunctionDef:
        """`def net_with(net, weights, x)` of a Sequential."""
        assert site.layers is not None
        chain = self.forwards.chain(site.layers, self.module)
        lines = []
        for layer, at, owner in chain.steps("", "net"):
            code = layer.run(at, owner, "x", "weights", self.forwards, functional(self.module))
            lines.append(f"    x = {code}\n")
        lines[-1] = lines[-1].replace("    x = ", "    return ", 1)
        made = cst.parse_statement(f"\ndef {name}(net, weights, x):\n{''.join(lines)}")
        assert isinstance(made, cst.FunctionDef)
        return made

    def compound(self, original: cst.CSTNode, updated: cst.CSTNode) -> Made:
        cls = self.classes.get(id(original))
        if cls is None or not isinstance(updated, cst.ClassDef) or not isinstance(updated.body, cst.IndentedBlock):
            return [updated], ()  # type: ignore[list-item]
        added = self.forwards.classes[cls]
        for method in added:
            source = cls.methods["forward"].scope.node
            for node in flow.in_order([method]):
                self.numbers[id(node)] = self.numbers[id(source)]
                self.held.append(node)
        body = updated.body.with_changes(body=[*updated.body.body, *added])
        return [self.renumbered(updated, body=body)], ()

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        site = self.sites.get(id(original))
        if site is None:
            return cst.parse_expression("()") if id(original) in self.empty else updated
        assert site.model is not None
        model = self.rewrite(site.model)
        weights = cst.Arg(self.rewrite(site.weights))  # type: ignore[arg-type]
        args = [a.with_changes(value=self.rewrite(a.value), comma=cst.MaybeSentinel.DEFAULT) for a in site.args]
        self.findings.append(Finding("T2M204", Tier.ASSUMED, "torch.func.functional_call", WHY, line=self.line))
        if site.cls is not None:
            func: cst.BaseExpression = cst.Attribute(model, cst.Name(self.forwards.called(site.cls)))  # type: ignore[arg-type]
            return updated.with_changes(func=func, args=[weights, *args])
        name = self.named(site)
        return updated.with_changes(func=cst.Name(name), args=[cst.Arg(model), weights, *args])  # type: ignore[arg-type]

    def named(self, site: Site) -> str:
        key = id(site.layers)
        if key not in self.functions:
            base = dotted(site.model).rpartition(".")[2] if site.model is not None else ""
            taken = {n.value for n in self.module.of_kind(cst.Name)} | {*self.functions.values()}
            fits = (f"{base or 'network'}_with{end}" for end in ("", "_weights", "_these_weights"))
            self.functions[key] = next(n for n in fits if n not in taken)
            self.waiting.append((self.functions[key], site))
        return self.functions[key]


def _calls(stmt: cst.CSTNode, name: str) -> bool:
    return any(type(n) is cst.Name and n.value == name for n in descend(stmt))
