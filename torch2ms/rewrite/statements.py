"""Small statements: calls, assignments, returns, and what else is translated as its expressions are."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.activations import NAMED
from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, is_foreign, name_called
from torch2ms.analysis.syntax.tree import changed, code, constant
from torch2ms.analysis.values import FILLING, Value
from torch2ms.editing import layout
from torch2ms.findings import Tier
from torch2ms.rewrite.assignments import Assignments
from torch2ms.rewrite.augmented import Augmented
from torch2ms.rewrite.gradmodes import WHOLE, asserts_flag, stopper
from torch2ms.rewrite.inplace.activated import activated
from torch2ms.rewrite.inplace.apart import array_of, shown_by_array
from torch2ms.rewrite.inplace.hoist import hoisted
from torch2ms.rewrite.inplace.nested import raise_changes
from torch2ms.rewrite.inplace.stores import InPlace, changes
from torch2ms.rewrite.layers.delegated import delegated
from torch2ms.rewrite.layers.normed import where_it_is_kept
from torch2ms.rewrite.layers.replaced import set_by_name, taken_among, taken_by_name
from torch2ms.rewrite.parameters.beside import REFUSED, TODO, beside, buffers_by_class, clashes
from torch2ms.rewrite.parameters.lists import told_by_name
from torch2ms.rewrite.parameters.states import loaded
from torch2ms.rewrite.patched import patched, set_on_torch
from torch2ms.rewrite.settings import idle, steers
from torch2ms.rewrite.unrecorded import KeptApart
from torch2ms.rewrite.writer import Writer
from torch2ms.tape.forward.dependents import silenced
from torch2ms.tape.uses.rebound import attributes

BUFFER = "a buffer is a parameter that is not trained"
SAVED = "; assumed: it is what the constructor makes of it, since states keep it, which torch's do not"
STATES = re.compile(r"state_dict\b")
ATTRIBUTE = "it is bound anew, as an attribute takes it: with its graph, in any shape"
UNLISTED = "; assumed: nobody looks for it in a state or among the buffers"
SEEDING = {"torch.manual_seed", "torch.random.manual_seed", "torch.cuda.manual_seed", "torch.cuda.manual_seed_all"}
NORMALIZE = "torchvision.transforms.functional.normalize"
RESTORED = "it is bound anew with a graph: a Parameter does not keep that, states that are loaded have no attributes"
KEEP_APART = "register it with persistent=False if no state needs it"
LOADED = re.compile(r"\bload_state_dict\(")
LISTED = re.compile(r"\b(named_)?buffers\b|\bstate_dict\b")


class Statements:
    """What one small statement becomes."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.module = writer.module
        self.in_place = InPlace(writer)
        self.augmented = Augmented(writer, self.in_place)
        self.assignments = Assignments(writer, self.augmented)
        self.looked_at: set[int] = set()  # statements whose in-place activations are dealt with
        self.stopped: set[int] = set()  # returned tensors of functions that ran without gradient
        self.kept_apart = KeptApart()

    def small(self, stmt: Stmt) -> list[cst.BaseStatement]:
        """The lines a small statement becomes; the first takes the comments above."""
        self.writer.line = stmt.lineno
        node = self.kept_apart.of(stmt, self.writer)
        special = None
        array = ""
        if stmt.muts and not self.module.uses_mindspore:
            array = shown_by_array(stmt, self.writer) if len(stmt.muts) > 1 else ""
            array = array or (array_of(stmt, self.writer) if self.module.has(".numpy()") else "")
        if array:
            why = f"`{array}` shows the same memory in torch, which MindSpore copies, or writes at a time of its own"
            todo = "write into both, or give one of them a copy in torch as well"
            self.writer.refuse("T2M611", "tensor and array of the same memory", why, todo)
        if type(node) in (cst.Assign, cst.Expr, cst.Return) and not self.module.uses_mindspore:
            above = raise_changes(self.in_place, stmt)
            above += hoisted(self.in_place, stmt)
            if above:
                below = self.writer.marked_apart(lambda: self.small(stmt))
                return [*above, *below] if below else self.commented(stmt, above)
        if stmt.calls and not self.module.uses_mindspore and (below := activated(self.writer, stmt, self.looked_at)):
            return [*self.small(stmt), *below]
        if self.module.uses_mindspore:
            special = self.in_place.of_gradient(stmt, node)
        elif type(node) is cst.Expr and type(node.value) is cst.Call:
            special = self.call(stmt, node.value)
        elif type(node) is cst.AugAssign:
            special = self.augmented.changed(stmt, node)
        elif type(node) is cst.Assign:
            special = self.assignments.assign(stmt, node)
        elif type(node) is cst.Del:
            special = taken_among(node, self.writer) or patched(stmt, node, self.writer)
        elif type(node) is cst.Return and node.value is not None:
            special = self.cut_return(node, stmt) or delegated(stmt, node, self.writer)
        elif type(node) is cst.Assert and asserts_flag(node, self.module):
            why = "an assertion about a flag that tensors do not carry in MindSpore: dropped"
            self.writer.tell("T2M303", "Tensor.requires_grad", why)
            return []
        if special is None:
            if type(node) is cst.Import or type(node) is cst.ImportFrom:
                return [layout.line(stmt, node)]
            made = self.writer.expression(node)
            if type(node) is cst.Assign and type(made) is cst.Assign and _idle(made) and not _idle(node):
                return []  # `x = x.to(device)`
            if (
                (type(node) is cst.Assign or type(node) is cst.Return)
                and isinstance(made, type(node))
                and made.value is not None
            ):
                made = changed(made, value=layout.bare(node.value, made.value))
            if (
                type(made) is cst.Expr
                and (type(made.value) is cst.Name or type(made.value) is cst.Attribute)
                and type(node) is cst.Expr
            ):
                if type(node.value) is cst.Call:
                    return []  # `model.to(device)`
            written = type(node) is cst.Expr and id(node.value) in self.writer.plan.expressions
            if written and type(made) is cst.Expr and type(made.value) is cst.Subscript:
                return []  # `torch.exp(x, out=rows[1])`
            special = [layout.line(stmt, made)]
        return self.commented(stmt, where_it_is_kept(special, self.writer))

    def seeded_above(self, stmt: Stmt, call: cst.Call) -> bool:
        """The statement above gives torch the same seed: `torch.manual_seed(seed); torch.cuda.manual_seed(seed)`."""
        at = stmt.block.stmts.index(stmt)
        node = stmt.block.stmts[at - 1].node if at else None
        above = node.value if type(node) is cst.Expr else None
        if type(above) is not cst.Call or self.module.value(above.func).name not in SEEDING:
            return False
        given = [a.value for a in above.args]
        return len(given) == len(call.args) == 1 and dotted(given[0]) == dotted(call.args[0].value) != ""

    def commented(self, stmt: Stmt, made: list[cst.BaseStatement]) -> list[cst.BaseStatement]:
        """What a statement became, with the comment that stood behind it."""
        last = made[-1] if made and stmt.trailing is not None and stmt.trailing.comment is not None else None
        if type(last) is cst.SimpleStatementLine:
            made[-1] = last.with_changes(trailing_whitespace=stmt.trailing)
        return made

    def own_method(self, receiver: Value, name: str) -> bool:
        """A method of the project that has the name of one of torch: `compile` of a network that is set up with it."""
        cls = self.writer.translation().class_of(receiver)
        return cls is not None and cls.method(name) is not None

    def cut_return(self, node: cst.Return, stmt: Stmt) -> list[cst.BaseStatement] | None:
        """`return x` of a function, or of a block, that ran under no_grad, called where gradients are taken."""
        value = node.value
        assert value is not None
        parts = [e.value for e in value.elements] if type(value) is cst.Tuple else [value]
        inside = self.writer.differentiated and silenced(stmt, self.module)
        cuts = [stopper(self.module.value(p), inside or id(p) in self.stopped) for p in parts]
        if not any(cuts) or any(type(p) is cst.StarredElement for p in parts):
            return None
        self.writer.needs |= {cut if cut == WHOLE else "ops" for cut in cuts if cut}
        texts = [f"{cut}({{{i}}})" if cut else f"{{{i}}}" for i, cut in enumerate(cuts)]
        return self.writer.text(f"return {', '.join(texts)}", *parts)

    def call(self, stmt: Stmt, call: cst.Call) -> list[cst.BaseStatement] | None:
        func = call.func
        target = self.module.value(func)
        if target.kind == "api" and target.name.startswith(
            ("torch.backends", "torch.set_num_threads", "torch.set_printoptions")
        ):
            self.writer.tell("T2M901", target.name, "a setting of torch without counterpart: dropped")
            return []
        if target.kind == "api" and is_foreign(target.name) and steers(target.name, self.writer):
            return []
        if target.name in SEEDING and self.seeded_above(stmt, call):
            self.writer.tell("T2M601", target.name, "ms.set_seed seeds every device: one call of it is enough")
            return []
        if target.kind == "api" and idle(target.name, self.writer):
            return []
        functional = target.name.startswith("torch.nn.functional.") or target.name in NAMED
        if target.kind == "api" and functional and changes(target.name, call):
            return self.in_place.changed(stmt, call)
        if target.name == NORMALIZE and changes(target.name, call):
            return self.in_place.changed(stmt, _unflagged(call))
        if target.kind == "api" and target.name.startswith("torch.nn.init."):
            return self.in_place.drawn(stmt, call)
        if type(func) is not cst.Attribute:
            made = set_by_name(stmt, call, self.writer) or taken_by_name(stmt, call, self.writer)
            return made or set_on_torch(stmt, call, self.writer)
        receiver = self.module.value(func.value)
        name = func.attr.value
        if name in FILLING and (appended := self.assignments.leaves.appended(call)) is not None:
            return appended
        if receiver.kind == "module" and not self.own_method(receiver, name):
            if any(steers(f"{home}.{name}", self.writer) for home in (receiver.name, "torch.nn.Module")):
                return []
        if receiver.kind == "module" and name == "register_buffer" and len(call.args) >= 2:
            return self.buffer(stmt, call, func)
        if receiver.kind in ("module", "unknown") and name == "load_state_dict":
            return loaded(self.writer, stmt, call, func)
        known = receiver.name == "module_param" or receiver.name == "parameter" and bool(dotted(func.value))
        if name == "requires_grad_" and known and len(call.args) <= 1:
            flag = call.args[0].value if call.args else cst.Name("True")
            self.writer.tell("T2M307", "requires_grad_", "the flag of the parameter is set")
            return self.writer.text("{0}.requires_grad = {1}", func.value, flag)
        if name in ("retain_grad", "requires_grad_") and receiver.kind in ("tensor", "unknown") and dotted(func.value):
            if name == "requires_grad_" and (given := self.assignments.leaves.begun(stmt, func.value)) is not None:
                return given
            self.writer.tell("T2M303", f"Tensor.{name}", "gradient functions name what they differentiate: dropped")
            return []
        if name == "requires_grad_" and receiver.kind in ("param", "module") and len(call.args) <= 1:
            if bare(receiver):
                self.writer.tell("T2M307", "requires_grad_", "a criterion has no parameters")
                return []
            flag = call.args[0].value if call.args else cst.Name("True")
            self.writer.tell("T2M307", "requires_grad_", "the flag of each parameter is set")
            if receiver.kind == "param":
                return self.writer.text("{0}.requires_grad = {1}", func.value, flag)
            statistics = self.writer.project.keeps_state and constant(flag) is not False
            told = told_by_name(self.writer.project)
            params = f"[p for p in {{0}}.get_parameters() if {told}]" if statistics else "{0}.get_parameters()"
            if statistics and clashes(self.writer.project):
                if buffers_by_class(self.writer.project) is None:
                    self.writer.refuse("T2M307", "requires_grad_", REFUSED, TODO)
                self.writer.needs.add("named_beside")
                params = f"[p for _, p in {beside(self.writer.project, '{0}')}]"
            return self.writer.text(f"for param in {params}:\n    param.requires_grad = {{1}}", func.value, flag)
        if name.endswith("_") and not name.endswith("__") and receiver.kind in ("tensor", "param"):
            return self.in_place.in_place(stmt, call)
        return None

    def buffer(self, stmt: Stmt, call: cst.Call, func: cst.Attribute) -> list[cst.BaseStatement] | None:
        name, value = constant(argument(call, 0, "name")), argument(call, 1, "tensor")
        if value is None or not isinstance(name, str) or not name.isidentifier():
            return None
        passing = constant(argument(call, 2, "persistent")) is False
        owner = stmt.block.scope.cls
        if owner is not None and (f"{self.module.name}.{owner.name}", name) in attributes(self.writer.project):
            listed = self.writer.project.says(LISTED)
            if not passing and constant(value) is not None and self.writer.project.says(LOADED):
                self.writer.refuse("T2M503", "register_buffer", RESTORED, KEEP_APART)
            else:
                tier, told = (Tier.ASSUMED, ATTRIBUTE + UNLISTED) if listed else (Tier.EXACT, ATTRIBUTE)
                self.writer.tell("T2M503", "register_buffer", told, tier)
            return self.writer.text(f"self.{name} = {{0}}", value)
        if constant(value) is None and _filled(name, stmt):
            return self.writer.text(f"{{0}}.{name} = None", func.value)
        if constant(value) is None or passing and _late(name, stmt):
            return None  # no state keeps it: it may as well be MindSpore's own
        self.writer.needs.add("ms")
        saved = passing and self.writer.project.says(STATES)
        self.writer.tell(
            "T2M503", "register_buffer", BUFFER + (SAVED if saved else ""), Tier.ASSUMED if saved else Tier.EXACT
        )
        made = f"ms.Parameter({{1}}, name={name!r}, requires_grad=False)"
        given = [func.value, value]
        if isinstance(value, cst.IfExp) and constant(value.orelse) is None:
            given[1:] = [value.body, value.test]
            made += " if {2} else None"
        elif isinstance(value, cst.Name) and _perhaps_none(value.value, stmt):
            made += " if {1} is not None else None"
        return self.writer.text(f"{{0}}.{name} = {made}", *given)


def _filled(name: str, stmt: Stmt) -> bool:
    """The function registers the buffer once more, with a tensor: a Parameter, for which a place of None makes way."""
    calls = [c for s in stmt.block.scope.body.walk() for c in s.calls if name_called(c) == "register_buffer"]
    there = (argument(c, 1, "tensor") for c in calls if constant(argument(c, 0, "name")) == name)
    return any(constant(value) is not None for value in there)


def _late(name: str, stmt: Stmt) -> bool:
    """Another method than the constructor registers a buffer, which that has not, or as None."""
    scope = stmt.block.scope
    if scope.cls is None or scope.name == "__init__":
        return False
    begun = [s for child in scope.cls.children if child.name == "__init__" for s in child.body.walk()]
    calls = [c for s in begun for c in s.calls if name_called(c) == "register_buffer"]
    there = [c for c in calls if constant(argument(c, 0, "name")) == name]
    return not any(constant(argument(c, 1, "tensor")) is not None for c in there)


def _perhaps_none(name: str, stmt: Stmt) -> bool:
    """Whether the scope binds the name to None somewhere, or takes None for it by default."""
    scope = stmt.block.scope
    if isinstance(scope.node, cst.FunctionDef):
        params = scope.node.params
        given = [*params.posonly_params, *params.params, *params.kwonly_params]
        if any(p.name.value == name and p.default is not None and constant(p.default) is None for p in given):
            return True
    bound = (s.node for s in scope.body.walk() if name in s.defs and isinstance(s.node, cst.Assign))
    return any(constant(node.value) is None for node in bound)


def _unflagged(call: cst.Call) -> cst.Call:
    """`normalize(x, mean, std, inplace=True)` without the last of it."""
    kept = [arg for arg in call.args if arg.keyword is None or arg.keyword.value != "inplace"][:3]
    return call.with_changes(args=[*kept[:-1], kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)])


def _idle(node: cst.Assign) -> bool:
    """`x = x`, `a, b = a, b`."""
    target = node.targets[0].target
    return len(node.targets) == 1 and target.__class__ is node.value.__class__ and code(target) == code(node.value)
