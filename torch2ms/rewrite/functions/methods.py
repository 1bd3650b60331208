"""Reads the methods of an autograd.Function: what the backward is given, and where a bprop finds it."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted, method_called, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.rewrite.functions.contexts import CALLS, Context, Kept, Refused

TAKEN_FIELDS = {"training", "param_prefix", "bprop_debug", "cls_name", "flags", "requires_grad", "phase"}


class Methods:
    """Forward and backward of one class, and the names that bprop will use."""

    def __init__(self, cls: ClassInfo) -> None:
        self.cls = cls
        self.forward, self.backward = cls.methods["forward"], cls.methods["backward"]
        self.setup = cls.methods.get("setup_context")
        self.keeper = self.setup or self.forward
        for info in {id(i): i for i in (self.forward, self.backward, self.keeper)}.values():
            self.method(info)
        names = parameters(self.forward)
        self.params = names if self.setup else names[1:]
        self.ctx = parameters(self.keeper)[0]
        self.bctx, self.grads = parameters(self.backward)[0], parameters(self.backward)[1:]
        self.skipped: set[int] = set()
        self.count_outputs()
        inputs = self.set_up(self.setup) if self.setup else list(self.params)
        self.context = Context(self.keeper, self.ctx, inputs, self.setup_outputs if self.setup else self.outputs)
        self.context.skipped = self.skipped
        self.read_backward()
        self.resolve()

    def method(self, info: FunctionInfo) -> None:
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        if not info.static:
            raise Refused(f"{info.name} is not a static method")
        if (
            isinstance(node.params.star_arg, cst.Param)
            or node.params.star_kwarg is not None
            or node.params.kwonly_params
        ):
            raise Refused(f"{info.name} takes *args or keywords: the inputs are not known")
        if not parameters(info):
            raise Refused(f"{info.name} takes no context")
        for stmt in info.scope.body.walk():
            for mode in stmt.modes:
                name = qualified(_callee(mode.items[0].item), info.module.imports)
                if name.endswith(("enable_grad", "set_grad_enabled")):
                    raise Refused(f"{info.name} records operations itself (enable_grad)")
            for call in stmt.calls:
                name = info.module.value(call.func).name
                last = method_called(call)
                if name in ("torch.autograd.grad", "torch.autograd.backward", "torch.enable_grad") or last in (
                    "backward",
                    "requires_grad_",
                ):
                    raise Refused(f"{info.name} takes gradients itself")
        if isinstance(node.body, cst.SimpleStatementSuite):
            raise Refused(f"{info.name} is written on one line")

    # --- the outputs

    def count_outputs(self) -> None:
        returns = [s.node.value for s in self.forward.scope.body.walk() if isinstance(s.node, cst.Return)]
        if not returns or any(r is None for r in returns):
            raise Refused("forward returns nothing on some path")
        counts = {self.returned(r) for r in returns if r is not None}
        many = len(self.grads)
        if counts == {0}:
            counts = {many}
        if counts - {0} != {many}:
            raise Refused("backward does not take one gradient for each output of forward")
        self.single = many == 1 and not any(isinstance(r, cst.Tuple) for r in returns)
        last = self.forward.scope.body.stmts[-1].node
        self.outputs: list[str] = []
        if len(returns) == 1 and isinstance(last, cst.Return) and last.value is not None:
            elements = [e.value for e in last.value.elements] if isinstance(last.value, cst.Tuple) else [last.value]
            names = [e.value if isinstance(e, cst.Name) else "" for e in elements]
            self.outputs = names if len(names) == many else []

    def returned(self, node: cst.BaseExpression) -> int:
        """How many outputs an expression gives; 0 where it does not show."""
        if isinstance(node, cst.Tuple):
            return len(node.elements)
        value = self.forward.module.value(node)
        if value.kind == "tuple":
            return len(value.items) if value.items else 0
        return 1 if value.kind in ("tensor", "param") else 0

    # --- setup_context

    def set_up(self, setup: FunctionInfo) -> list[str]:
        """The names under which setup_context knows the inputs; unpacking statements are noted."""
        params = parameters(setup)
        if len(params) != 3:
            raise Refused("setup_context does not take (ctx, inputs, output)")
        _, given, output = params
        inputs = list(self.params)
        self.setup_outputs = [output] if self.single else [""] * len(self.grads)
        for i, stmt in enumerate(setup.scope.body.stmts):
            node = stmt.node
            if not isinstance(node, cst.Assign) or len(node.targets) != 1:
                continue
            target, value = node.targets[0].target, node.value
            names = [dotted(e.value) for e in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else []
            if dotted(value) == given and names and len(names) == len(inputs):
                inputs = names
                self.skipped.add(i)
            elif dotted(value) == output and names and len(names) == len(self.grads):
                self.setup_outputs = names
                self.skipped.add(i)
            elif isinstance(value, cst.Subscript) and dotted(value.value) == given and dotted(target):
                at = constant(value.slice[0].slice.value) if isinstance(value.slice[0].slice, cst.Index) else ...
                if isinstance(at, int) and 0 <= at < len(inputs):
                    inputs[at] = dotted(target)
                    self.skipped.add(i)
        used = {
            u for i, s in enumerate(setup.scope.body.stmts) if i not in self.skipped for t in s.walk() for u in t.uses
        }
        if given in used or (output in used and not self.single):
            raise Refused("setup_context uses its inputs in a way that is not followed")
        return inputs

    # --- what the backward reads

    def read_backward(self) -> None:
        node = self.backward.scope.node
        assert isinstance(node, cst.FunctionDef)
        self.saved_reads: list[cst.Attribute] = []
        self.saved_items: list[tuple[cst.Subscript, int]] = []
        self.attr_reads: dict[str, list[cst.Attribute]] = {}
        self.needs: list[cst.Subscript] = []
        accounted: set[int] = set()
        asked = self.keeper.module.has("needs_input_grad")
        if asked and any(dotted(n) == f"{self.ctx}.needs_input_grad" for n in descend(self.keeper.scope.node)):
            raise Refused("forward asks ctx.needs_input_grad")
        for part in descend(node.body):
            if isinstance(part, cst.Subscript) and dotted(part.value) == f"{self.bctx}.needs_input_grad":
                if not isinstance(_index(part), int):
                    raise Refused("ctx.needs_input_grad is not read by number")
                self.needs.append(part)
                accounted |= {id(part.value), id(part.value.value)}  # type: ignore[attr-defined]
            elif isinstance(part, cst.Subscript) and dotted(part.value) in (
                f"{self.bctx}.saved_tensors",
                f"{self.bctx}.saved_variables",
            ):
                at = _index(part)
                if isinstance(at, int):
                    self.saved_items.append((part, at))
                    accounted |= {id(part.value), id(part.value.value)}  # type: ignore[attr-defined]
            elif isinstance(part, cst.Attribute) and dotted(part.value) == self.bctx and id(part) not in accounted:
                accounted.add(id(part.value))
                name = part.attr.value
                if name in ("saved_tensors", "saved_variables"):
                    self.saved_reads.append(part)
                elif name == "needs_input_grad" or name in CALLS:
                    raise Refused(f"backward uses ctx.{name}")
                else:
                    self.attr_reads.setdefault(name, []).append(part)
            elif isinstance(part, cst.Name) and part.value == self.bctx and id(part) not in accounted:
                raise Refused("backward passes the context on")

    def refuse_writes(self) -> None:
        """Asked before it is known of calls what they may change of what they are given."""
        for stmt in self.backward.scope.body.walk():
            if any(d.startswith(self.bctx + ".") for d in stmt.defs | stmt.muts):
                raise Refused("backward writes to the context")

    def resolve(self) -> None:
        """Decide where bprop finds each value, and the names of its parameters."""
        wanted = bool(self.saved_reads or self.saved_items)
        if wanted and self.context.saved_by is None:
            raise Refused("nothing in forward saves tensors")
        self.saved = self.context.saved_values() if wanted else []
        self.context.objects = {n for n in self.params if self.is_cell(n)}
        self.attrs = {name: self.context.attribute(name) for name in self.attr_reads}
        everything = [*self.saved, *self.attrs.values()]
        if self.context.overwritten(everything) or self.clashes():
            for kept in everything:
                if kept.how == "again":
                    kept.how = "field"
            self.context.again.clear()
        self.cls.remembers = any(k.how == "field" for k in everything)
        self.name_parameters()

    def is_cell(self, name: str) -> bool:
        """The input is a network: callers pass one, or what the backward reads under its name is called."""
        given = self.forward.args.get(name)
        if given is not None and given.kind == "module":
            return True
        reads = {id(part) for part in self.attr_reads.get(name, ())}
        body = list(self.backward.scope.body.walk())
        held = {dotted(t) for s in body for t, v in assigned(s.node) if id(v) in reads}
        return any(id(c.func) in reads or dotted(c.func) in held for s in body for c in s.calls)

    def clashes(self) -> bool:
        """Repeated statements would write over the gradients."""
        written = {self.local(d) for i in self.context.again for d in self.context.stmts[i].all_defs}
        return bool(written & set(self.grads)) or "out" in written

    def local(self, place: str) -> str:
        return place[len(self.ctx) + 1 :] if place.startswith(self.ctx + ".") else root(place)

    def name_parameters(self) -> None:
        scope = self.backward.scope
        bound = {root(d) for s in scope.body.walk() if not self.is_unpack(s) for d in s.defs | s.muts}
        bound -= self.kept_names()
        direct = {k.index for k in [*self.saved, *self.attrs.values()] if k.how == "input"}
        free = {root(u) for s in scope.body.walk() for u in s.uses} - scope.locals - {self.bctx}
        names = list(self.context.inputs)
        self.out = "out"
        unpacked = self.unpacked()
        for kept, name in zip(self.saved, unpacked, strict=False):
            elsewhere = name in names and not (kept.how == "input" and names[kept.index] == name)
            if name in self.grads or elsewhere or self.context.again:
                continue
            if kept.how == "input" and self.saved.count(kept) == 1:
                names[kept.index] = name
            elif kept.how == "output" and self.single and name not in names:
                self.out = name
        settled = set(unpacked)
        for i, name in enumerate(names):
            taken = name in self.grads or name in free or (name in bound and name not in settled and i in direct)
            if taken and self.context.again:
                raise Refused(f"the name {name} means different things in forward and backward")
            names[i] = name + "_" if taken else name
        if self.out == "out" and ("out" in {*names, *self.grads, *free, *scope.locals}):
            self.out = "output" if "output" not in {*names, *self.grads, *free, *scope.locals} else "out_"
        if len(set(names)) != len(names):
            raise Refused("two inputs have one name in the backward")
        self.names = names

    def kept_names(self) -> set[str]:
        """Names that the backward only binds to the inputs of the same name: `k, n = ctx.k, ctx.n`."""
        read = {id(part): name for name, parts in self.attr_reads.items() for part in parts}
        same: set[str] = set()
        other: set[str] = set()
        for stmt in self.backward.scope.body.walk():
            names = {root(d) for d in stmt.defs | stmt.muts}
            for target, value in assigned(stmt.node):
                kept = self.attrs.get(read.get(id(value), ""))
                if kept is not None and kept.how == "input" and self.context.inputs[kept.index] == dotted(target):
                    same.add(dotted(target))
                    names.discard(dotted(target))
            other |= names if not self.is_unpack(stmt) else set()
        return same - other

    def is_unpack(self, stmt: Stmt) -> bool:
        node = stmt.node
        if not isinstance(node, cst.Assign):
            return False
        return any(node.value is r for r in self.saved_reads) or any(node.value is r for r, _ in self.saved_items)

    def unpacked(self) -> list[str]:
        """The names a single `a, b = ctx.saved_tensors` gives to what was saved."""
        if len(self.saved_reads) != 1 or self.saved_items:
            return []
        for stmt in self.backward.scope.body.walk():
            node = stmt.node
            if isinstance(node, cst.Assign) and node.value is self.saved_reads[0] and len(node.targets) == 1:
                target = node.targets[0].target
                if isinstance(target, (cst.Tuple, cst.List)) and len(target.elements) == len(self.saved):
                    names = [dotted(e.value) for e in target.elements]
                    earlier = {d for s in self.backward.scope.body.walk() if s.number < stmt.number for d in s.defs}
                    used = names if all(names) and len(set(names)) == len(names) and not earlier & set(names) else []
                    return used
        return []

    def text(self, kept: Kept) -> str:
        if kept.how == "input":
            return self.names[kept.index]
        if kept.how == "output":
            return self.out if self.single else f"{self.out}[{kept.index}]"
        if kept.how == "literal":
            return kept.text
        if kept.how == "field":
            return f"self.{self.field(kept)}"
        if kept.node is not None:
            return self.unnamed(kept)
        return self.local(kept.place) if kept.place.startswith(self.ctx + ".") else kept.place

    def field(self, kept: Kept) -> str:
        name = self.local(kept.place) if kept.node is None else self.unnamed(kept)
        return name + "_" if name in TAKEN_FIELDS else name

    def unnamed(self, kept: Kept) -> str:
        """A name for a saved expression: the one it is unpacked under."""
        place = next(i for i, k in enumerate(self.saved) if k is kept)
        names = self.unpacked()
        return names[place] if names else f"saved_{place}"


def parameters(info: FunctionInfo) -> list[str]:
    node = info.scope.node
    assert isinstance(node, cst.FunctionDef)
    return [p.name.value for p in [*node.params.posonly_params, *node.params.params]]


def _callee(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


def _index(node: cst.Subscript) -> object:
    part = node.slice[0].slice
    return constant(part.value) if len(node.slice) == 1 and isinstance(part, cst.Index) else ...
