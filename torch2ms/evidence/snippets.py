"""Translating one-line torch snippets: names are resolved by spelling alone, kinds by a table of inputs."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import libcst as cst

from torch2ms import api
from torch2ms.findings import Finding, Tier

ROOTS = {
    "torch": "torch",
    "F": "torch.nn.functional",
    "nn": "torch.nn",
    "optim": "torch.optim",
    "lr_scheduler": "torch.optim.lr_scheduler",
    "init": "torch.nn.init",
    "data": "torch.utils.data",
}
GROUPS = {
    "module": "torch.nn.Module",
    "lossfn": "torch.nn.Module",
    "optimizer": "torch.optim.Optimizer",
    "scheduler": "torch.optim.lr_scheduler.LRScheduler",
    "loader": "torch.utils.data.DataLoader",
    "distribution": "torch.distributions.Distribution",
}
KINDS = {"device": "device", "size": "tuple"}
TENSORS = {
    "x": 2,
    "y": 2,
    "z": 2,
    "p": 2,
    "q": 2,
    "u": 2,
    "sq": 2,
    "spd": 2,
    "tri": 2,
    "a": 3,
    "b": 3,
    "c": 3,
    "im": 4,
    "v": 1,
    "w": 1,
    "s": 0,
    "k": 2,
    "k2": 2,
    "ki": 1,
    "i": 2,
    "m": 2,
    "m2": 2,
    "t": 1,
    "up": 1,
    "k1": 1,
}
INTEGERS, MASKS = ("k", "k1", "k2", "ki", "i", "t"), ("m", "m2")


@dataclass
class Names(api.Facts):
    """Facts for snippets: single-letter inputs are tensors, and results have the kind their rule promises."""

    rules: api.Rules
    made: dict[str, str] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)  # the torch class behind a name

    def kind(self, node: cst.BaseExpression) -> str:
        text = api.code(node)
        if text in TENSORS:
            return "tensor"
        if text in KINDS:
            return KINDS[text]
        if isinstance(node, (cst.Call, cst.Attribute)):
            rule = self.rules.find(torch_name(node.func if isinstance(node, cst.Call) else node) or "")
            if rule is not None:
                return api.returns(rule).split(":")[0]
        if isinstance(node, cst.BinaryOperation):
            left, right = self.kind(node.left), self.kind(node.right)
            return "tensor" if "tensor" in (left, right) else "unknown"
        if isinstance(node, (cst.UnaryOperation, cst.Comparison)):
            return self.kind(node.expression if isinstance(node, cst.UnaryOperation) else node.left)
        if isinstance(node, cst.Subscript):
            inner = self.kind(node.value)
            return inner if inner == "tensor" else "unknown"
        value = api.literal(node)
        return type(value).__name__ if type(value) in (int, float, bool, str) else "unknown"

    def rank(self, node: cst.BaseExpression) -> int | None:
        return TENSORS.get(api.code(node))

    def cls(self, node: cst.BaseExpression) -> str:
        if isinstance(node, cst.Call) and (name := torch_name(node.func) or "").startswith("torch.distributions."):
            return name
        return self.classes.get(api.code(node), "")

    def sequential(self, node: cst.BaseExpression) -> bool | None:
        cls = self.cls(node)
        return cls == "torch.nn.Sequential" if cls else None

    def varied(self, node: cst.BaseExpression) -> bool:
        """The floating inputs are what the cases differentiate by."""
        text = api.code(node)
        return ".detach()" not in text and any(
            name in TENSORS and name not in (*INTEGERS, *MASKS) for name in re.findall(r"\b\w+\b", text)
        )

    def dtype(self, node: cst.BaseExpression) -> str:
        text = api.code(node)
        if text not in TENSORS:
            return ""
        return "int64" if text in INTEGERS else "bool" if text in MASKS else "float32"


def torch_name(node: cst.CSTNode) -> str | None:
    """`torch.nn.functional.relu` for `F.relu`, `torch.Tensor.view` for any attribute of an expression."""
    if isinstance(node, cst.Name):
        return ROOTS.get(node.value)
    if not isinstance(node, cst.Attribute):
        return None
    base = torch_name(node.value) if isinstance(node.value, (cst.Name, cst.Attribute)) else None
    if base is not None and not base.startswith("torch.Tensor"):
        return f"{base}.{node.attr.value}"
    if isinstance(node.value, cst.Call) and (torch_name(node.value.func) or "").endswith("info"):
        return f"{torch_name(node.value.func)}.{node.attr.value}"  # a field of torch.finfo, not of a tensor
    if isinstance(node.value, cst.Name) and node.value.value in ("np", "math", "ms", "ops"):
        return None
    return f"torch.Tensor.{node.attr.value}"


class Translator(cst.CSTTransformer):
    """Applies the rules bottom-up."""

    def __init__(self, rules: api.Rules) -> None:
        super().__init__()
        self.rules = rules
        self.facts = Names(rules)
        self.findings: list[Finding] = []
        self.taken: set[tuple[str, int | None]] = set()  # rule and form (None: as a value, or refused)
        self.text = ""
        self.callees: set[int] = set()
        self.needs: set[str] = set()
        self.classes = self.facts.classes  # filled by assignments: `net = filled(nn.Linear(4, 3))`

    def visit_Assign(self, node: cst.Assign) -> None:
        value = node.value
        while isinstance(value, cst.Call) and isinstance(value.func, cst.Name) and value.args:
            value = value.args[0].value
        name = torch_name(value.func) if isinstance(value, cst.Call) else None
        if name is not None and isinstance(node.targets[0].target, cst.Name):
            self.classes[node.targets[0].target.value] = name

    def _rule(self, node: cst.BaseExpression) -> api.Rule | None:
        """The rule of an expression; attributes of objects by their class, then by what the class is."""
        name = torch_name(node)
        if isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value in self.classes:
            cls = self.classes[node.value.value]
            made = self.rules.find(cls)
            for owner in (cls, GROUPS.get(made.returns if made is not None else "", "torch.Tensor")):
                if (found := self.rules.find(f"{owner}.{node.attr.value}")) is not None:
                    return found
        if isinstance(node, cst.Attribute) and self.facts.kind(node.value) == "tuple":
            if (field := self.rules.find(f"torch.return_fields.{node.attr.value}")) is not None:
                return field  # of what torch.max(x, 1) and its like give
        return self.rules.find(name) if name is not None else None

    def visit_Call(self, node: cst.Call) -> None:
        self.callees.add(id(node.func))

    def _take(self, rule: api.Rule, outcome: api.Outcome, node: cst.BaseExpression) -> cst.BaseExpression:
        self.taken.add((rule.name, place_of(rule, outcome.form)))
        self.findings += outcome.findings
        self.needs |= outcome.needs
        return node if outcome.node is None else outcome.node

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.BaseExpression:
        if isinstance(original_node.func, cst.Name) and original_node.func.value in self.classes:
            return self._object_called(original_node, updated_node)
        name = torch_name(original_node.func)
        if name is None:
            return updated_node
        rule = self._rule(original_node.func)
        if rule is None:
            self.findings.append(Finding("T2M600", Tier.REFUSED, name))
            return updated_node
        return self._take(rule, api.apply_call(rule, original_node, updated_node, self.facts), updated_node)

    def _object_called(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        """`net(x)`: by the rule of its class's `__call__`, where there is one."""
        asked, made = (
            call.with_changes(func=cst.Attribute(call.func, cst.Name("__call__"))) for call in (original, updated)
        )
        rule = self._rule(asked.func)
        if rule is None or not rule.name.endswith("__call__"):
            return updated
        return self._take(rule, api.apply_call(rule, asked, made, self.facts), updated)

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        if id(original_node) in self.callees:
            return updated_node
        rule = self._rule(original_node)
        if rule is None:
            return updated_node
        return self._take(rule, api.apply_attribute(rule, original_node, updated_node, self.facts), updated_node)


def translate(text: str, rules: api.Rules | None = None) -> tuple[str, list[Finding]]:
    """The MindSpore text of a torch snippet, and what was found."""
    translator = translated(text, rules or api.Rules.load())
    return translator.text, translator.findings


def translated(text: str, rules: api.Rules) -> Translator:
    """The translation of a snippet with its findings and the rules it took."""
    translator = Translator(rules)
    translator.text = cst.parse_module(text).visit(translator).code
    return translator


def place_of(rule: api.Rule, form: api.Form | None) -> int | None:
    """Which form of the rule it is; a function of `hard` may have filled in its target."""
    if form is None:
        return None
    keys = [(one.condition, one.sig) for one in rule.forms]
    return keys.index((form.condition, form.sig)) if (form.condition, form.sig) in keys else None
