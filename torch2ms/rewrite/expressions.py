"""Translates the expressions of a statement, innermost first, by the API rules."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import libcst as cst

from torch2ms.analysis.names import dotted, is_foreign
from torch2ms.analysis.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.tree import code
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.api.imports import IMPORTS
from torch2ms.api import Outcome, Rules, apply_attribute, apply_call, apply_partial, apply_value
from torch2ms.findings import Finding, Tier
from torch2ms.tape.plan import Plan

OWN_METHODS = {"forward": "construct", "train": "set_train"}
NO_OP_CALLS = {"torch.nn.DataParallel", "torch.nn.parallel.DataParallel"}


class ModuleFacts:
    """What the analysis knows, in the words of the rules."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module

    def kind(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        kind = {"param": "tensor", "lossfn": "module"}.get(value.kind, value.kind)
        return kind if kind not in ("api", "class", "object", "method", "builtin", "params") else "unknown"

    def rank(self, node: cst.BaseExpression) -> int | None:
        return self.module.value(node).rank

    def dtype(self, node: cst.BaseExpression) -> str:
        value = self.module.value(node)
        return value.name.rpartition(".")[2] if value.kind == "dtype" else value.dtype


@dataclass
class Notes:
    """What the translation of one statement brought up."""

    findings: list[Finding] = field(default_factory=list)
    needs: set[str] = field(default_factory=set)

    @property
    def refused(self) -> list[Finding]:
        return [f for f in self.findings if f.tier is Tier.REFUSED]


class Expressions(cst.CSTTransformer):
    """One instance per statement; `notes` collects what was decided."""

    def __init__(self, project: Project, module: ModuleInfo, rules: Rules, plan: Plan, differentiated: bool) -> None:
        super().__init__()
        self.project = project
        self.module = module
        self.rules = rules
        self.plan = plan
        self.differentiated = differentiated
        self.facts = ModuleFacts(module)
        self.notes = Notes()
        self.callees: set[int] = set()
        self.inner: set[int] = set()
        self.classes: set[int] = set()
        self.host: set[int] = set()

    # --- on the way down: what stands where

    def visit_Call(self, node: cst.Call) -> bool | None:
        if id(node) in self.plan.expressions:
            return False
        self.callees.add(id(node.func))
        if dotted(node.func) in ("isinstance", "issubclass") and len(node.args) > 1:
            self.mark_classes(node.args[1].value)
        if isinstance(node.func, cst.Attribute) and node.func.attr.value in ("numpy", "item", "tolist", "cpu"):
            self.host.add(id(node.func.value))
            if id(node) in self.host or node.func.attr.value != "cpu":
                self.host.add(id(node.func.value))
        return None

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

    def visit_ClassDef(self, node: cst.ClassDef) -> bool:
        return False

    # --- on the way up: translation

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        target = self.module.value(original.func)
        if target.kind == "api":
            return self.api_call(target.name, original, updated)
        if isinstance(original.func, cst.Attribute):
            return self.method(original, original.func, updated)
        return updated

    def api_call(self, name: str, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        if name == "functools.partial" and original.args:
            first = self.module.value(original.args[0].value)
            if first.kind == "api" and is_foreign(first.name):
                rule = self.rules.find(first.name)
                if rule is not None:
                    self.notes.findings = [f for f in self.notes.findings if f.what != first.name]
                    return self.take(apply_partial(rule, original, updated, self.facts), updated)
        if not is_foreign(name):
            return updated
        rule = self.rules.find(name)
        left = updated.with_changes(func=self.full_name(name, updated.func))
        if rule is None:
            return self.unknown(name, left)
        return self.take(apply_call(rule, original, updated, self.facts), left)

    def full_name(self, name: str, node: cst.BaseExpression) -> cst.BaseExpression:
        """What stays torch is written in full where its short name now means MindSpore's module."""
        head = dotted(node).partition(".")[0]
        if head not in IMPORTS or not is_foreign(name):
            return node
        self.notes.needs.add(name.partition(".")[0])
        return cst.parse_expression(name)

    def method(self, original: cst.Call, func: cst.Attribute, updated: cst.Call) -> cst.BaseExpression:
        receiver = self.module.value(func.value)
        name = func.attr.value
        assert isinstance(updated.func, cst.Attribute)
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
                return updated.with_changes(func=cst.Call(updated.func.value))
        if receiver.kind == "module":
            return self.ruled(f"torch.nn.Module.{name}", original, updated)
        if receiver.kind == "optimizer":
            return self.ruled(f"torch.optim.Optimizer.{name}", original, updated)
        if receiver.kind == "scheduler":
            return self.ruled(f"torch.optim.lr_scheduler.LRScheduler.{name}", original, updated)
        if receiver.kind == "unknown" and name in ("to", "cuda", "cpu") and self.places_device(original):
            return self.ruled(f"torch.Tensor.{name}", original, updated)
        if receiver.kind == "unknown" and name in ("eval", "train") and len(original.args) <= 1 and dotted(func.value):
            return self.ruled(f"torch.nn.Module.{name}", original, updated)
        return updated

    def places_device(self, call: cst.Call) -> bool:
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in ("cuda", "cpu"):
            return True
        return bool(call.args) and self.module.value(call.args[0].value).kind in ("device", "str")

    def tensor_method(self, name: str, receiver: Value, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        assert isinstance(updated.func, cst.Attribute)
        if name in ("detach", "detach_"):
            if id(original) in self.host or not self.differentiated:
                self.tell("T2M302", "Tensor.detach", "nothing is recorded here: dropped")
                return updated.func.value
        if name in ("retain_grad", "requires_grad_"):
            self.tell("T2M303", f"Tensor.{name}", "gradient functions name what they differentiate: dropped")
            return updated.func.value
        if name == "numpy" and id(original) not in self.host and isinstance(updated.func.value, cst.Call):
            pass
        rule = self.rules.find(f"torch.Tensor.{name}")
        if rule is None and name.endswith("_") and not name.endswith("__"):
            plain = self.rules.find(f"torch.Tensor.{name[:-1]}")
            if plain is not None and isinstance(_base(original), cst.Call):  # a temporary: nobody else sees the change
                renamed = updated.with_changes(func=updated.func.with_changes(attr=cst.Name(name[:-1])))
                return self.take(apply_call(plain, original, renamed, self.facts), updated)
            self.refuse("T2M610", f"Tensor.{name}", "an in-place change inside an expression",
                        "write it as a statement of its own; MindSpore's in-place methods do nothing on CPU")  # fmt: skip
            return updated
        if rule is None:
            return updated if receiver.likely else self.unknown(f"torch.Tensor.{name}", updated)
        outcome = apply_call(rule, original, updated, self.facts)
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
            return self.name_used(value.name, original, updated)
        receiver = self.module.value(original.value)
        attr = original.attr.value
        if receiver.kind in ("tensor", "param"):
            if attr == "data":
                return updated.value
            rule = self.rules.find(f"torch.Tensor.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
            if attr in ("grad", "grad_fn", "is_leaf"):
                self.refuse("T2M115", f"Tensor.{attr}", "MindSpore tensors carry no gradients",
                            "use the gradients that the gradient function returns")  # fmt: skip
            return updated
        if receiver.kind == "unknown" and attr == "grad":
            self.refuse("T2M115", "Tensor.grad", "MindSpore tensors carry no gradients",
                        "use the gradients that the gradient function returns")  # fmt: skip
        if receiver.kind == "module" and receiver.name.startswith("torch."):
            rule = self.rules.find(f"{receiver.name}.{attr}")
            if rule is not None:
                return self.take(apply_attribute(rule, original, updated, self.facts), updated)
        return updated

    def leave_Name(self, original: cst.Name, updated: cst.Name) -> cst.BaseExpression:
        if id(original) in self.plan.expressions:
            return self.planned(original, updated)
        if id(original) in self.callees or id(original) in self.inner:
            return updated
        value = self.module.values.get(id(original), UNKNOWN)
        if value.kind in ("api", "dtype") and is_foreign(value.name):
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
        if outcome.node is not None and id(original) in self.classes:
            node = outcome.node
            if isinstance(node, cst.Call) and node.args:  # partial(nn.Conv2d, ...): the class alone is asked for
                outcome = replace(outcome, node=node.args[0].value, needs=outcome.needs - {"partial"})
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
        return outcome.node if outcome.node is not None else updated

    def unknown(self, name: str, updated: cst.BaseExpression) -> cst.BaseExpression:
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


def _assumed(finding: Finding, why: str) -> Finding:
    if finding.tier is not Tier.EXACT:
        return finding
    return replace(finding, tier=Tier.ASSUMED, why=f"{finding.why}; {why}" if finding.why else why)


def _is_attribute(rule: object) -> bool:
    return bool(getattr(rule, "attribute", False))


def _base(call: cst.Call) -> cst.CSTNode:
    """What a chain of in-place methods starts from."""
    node: cst.CSTNode = call
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value.endswith("_"):
        node = node.func.value
    return node


__all__ = ["Expressions", "Notes", "code"]
