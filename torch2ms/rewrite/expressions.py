"""Translates the expressions of a statement, innermost first, by the API rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import libcst as cst

from torch2ms.analysis import shapes
from torch2ms.analysis.names import canonical, dotted, is_foreign
from torch2ms.analysis.narrow import CLASS_NAME
from torch2ms.analysis.program import Stmt
from torch2ms.analysis.project import ClassInfo, ModuleInfo, Project, qualified
from torch2ms.analysis.tree import code, constant, descend
from torch2ms.analysis.values import EITHER, UNKNOWN, Value
from torch2ms.analysis.wrapped import FAMILIES
from torch2ms.api import Outcome, Rule, Rules, apply_attribute, apply_call, apply_class, apply_partial, apply_value
from torch2ms.api.imports import IMPORTS
from torch2ms.api.template import parenthesised
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite import transforms
from torch2ms.rewrite.draws import draw
from torch2ms.rewrite.naming import named
from torch2ms.rewrite.nested import base
from torch2ms.rewrite.rewriter import Rewriter
from torch2ms.rewrite.signatures import with_arguments
from torch2ms.rewrite.stars import written_out
from torch2ms.tape.plan import Plan

TYPE = re.compile(r"torch\.(\w+Tensor)")  # the name of a type, which programs give a name of their own
OWN_METHODS = {"forward": "construct", "train": "set_train"}
CLASSES = {"Linear": "Dense", "ConvTranspose": "Transpose", "Sequential": "SequentialCell", "ModuleList": "CellList",
           "ModuleDict": "CellDict", "Module": "Cell"} | {
               f"ConvTranspose{n}d": f"Conv{n}dTranspose" for n in (1, 2, 3)}  # fmt: skip
CHECKPOINT = re.compile(r"(\.pth\.tar|\.pt\.tar|\.pth|\.pt)(?=['\"]*$)")
LAYER_ATTRIBUTES = {
    "running_mean": ("moving_mean", "a normalisation layer"),
    "running_var": ("moving_variance", "a normalisation layer"),
    "in_features": ("in_channels", "a linear layer"),
    "out_features": ("out_channels", "a linear layer"),
}  # attribute -> its name in MindSpore, and what must have it

_LOOP = (
    "T2M533",
    "Lightning runs the training from its own loop",
    "a Cell, and a plain loop with ms.value_and_grad",
)
PAGES = {
    "pytorch_lightning": _LOOP,
    "lightning": _LOOP,
    "lightning_fabric": _LOOP,
    "deepspeed": ("T2M534", "DeepSpeed's engine differentiates and steps", "ms.value_and_grad and an optimizer"),
}  # packages that run the training themselves: code, reason and what to do


class ModuleFacts:
    """What the analysis knows, in the words of the rules."""

    def __init__(self, project: Project, module: ModuleInfo) -> None:
        self.project = project
        self.module = module

    def kind(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        if value.kind == "api" and TYPE.fullmatch(value.name):
            return "dtype"
        kind = {"param": "tensor", "lossfn": "module"}.get(value.kind, value.kind)
        return kind if kind not in ("api", "class", "object", "method", "autograd", "builtin", "params") else "unknown"

    def rank(self, node: cst.BaseExpression) -> int | None:
        value = self.module.value(node)
        return value.rank if not value.likely and not self.module.reshapes else None

    def dtype(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        if value.kind == "dtype":
            return value.name.rpartition(".")[2]
        if isinstance(node, (cst.List, cst.Tuple, cst.UnaryOperation, cst.BinaryOperation)) and value.kind != "tensor":
            return shapes.literal(node, value)[0]
        return value.dtype if not value.likely and not self.module.reshapes else ""

    def cls(self, node: cst.BaseExpression) -> str:
        """The qualified class of a module, "" where it is not seen."""
        value = self.module.value(node)
        return value.name if value.kind == "module" else ""

    def columns(self, node: cst.BaseExpression) -> int | None:
        """How many values a sample of a dataset has, 0 for a bare value, None where it is not seen."""
        value = self.module.value(node)
        if value.kind != "dataset" or value.items:
            return len(value.items) if value.kind == "dataset" and value.items else None
        found = self.project.find(value.name, self.module)
        method = found.method("__getitem__") if isinstance(found, ClassInfo) else None
        returns = method.returns if method is not None else None
        if returns is not None and returns.kind == "dict":
            return 0
        if returns is None or (returns.kind != "tensor" and not (returns.kind == "tuple" and returns.items)):
            return None
        return len(returns.items) if returns.items else 0

    def varied(self, node: cst.BaseExpression) -> bool:
        return any(not d.startswith("@") for d in self.module.value(node).deps)


@dataclass
class Notes:
    """What the translation of one statement brought up."""

    findings: list[Finding] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)
    first: list[str] = field(default_factory=list)  # assignments that go right above it
    above: list[str] = field(default_factory=list)  # definitions that go above the statement

    @property
    def refused(self) -> list[Finding]:
        return [f for f in self.findings if f.tier is Tier.REFUSED]


class FullNames(cst.CSTTransformer):
    """Code that stays torch: short names that now mean MindSpore's modules are written in full."""

    def __init__(self, module: ModuleInfo, needs: set[str]) -> None:
        super().__init__()
        self.module = module
        self.needs = needs

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        value = self.module.values.get(id(original), UNKNOWN)
        if value.kind != "api" or not is_foreign(value.name) or original.value not in IMPORTS:
            return updated
        self.needs.add(value.name.partition(".")[0])
        return cst.parse_expression(value.name)


class Expressions(Rewriter):
    """One instance per statement; `notes` collects what was decided."""

    def __init__(self, project: Project, module: ModuleInfo, rules: Rules, plan: Plan, differentiated: bool,
                 aliases: dict[str, str]) -> None:  # fmt: skip
        self.project = project
        self.module = module
        self.rules = rules
        self.plan = plan
        self.differentiated = differentiated
        self.aliases = aliases
        self.facts = ModuleFacts(project, module)
        self.mixed = module.uses_mindspore  # translated before: what is left of torch are names, not methods
        self.notes = Notes()
        self.stmt: Stmt | None = None  # the simple statement that the expression belongs to
        self.callees: set[int] = set()
        self.called: set[int] = (
            set()
        )  # calls whose result is called, bound to a name or mapped: it is seen what becomes of it
        self.applied: dict[int, cst.Call] = {}  # callee -> its call
        self.nested = 0  # lambdas and comprehensions around
        self.inner: set[int] = set()
        self.classes: set[int] = set()
        self.class_names: set[int] = set()  # strings that are compared with the name of a class
        self.host: set[int] = set()
        self.stores: set[int] = set()  # targets of assignments
        self.trained: set[int] = set()  # `parameters()` calls that feed an optimizer
        self.indexed: set[int] = set()  # calls of which one element is taken
        self.filtered: set[int] = set()  # ... or a comprehension that asks for requires_grad

    # --- on the way down: what stands where

    def visit_Call(self, node: cst.Call) -> bool | None:
        if id(node) in self.plan.expressions:
            return False
        self.callees.add(id(node.func))
        self.called.add(id(node.func))
        self.applied[id(node.func)] = node
        if transforms.transform(self.module.value(node.func).name) == "vmap" and node.args:
            self.called.add(id(node.args[0].value))
        if self.module.value(node).kind == "optimizer":
            self.trained |= {id(n) for arg in node.args for n in descend(arg.value)}
        if dotted(node.func) in ("isinstance", "issubclass") and len(node.args) > 1:
            self.mark_classes(node.args[1].value)
        if isinstance(node.func, cst.Attribute) and self.module.value(node.func.value).name == CLASS_NAME:
            self.class_names |= {id(arg.value) for arg in node.args}
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("numpy", "item", "tolist", "cpu"):
            self.host.add(id(node.func.value))
            if id(node) in self.host or node.func.attr.value != "cpu":
                self.host.add(id(node.func.value))
        return None

    def visit_CompFor(self, node: cst.CompFor) -> None:
        if any("requires_grad" in code(test) for test in node.ifs):
            self.filtered.add(id(node.iter))
            self.trained.discard(id(node.iter))

    def mark_classes(self, node: cst.CSTNode) -> None:
        self.classes.add(id(node))
        for element in getattr(node, "elements", ()):
            self.mark_classes(element.value)

    def visit_Attribute(self, node: cst.Attribute) -> bool | None:
        if id(node) in self.plan.expressions:
            return False
        value = self.module.value(node)
        if value.kind in ("api", "dtype", "class", "function", "modulefile"):
            part: cst.CSTNode = node.value
            while isinstance(part, (cst.Attribute, cst.Name)):
                self.inner.add(id(part))
                part = part.value if isinstance(part, cst.Attribute) else cst.Pass()
        return None

    def visit_Comparison(self, node: cst.Comparison) -> None:
        parts = [node.left, *(c.comparator for c in node.comparisons)]
        if any(self.module.value(p).name == CLASS_NAME for p in parts):
            self.class_names |= {id(p) for p in parts}

    def visit_Subscript(self, node: cst.Subscript) -> bool:
        if len(node.slice) == 1 and isinstance(node.slice[0].slice, cst.Index):
            self.indexed.add(id(node.value))
        return id(node) not in self.plan.expressions

    def visit_Assign(self, node: cst.Assign) -> None:
        if len(node.targets) == 1 and dotted(node.targets[0].target):
            self.called.add(id(node.value))

    def visit_AssignTarget(self, node: cst.AssignTarget) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}

    def visit_AnnAssign(self, node: cst.AnnAssign) -> None:
        self.stores |= {id(n) for n in _stored(node.target)}

    def visit_AugAssign(self, node: cst.AugAssign) -> None:
        self.stores.add(id(node.target))

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    # --- on the way up: translation

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        if id(original) in self.plan.refused:
            return updated
        updated = with_arguments(original, updated, self.plan)
        target = self.module.value(original.func)
        if target.kind == "api" and (self.spelled(original.func, target.name) or TYPE.fullmatch(target.name)):
            return self.api_call(target.name, original, updated)
        if self.swapped(original):
            return cst.parse_expression(f"{code(updated)}[::-1]", self.module.tree.config_for_parsing)
        if (
            target.kind == "module"
            and not self.mixed
            and (rule := self.rules.find(f"{target.name}.__call__")) is not None
        ):
            asked = original.with_changes(func=cst.Attribute(original.func, cst.Name("__call__")))
            made = updated.with_changes(func=cst.Attribute(updated.func, cst.Name("__call__")))
            return self.take(apply_call(rule, asked, made, self.facts), updated)
        if isinstance(original.func, cst.Attribute) and not self.mixed:
            return self.method(original, original.func, updated)
        return updated

    def spelled(self, node: cst.BaseExpression, name: str) -> bool:
        """The expression is the imported name itself, not a variable that holds it."""
        if canonical(qualified(node, self.module.imports)) == name:
            return True
        return bool(self.module.imports.stars) and isinstance(node, cst.Name) and name.endswith(f".{node.value}")

    def api_call(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if name == "functools.partial" and original.args:
            first = self.module.value(original.args[0].value)
            if first.kind == "api" and is_foreign(first.name):
                rule = self.rules.find(first.name)
                if rule is not None:
                    self.notes.findings = [f for f in self.notes.findings if f.what != first.name]
                    return self.take(apply_partial(rule, original, updated, self.facts), updated)
        if name == "copy.deepcopy" and len(original.args) == 1:
            held = self.module.value(original.args[0].value)
            if held.kind == "tensor" and not held.likely and not _weight(held):
                self.tell("T2M601", name, "Tensor.copy(): a deep copy of a tensor shares its memory in MindSpore")
                return cst.Call(cst.Attribute(parenthesised(updated.args[0].value), cst.Name("copy")))
        if name == "itertools.chain" and (joined := self.joined(original)) is not None:
            return joined
        if not is_foreign(name):
            return updated
        rule = self.rules.find(name)
        left = updated.with_changes(func=self.full_name(name, updated.func))
        if rule is None:
            return self.unknown(name, left)
        if kind := transforms.transform(name):
            return self.transform(kind, rule, original, updated, left)
        outcome = self.apply(rule, original, updated)
        if outcome.node is None and any(a.star == "**" for a in original.args):
            if (calls := written_out(original, updated, rule, self.module)) is not None:
                outcome = apply_call(rule, *calls, self.facts)
        return self.take(outcome, left)

    def apply(self, rule: Rule, original: cst.Call, updated: cst.Call) -> Outcome:
        """What the rule makes of a call; what it needs twice gets a name above the statement."""
        outcome = apply_call(rule, original, updated, self.facts)
        lines: dict[str, str] = {}  # parts that have a name by now, and the line that gives it
        while outcome.twice and outcome.twice not in lines and self.stmt is not None and not self.mixed:
            if not self.plan.names:
                self.plan.names |= transforms.names_of(self.module)
            made = named(outcome.twice, rule, original, updated, self.stmt, self.plan.names)
            if made is None:
                return outcome
            updated, lines[outcome.twice] = made
            outcome = apply_call(rule, original, updated, self.facts)
        if outcome.node is not None:
            self.notes.first += lines.values()
        return outcome

    def transform(
        self, kind: str, rule: Rule, original: cst.Call, updated: cst.Call, left: cst.BaseExpression
    ) -> cst.BaseExpression:
        """A function transform: lambdas that MindSpore would have to read get a name above the statement."""
        functions = transforms.Functions(self.project, self.module)
        problem = functions.problem(kind, original)
        if (
            kind in ("jacrev", "jacfwd", "hessian")
            and original.args
            and (outer := self.applied.get(id(original))) is not None
        ):
            if functions.vector_on_the_right(original.args[0].value, outer):
                problem = problem or "MindSpore's Jacobians fail on the product of a matrix and a vector"
        lambdas = (
            kind in transforms.COMPILED and any(isinstance(n, cst.Lambda) for n in descend(original.args[0]))
            if original.args
            else False
        )
        if kind == "grad_and_value" and id(original) not in self.called:
            problem = problem or "MindSpore returns the value first: the calls of this function must be seen"
        if lambdas and self.nested:
            problem = (
                problem or "MindSpore reads the source of the function, and this lambda uses names of an expression"
            )
        if problem:
            self.refuse("T2M220", rule.name, problem, "write the function with ms.grad, ms.vmap or ms.jit by hand")
            return left
        if kind in transforms.COMPILED and original.args and functions.multiplies_vectors(original.args[0].value):
            why = "no matrix in it is multiplied with a vector: MindSpore fails on that when it maps the vector"
            self.notes.findings.append(Finding("T2M221", Tier.ASSUMED, rule.name, why))
        if kind == "jacobian" and (short := transforms.at_position(original, updated, self.module)) is not None:
            self.notes.needs.add("ms")
            self.tell("T2M221", rule.name, "the lambda only chooses an argument: its position is differentiated")
            return short
        if lambdas:
            if not self.plan.names:
                self.plan.names |= transforms.names_of(self.module)
            first = updated.args[0].visit(transforms.Naming(self.plan.names, self.notes.above))
            updated = updated.with_changes(args=[first, *updated.args[1:]])
            self.tell("T2M221", rule.name, "MindSpore reads the source of the function: the lambda has a name")
        return self.take(apply_call(rule, original, updated, self.facts), left)

    def swapped(self, node: cst.CSTNode) -> bool:
        """A call of what grad_and_value made: MindSpore gives the value first."""
        if not isinstance(node, cst.Call) or self.module.value(node.func).name != "torch.func:grad_and_value":
            return False
        return not any(f.code == "T2M220" for f in self.notes.findings)

    def visit_Lambda(self, node: cst.Lambda) -> None:
        self.nested += 1

    def leave_Lambda(self, original: cst.Lambda, updated: cst.Lambda) -> cst.BaseExpression:
        self.nested -= 1
        return updated

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = visit_Lambda
    leave_ListComp = leave_SetComp = leave_DictComp = leave_GeneratorExp = leave_Lambda

    def leave_Assign(self, original: cst.Assign, updated: cst.Assign) -> cst.Assign:
        """`grads, value = grad_and_value(f)(x)` changes the order of its targets."""
        target = updated.targets[0].target
        value = updated.value
        if not self.swapped(original.value) or not isinstance(value, cst.Subscript) or len(updated.targets) != 1:
            return updated
        if not isinstance(target, cst.Tuple) or len(target.elements) != 2:
            return updated
        one, two = target.elements
        pair = [one.with_changes(value=two.value), two.with_changes(value=one.value)]
        return updated.with_changes(
            value=value.value, targets=[updated.targets[0].with_changes(target=target.with_changes(elements=pair))]
        )

    def full_name(self, name: str, node: cst.BaseExpression) -> cst.BaseExpression:
        """What stays torch is written in full where its short name now means MindSpore's module."""
        head = dotted(node).partition(".")[0]
        if head not in IMPORTS or not is_foreign(name):
            return node
        self.notes.needs.add(name.partition(".")[0])
        return cst.parse_expression(name)

    def formatted(self, original: cst.Call, text: str, updated: cst.Call) -> cst.BaseExpression:
        """`"{:.4f}".format(loss)`: see leave_FormattedStringExpression."""
        fields = re.findall(r"\{([^{}]*)\}", text)
        if not fields or not all(":" in f for f in fields):
            return updated
        args = []
        for old, new in zip(original.args, updated.args, strict=False):
            if self.formats_badly(old.value) and not old.star:
                self.tell("T2M612", "formatted tensor", "formatted as a number")
                new = new.with_changes(value=cst.Call(cst.Name("float"), [cst.Arg(new.value)]))
            args.append(new)
        return updated.with_changes(args=args)

    def method(self, original: cst.Call, func: cst.Attribute, updated: cst.Call) -> cst.BaseExpression:
        if func.attr.value == "format" and isinstance(text := constant(func.value), str):
            return self.formatted(original, text, updated)
        if func.attr.value == "format" and any(self.holds_tensors(arg) for arg in original.args):
            return self.attributes_formatted(original, updated)
        receiver = self.module.value(func.value)
        name = func.attr.value
        if not isinstance(updated.func, cst.Attribute):
            return updated
        if receiver.kind == "builtin_super":
            return self.renamed(updated, OWN_METHODS.get(name, name)) if name == "forward" else updated
        if receiver.kind in ("tensor", "param"):
            return self.tensor_method(name, receiver, original, updated)
        cls = self.class_of(receiver)
        if cls is not None:
            if cls.method(name) is not None:
                if cls.kind == "module" and name in OWN_METHODS:
                    return self.renamed(updated, OWN_METHODS[name])
                return updated
            if cls.kind == "autograd" and name == "apply":
                if cls.refused:
                    self.refuse(
                        "T2M402",
                        f"{cls.scope.name}.apply",
                        "the function itself is refused",
                        "call the Cell that replaces it",
                    )
                    return updated
                return updated.with_changes(func=cst.Call(updated.func.value))
        if receiver.kind == "object" and receiver.name in FAMILIES and id(original) not in self.plan.refused:
            return self.wrapped(name, original, updated)
        if receiver.kind == "object" and receiver.name.startswith("torch."):
            rule = self.rules.find(f"{receiver.name}.{name}")
            if rule is None:
                return self.unknown(f"{receiver.name}.{name}", updated)
            return self.take(apply_call(rule, original, updated, self.facts), updated)
        if (
            receiver.kind == "module"
            and name == "named_parameters"
            and not original.args
            and not self.project.keeps_state
            and not self.project.renames
        ):
            self.tell(
                "T2M505", "Module.named_parameters", "no layer of the project keeps statistics or renames weights"
            )
            return self.renamed(updated, "parameters_and_names")
        if receiver.kind == "module" and name in ("parameters", "buffers") and not original.args:
            return self.enumerated(name, original, updated)
        if receiver.kind == "module":
            return self.ruled(f"torch.nn.Module.{name}", original, updated)
        if receiver.kind == "optimizer":
            return self.ruled(f"torch.optim.Optimizer.{name}", original, updated)
        if receiver.kind == "scaler":
            return self.ruled(f"torch.amp.GradScaler.{name}", original, updated)
        if (
            receiver.kind == "scheduler"
            and name == "get_last_lr"
            and not original.args
            and id(original) not in self.indexed
        ):
            self.tell("T2M502", "learning rates of a scheduler", "Parameters in MindSpore: read as numbers")
            return cst.parse_expression(f"[lr.item() for lr in {code(updated)}]")
        if receiver.kind == "scheduler":
            return self.ruled(f"torch.optim.lr_scheduler.LRScheduler.{name}", original, updated)
        if receiver.kind == "unknown" and name in ("to", "cuda", "cpu") and self.places_device(original):
            return self.ruled(f"torch.Tensor.{name}", original, updated)
        if receiver.kind == "unknown" and name in ("eval", "train") and len(original.args) <= 1 and dotted(func.value):
            return self.ruled(f"torch.nn.Module.{name}", original, updated)
        if (
            receiver.kind == "unknown"
            and name in ("parameters", "buffers")
            and not original.args
            and dotted(func.value)
        ):
            return self.enumerated(name, original, updated)  # only modules answer these
        if (
            receiver.kind == "unknown"
            and name in ("named_parameters", "state_dict", "load_state_dict")
            and dotted(func.value)
        ):
            return self.ruled(f"torch.nn.Module.{name}", original, updated)
        return updated

    def wrapped(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """A method of an accelerator that one process cannot do without."""
        kind = FAMILIES[self.module.value(original.func.value).name]  # type: ignore[attr-defined]
        if (rule := self.rules.find(f"{kind}.{name}")) is not None:
            return self.take(apply_call(rule, original, updated, self.facts), updated)
        self.refuse("T2M532", f"{kind}: {name}", "it has no counterpart in MindSpore", "write what it does by hand")
        return updated

    def enumerated(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`net.parameters()`: cells list statistics of normalisation among them, and frozen ones not as trainable."""
        assert isinstance(updated.func, cst.Attribute)
        receiver = code(updated.func.value)
        if not self.project.freezes:
            form = "trainable_params()" if name == "parameters" else "untrainable_params()"
            self.tell("T2M505", f"Module.{name}", f"nothing is frozen in the project: {form}")
            return cst.parse_expression(f"{receiver}.{form}")
        if name == "parameters" and id(original) in self.trained:
            self.tell("T2M505", "Module.parameters", "an optimizer takes what is trainable when it is made")
            return cst.parse_expression(f"{receiver}.trainable_params()")
        if name == "parameters" and id(original) in self.filtered:
            self.tell("T2M505", "Module.parameters", "the comprehension filters by requires_grad")
            return cst.parse_expression(f"{receiver}.get_parameters()")
        if name == "parameters" and not self.project.keeps_state:
            self.tell(
                "T2M505",
                "Module.parameters",
                "parameters may be frozen, and no layer of the project keeps statistics: get_parameters()",
            )
            return cst.parse_expression(f"{receiver}.get_parameters()")
        test = "not in" if name == "parameters" else "in"
        self.tell("T2M505", f"Module.{name}", "parameters may be frozen: told apart from statistics by name")
        return cst.parse_expression(f"[p for p in {receiver}.get_parameters() if 'moving_' {test} p.name]")

    def places_device(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("cuda", "cpu"):
            return True
        return bool(call.args) and self.module.value(call.args[0].value).kind in ("device", "str")

    def tensor_method(self, name: str, receiver: Value, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        assert isinstance(updated.func, cst.Attribute)
        if name in ("detach", "detach_"):
            if id(original) in self.host:
                self.tell("T2M302", "Tensor.detach", "nothing is recorded here: dropped")
                return updated.func.value
        if name in ("retain_grad", "requires_grad_"):
            self.tell("T2M303", f"Tensor.{name}", "gradient functions name what they differentiate: dropped")
            return updated.func.value
        rule = self.rules.find(f"torch.Tensor.{name}")
        if drawn := draw(original, updated, self.module):
            self.notes.needs.add("ops")
            self.tell("T2M611", f"Tensor.{name}", "a temporary filled in place: one draw of the same numbers")
            return cst.parse_expression(drawn.replace("ops.", f"{self.aliases.get('ops', 'ops')}.", 1))
        if name.endswith("_") and not name.endswith("__"):
            plain = rule or self.rules.find(f"torch.Tensor.{name[:-1]}")
            lone = id(original) in self.plan.temporaries or isinstance(base(original), cst.Call)
            if lone and name in ("fill_", "zero_") and len(updated.args) == (name == "fill_"):
                like = "zeros_like" if name == "zero_" else "full_like"
                made = cst.parse_expression(f"{self.aliases.get('ops', 'ops')}.{like}()")
                assert isinstance(made, cst.Call)
                given = [updated.func.value, *(a.value for a in updated.args)]
                self.notes.needs.add("ops")
                self.tell("T2M611", f"Tensor.{name}", "a temporary filled in place: a new tensor of its shape")
                return made.with_changes(args=[cst.Arg(value) for value in given])
            if plain is not None and lone:  # a temporary: nobody else sees the change
                named = cst.Name(plain.name.rpartition(".")[2])
                renamed = updated.with_changes(func=updated.func.with_changes(attr=named))
                return self.take(apply_call(plain, original, renamed, self.facts), updated)
            self.refuse("T2M610", f"Tensor.{name}", "an in-place change inside an expression",
                        "write it as a statement of its own; "
                        "MindSpore's in-place methods do nothing on CPU")  # fmt: skip
            return updated
        if rule is None:
            return updated if receiver.likely else self.unknown(f"torch.Tensor.{name}", updated)
        outcome = self.apply(rule, original, updated)
        if receiver.likely and outcome.node is not None:
            why = "the receiver is taken for a tensor by its use"
            outcome = replace(outcome, findings=tuple(_assumed(f, why) for f in outcome.findings))
        return self.take(outcome, updated)

    def ruled(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        rule = self.rules.find(name)
        if rule is None:
            return updated
        return self.take(apply_call(rule, original, updated, self.facts), updated)

    def class_of(self, receiver: Value) -> ClassInfo | None:
        if receiver.kind not in ("object", "module", "class", "dataset", "optimizer", "autograd") or not receiver.name:
            return None
        found = self.project.find(receiver.name, self.module)
        if isinstance(found, ClassInfo):
            return found
        home, _, last = receiver.name.rpartition(".")
        owner = self.project.modules.get(home)
        return owner.classes.get(last) if owner is not None else None

    def renamed(self, call: cst.Call, name: str) -> cst.Call:
        assert isinstance(call.func, cst.Attribute)
        return call.with_changes(func=call.func.with_changes(attr=cst.Name(name)))

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        if id(original) in self.callees or id(original) in self.inner:
            return updated
        value = self.module.value(original)
        if value.kind in ("api", "dtype") and is_foreign(value.name):
            return self.name_used(value.name, original, updated) if self.spelled(original, value.name) else updated
        if self.mixed:
            return updated
        receiver = self.module.value(original.value)
        attr = original.attr.value
        if receiver.kind == "object" and receiver.name in FAMILIES and id(original) not in self.stores:
            kind = FAMILIES[receiver.name]
            self.refuse("T2M532", f"{kind}: {attr}", "it has no counterpart in MindSpore", "write what it is by hand")
            return updated
        if value.kind == "autograd" and attr == "apply":
            cls = self.class_of(receiver)
            return cst.Call(updated.value) if cls is not None and not cls.refused else updated
        if receiver.kind == "tuple" and receiver.name == "return_types":
            rule = self.rules.find(f"torch.return_types.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        if receiver.kind == "dataset" and (rule := self.rules.find(f"{receiver.name}.{attr}")) is not None:
            return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        if receiver.kind == "optimizer" and attr in ("state", "defaults"):
            rule = self.rules.find(f"torch.optim.Optimizer.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        if receiver.kind == "object" and receiver.name.startswith("torch.") and id(original) not in self.callees:
            rule = self.rules.find(f"{receiver.name}.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        if attr == "module" and receiver.kind == "module" and id(original) not in self.stores:
            cls = self.class_of(receiver)
            if cls is None or cls.attr("module") is None and cls.method("module") is None:
                tier = Tier.ASSUMED if receiver.likely or not receiver.name else Tier.EXACT
                self.notes.findings.append(
                    Finding("T2M509", tier, "model.module", "there is no wrapper around the model: the model itself")
                )
                return updated.value
        if (
            attr == "requires_grad"
            and receiver.kind == "tensor"
            and receiver.name not in ("module_param", "parameter")
            and not receiver.likely
            and id(original) not in self.stores
        ):
            if not any(d.startswith(("@", "^")) for d in receiver.deps):  # every source of it is seen
                self.tell("T2M303", "Tensor.requires_grad", "what the analysis knows of it stands for it")
                return cst.Name("True" if receiver.deps else "False")
        if receiver.kind in ("tensor", "param"):
            if attr == "data":
                return updated.value
            if attr == "requires_grad" and receiver.kind == "tensor" and not receiver.likely and not _weight(receiver):
                if id(original) not in self.stores:
                    self.refuse("T2M115", "Tensor.requires_grad", "tensors carry no such flag in MindSpore",
                                "leave it out: gradient functions name what they differentiate")  # fmt: skip
                return updated
            rule = self.rules.find(f"torch.Tensor.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
            if attr in ("grad", "grad_fn", "is_leaf") and id(original) not in self.plan.refused:
                self.refuse("T2M115", f"Tensor.{attr}", "MindSpore tensors carry no gradients",
                            "use the gradients that the gradient function returns")  # fmt: skip
            return updated
        if receiver.kind == "unknown" and attr == "grad" and id(original) not in self.plan.refused:
            self.refuse("T2M115", "Tensor.grad", "MindSpore tensors carry no gradients",
                        "use the gradients that the gradient function returns")  # fmt: skip
        if (
            receiver.kind in (("module", "unknown") if attr.endswith("_features") else ("module",))
            and not receiver.name.startswith("torch.")
            and attr in LAYER_ATTRIBUTES
            and not self.owned(attr)
        ):
            moved, layer = LAYER_ATTRIBUTES[attr]
            self.notes.findings.append(Finding("T2M505", Tier.ASSUMED, attr, f"the module is taken for {layer}"))
            return updated.with_changes(attr=cst.Name(moved))
        if (
            receiver.kind == "loader"
            and (rule := self.rules.find(f"torch.utils.data.DataLoader.{attr}")) is not None
            and not self.mixed
        ):
            return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        if receiver.kind == "module" and receiver.name.startswith("torch."):
            rule = self.rules.find(f"{receiver.name}.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        return updated

    def owned(self, attr: str) -> bool:
        """A class of the project has an attribute of this name."""
        return any(attr in c.attrs for m in self.project.modules.values() for c in m.classes.values())

    def leave_SimpleString(self, original: cst.SimpleString, updated: cst.SimpleString) -> cst.SimpleString:
        if (meant := self.module.quoted.get(id(original))) is not None:
            text = code(self.rewrite(meant))
            fits = original.quote not in text and "\n" not in text
            quoted = f"{original.prefix}{original.quote}{text}{original.quote}"
            return updated.with_changes(value=quoted) if fits and text != original.raw_value else updated
        if (text := self.checkpoint(updated.value)) != updated.value:
            return updated.with_changes(value=text)
        name = (
            CLASSES.get(str(original.evaluated_value)) if id(original) in self.class_names and not self.mixed else None
        )
        if name is None:
            return updated
        self.tell("T2M508", f"the class name {original.value}", f"{name!r} in MindSpore")
        return updated.with_changes(value=original.value.replace(str(original.evaluated_value), name))

    def leave_FormattedStringText(
        self, original: cst.FormattedStringText, updated: cst.FormattedStringText
    ) -> cst.FormattedStringText:
        text = self.checkpoint(updated.value)
        return updated.with_changes(value=text) if text != updated.value else updated

    def checkpoint(self, text: str) -> str:
        """`path = "best.pth"`: load_checkpoint asks for its own ending, wherever the name of the file is written."""
        made = CHECKPOINT.sub(".ckpt", text) if self.project.checkpoints and not self.mixed else text
        if made != text:
            self.tell("T2M513", f"file name {text}", "checkpoints of MindSpore end in .ckpt")
        return made

    def leave_Subscript(self, original: cst.Subscript, updated: cst.Subscript) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        value = self.module.value(original)
        if (
            value.name == "param_group_item"
            and _key(original) == "lr"
            and not self.mixed
            and id(original) not in self.stores | self.host
        ):
            self.tell("T2M502", "learning rate of a group", "a Parameter in MindSpore: read as a number")
            return cst.Call(cst.Attribute(updated, cst.Name("item")))
        if isinstance(original.value, cst.Call) and id(original.value) in self.indexed and not self.mixed:
            func = original.value.func
            if (
                isinstance(func, cst.Attribute)
                and func.attr.value == "get_last_lr"
                and self.module.value(func.value).kind == "scheduler"
            ):
                self.tell("T2M502", "learning rate of a scheduler", "a Parameter in MindSpore: read as a number")
                return cst.Call(cst.Attribute(updated, cst.Name("item")))
        return updated

    def leave_IfExp(self, original: cst.IfExp, updated: cst.IfExp) -> cst.BaseExpression:
        if isinstance(updated.test, cst.Name) and updated is not original and updated.body.deep_equals(updated.orelse):
            return updated.body  # `torch.cuda.FloatTensor if cuda else torch.FloatTensor`
        return self.picked(original, updated)

    def leave_BooleanOperation(
        self, original: cst.BooleanOperation, updated: cst.BooleanOperation
    ) -> cst.BaseExpression:
        return self.picked(original, updated)

    def picked(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        """The part of an expression that is left when the rest is certain."""
        side = self.plan.picks.get(id(original), "")
        if not side:
            return updated
        part: cst.BaseExpression = getattr(updated, side)
        return part if part.lpar or not updated.lpar else part.with_changes(lpar=updated.lpar, rpar=updated.rpar)

    def leave_BinaryOperation(self, original: cst.BinaryOperation, updated: cst.BinaryOperation) -> cst.BaseExpression:
        joined = self.joined(original) if not self.mixed else None
        return joined if joined is not None else updated

    def leave_UnaryOperation(self, original: cst.UnaryOperation, updated: cst.UnaryOperation) -> cst.BaseExpression:
        """`~x` of integers: MindSpore's operator is the logical not, whatever it is given."""
        if not isinstance(original.operator, cst.BitInvert) or self.mixed:
            return updated
        if not self.facts.dtype(original.expression).startswith(("int", "uint")):
            return updated
        self.notes.needs.add("ops")
        self.tell("T2M601", "~tensor", "ops.invert: the operator is the logical not in MindSpore")
        inverted = cst.Attribute(cst.Name(self.aliases.get("ops", "ops")), cst.Name("invert"))
        return cst.Call(inverted, [cst.Arg(updated.expression)])

    def joined(self, original: cst.BaseExpression) -> cst.BaseExpression | None:
        """Parameters of several stand-alone nets in one list: equal names are told apart by a CellList."""
        modules = parameter_modules(original, self.module)
        if (
            modules is None
            or len(modules) < 2
            or any(self.module.value(m).place.startswith("self.") and self.in_module() for m in modules)
        ):
            return None
        self.notes.needs.add("nn")
        self.tell("T2M506", "parameters of several modules", "a CellList gives them different names")
        nn = self.aliases.get("nn", "nn")
        return cst.parse_expression(f"{nn}.CellList([{', '.join(code(m) for m in modules)}]).trainable_params()")

    def in_module(self) -> bool:
        return False

    def leave_FormattedStringExpression(
        self, original: cst.FormattedStringExpression, updated: cst.FormattedStringExpression
    ) -> cst.FormattedStringExpression:
        """A tensor takes no format specification in MindSpore: its number does."""
        if original.format_spec is None or not self.formats_badly(original.expression) or self.mixed:
            return updated
        self.tell("T2M612", "formatted tensor", "formatted as a number")
        return updated.with_changes(expression=cst.Call(cst.Name("float"), [cst.Arg(updated.expression)]))

    def holds_tensors(self, arg: cst.Arg) -> bool:
        """`**self.__dict__` of an object of which some attribute may be a tensor."""
        node = arg.value
        if arg.star != "**" or not isinstance(node, cst.Attribute) or node.attr.value != "__dict__":
            return False
        cls = self.class_of(self.module.value(node.value))
        return cls is not None and any(v.kind == "tensor" or v.name == EITHER for v in cls.attrs.values())

    def attributes_formatted(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        args = []
        for old, new in zip(original.args, updated.args, strict=True):
            if self.holds_tensors(old):
                value = "value.item() if isinstance(value, ms.Tensor) else value"
                made = cst.parse_expression(f"{{key: {value} for key, value in {code(new.value)}.items()}}")
                new = new.with_changes(value=made)
                self.notes.needs.add("ms")
                self.tell("T2M612", "formatted attributes", "tensors among them are formatted as numbers")
            args.append(new)
        return updated.with_changes(args=args)

    def formats_badly(self, node: cst.BaseExpression) -> bool:
        value = self.module.value(node)
        return value.kind == "tensor" or value.name == EITHER

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        if id(original) in self.callees or id(original) in self.inner:
            return updated
        value = self.module.values.get(id(original), UNKNOWN)
        if value.kind in ("api", "dtype") and is_foreign(value.name) and original.value in self.module.imports.table:
            return self.name_used(value.name, original, updated)
        return updated

    def name_used(self, name: str, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        rule = self.rules.find(name)
        left = self.full_name(name, updated)
        if rule is None:
            return self.unknown(name, left)
        if isinstance(original, cst.Attribute) and isinstance(updated, cst.Attribute) and _is_attribute(rule):
            return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        outcome = apply_value(rule, original, self.facts)
        if id(original) in self.classes:
            named = apply_class(rule, original)
            plain = isinstance(outcome.node, (cst.Name, cst.Attribute))
            return self.take(outcome if named.node is None and plain else named, left)
        return self.take(outcome, left)

    # --- outcomes

    def planned(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        text = self.plan.expressions[id(original)]
        node = cst.parse_expression(text)
        if getattr(updated, "lpar", None) and not getattr(node, "lpar", None):
            node = node.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return node

    def take(self, outcome: Outcome, updated: cst.BaseExpression) -> cst.BaseExpression:
        self.notes.findings.extend(outcome.findings)
        self.notes.needs |= outcome.needs
        if outcome.node is None:
            return updated
        node = outcome.node
        if self.aliases.keys() & outcome.needs:
            aliased = _Aliased(self.aliases, {id(n) for n in descend(updated)})
            renamed = node.visit(aliased)
            assert isinstance(renamed, cst.BaseExpression)
            node = aliased.renamed(node, renamed)
        if getattr(updated, "lpar", None) and not getattr(node, "lpar", None) and "\n" in code(node):
            return node.with_changes(lpar=updated.lpar, rpar=updated.rpar)
        return node

    def unknown(self, name: str, updated: cst.BaseExpression) -> cst.BaseExpression:
        if (page := PAGES.get(name.partition(".")[0])) is not None:
            self.refuse(page[0], name, *page[1:])
            return updated
        if name.count(".") == 0 or name in ("torch.nn", "torch.nn.functional", "torch.optim"):
            why = "the module itself is used as a value"
        else:
            why = "no rule for this name"
        self.refuse("T2M600", name, why, "write the MindSpore form by hand")
        return updated

    def refuse(self, rule: str, what: str, why: str, todo: str) -> None:
        self.notes.findings.append(Finding(rule, Tier.REFUSED, what, why, todo))

    def tell(self, rule: str, what: str, why: str) -> None:
        self.notes.findings.append(Finding(rule, Tier.EXACT, what, why))


class _Aliased(cst.CSTTransformer):
    """Gives the names that a rule brought the aliases under which they are imported; `own` are the user's nodes."""

    def __init__(self, aliases: dict[str, str], own: set[int]) -> None:
        super().__init__()
        self.aliases = aliases
        self.own = own

    def on_visit(self, node: cst.CSTNode) -> bool:
        return id(node) not in self.own

    def leave_Attribute(self, original: cst.Attribute, updated: cst.Attribute) -> cst.Attribute:
        return updated.with_changes(value=self.renamed(original.value, updated.value))

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.Call:
        return updated.with_changes(func=self.renamed(original.func, updated.func))

    def renamed(self, original: cst.BaseExpression, updated: cst.BaseExpression) -> cst.BaseExpression:
        if isinstance(original, cst.Name) and original.value in self.aliases and id(original) not in self.own:
            return cst.Name(self.aliases[original.value])
        return updated


def _assumed(finding: Finding, why: str) -> Finding:
    if finding.tier is not Tier.EXACT:
        return finding
    return replace(finding, tier=Tier.ASSUMED, why=f"{finding.why}; {why}" if finding.why else why)


def _stored(target: cst.BaseExpression) -> list[cst.BaseExpression]:
    if isinstance(target, (cst.Tuple, cst.List)):
        return [n for e in target.elements for n in _stored(e.value)]
    return [target]


def _key(node: cst.Subscript) -> object:
    part = node.slice[0].slice
    return constant(part.value) if len(node.slice) == 1 and isinstance(part, cst.Index) else None


def parameter_modules(node: cst.BaseExpression, module: ModuleInfo) -> list[cst.BaseExpression] | None:
    """The modules of `list(a.parameters()) + list(b.parameters())` or `chain(a.parameters(), b.parameters())`."""
    if isinstance(node, cst.BinaryOperation) and isinstance(node.operator, cst.Add):
        left, right = parameter_modules(node.left, module), parameter_modules(node.right, module)
        return [*left, *right] if left is not None and right is not None else None
    if isinstance(node, cst.Call):
        target = module.value(node.func)
        if dotted(node.func) in ("list", "tuple") and len(node.args) == 1:
            return parameter_modules(node.args[0].value, module)
        if target.kind == "api" and target.name == "itertools.chain":
            parts = [parameter_modules(a.value, module) for a in node.args]
            return [m for p in parts for m in p] if all(p is not None for p in parts) else None  # type: ignore[union-attr]
        if (
            isinstance(node.func, cst.Attribute)
            and node.func.attr.value == "parameters"
            and not node.args
            and dotted(node.func.value)
        ):
            return [node.func.value]
    return None


def _weight(value: Value) -> bool:
    """A tensor that is a Parameter in MindSpore."""
    return value.leaf or value.name in ("module_param", "parameter")


def _is_attribute(rule: object) -> bool:
    return bool(getattr(rule, "attribute", False))


__all__ = ["Expressions", "Notes", "code"]
