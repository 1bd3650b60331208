"""Writes the Cell that stands for an autograd.Function: its construct and its bprop."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.patterns import is_docstring
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.functions.contexts import CALLS, Refused, direct_calls, fresh
from torch2ms.rewrite.functions.methods import TAKEN_FIELDS, Methods
from torch2ms.tape.plan import Head, Item, Text

DROPPED = frozenset({"staticmethod", "once_differentiable", "custom_fwd", "custom_bwd", "no_grad", "inference_mode"})


@dataclass
class Edits:
    """What becomes of one class."""

    heads: dict[int, Head] = field(default_factory=dict)
    replaced: dict[int, list[Item]] = field(default_factory=dict)
    before: dict[int, list[Item]] = field(default_factory=dict)
    expressions: dict[int, str] = field(default_factory=dict)
    picks: dict[int, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def translate(cls: ClassInfo, first: bool = False) -> Edits:
    """The edits that make a Cell of the class; Refused says why there are none.

    The `first` time it is decided whether there are any: calls are planned by that.
    """
    if not {"forward", "backward"} & set(cls.methods):
        return Edits()
    if not {"forward", "backward"} <= set(cls.methods):
        raise Refused("forward and backward are not both written in this class")
    if "jvp" in cls.methods:
        raise Refused("a jvp of its own: MindSpore's cells have no forward-mode rule")
    writer = _Writer(cls)
    if first:
        writer.refuse_writes()
    return writer.edits()


class _Writer(Methods):
    """One class, from its methods to the edits."""

    def __init__(self, cls: ClassInfo) -> None:
        super().__init__(cls)
        self.made = Edits()
        self.notes: list[str] = []

    def edits(self) -> Edits:
        self.write_forward(self.setup)
        self.write_backward()
        self.tell()
        return self.made

    def write_forward(self, setup: FunctionInfo | None) -> None:
        forward, made = self.forward, self.made
        node = forward.scope.node
        assert isinstance(node, cst.FunctionDef)
        own = [cst.Param(cst.Name("self"))]
        rest = list(node.params.params if setup else node.params.params[1:])
        if node.params.posonly_params:
            raise Refused("forward has positional-only parameters")
        made.heads[id(node)] = Head("construct", node.params.with_changes(params=[*own, *rest]), DROPPED)
        if setup is not None:
            if any(k.how == "field" for k in [*self.saved, *self.attrs.values()]):
                raise Refused("setup_context keeps a value that cannot be computed again")
            home = next(s for s in self.cls.scope.body.stmts if s.node is setup.scope.node)
            made.replaced[id(home)] = []
            for target, name in self.contexts(setup):
                made.expressions[id(target)] = name
            return
        self.drop_saves()
        self.drop_attributes()

    def contexts(self, info: FunctionInfo) -> list[tuple[cst.Attribute, str]]:
        """Every `ctx.name` of a method that fills the context, with the name it gets."""
        fields = {name for name, kept in self.attrs.items() if kept.how == "field"}
        found = []
        for part in descend(info.scope.node):
            if isinstance(part, cst.Attribute) and dotted(part.value) == self.ctx and part.attr.value not in CALLS:
                name = part.attr.value
                found.append((part, f"self.{name}{'_' if name in TAKEN_FIELDS else ''}" if name in fields else name))
        return found

    def drop_saves(self) -> None:
        context = self.context
        walked = list(context.scope.body.walk())
        if context.saved_by is not None:
            lines: list[Item] = [
                Text(f"self.{self.field(kept)} = {{0}}", [node])
                for kept, node in zip(self.saved, context.saved, strict=False) if kept.how == "field"
            ]  # fmt: skip
            self.made.replaced[id(context.saved_by)] = lines
        for stmt, call in direct_calls(walked, self.ctx, "mark_non_differentiable"):
            self.constant_outputs(call)
            self.made.replaced[id(stmt)] = []
        for stmt, _ in direct_calls(walked, self.ctx, "set_materialize_grads"):
            self.notes.append(
                "the backward is linear in the gradients it is given: unused outputs give zeros, not None"
            )
            self.made.replaced[id(stmt)] = []
        if direct_calls(walked, self.ctx, "mark_dirty"):
            raise Refused("forward changes an input in place (mark_dirty)")

    def constant_outputs(self, call: cst.Call) -> None:
        used = {root(u) for s in self.backward.scope.body.walk() for u in s.uses}
        for arg in call.args:
            name = dotted(arg.value)
            if name not in self.outputs or self.grads[self.outputs.index(name)] in used:
                raise Refused("mark_non_differentiable of an output whose gradient the backward uses")

    def drop_attributes(self) -> None:
        """`ctx.name = value` goes, unless forward reads it or it becomes a field of the cell."""
        spots = self.contexts(self.forward)
        name_of = dict((id(node), name) for node, name in spots)
        targets: set[int] = set()
        droppable: list[tuple[Stmt, list[str]]] = []
        for stmt in self.forward.scope.body.walk():
            node = stmt.node
            if not isinstance(node, cst.Assign):
                continue
            mine = [t.target for t in node.targets if id(t.target) in name_of]
            pairs = assigned(node)
            if pairs and all(id(t) in name_of for t, _ in pairs):
                targets |= {id(t) for t, _ in pairs}
                droppable.append((stmt, [name_of[id(t)] for t, _ in pairs]))
            elif mine:
                others = [code(t.target) for t in node.targets if id(t.target) not in name_of]
                if any(name_of[id(m)].startswith("self.") for m in mine) or not others:
                    continue
                targets |= {id(m) for m in mine}
                self.made.replaced[id(stmt)] = [Text(" = ".join([*others, "{0}"]), [node.value])]
        same = self.same_names(name_of)
        read = {node.attr.value for node, _ in spots if id(node) not in targets} - same
        for stmt, names in droppable:
            if not any(name.startswith("self.") or name in read for name in names):
                self.made.replaced[id(stmt)] = []
        for spot, name in spots:
            if not name.startswith("self.") and name in self.forward.scope.locals and spot.attr.value in read:
                raise Refused(f"ctx.{name} and {name} are different things in forward")
            self.made.expressions[id(spot)] = name
        self.only_known({id(spot.value) for spot, _ in spots})

    def same_names(self, name_of: dict[int, str]) -> set[str]:
        """Attributes that only ever hold the input of their name: `ctx.k = k`."""
        stmts = list(self.forward.scope.body.walk())
        changed = {root(d) for s in stmts for d in s.defs | s.muts if "." not in d}
        found: set[str] = set()
        for name in set(self.params) - changed:
            values = [v for s in stmts for t, v in assigned(s.node) if name_of.get(id(t)) == name]
            if values and all(isinstance(v, cst.Name) and v.value == name for v in values):
                found.add(name)
        return found

    def only_known(self, seen: set[int]) -> None:
        """Refuses a forward that uses the context in another way than its attributes and methods."""
        function = self.forward.scope.node
        assert isinstance(function, cst.FunctionDef)
        for part in descend(function.body):
            if isinstance(part, cst.Attribute) and part.attr.value in CALLS:
                seen.add(id(part.value))
            elif isinstance(part, cst.Name) and part.value == self.ctx and id(part) not in seen:
                raise Refused("forward passes the context on")

    def write_backward(self) -> None:
        made, scope = self.made, self.backward.scope
        node = scope.node
        assert isinstance(node, cst.FunctionDef)
        one = self.single
        grads = self.grads[0] if one else "grads" if "grads" not in {*scope.locals, *self.names} else "grads_"
        text = ", ".join(["self", *self.names, self.out, grads])
        parsed = cst.parse_statement(f"def f({text}): pass")
        assert isinstance(parsed, cst.FunctionDef)
        made.heads[id(node)] = Head("bprop", parsed.params, DROPPED, returns=False)
        self.replace_reads()
        self.needed_inputs()
        self.returns()
        first = scope.body.stmts[0]
        if is_docstring(first.node):
            first = scope.body.stmts[1]
        top: list[Item] = []
        if not one:
            top.append(Text(f"{', '.join(self.grads)}{',' * (len(self.grads) == 1)} = {grads}"))
        for i in sorted(self.context.again):
            top.append(fresh(self.context.stmts[i]))
        for kept in self.saved:
            if kept.how == "again" and kept.node is not None:
                top.append(Text(f"{self.unnamed(kept)} = {{0}}", [kept.node]))
        if top:
            made.before[id(first)] = top

    def replace_reads(self) -> None:
        texts = [self.text(k) for k in self.saved]
        together = f"({', '.join(texts)}{',' * (len(texts) == 1)})"
        for part, at in self.saved_items:
            if not -len(texts) <= at < len(texts):
                raise Refused("backward reads more tensors than were saved")
            self.made.expressions[id(part)] = texts[at]
        for read in self.saved_reads:
            self.made.expressions[id(read)] = together
        for name, reads in self.attr_reads.items():
            for read in reads:
                self.made.expressions[id(read)] = self.text(self.attrs[name])
        for stmt in self.backward.scope.body.walk():
            node = stmt.node
            if isinstance(node, cst.Assign) and len(node.targets) == 1:
                self.unpack(stmt, node, texts)

    def unpack(self, stmt: Stmt, node: cst.Assign, texts: list[str]) -> None:
        """`a, b = ctx.saved_tensors`: what already has its name needs no statement."""
        target = node.targets[0].target
        if any(node.value is r for r in self.saved_reads) and isinstance(target, (cst.Tuple, cst.List)):
            if any(isinstance(e, cst.StarredElement) for e in target.elements):
                return
            if len(target.elements) != len(texts):
                raise Refused("backward does not unpack what forward saved")
            pairs = [(code(e.value), t) for e, t in zip(target.elements, texts, strict=True)]
            left = [(n, t) for n, t in pairs if n != t and n != "_"]
            line = f"{', '.join(n for n, _ in left)} = {', '.join(t for _, t in left)}"
            self.made.replaced[id(stmt)] = [Text(line)] if left else []
        elif self.made.expressions.get(id(node.value)) == dotted(target) != "":
            self.made.replaced[id(stmt)] = []

    def needed_inputs(self) -> None:
        """bprop is asked for every gradient: `if ctx.needs_input_grad[i]:` always holds."""
        tests = {id(n) for n in self.needs}
        if not tests:
            return
        for part in descend(self.backward.scope.node):
            if isinstance(part, cst.BooleanOperation) and isinstance(part.operator, cst.And):
                if id(part.right) in tests:
                    self.made.picks[id(part)] = "left"
                elif id(part.left) in tests:
                    self.made.picks[id(part)] = "right"
            elif isinstance(part, cst.IfExp) and id(part.test) in tests:
                self.made.picks[id(part)] = "body"
        for need in self.needs:
            self.made.expressions[id(need)] = "True"
        spliced: set[str] = set()
        for stmt in self.backward.scope.body.walk():
            node = stmt.node
            if isinstance(node, cst.If) and id(node.test) in tests and len(stmt.blocks) == 1:
                self.made.replaced[id(stmt)] = list(stmt.blocks[0].stmts)
                if stmt.block is self.backward.scope.body:
                    spliced |= {d for s in stmt.blocks[0].stmts for d in s.defs}
        for stmt in self.backward.scope.body.stmts:
            self.shorten(stmt, spliced)

    def shorten(self, stmt: Stmt, spliced: set[str]) -> None:
        """`grad_x = grad_w = None` loses the names that are certainly set below."""
        node = stmt.node
        if not isinstance(node, cst.Assign) or constant(node.value) is not None:
            return
        names = [dotted(t.target) for t in node.targets]
        left = [n for n in names if n not in spliced]
        if all(names) and len(left) < len(names):
            self.made.replaced[id(stmt)] = [Text(" = ".join([*left, "None"]))] if left else []

    def returns(self) -> None:
        many = len(self.params)
        for stmt in self.backward.scope.body.walk():
            node = stmt.node
            if not isinstance(node, cst.Return):
                continue
            if node.value is None:
                self.made.replaced[id(stmt)] = [Text(f"return {', '.join(['None'] * many)}{',' * (many == 1)}")]
            elif isinstance(node.value, cst.Tuple):
                elements: list[cst.CSTNode] = [e.value for e in node.value.elements]
                if len(elements) < many or any(isinstance(e, cst.StarredElement) for e in node.value.elements):
                    raise Refused("backward does not return one gradient for each input")
                if len(elements) > many:
                    parts = ", ".join(f"{{{i}}}" for i in range(many))
                    self.made.replaced[id(stmt)] = [
                        Text(f"return ({parts},)" if many == 1 else f"return {parts}", elements[:many])
                    ]
            elif many == 1 and self.backward.module.value(node.value).kind not in ("tuple", "list"):
                if constant(node.value) is None:
                    self.made.replaced[id(stmt)] = [Text("return (None,)")]
                else:
                    self.made.replaced[id(stmt)] = [Text("return ({0},)", [node.value])]
            elif constant(node.value) is None:
                self.made.replaced[id(stmt)] = [Text(f"return {', '.join(['None'] * many)}")]

    def tell(self) -> None:
        line = (
            next((s.lineno for s in self.cls.scope.parent.body.walk() if s.node is self.cls.scope.node), 0)
            if self.cls.scope.parent
            else 0
        )
        why = "a Cell: forward is construct, backward is bprop"
        if self.context.again:
            why += "; bprop computes again what forward saved on its way"
        if self.cls.twice:
            self.notes.append("second derivatives go through bprop: measured for element-wise functions only")
        if self.needs:
            why += "; bprop always computes every gradient"
        self.made.findings.append(
            Finding("T2M401", Tier.EXACT, f"autograd.Function {self.cls.scope.name}", why, line=line)
        )
        for note in filter(None, self.notes):
            self.made.findings.append(
                Finding("T2M401", Tier.ASSUMED, f"autograd.Function {self.cls.scope.name}", note, line=line)
            )
