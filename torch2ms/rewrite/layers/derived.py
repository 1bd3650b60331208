"""Classes derived from a layer of torch: what is given to the layer is given as MindSpore's takes it."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.api import Rule, apply_call, apply_class
from torch2ms.api.rules import DROPPED
from torch2ms.api.stars import spread
from torch2ms.rewrite.translation import Translation

SHAPES = ("batch_shape", "event_shape", "expand", "_extended_shape", "_batch_shape", "_event_shape")
DISTRIBUTIONS = frozenset({"torch.distributions.Distribution", "torch.distributions.distribution.Distribution"})
SWITCHES = ("elementwise_affine", "bias", "track_running_stats")  # arguments that decide what a layer has
ATTENTION = "torch.nn.MultiheadAttention"
BATCHES = "num_batches_tracked"  # what no normalisation of MindSpore has
_NO_LAYERS = ("Module", "Sequential", "ModuleList", "ModuleDict")  # their arguments stay what they are


def base_layer(cls: ClassInfo, work: Translation) -> Rule | None:
    """The rule of the layer that a class of the project is derived from."""
    name = cls.torch_base
    if cls.kind != "module" or not name.startswith("torch.nn.") or name.rpartition(".")[2] in _NO_LAYERS:
        return None
    return work.rules.find(name)


def written_out(node: cst.BaseExpression, cls: ClassInfo, work: Translation) -> cst.BaseExpression | None:
    """The base of a class where MindSpore has functions only, or a class with other arguments."""
    value = work.module.value(node)
    rule = work.rules.find(value.name) if value.kind == "api" else None
    if rule is None or rule.name.startswith("torchvision."):  # the arguments of its call stay torch's
        return None
    base = _with_its_arguments(rule, cls, work) or own_base(rule, cls, work)
    if not base:
        return None
    work.notes.needs.add(base)
    work.tell("T2M601", rule.name, f"{base}: a class with torch's arguments, written out")
    return cst.Name(work.alias(base))


def own_base(rule: Rule, cls: ClassInfo, work: Translation) -> str:
    """The written out class that a class of the project is derived from, where that is not MindSpore's."""
    if rule.base or not rule.hidden[:1].isupper():
        return rule.base
    if rule.name == ATTENTION:  # MindSpore's own takes no call with other arguments than its
        return rule.hidden
    init = cls.methods.get("__init__")
    if init is None:
        return rule.hidden if _handed_on(cls, work) else ""
    calls = (call for s in init.scope.body.walk() for call in s.calls)
    switched = any(_of_layer(call) and _switched(call) for call in calls) or counts(cls)
    return rule.hidden if switched else ""


def _with_its_arguments(rule: Rule, cls: ClassInfo, work: Translation) -> str:
    """The written out class that makes the layer with the arguments of `super().__init__(...)`: `PaddedEmbedding`."""
    init = cls.methods.get("__init__")
    calls = [c for s in init.scope.body.walk() for c in s.calls if _of_layer(c)] if init is not None else []
    if len(calls) != 1 or any(arg.star for arg in calls[0].args):
        return ""
    node = apply_call(rule, calls[0], calls[0], work.facts).node
    name = node.func.value if isinstance(node, cst.Call) and isinstance(node.func, cst.Name) else ""
    return name if name[:1].isupper() else ""


def counts(cls: ClassInfo) -> bool:
    """A forward of its own counts the batches that a normalisation has seen."""
    method = cls.methods.get("forward")
    stmts = method.scope.body.walk() if method is not None and cls.module.has(BATCHES) else ()
    return any(f"self.{BATCHES}" in stmt.uses for stmt in stmts)


def _handed_on(cls: ClassInfo, work: Translation) -> bool:
    """`norm_layer=MyNorm`: what makes the layer by another name gives it torch's arguments."""
    name = cls.scope.name
    for module in work.project.modules.values():
        if not module.has(name):
            continue
        called = {id(n.func) for n in module.of_kind(cst.Call)} | {
            id(n.annotation) for n in module.of_kind(cst.Annotation)
        }
        called |= {id(arg.value) for n in module.of_kind(cst.ClassDef) for arg in n.bases}
        for node in (*module.of_kind(cst.Name), *module.of_kind(cst.Attribute)):
            value = module.value(node)
            if value.kind == "class" and value.name == cls.qualified and id(node) not in called:
                return True
    return False


def _switched(call: cst.Call) -> bool:
    """What the layer has is decided by arguments, or may be by those that a star hides."""
    return any(arg.star or arg.keyword is not None and arg.keyword.value in SWITCHES for arg in call.args)


def made(original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """`MyLinear(3, 4)` of a class without an `__init__`, and `super().__init__(3, 4)` in one that has it."""
    target = work.module.value(original.func)
    if target.kind == "class":
        cls = work.class_of(target)
        given = cls is not None and cls.method("__init__") is None
    else:
        cls, given = _around(original, work), True
        if cls is not None and original.args and DISTRIBUTIONS.intersection(cls.bases):
            return _distribution(original, updated, cls, work)
    if cls is None or not given or (rule := base_layer(cls, work)) is None:
        return None
    variant = _with_its_arguments(rule, cls, work) if target.kind != "class" else ""
    own = variant or own_base(rule, cls, work)
    translated = variant or own and (rule.main.to or "").startswith(f"{own}(")  # called is what it is derived from
    if own and not translated:
        if rule.base and sum(arg.keyword is None and not arg.star for arg in original.args) > 1:
            work.refuse("T2M605", f"class {cls.scope.name}", f"{rule.base} has other arguments", "give them by keyword")
        return updated
    original, updated = spread(original, updated, rule, work.module, work.stmt)
    if rule.hidden and not rule.hidden[:1].isupper() and any(a.star for a in original.args):
        return _hidden(updated, rule, work)
    outcome = apply_call(rule, original, updated, work.facts)
    base = outcome if own else apply_class(rule)
    if outcome.node is None or base.node is None:
        return work.take(outcome if outcome.node is None else base, updated)
    if not isinstance(outcome.node, cst.Call) or code(outcome.node.func) != (own or code(base.node)):
        what, why = f"class {cls.scope.name}", f"with these arguments MindSpore's {rule.name} is another class"
        work.refuse("T2M605", what, why, "hold the layer as an attribute")
        return updated
    work.notes.findings += outcome.findings
    work.notes.needs |= outcome.needs - {code(base.node).partition(".")[0]}
    return updated.with_changes(args=outcome.node.args)


def _hidden(updated: cst.Call, rule: Rule, work: Translation) -> cst.BaseExpression:
    """`super().__init__(*args, **options)`, or `MyLinear(3, **options)`: a function that takes torch's arguments and
    calls MindSpore's with its."""
    kept = [arg for arg in updated.args if arg.keyword is None or arg.keyword.value not in DROPPED]
    work.notes.needs.add(rule.hidden)
    work.tell("T2M601", rule.name, f"{rule.hidden}: it takes torch's arguments")
    return cst.Call(cst.Name(work.alias(rule.hidden)), [cst.Arg(updated.func), *kept])


def _distribution(original: cst.Call, updated: cst.Call, cls: ClassInfo, work: Translation) -> cst.BaseExpression:
    """`super().__init__(validate_args=False)` in a distribution of the program's own: the class that is written out
    checks nothing, and sees its shape in its parameters."""
    inside = {id(n) for n in descend(original)}
    asked = (n for n in work.module.of_kind(cst.Attribute) if id(n) not in inside)
    shaped = any(a.keyword is None or a.keyword.value != "validate_args" for a in original.args)
    if shaped and any(n.attr.value in SHAPES for n in asked):
        what, why = f"class {cls.scope.name}", "the written out Distribution takes its shapes from its parameters"
        work.refuse("T2M605", what, why, "write batch_shape and event_shape as properties of the class")
        return updated
    return updated.with_changes(args=[])


def _around(call: cst.Call, work: Translation) -> ClassInfo | None:
    """The class whose `super().__init__(...)` of a layer the call is."""
    scope = work.stmt.block.scope if work.stmt is not None and _of_layer(call) else None
    info = work.module.functions.get(id(scope))
    cls = info.cls if info is not None else None
    if cls is None or any(parent.torch_base not in ("", "torch.nn.Module") for parent in cls.parents):
        return None  # it is what a class in between makes of the layer
    return cls


def _of_layer(call: cst.Call) -> bool:
    """The call is `super().__init__(...)`."""
    func = call.func
    if not isinstance(func, cst.Attribute) or func.attr.value != "__init__" or not isinstance(func.value, cst.Call):
        return False
    return dotted(func.value.func) == "super"
