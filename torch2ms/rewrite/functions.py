"""Custom gradients: a torch.autograd.Function becomes a Cell with construct and bprop."""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.flow import root
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Stmt
from torch2ms.analysis.project import ClassInfo, FunctionInfo, ModuleInfo, Project, qualified
from torch2ms.analysis.tree import code, constant, descend
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.contexts import CALLS, Context, Kept, Refused, assigned, direct_calls, fresh
from torch2ms.tape.plan import Head, Item, Plan, Text

DROPPED = frozenset({"staticmethod", "once_differentiable", "custom_fwd", "custom_bwd", "no_grad", "inference_mode"})
PRODUCTS = {"mm", "matmul", "bmm", "mv", "dot", "einsum", "linear", "addmm", "baddbmm", "tensordot", "outer"}
PRODUCTS_TWICE = "its gradient is differentiated again (create_graph), and MindSpore fails on matrix products in a bprop then"
TAKEN_FIELDS = {"training", "param_prefix", "parameter_layout_dict", "bprop_debug", "cls_name", "flags", "requires_grad", "phase"}


def prepare(project: Project) -> None:
    """Decide for every autograd.Function of the project whether it can be a Cell, before any call of it is written."""
    functions = [c for m in project.modules.values() for c in m.classes.values() if c.kind == "autograd"]
    if not functions:
        return
    shared = _shared(project)
    twice = _second_order(project)
    for cls in functions:
        cls.shared = cls.qualified in shared
        try:
            _Translation(cls).edits()
            cls.refused = PRODUCTS_TWICE if twice and _products(cls) else ""
            cls.twice = twice
        except Refused as reason:
            cls.refused = str(reason)
    for cls in functions:
        refused = [c for c in cls.lineage() if c.refused]
        cls.refused = refused[0].refused if refused else ""


def _second_order(project: Project) -> bool:
    """Some gradient of the project is differentiated again."""
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if any(a.keyword is not None and a.keyword.value == "create_graph" and constant(a.value) is not False for a in call.args):
                        return True
                    if module.value(call.func).name.rpartition(".")[2] in ("hessian", "hvp", "vhp"):
                        return True
    return False


def _products(cls: ClassInfo) -> bool:
    """The backward multiplies matrices, which MindSpore does not differentiate again inside a bprop."""
    for part in descend(cls.methods["backward"].scope.node):
        if isinstance(part, cst.BinaryOperation) and isinstance(part.operator, cst.MatrixMultiply):
            return True
        if isinstance(part, cst.Attribute) and (part.attr.value in PRODUCTS or part.attr.value.startswith("conv")):
            return True
    return False


def _shared(project: Project) -> set[str]:
    """Functions whose `apply` is passed around: all calls then share one cell."""
    found: set[str] = set()
    for module in project.modules.values():
        called: set[int] = set()
        for node in descend(module.tree):
            if isinstance(node, cst.Call):
                called.add(id(node.func))
            elif isinstance(node, cst.Attribute) and node.attr.value == "apply" and id(node) not in called:
                found.add(module.value(node).name or module.value(node.value).name)
    return found


def plan_functions(module: ModuleInfo, plan: Plan) -> None:
    """Add the edits of the module's functions to the plan."""
    for cls in module.classes.values():
        if cls.kind == "autograd" and not cls.refused:
            edits = _Translation(cls).edits()
            plan.heads.update(edits.heads)
            plan.replaced.update(edits.replaced)
            plan.before.update(edits.before)
            plan.expressions.update(edits.expressions)
            plan.picks.update(edits.picks)
            plan.findings += edits.findings


@dataclass
class Edits:
    """What becomes of one class."""

    heads: dict[int, Head] = field(default_factory=dict)
    replaced: dict[int, list[Item]] = field(default_factory=dict)
    before: dict[int, list[Item]] = field(default_factory=dict)
    expressions: dict[int, str] = field(default_factory=dict)
    picks: dict[int, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


class _Translation:
    """One class, from its methods to the edits."""

    def __init__(self, cls: ClassInfo) -> None:
        self.cls = cls
        self.made = Edits()
        self.notes: list[str] = []

    def edits(self) -> Edits:
        cls = self.cls
        if not {"forward", "backward"} & set(cls.methods):
            return self.made
        if not {"forward", "backward"} <= set(cls.methods):
            raise Refused("forward and backward are not both written in this class")
        if "jvp" in cls.methods:
            raise Refused("a jvp of its own: MindSpore's cells have no forward-mode rule")
        self.forward, self.backward = cls.methods["forward"], cls.methods["backward"]
        setup = cls.methods.get("setup_context")
        self.keeper = setup or self.forward
        for info in {id(i): i for i in (self.forward, self.backward, self.keeper)}.values():
            self.method(info)
        names = _params(self.forward)
        self.params = names if setup else names[1:]
        self.ctx = _params(self.keeper)[0]
        self.bctx, self.grads = _params(self.backward)[0], _params(self.backward)[1:]
        self.count_outputs()
        inputs = self.set_up(setup) if setup else list(self.params)
        self.context = Context(self.keeper, self.ctx, inputs, self.outputs if not setup else self.setup_outputs)
        self.context.skipped = self.skipped if setup else set()
        self.read_backward()
        self.resolve()
        self.write_forward(setup)
        self.write_backward()
        self.tell(setup)
        return self.made

    def method(self, info: FunctionInfo) -> None:
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        if not info.static:
            raise Refused(f"{info.name} is not a static method")
        if isinstance(node.params.star_arg, cst.Param) or node.params.star_kwarg is not None or node.params.kwonly_params:
            raise Refused(f"{info.name} takes *args or keywords: the inputs are not known")
        if not _params(info):
            raise Refused(f"{info.name} takes no context")
        for stmt in info.scope.body.walk():
            for mode in stmt.modes:
                name = qualified(_callee(mode.items[0].item), info.module.imports)
                if name.endswith(("enable_grad", "set_grad_enabled")):
                    raise Refused(f"{info.name} records operations itself (enable_grad)")
            for call in stmt.calls:
                name = info.module.value(call.func).name
                last = call.func.attr.value if isinstance(call.func, cst.Attribute) else ""
                if name in ("torch.autograd.grad", "torch.autograd.backward", "torch.enable_grad") or last in ("backward", "requires_grad_"):
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
        params = _params(setup)
        if len(params) != 3:
            raise Refused("setup_context does not take (ctx, inputs, output)")
        _, given, output = params
        inputs = list(self.params)
        self.skipped: set[int] = set()
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
        used = {u for i, s in enumerate(setup.scope.body.stmts) if i not in self.skipped for t in s.walk() for u in t.uses}
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
        for part in descend(node.body):
            if isinstance(part, cst.Subscript) and dotted(part.value) == f"{self.bctx}.needs_input_grad":
                if not isinstance(_index(part), int):
                    raise Refused("ctx.needs_input_grad is not read by number")
                self.needs.append(part)
                accounted |= {id(part.value), id(part.value.value)}  # type: ignore[attr-defined]
            elif isinstance(part, cst.Subscript) and dotted(part.value) in (f"{self.bctx}.saved_tensors", f"{self.bctx}.saved_variables"):
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
        for stmt in self.backward.scope.body.walk():
            if any(d.startswith(self.bctx + ".") for d in stmt.defs | stmt.muts):
                raise Refused("backward writes to the context")

    def resolve(self) -> None:
        """Decide where bprop finds each value, and the names of its parameters."""
        wanted = bool(self.saved_reads or self.saved_items)
        if wanted and self.context.saved_by is None:
            raise Refused("nothing in forward saves tensors")
        self.saved = self.context.saved_values() if wanted else []
        self.attrs = {name: self.context.attribute(name) for name in self.attr_reads}
        everything = [*self.saved, *self.attrs.values()]
        if self.context.overwritten(everything) or self.clashes():
            for kept in everything:
                if kept.how == "again":
                    kept.how = "field"
            self.context.again.clear()
        if any(k.how == "field" for k in everything) and self.cls.shared:
            raise Refused("the backward needs a value that only forward can compute, and apply is passed around under a name")
        self.name_parameters()

    def clashes(self) -> bool:
        """Repeated statements would write over the gradients."""
        written = {self.local(d) for i in self.context.again for d in self.context.stmts[i].all_defs}
        return bool(written & set(self.grads)) or "out" in written

    def local(self, place: str) -> str:
        return place[len(self.ctx) + 1 :] if place.startswith(self.ctx + ".") else root(place)

    def name_parameters(self) -> None:
        scope = self.backward.scope
        bound = {root(d) for s in scope.body.walk() if not self.is_unpack(s) for d in s.defs | s.muts}
        free = {root(u) for s in scope.body.walk() for u in s.uses} - scope.locals - {self.bctx}
        names = list(self.context.inputs)
        self.out = "out"
        unpacked = self.unpacked()
        for kept, name in zip(self.saved, unpacked):
            elsewhere = name in names and not (kept.how == "input" and names[kept.index] == name)
            if name in self.grads or elsewhere or self.context.again:
                continue
            if kept.how == "input" and self.saved.count(kept) == 1:
                names[kept.index] = name
            elif kept.how == "output" and self.single and name not in names:
                self.out = name
        settled = set(unpacked)
        for i, name in enumerate(names):
            taken = name in self.grads or name in free or (name in bound and name not in settled)
            if taken and (self.context.again or name in free):
                raise Refused(f"the name {name} means different things in forward and backward")
            names[i] = name + "_" if taken else name
        if self.out == "out" and ("out" in {*names, *self.grads, *free, *scope.locals}):
            self.out = "output" if "output" not in {*names, *self.grads, *free, *scope.locals} else "out_"
        if len(set(names)) != len(names):
            raise Refused("two inputs have one name in the backward")
        self.names = names

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

    # --- writing

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
                for kept, node in zip(self.saved, context.saved) if kept.how == "field"
            ]  # fmt: skip
            self.made.replaced[id(context.saved_by)] = lines
        for stmt, call in direct_calls(walked, self.ctx, "mark_non_differentiable"):
            self.constant_outputs(call)
            self.made.replaced[id(stmt)] = []
        for stmt, _ in direct_calls(walked, self.ctx, "set_materialize_grads"):
            self.notes.append("the backward is linear in the gradients it is given: unused outputs give zeros, not None")
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
        read = {node.attr.value for node, _ in spots if id(node) not in targets}
        for stmt, names in droppable:
            if not any(name.startswith("self.") or name in read for name in names):
                self.made.replaced[id(stmt)] = []
        for node, name in spots:
            if not name.startswith("self.") and name in self.forward.scope.locals and node.attr.value in read:
                raise Refused(f"ctx.{name} and {name} are different things in forward")
            self.made.expressions[id(node)] = name
        loose = [p for p in descend(self.forward.scope.node.body) if isinstance(p, cst.Name) and p.value == self.ctx]
        seen = {id(node.value) for node, _ in spots} | {id(c.func.value) for s in self.forward.scope.body.walk() for c in s.calls  # type: ignore[attr-defined]
                                                        if isinstance(c.func, cst.Attribute) and c.func.attr.value in CALLS}  # fmt: skip
        if any(id(p) not in seen for p in loose):
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
        if isinstance(first.node, cst.Expr) and isinstance(first.node.value, (cst.SimpleString, cst.ConcatenatedString)):
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
            pairs = [(code(e.value), t) for e, t in zip(target.elements, texts)]
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
                elements = [e.value for e in node.value.elements]
                if len(elements) < many or any(isinstance(e, cst.StarredElement) for e in node.value.elements):
                    raise Refused("backward does not return one gradient for each input")
                if len(elements) > many:
                    parts = ", ".join(f"{{{i}}}" for i in range(many))
                    self.made.replaced[id(stmt)] = [Text(f"return ({parts},)" if many == 1 else f"return {parts}", elements[:many])]
            elif many == 1 and self.backward.module.value(node.value).kind not in ("tuple", "list"):
                if constant(node.value) is None:
                    self.made.replaced[id(stmt)] = [Text("return (None,)")]
                else:
                    self.made.replaced[id(stmt)] = [Text("return ({0},)", [node.value])]
            elif constant(node.value) is None:
                self.made.replaced[id(stmt)] = [Text(f"return {', '.join(['None'] * many)}")]

    def tell(self, setup: FunctionInfo | None) -> None:
        line = next((s.lineno for s in self.cls.scope.parent.body.walk() if s.node is self.cls.scope.node), 0) if self.cls.scope.parent else 0
        why = "a Cell: forward is construct, backward is bprop"
        if self.context.again:
            why += "; bprop computes again what forward saved on its way"
        if self.cls.twice:
            self.notes.append("second derivatives go through bprop: measured for element-wise functions only")
        if self.needs:
            why += "; bprop always computes every gradient"
        self.made.findings.append(Finding("T2M401", Tier.EXACT, f"autograd.Function {self.cls.scope.name}", why, line=line))
        for note in filter(None, self.notes):
            self.made.findings.append(Finding("T2M401", Tier.ASSUMED, f"autograd.Function {self.cls.scope.name}", note, line=line))


def _params(info: FunctionInfo) -> list[str]:
    node = info.scope.node
    assert isinstance(node, cst.FunctionDef)
    return [p.name.value for p in [*node.params.posonly_params, *node.params.params]]


def _callee(node: cst.BaseExpression) -> cst.BaseExpression:
    return node.func if isinstance(node, cst.Call) else node


def _index(node: cst.Subscript) -> object:
    part = node.slice[0].slice
    return constant(part.value) if len(node.slice) == 1 and isinstance(part, cst.Index) else ...
