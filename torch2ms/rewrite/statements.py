"""Statements whose translation is more than that of their expressions: in-place changes, writes of weights, classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import libcst as cst

from torch2ms.analysis.flow import free_uses, root
from torch2ms.analysis.names import dotted, is_foreign
from torch2ms.analysis.program import Stmt
from torch2ms.analysis.project import ClassInfo, FunctionInfo, qualified
from torch2ms.analysis.tree import code, constant, descend
from torch2ms.analysis.values import Value
from torch2ms.api import apply_call
from torch2ms.api.template import atomic
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import nested
from torch2ms.rewrite.activated import activated
from torch2ms.rewrite.expressions import Expressions
from torch2ms.rewrite.hoist import hoisted
from torch2ms.rewrite.modes import mode_sensitive
from torch2ms.rewrite.states import loaded
from torch2ms.tape.plan import Text

if TYPE_CHECKING:
    from torch2ms.rewrite.emit import Emitter

ASSIGNING = {cst.AddAssign: ("assign_add", "+"), cst.SubtractAssign: ("assign_sub", "-"), cst.MultiplyAssign: ("", "*"),
             cst.DivideAssign: ("", "/")}  # fmt: skip


VIEWS = {"view", "reshape", "transpose", "t", "permute", "squeeze", "unsqueeze", "detach", "narrow", "select", "expand",
         "view_as", "flatten", "unbind", "chunk", "split", "contiguous", "to", "cuda", "cpu", "diagonal", "swapaxes",
         "float", "get", "pop", "setdefault", "requires_grad_", "data", "numpy", "unfold", "expand_as", "broadcast_to",
         "movedim", "moveaxis", "swapdims", "unflatten", "ravel", "reshape_as", "as_strided", "hsplit", "vsplit",
         "tensor_split", "as_tensor", "asarray", "from_numpy", "view_as_real", "view_as_complex", "T", "mT", "real",
         "imag"}  # fmt: skip
RESHAPING = {"unsqueeze_", "squeeze_", "t_", "transpose_", "swapaxes_", "swapdims_", "resize_", "resize_as_", "set_"}
TYPED = {"eq_", "ne_", "gt_", "ge_", "lt_", "le_", "greater_", "less_", "not_equal_", "greater_equal_", "less_equal_",
         "logical_not_", "logical_and_", "logical_or_", "logical_xor_"}  # fmt: skip


class Statements:
    """Small statements and the heads of classes."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter = emitter
        self.module = emitter.module
        self.rules = emitter.rules
        self.looked_at: set[int] = set()  # statements whose in-place activations are dealt with
        self.stopped: set[int] = set()  # returned tensors of functions that ran without gradient

    def small(self, stmt: Stmt) -> list[cst.BaseStatement]:
        """The lines a small statement becomes; the first takes the comments above."""
        self.emitter.line = stmt.lineno
        node = stmt.node
        special = None
        if isinstance(node, (cst.Assign, cst.Expr, cst.Return)) and not self.module.uses_mindspore:
            alone = isinstance(node, cst.Expr) and nested.is_change(node.value)
            above = [] if alone else nested.raise_changes(self, stmt)
            above += hoisted(self, stmt)
            if above:
                return [*above, *self.small(stmt)]
        if stmt.calls and not self.module.uses_mindspore and (below := activated(self, stmt)):
            return [*self.small(stmt), *below]
        if self.module.uses_mindspore:
            pass
        elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            special = self.call(stmt, node.value)
        elif isinstance(node, cst.AugAssign):
            special = self.augmented(stmt, node)
        elif isinstance(node, cst.Assign):
            special = self.assign(stmt, node)
        elif isinstance(node, cst.Return) and node.value is not None:
            special = self.cut_return(node)
        if special is None:
            if isinstance(node, (cst.Import, cst.ImportFrom)):
                return [self.line(stmt, node)]
            made = self.emitter.expression(node)
            if isinstance(node, cst.Assign) and isinstance(made, cst.Assign):
                if _idle(made) and not _idle(node):
                    return []  # `x = x.to(device)`
                made = _bare(node, made)
            if (
                isinstance(made, cst.Expr)
                and isinstance(made.value, (cst.Name, cst.Attribute))
                and isinstance(node, cst.Expr)
            ):
                if isinstance(node.value, cst.Call):
                    return []  # `model.to(device)`
            special = [self.line(stmt, made)]
        elif special and stmt.trailing is not None:
            last = special[-1]
            if isinstance(last, cst.SimpleStatementLine) and stmt.trailing.comment is not None:
                special[-1] = last.with_changes(trailing_whitespace=stmt.trailing)
        return special

    def cut_return(self, node: cst.Return) -> list[cst.BaseStatement] | None:
        """`return x` of a function that ran under no_grad, called where gradients are taken."""
        value = node.value
        parts = [e.value for e in value.elements] if isinstance(value, cst.Tuple) else [value]
        if value is None or not any(id(p) in self.stopped for p in parts):
            return None
        self.emitter.needs.add("ops")
        texts = [f"ops.stop_gradient({{{i}}})" if id(p) in self.stopped else f"{{{i}}}" for i, p in enumerate(parts)]
        return self.text(f"return {', '.join(texts)}", *[p for p in parts if p is not None])

    def line(self, stmt: Stmt, node: cst.CSTNode) -> cst.SimpleStatementLine:
        small = node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT) if hasattr(node, "semicolon") else node
        if stmt.line is not None and stmt.trailing is not None:
            return cst.SimpleStatementLine([small], trailing_whitespace=stmt.trailing)  # type: ignore[list-item]
        return cst.SimpleStatementLine([small])  # type: ignore[list-item]

    def text(self, template: str, *nodes: cst.CSTNode) -> list[cst.BaseStatement]:
        return self.emitter.text(Text(template, list(nodes)))

    def tell(self, rule: str, what: str, why: str, tier: Tier = Tier.EXACT) -> None:
        self.emitter.findings.append(Finding(rule, tier, what, why, line=self.emitter.line))

    def refuse(self, rule: str, what: str, why: str, todo: str) -> None:
        finding = Finding(rule, Tier.REFUSED, what, why, todo, self.emitter.line)
        self.emitter.findings.append(finding)
        self.emitter.marked.append(finding)

    # --- calls as statements

    def call(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        func = call.func
        target = self.module.value(func)
        if target.kind == "api" and target.name.startswith(
            ("torch.backends", "torch.set_num_threads", "torch.set_printoptions")
        ):
            self.tell("T2M901", target.name, "a setting of torch without counterpart: dropped")
            return []
        if target.kind == "api" and is_foreign(target.name) and self.steers(target.name):
            return []
        if target.kind == "api" and target.name.startswith("torch.nn.functional.") and _changes(target.name, call):
            return self.changed(stmt, call)
        if target.kind == "api" and target.name.startswith("torch.nn.init."):
            return self.drawn(stmt, call)
        if not isinstance(func, cst.Attribute):
            return None
        receiver = self.module.value(func.value)
        name = func.attr.value
        if (
            receiver.kind == "module"
            and self.steers(f"{receiver.name}.{name}")
            or receiver.kind == "module"
            and self.steers(f"torch.nn.Module.{name}")
        ):
            return []
        if receiver.kind == "module" and name == "register_buffer" and len(call.args) >= 2:
            return self.buffer(call, func)
        if receiver.kind == "module" and name == "load_state_dict":
            return loaded(self, stmt, call, func)
        if name in ("retain_grad", "requires_grad_") and receiver.kind in ("tensor", "unknown") and dotted(func.value):
            self.tell("T2M303", f"Tensor.{name}", "gradient functions name what they differentiate: dropped")
            return []
        if name == "requires_grad_" and receiver.kind in ("param", "module") and len(call.args) <= 1:
            flag = call.args[0].value if call.args else cst.Name("True")
            self.tell("T2M307", "requires_grad_", "the flag of each parameter is set")
            if receiver.kind == "param":
                return self.text("{0}.requires_grad = {1}", func.value, flag)
            return self.text("for param in {0}.get_parameters():\n    param.requires_grad = {1}", func.value, flag)
        if name.endswith("_") and not name.endswith("__") and receiver.kind in ("tensor", "param"):
            return self.in_place(stmt, call)
        return None

    def steers(self, name: str) -> bool:
        """The statement sets PyTorch itself up, and may go."""
        rule = self.rules.find(name)
        if rule is None or not rule.setting:
            return False
        self.tell("T2M901", name, "a setting of torch without counterpart: dropped")
        return True

    def buffer(self, call: cst.Call, func: cst.Attribute) -> list[cst.BaseStatement] | None:
        name = constant(call.args[0].value)
        value = call.args[1].value
        if not isinstance(name, str) or not name.isidentifier() or constant(value) is None:
            return None
        self.emitter.needs.add("ms")
        self.tell("T2M503", "register_buffer", "a buffer is a parameter that is not trained")
        return self.text(f"{{0}}.{name} = ms.Parameter({{1}}, name={name!r}, requires_grad=False)", func.value, value)

    def in_place(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`x.add_(y).mul_(z)`: MindSpore's in-place methods do nothing on CPU, so the result is assigned."""
        chain: list[cst.Call] = []
        methods: list[str] = []
        node: cst.BaseExpression = call
        while (
            isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_")
        ):
            chain.append(node)
            methods.append(node.func.attr.value)
            node = node.func.value
        target = node
        value = self.module.value(target)
        while isinstance(target, cst.Attribute) and self.is_data(target):
            target = target.value
            value = self.module.value(target)
        if not isinstance(target, (cst.Name, cst.Attribute, cst.Subscript)) or (
            isinstance(target, cst.Subscript) and not _plain_index(target)
        ):
            self.refuse("T2M610", f"Tensor.{methods[0]}", "an in-place change of a temporary", "assign the result")
            return None
        if len(chain) == 1 and methods[0] in ("uniform_", "normal_") and self.is_parameter(target, value):
            return self.initialised(chain[0], target)
        planned = self.emitter.plan.expressions.get(id(node)) or self.emitter.plan.expressions.get(id(target))
        place = planned or code(self.emitter.expression(target))
        result: cst.BaseExpression = cst.parse_expression(place)
        for link in reversed(chain):
            assert isinstance(link.func, cst.Attribute)
            made = self.functional(link, link.func.attr.value, result, place)
            if made is None:
                return None
            result = made
            if methods[chain.index(link)] in TYPED:
                result = cst.parse_expression(f"{code(result)}.astype({place}.dtype)")
        loop = any(owner.is_loop for owner in stmt.ancestors())
        alone = self.fresh(target, but=None if loop else stmt)
        if not alone and RESHAPING & set(methods):
            self.refuse("T2M610", f"Tensor.{methods[0]}", "other names hold the tensor, and its shape changes",
                        "assign the result to each of them")  # fmt: skip
            return None
        self.tell("T2M611", "in-place tensor method", "the result is assigned: in-place methods do nothing on CPU")
        return self.store(target, value, place, result, alone and methods[0] != "copy_")

    def changed(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`F.relu(x, inplace=True)` as a statement: the tensor gets the result."""
        given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "input"]
        target = given[0] if given else None
        if not isinstance(target, (cst.Name, cst.Attribute)):
            return None
        made, place = self.emitter.expression(call), code(self.emitter.expression(target))
        if code(made) == code(call):  # refused
            return None
        assert isinstance(made, cst.BaseExpression)
        loop = any(owner.is_loop for owner in stmt.ancestors())
        alone = self.fresh(target, but=None if loop else stmt)
        self.tell("T2M611", "in-place function", "the result is assigned: MindSpore's functions change nothing")
        return self.store(target, self.module.value(target), place, made, alone)

    def drawn(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        """`init.normal_(w)` of a tensor that is no parameter: it is bound to what was drawn."""
        given = [arg.value for arg in call.args if arg.keyword is None or arg.keyword.value == "tensor"]
        target = given[0] if given else None
        if not isinstance(target, (cst.Name, cst.Attribute)):
            return None
        value = self.module.value(target)
        if value.kind != "tensor" or value.likely or self.is_parameter(target, value):
            return None
        made, place = self.emitter.expression(call), code(self.emitter.expression(target))
        if not isinstance(made, cst.Call) or code(made.func) != f"{place}.set_data":
            return None
        content = made.args[0].value
        if isinstance(content, cst.Call) and code(content.func).endswith("initializer"):
            content = cst.Call(cst.Attribute(content, cst.Name("init_data")))
        loop = any(owner.is_loop for owner in stmt.ancestors())
        alone = self.fresh(target, but=None if loop else stmt)
        self.tell("T2M611", "initialised tensor", "it is no parameter: the new values are assigned")
        return self.store(target, value, place, content, alone)

    def initialised(self, call: cst.Call, target: cst.CSTNode) -> list[cst.BaseStatement] | None:
        """`w.data.uniform_(a, b)` is `init.uniform_(w, a, b)`."""
        assert isinstance(call.func, cst.Attribute)
        rule = self.rules.find(f"torch.nn.init.{call.func.attr.value}")
        if rule is None or any(a.keyword is not None for a in call.args):
            return None
        visitor = Expressions(
            self.emitter.project,
            self.module,
            self.rules,
            self.emitter.plan,
            self.emitter.differentiated,
            self.emitter.aliases,
        )
        args = [cst.Arg(target), *call.args]  # type: ignore[arg-type]
        asked = call.with_changes(args=args)
        updated = asked.with_changes(args=[a.with_changes(value=self.emitter.expression(a.value)) for a in args])
        made = visitor.take(apply_call(rule, asked, updated, visitor.facts), updated)
        self.emitter.absorb(visitor.notes)
        return [cst.SimpleStatementLine([cst.Expr(made)])]

    def functional(
        self, call: cst.Call, name: str, receiver: cst.BaseExpression, place: str
    ) -> cst.BaseExpression | None:
        """The value `receiver` has after the in-place call."""
        emitter = self.emitter
        args = [emitter.expression(a.value) for a in call.args]
        if name == "zero_":
            emitter.needs.add("ops")
            return cst.parse_expression(f"{emitter.aliases.get('ops', 'ops')}.zeros_like({place})")
        if name == "fill_" and len(args) == 1:
            emitter.needs.add("ops")
            return cst.parse_expression(f"{emitter.aliases.get('ops', 'ops')}.full_like({place}, {code(args[0])})")
        if name == "copy_" and args:
            return args[0]  # type: ignore[return-value]
        visitor = Expressions(
            emitter.project, self.module, self.rules, emitter.plan, emitter.differentiated, emitter.aliases
        )
        updated = call.with_changes(
            func=cst.Attribute(receiver, cst.Name(name[:-1])),
            args=[a.with_changes(value=v) for a, v in zip(call.args, args, strict=False)],
        )
        for candidate in (f"torch.Tensor.{name}", f"torch.Tensor.{name[:-1]}"):
            rule = self.rules.find(candidate)
            if rule is not None:
                if candidate.endswith("_"):
                    updated = updated.with_changes(func=cst.Attribute(receiver, cst.Name(name)))
                outcome = apply_call(rule, call, updated, visitor.facts)
                visitor.take(outcome, updated)
                emitter.absorb(visitor.notes)
                return outcome.node
        self.refuse(
            "T2M610", f"Tensor.{name}", "no rule for this in-place method", "assign the result of the functional form"
        )
        return None

    def store(
        self, target: cst.CSTNode, value: Value, place: str, result: cst.BaseExpression, alone: bool
    ) -> list[cst.BaseStatement]:
        """Write a new value where others may see it: parameters are assigned, local tensors are bound again."""
        text = code(result)
        if self.is_parameter(target, value):
            self.emitter.needs.add("ops")
            return self.text(f"ops.assign({place}, {text})")
        if alone:
            return self.text(f"{place} = {text}")
        return self.text(f"{place}.copy_({text})")  # reaches every alias, and the caller

    def fresh(self, target: cst.CSTNode, but: Stmt | None = None) -> bool:
        """A local tensor of this scope that nothing else (`but` one statement) refers to: rebinding is enough."""
        if not isinstance(target, cst.Name):
            return False
        name, scope = target.value, self.emitter.scope
        once = but is not None and not any(owner.is_loop for owner in but.ancestors())
        if name in scope.params or name not in scope.locals:
            return False
        for stmt in scope.body.walk():
            if name in stmt.defs and not self.makes(stmt, name):
                return False
            if once and but is not None and stmt.number > but.number:
                continue  # who shares the tensor later shares the new one
            if name in stmt.uses and stmt is not but and self.shares(stmt, name):
                return False
        return not any(root(u) == name for child in scope.children for u in free_uses(child))

    def makes(self, stmt: Stmt, name: str) -> bool:
        node = stmt.node
        if isinstance(node, cst.AugAssign):
            return True
        if not isinstance(node, cst.Assign) or len(node.targets) != 1 or dotted(node.targets[0].target) != name:
            return False
        value = node.value
        if isinstance(value, cst.Tuple):
            return all(isinstance(e.value, cst.Call) for e in value.elements)
        if isinstance(value, cst.Call):
            shared = isinstance(value.func, cst.Attribute) and value.func.attr.value in VIEWS
            return not shared and (not nested.is_change(value) or isinstance(nested.base(value), cst.Call))
        return isinstance(value, (cst.BinaryOperation, cst.UnaryOperation))

    def shares(self, stmt: Stmt, name: str) -> bool:
        """The statement stores the tensor itself somewhere: in another name, an attribute, a container."""
        node = stmt.node
        if isinstance(node, cst.Assign):
            values = (
                [e.value for e in node.value.elements]
                if isinstance(node.value, (cst.Tuple, cst.List))
                else [node.value]
            )
            if any(name in _sources(v) for v in values):
                return True
        return any(
            isinstance(call.func, cst.Attribute) and call.func.attr.value in ("append", "extend", "insert", "put")
            and any(isinstance(b := nested.base(a.value), cst.Name) and b.value == name for a in call.args)
            for call in stmt.calls
        )  # fmt: skip

    def is_parameter(self, target: cst.CSTNode, value: Value) -> bool:
        """Whether the place holds a MindSpore Parameter in the output."""
        if value.kind == "param" or value.name in ("module_param", "parameter", "buffer"):
            return True
        if id(target) in self.emitter.plan.weights:
            return True
        if value.place and value.place in self.emitter.plan.leaves:
            return True
        place = dotted(target)
        if isinstance(target, cst.Attribute):
            owner = self.module.value(target.value)
            if owner.kind == "module" and target.attr.value in ("weight", "bias"):
                return True
        return place in self.emitter.plan.leaves

    # --- assignments

    def augmented(self, stmt: Stmt, node: cst.AugAssign) -> list[cst.BaseStatement] | None:
        target: cst.CSTNode = node.target
        while self.is_data(target):
            target = target.value  # type: ignore[attr-defined]
        value = self.module.value(target)
        if (reached := self.through(stmt, node, value)) is not None:
            return reached
        group = isinstance(target, cst.Subscript) and value.name == "param_group_item" and _key(target) == "lr"
        if not group and not self.is_parameter(target, value):
            return (
                None
                if target is node.target
                else self.text(f"{{0}} {code(node.operator).strip()} {{1}}", target, node.value)
            )
        assign, symbol = ASSIGNING.get(type(node.operator), ("", ""))
        if not symbol:
            self.refuse(
                "T2M611", "augmented assignment of a parameter", "this operator has no assigning form", "use ops.assign"
            )
            return None
        self.emitter.needs.add("ops")
        self.tell("T2M611", "in-place change of a parameter", "ops.assign, which compiled code sees too")
        if assign and not group:
            return self.text(f"ops.{assign}({{0}}, {{1}})", target, node.value)
        self.emitter.plan.expressions.setdefault(id(target), code(target))
        right = (
            "{1}"
            if isinstance(node.value, (cst.Name, cst.Attribute, cst.Call, cst.Integer, cst.Float, cst.Subscript))
            else "({1})"
        )
        old = "{0}.item()" if group else "{0}"
        return self.text(f"ops.assign({{0}}, {old} {symbol} {right})", target, node.value)

    def through(self, stmt: Stmt, node: cst.AugAssign, value: Value) -> list[cst.BaseStatement] | None:
        """`y = x; y += 1`: the change reaches `x`, where something still reads it."""
        if value.kind != "tensor" or value.likely or not isinstance(node.target, cst.Name) or value.leaf:
            return None
        name = node.target.value
        others = set()
        for other in self.emitter.scope.body.walk():
            if isinstance(other.node, cst.Assign) and isinstance(other.node.value, cst.Name):
                held = self.module.value(other.node.value)
                pair = {other.node.value.value, *(dotted(t.target) for t in other.node.targets)}
                if name in pair and other.number < stmt.number and held.kind == "tensor" and not held.likely:
                    others |= pair - {name}
        later = [s for s in self.emitter.scope.body.walk() if s.number > stmt.number]
        loops = [s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()]
        if not others & {use for s in (*later, *loops) for use in s.uses}:
            return None
        self.tell("T2M611", "in-place change", "written into the tensor, which another name holds too")
        symbol = code(node.operator).strip().removesuffix("=")
        value_text = "{0}" if atomic(node.value) else "({0})"
        return self.text(f"{name}.copy_({name} {symbol} {value_text})", node.value)

    def assign(self, stmt: Stmt, node: cst.Assign) -> list[cst.BaseStatement] | None:
        if len(node.targets) != 1:
            return None
        target = node.targets[0].target
        named = qualified(target, self.module.imports) if isinstance(target, cst.Attribute) else ""
        if is_foreign(named) and "." in named and (self.steers(named) or named.startswith("torch.backends.")):
            return []
        if self.is_data(target):
            assert isinstance(target, cst.Attribute)
            return self.data(target, node)
        if isinstance(target, cst.Attribute) and target.attr.value == "requires_grad":
            value = self.module.value(target.value)
            place = dotted(target.value)
            if (
                value.kind == "tensor"
                and value.name not in ("module_param", "parameter")
                and place
                and place not in self.emitter.plan.leaves
            ):
                if not value.likely:
                    self.tell("T2M303", "requires_grad", "gradient functions name what they differentiate: dropped")
                    return []
                if constant(node.value) is True and place in self.emitter.scope.locals:
                    why = (
                        "dropped, as gradient functions name what they differentiate; "
                        f"assumed: `{place}` is no parameter"
                    )
                    self.tell("T2M303", "requires_grad", why, Tier.ASSUMED)
                    return []
            return None
        if isinstance(target, cst.Subscript):
            value = self.module.value(target)
            if value.name == "param_group_item" and _key(target) == "lr":
                self.emitter.needs.add("ops")
                self.tell(
                    "T2M502",
                    "learning rate of a group",
                    "written with ops.assign: plain writes are ignored or shadow the scheduler",
                )
                self.emitter.plan.expressions.setdefault(id(target), code(target))
                return self.text("ops.assign({0}, {1})", target, node.value)
            return None
        made = self.leaf(stmt, node, target)
        if made is not None:
            return made
        if isinstance(node.value, cst.Call) and self.module.value(node.value.func).name.startswith("torch.nn.init."):
            lines = self.drawn(stmt, node.value)
            if lines is not None:
                filled = next(a.value for a in node.value.args if a.keyword is None or a.keyword.value == "tensor")
                return [*lines, *self.text(f"{code(target)} = {{0}}", filled)]
        return self.constructed(stmt, node, target)

    def data(self, target: cst.Attribute, node: cst.Assign) -> list[cst.BaseStatement] | None:
        base = target.value
        value = self.module.value(base)
        if self.is_parameter(base, value) or value.kind == "unknown":
            self.emitter.needs.add("ops")
            tier = Tier.EXACT if value.kind != "unknown" else Tier.ASSUMED
            self.tell("T2M611", "write of .data", "ops.assign, which compiled code sees too", tier)
            return self.text("ops.assign({0}, {1})", base, node.value)
        if isinstance(base, cst.Name):
            self.tell("T2M611", "write of .data", "the local tensor is bound again")
            return self.text("{0} = {1}", base, node.value)
        return None

    def is_data(self, node: cst.CSTNode) -> bool:
        """`tensor.data`; an attribute of that name on anything else is the user's own."""
        if not isinstance(node, cst.Attribute) or node.attr.value != "data":
            return False
        kind = self.module.value(node.value).kind
        return kind in ("tensor", "param") or (kind == "unknown" and isinstance(node.value, cst.Name))

    def leaf(self, stmt: Stmt, node: cst.Assign, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """A leaf that an optimizer owns, or that is changed through an alias, is a Parameter."""
        place = dotted(target)
        value = self.module.value(node.value)
        if not place or not value.leaf or place not in self.emitter.plan.leaves:
            return None
        made = self.emitter.expression(node.value)
        text = code(made)
        self.emitter.needs.add("ms")
        name = place.rpartition(".")[2]
        if text.startswith("ms.Parameter("):
            if "name=" in text:
                return None
            return self.text(f"{place} = {text[:-1]}, name={name!r})")
        self.tell("T2M305", "leaf tensor", "it is trained: a Parameter")
        return self.text(f"{place} = ms.Parameter({text}, name={name!r})")

    def constructed(self, stmt: Stmt, node: cst.Assign, target: cst.BaseExpression) -> list[cst.BaseStatement] | None:
        """Modules of torch start in training mode, cells do not."""
        owner = self.emitter.scope.cls
        inside = owner is not None and self.module.classes[owner.name].kind == "module"
        if inside or self.emitter.scope.node.__class__ is cst.ClassDef:
            return None
        pairs: list[tuple[cst.BaseExpression, cst.BaseExpression]] = [(target, node.value)]
        if (
            isinstance(target, cst.Tuple)
            and isinstance(node.value, cst.Tuple)
            and len(target.elements) == len(node.value.elements)
        ):
            pairs = [(t.value, v.value) for t, v in zip(target.elements, node.value.elements, strict=False)]
        places = []
        for place, made in pairs:
            value = self.module.value(made)
            if (
                value.kind == "module"
                and dotted(place)
                and self.constructs(made)
                and mode_sensitive(value, self.emitter.project, self.module)
            ):
                places.append(dotted(place))
        if not places:
            return None
        lines: list[cst.BaseStatement] = [self.line(stmt, self.emitter.expression(node))]
        for name in places:
            self.tell("T2M306", "new module", "torch modules start in training mode, cells do not: set_train()")
            lines += self.text(f"{name}.set_train()")
        return self.keep_comment_first(lines, stmt)

    def keep_comment_first(self, lines: list[cst.BaseStatement], stmt: Stmt) -> list[cst.BaseStatement]:
        stmt.trailing = None
        return lines

    def constructs(self, node: cst.BaseExpression) -> bool:
        """A call that makes a module: its class, possibly moved to a device at once."""
        while (
            isinstance(node, cst.Call)
            and isinstance(node.func, cst.Attribute)
            and node.func.attr.value in ("to", "cuda", "cpu", "double", "float")
        ):
            node = node.func.value
        if not isinstance(node, cst.Call):
            return False
        target = self.module.value(node.func)
        return target.kind == "class" or (target.kind == "api" and is_foreign(target.name))

    # --- classes

    def bases(self, cls: ClassInfo, node: cst.ClassDef) -> list[cst.Arg]:
        kept = []
        for arg in node.bases:
            name = qualified(arg.value, self.module.imports)
            if name in ("torch.nn.Module", "torch.nn.modules.module.Module", "torch.nn.modules.Module"):
                self.emitter.needs.add("nn")
                self.tell("T2M501", "nn.Module", "nn.Cell; forward becomes construct")
                alias = self.emitter.aliases.get("nn", "nn")
                kept.append(arg.with_changes(value=cst.parse_expression(f"{alias}.Cell")))
            elif name.startswith("torch.utils.data.") and name.rpartition(".")[2] in ("Dataset", "IterableDataset"):
                self.tell(
                    "T2M504", "Dataset", "any object with __getitem__ and __len__ is a source of a MindSpore dataset"
                )
            elif name.startswith("torch.autograd") and name.endswith("Function"):
                if cls.refused:
                    self.refuse(
                        "T2M402",
                        "autograd.Function",
                        cls.refused,
                        f"write a Cell with construct and bprop: {cls.refused}",
                    )
                    kept.append(arg)
                else:
                    self.emitter.needs.add("nn")
                    kept.append(
                        arg.with_changes(value=cst.parse_expression(f"{self.emitter.aliases.get('nn', 'nn')}.Cell"))
                    )
            else:
                kept.append(arg.with_changes(value=self.emitter.expression(arg.value)))
        if kept and len(kept) < len(node.bases):
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return kept

    def tensor_index(self, info: FunctionInfo) -> str:
        """The index a dataset's `__getitem__` puts into a tensor: the pipeline's NumPy integers are refused there."""
        if info.cls is None or info.cls.kind != "dataset" or info.name != "__getitem__" or len(info.scope.params) != 2:
            return ""
        name = info.scope.params[1]
        for stmt in info.scope.body.walk():
            for node in descend(stmt.node) if not stmt.blocks else ():
                if isinstance(node, cst.Subscript) and self.module.value(node.value).kind == "tensor":
                    if any(isinstance(e.slice, cst.Index) and dotted(e.slice.value) == name for e in node.slice):
                        self.tell(
                            "T2M504",
                            "index of a dataset",
                            "a NumPy integer in MindSpore, which tensors refuse: made an int",
                        )
                        return name
        return ""

    def method_name(self, info: FunctionInfo) -> str:
        if info.cls is not None and info.cls.kind == "module":
            return {"forward": "construct", "train": "set_train"}.get(info.name, info.name)
        return info.name


def _sources(node: cst.BaseExpression) -> set[str]:
    """The tensors whose memory an expression shows: also `c` for `torch.add(a, b, out=c)`."""
    written = [a.value for a in node.args if a.keyword is not None and a.keyword.value == "out"] if isinstance(
        node, cst.Call) else []  # fmt: skip
    found = {_source(node)}
    for target in written:
        parts = [e.value for e in target.elements] if isinstance(target, cst.Tuple) else [target]
        found |= {_source(part) for part in parts}
    return found


def _source(node: cst.BaseExpression) -> str:
    """The tensor whose memory an expression shows: `x`, `x.view(-1)`, `x[0]`, `x.add_(1)`, `torch.relu_(x)`."""
    while True:
        if isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute):
            last = node.func.attr.value
            if last not in VIEWS and not (last.endswith("_") and not last.endswith("__")):
                return ""
            function = isinstance(node.func.value, cst.Name) and node.func.value.value == "torch" and node.args
            node = node.args[0].value if function else node.func.value
        elif isinstance(node, cst.Attribute) and node.attr.value in VIEWS or isinstance(node, cst.Subscript):
            node = node.value
        else:
            return node.value if isinstance(node, cst.Name) else ""


def _changes(name: str, call: cst.Call) -> bool:
    """Whether a call of torch.nn.functional changes its input."""
    if name.endswith("_"):
        return True
    return any(arg.keyword is not None and arg.keyword.value == "inplace" and constant(arg.value) is True
               for arg in call.args)  # fmt: skip


def _idle(node: cst.Assign) -> bool:
    """`x = x`, `a, b = a, b`."""
    target = node.targets[0].target
    return len(node.targets) == 1 and target.__class__ is node.value.__class__ and code(target) == code(node.value)


def _bare(original: cst.Assign, made: cst.Assign) -> cst.Assign:
    """Without parentheses that only the translation needed: the value stands alone."""
    value = made.value
    if (
        original.value.lpar
        or not value.lpar
        or "\n" in code(value)
        or isinstance(value, (cst.GeneratorExp, cst.NamedExpr))
    ):
        return made
    return made.with_changes(value=value.with_changes(lpar=[], rpar=[]))


def _key(node: cst.Subscript) -> object:
    part = node.slice[0].slice
    return constant(part.value) if isinstance(part, cst.Index) else None


def _plain_index(node: cst.Subscript) -> bool:
    """Integer and slice subscripts: writing through them reaches the tensor."""
    for element in node.slice:
        part = element.slice
        if isinstance(part, cst.Index) and not isinstance(
            part.value, (cst.Integer, cst.Name, cst.UnaryOperation, cst.Ellipsis)
        ):
            return False
    return True
