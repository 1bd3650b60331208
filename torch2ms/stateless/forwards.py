"""Forwards that take the weights of their network: `forward_with(weights, x)` beside `forward(x)`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.editing.rewriter import Rewriter
from torch2ms.stateless.layers import PLAIN, WEIGHTED, Unfit, applied, made_by, weights_of

FUNCTIONAL = "torch.nn.functional"
BRANCHING = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp)


class Forwards:
    """The forwards that are needed, by class: methods under new names."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.classes: dict[ClassInfo, list[cst.FunctionDef]] = {}
        self.names: dict[ClassInfo, dict[str, str]] = {}  # of each class: its methods, and their forms with weights
        self.layers: dict[ClassInfo, dict[str, Layer]] = {}
        self.failed: dict[ClassInfo, str] = {}
        self.busy: set[ClassInfo] = set()

    def need(self, cls: ClassInfo) -> None:
        """Write the forward of a class, and of those it is made of; Unfit if that cannot be."""
        if cls in self.failed or cls in self.busy:
            raise Unfit(self.failed.get(cls, "a network inside itself"))
        if cls in self.classes:
            return
        self.busy.add(cls)
        try:
            self.classes[cls] = self._written(cls)
        except Unfit as reason:
            self.failed[cls] = str(reason)
            raise
        finally:
            self.busy.discard(cls)

    def called(self, cls: ClassInfo) -> str:
        """The name of the forward that takes weights."""
        return self.names[cls]["forward"]

    def buffers(self, cls: ClassInfo) -> bool:
        """The class may hold buffers."""
        calls = (c for info in cls.methods.values() for s in info.scope.body.walk() for c in s.calls)
        return any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "register_buffer" for c in calls)

    def weights(self, cls: ClassInfo) -> list[str]:
        """The names of all weights of a class."""
        return [name for attr, layer in self.layers_of(cls).items() for name in layer.names(attr)]

    def layers_of(self, cls: ClassInfo) -> dict[str, Layer]:
        """What a class is made of, by attribute: everything that has weights, or may have."""
        if cls not in self.layers:
            if len(cls.lineage()) > 1 or any(True for _ in cls.below()) or cls.kind != "module":
                raise Unfit("its class has others above or below it")
            self.layers[cls] = dict(self._attributes(cls))
        return self.layers[cls]

    def chain(self, call: cst.Call, module: ModuleInfo) -> Layer:
        """`nn.Sequential(...)`, which must be one of layers with a function."""
        named = _entries(call, module)
        if named is not None:
            keys, nodes = list(named), list(named.values())
            return Layer("Sequential", call, module, [self._layer(n, module) for n in nodes], keys=keys)
        return Layer("Sequential", call, module, parts=[self._layer(a, module) for a in _plain(call.args)])

    def _attributes(self, cls: ClassInfo) -> Iterator[tuple[str, Layer]]:
        init = cls.methods.get("__init__")
        for info in cls.methods.values():
            for stmt in info.scope.body.walk():
                node = stmt.node
                targets = node.targets if isinstance(node, cst.Assign) else ()
                for name in (dotted(t.target) for t in targets):
                    if not name.startswith("self.") or not isinstance(node, cst.Assign):
                        continue
                    kind = cls.module.value(node.value).kind
                    if kind not in ("module", "param") and not _parameter(node.value, cls.module):
                        continue
                    own = name.removeprefix("self.")
                    once = sum(name in s.defs for i in cls.methods.values() for s in i.scope.body.walk()) == 1
                    if info is not init or not once or len(targets) > 1 or "." in own or stmt.block.owner is not None:
                        raise Unfit("where its layers are made is not seen")
                    yield own, self._layer(node.value, cls.module)

    def _layer(self, node: cst.BaseExpression, module: ModuleInfo) -> Layer:
        call = made_by(node)
        name = qualified(call.func, module.imports) if call is not None else ""
        short = name.removeprefix("torch.nn.")
        if call is None:
            raise Unfit("how a layer is made is not seen")
        if name == "torch.nn.Sequential":
            return self.chain(call, module)
        if name == "torch.nn.Parameter":
            if any(a.keyword is not None for a in call.args):
                raise Unfit("a parameter that may be frozen")
            return Layer("Parameter", call, module)
        if short in WEIGHTED and name.startswith("torch.nn."):
            weights_of(short, call)
            return Layer(short, call, module)
        if short in PLAIN:
            return Layer("", call, module)
        value = module.value(call.func)
        found = self.project.find(value.name, module) if value.kind == "class" else None
        if isinstance(found, ClassInfo):
            self.need(found)
            return Layer("own", call, module, of=found, inside=self.weights(found))
        raise Unfit(f"{name or 'a layer'} has no function of its weights here")

    def _written(self, cls: ClassInfo) -> list[cst.FunctionDef]:
        layers = self.layers_of(cls)
        if "forward" not in cls.methods or self.buffers(cls):
            raise Unfit("its forward is not seen, or uses buffers")
        names = self.names[cls] = {}
        waiting, made = ["forward"], []
        while waiting:
            name = waiting.pop(0)
            fits = (f"{name}_with{end}" for end in ("", "_weights", "_these_weights"))
            names[name] = next(n for n in fits if n not in cls.methods)
            method = _Method(self, cls, cls.methods[name], layers)
            made.append(method)
            waiting += [n for n in method.others() if n not in names and n not in waiting]
        return [method.written() for method in made]

    def uses_weights(self, cls: ClassInfo, name: str, seen: frozenset[str] = frozenset()) -> bool:
        """A method uses layers with weights, itself or through others."""
        layers = {n for n, layer in self.layers_of(cls).items() if layer.kind}
        for node in descend(cls.methods[name].scope.node):
            own = node.attr.value if isinstance(node, cst.Attribute) and dotted(node.value) == "self" else ""
            if own in layers:
                return True
            if own in cls.methods and own not in seen and self.uses_weights(cls, own, seen | {name}):
                return True
        return False


class Layer:
    """What a network is made of; `kind` is empty where there are no weights."""

    def __init__(
        self,
        kind: str,
        call: cst.Call,
        module: ModuleInfo,
        parts: list[Layer] | None = None,
        of: ClassInfo | None = None,
        inside: list[str] | None = None,
        keys: list[str] | None = None,
    ) -> None:
        self.kind, self.call, self.module, self.of, self.inside = kind, call, module, of, inside or []
        self.parts = parts or []
        self.keys = keys or [str(i) for i in range(len(self.parts))]
        if kind == "Sequential" and not any(p.kind for p in self.parts):
            self.kind = ""

    def names(self, at: str) -> list[str]:
        """The names of the weights of the layer that has a place."""
        if self.kind == "Sequential":
            pairs = zip(self.keys, self.parts, strict=True)
            return [n for key, part in pairs for n in part.names(f"{at}.{key}" if at else key)]
        if self.kind in ("", "Parameter"):
            return [at] if self.kind else []
        ends = self.inside if self.of is not None else weights_of(self.kind, self.call)
        return [f"{at}.{end}" for end in ends]

    def steps(self, at: str, owner: str) -> Iterator[tuple[Layer, str, str]]:
        """The layers that are run, each with its place and the code that gets at it."""
        if self.kind != "Sequential":
            yield self, at, owner
            return
        for i, (key, part) in enumerate(zip(self.keys, self.parts, strict=True)):
            yield from part.steps(f"{at}.{key}" if at else key, f"{owner}[{i}]")

    def run(self, at: str, owner: str, args: str, weights: str, forwards: Forwards, functional: str) -> str:
        """The code of a call of a single layer."""
        if not self.kind:
            return f"{owner}({args})"
        if self.of is not None:
            given = ", ".join(f"'{end}': {weights}['{at}.{end}']" for end in self.inside)
            return f"{owner}.{forwards.called(self.of)}({{{given}}}, {args})"
        values = [f"{weights}['{name}']" for name in self.names(at)]
        return applied(self.kind, self.call, values, args, functional)


class _Method(Rewriter):
    """One method with its weights as an argument."""

    def __init__(self, forwards: Forwards, cls: ClassInfo, info: FunctionInfo, layers: dict[str, Layer]) -> None:
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        self.forwards, self.cls, self.node, self.layers = forwards, cls, node, layers
        params = [p.name.value for p in node.params.params]
        used = {n.value for n in descend(node) if isinstance(n, cst.Name)}
        self.weights = next(n for n in ("weights", "params", "given_weights") if n not in used)
        self.between = next(n for n in ("h", "out", "hidden", "between") if n not in used)
        self.functional = functional(cls.module)
        if node.decorators or not params or params[0] != "self" or "super" in used:
            raise Unfit("its forward is no plain method")
        self.hidden()
        self.above: list[cst.BaseStatement] = []
        self.hoisted: dict[int, list[cst.BaseStatement]] = {}
        self.depth = 0 if not any(isinstance(n, BRANCHING) for n in descend(node)) else 1

    def hidden(self) -> None:
        """Whatever else the method uses of its network holds no weights."""
        module, made = self.cls.module, {"training"}
        for info in self.cls.methods.values():
            for stmt in info.scope.body.walk():
                if isinstance(stmt.node, cst.Assign):
                    made |= {_own(t.target) for t in stmt.node.targets}
        for node in descend(self.node):
            own = _own(node)
            if not own or own in self.layers or own in self.cls.methods:
                continue
            kind = module.value(node).kind
            if own not in made or kind in ("module", "param", "params", "object"):
                raise Unfit(f"what `self.{own}` is is not seen")
        for call in (n for n in descend(self.node) if isinstance(n, cst.Call)):
            own = _own(call.func)
            unseen = own and own not in self.layers and own not in self.cls.methods
            if unseen and module.value(call.func).kind not in ("api", "function"):
                raise Unfit(f"what `self.{own}` runs is not seen")

    def others(self) -> list[str]:
        """The methods that it calls which need a form with weights too."""
        called = [
            n.func.attr.value
            for n in descend(self.node)
            if isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute) and dotted(n.func.value) == "self"
        ]
        return [n for n in dict.fromkeys(called) if n in self.cls.methods and self.forwards.uses_weights(self.cls, n)]

    def written(self) -> cst.FunctionDef:
        made = self.rewrite(self.node)
        assert isinstance(made, cst.FunctionDef)
        first, *rest = made.params.params
        comma = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
        params = [first.with_changes(comma=comma), cst.Param(cst.Name(self.weights), comma=comma), *rest]
        if not rest and made.params.star_arg is cst.MaybeSentinel.DEFAULT and made.params.star_kwarg is None:
            params[-1] = params[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        name = self.forwards.names[self.cls][self.node.name.value]
        params_ = made.params.with_changes(params=params)
        return made.with_changes(name=cst.Name(name), params=params_, leading_lines=[cst.EmptyLine(indent=False)])

    # --- layers and weights

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        own = _own(original.func)
        layer = self.layers.get(own)
        if layer is None and own in self.forwards.names[self.cls]:
            weights = cst.Arg(cst.Name(self.weights), comma=cst.Comma(whitespace_after=cst.SimpleWhitespace(" ")))
            last = weights if updated.args else weights.with_changes(comma=cst.MaybeSentinel.DEFAULT)
            func = cst.Attribute(cst.Name("self"), cst.Name(self.forwards.names[self.cls][own]))
            return updated.with_changes(func=func, args=[last, *updated.args])
        if layer is None or not layer.kind:
            return updated
        if layer.kind == "Parameter":
            raise Unfit("a parameter is called")
        args = ", ".join(cst.Module([]).code_for_node(a.with_changes(comma=cst.MaybeSentinel.DEFAULT))
                         for a in updated.args)  # fmt: skip
        if len(updated.args) != 1 and layer.of is None:
            raise Unfit("a layer is called with more than its input")
        *before, last_step = layer.steps(own, f"self.{own}")
        for each, at, owner in before:
            text = each.run(at, owner, args, self.weights, self.forwards, self.functional)
            if self.depth:
                args = text
            else:
                line = cst.parse_statement(f"{self.between} = {text}")
                self.above.append(line)
                args = self.between
        each, at, owner = last_step
        return cst.parse_expression(each.run(at, owner, args, self.weights, self.forwards, self.functional))

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        return not (dotted(node.value) == "self" and node.attr.value in self.layers)

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        own = _own(original)
        layer = self.layers.get(own)
        if layer is not None and layer.kind == "Parameter":
            return cst.parse_expression(f"{self.weights}['{own}']")
        inner = self.layers.get(_own(original.value))
        if inner is not None and original.attr.value in ("weight", "bias") and inner.kind in WEIGHTED:
            return cst.parse_expression(f"{self.weights}['{_own(original.value)}.{original.attr.value}']")
        return updated

    # --- statements above others

    def visit_SimpleStatementLine(self, node: cst.SimpleStatementLine) -> None:
        self.above = []

    def leave_SimpleStatementLine(
        self, original: cst.SimpleStatementLine, updated: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine:
        if self.above:
            self.hoisted[id(updated)], self.above = self.above, []
        return updated

    def leave_IndentedBlock(self, original: cst.IndentedBlock, updated: cst.IndentedBlock) -> cst.IndentedBlock:
        body = [each for stmt in updated.body for each in [*self.hoisted.get(id(stmt), []), stmt]]
        return updated.with_changes(body=body) if len(body) > len(updated.body) else updated

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        for node in descend(updated.body):
            if isinstance(node, cst.Attribute) and (layer := self.layers.get(_own(node))) is not None and layer.kind:
                if not any(_reaches(call.func, node) for call in descend(updated.body) if isinstance(call, cst.Call)):
                    raise Unfit(f"`self.{_own(node)}` is used other than called")
        return updated


def functional(module: ModuleInfo) -> str:
    """How the module names `torch.nn.functional`."""
    table = module.imports.table
    for name, end in ((FUNCTIONAL, ""), ("torch.nn", ".functional"), ("torch", ".nn.functional")):
        if local := next((k for k, v in table.items() if v == name), ""):
            return local + end
    raise Unfit("torch.nn.functional has no name there")


def _reaches(func: cst.BaseExpression, node: cst.Attribute) -> bool:
    """`self.layer[0](x)`, `self.block.forward_with(weights, x)`: what remains of a layer with weights."""
    part = func
    while isinstance(part, (cst.Subscript, cst.Attribute)) and part is not node:
        part = part.value
    return part is node and func is not node


def _own(node: cst.CSTNode) -> str:
    """The attribute of `self` that a node is."""
    place = dotted(node)
    return place.removeprefix("self.") if place.startswith("self.") and place.count(".") == 1 else ""


def _parameter(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    call = made_by(node)
    return call is not None and qualified(call.func, module.imports) == "torch.nn.Parameter"


def _entries(call: cst.Call, module: ModuleInfo) -> dict[str, cst.BaseExpression] | None:
    """The layers by name of `nn.Sequential(OrderedDict(...))`; None where it has no names."""
    only = call.args[0].value if len(call.args) == 1 and not call.args[0].star else None
    if not isinstance(only, cst.Call) or qualified(only.func, module.imports) != "collections.OrderedDict":
        return None
    listed = only.args[0].value if len(only.args) == 1 and only.args[0].keyword is None else None
    found: dict[str, cst.BaseExpression] = {}
    for arg in only.args if listed is None else ():
        if arg.keyword is None:
            raise Unfit("how a layer is made is not seen")
        found[arg.keyword.value] = arg.value
    if listed is not None and not isinstance(listed, (cst.List, cst.Tuple)):
        raise Unfit("how a layer is made is not seen")
    for element in listed.elements if isinstance(listed, (cst.List, cst.Tuple)) else ():
        pair = element.value.elements if isinstance(element.value, cst.Tuple) else ()
        key = constant(pair[0].value) if len(pair) == 2 else None
        if not isinstance(key, str):
            raise Unfit("how a layer is made is not seen")
        found[key] = pair[1].value
    return found


def _plain(args: Sequence[cst.Arg]) -> list[cst.BaseExpression]:
    if any(a.star or a.keyword is not None for a in args):
        raise Unfit("the layers of a Sequential are not seen")
    return [a.value for a in args]


__all__ = ["Forwards", "Layer", "Unfit", "functional"]
