"""Names of torch, where they are called and where they are values."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.sharing import CONTAINERS
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import canonical, dotted, is_foreign, qualified
from torch2ms.analysis.syntax.operands import parenthesised
from torch2ms.analysis.syntax.tree import changed, code, constant
from torch2ms.analysis.values import Value, is_weight
from torch2ms.api import Outcome, Rule, apply_attribute, apply_class, apply_partial, apply_value, apply_whole
from torch2ms.api.stars import bound_once
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.inplace.copied import changed_in_place
from torch2ms.rewrite.layers.compared import findable, findable_partial, of_type
from torch2ms.rewrite.layers.handed import stand_ins
from torch2ms.rewrite.optimizer_classes import ADAMS, asked_for
from torch2ms.rewrite.parameters.lists import CHAINED, joined
from torch2ms.rewrite.parameters.names import told_apart
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.recording import asked
from torch2ms.rewrite.tensors.places import widened
from torch2ms.rewrite.transforms import compiled
from torch2ms.rewrite.transforms.calls import transformed
from torch2ms.rewrite.translation import Translation

ANNOTATED = {"torch.nn": "nn", "torch.nn.functional": "ops", "torch.optim": "optim"}  # `def mlp(sizes, act: nn = None)`
UNFIT = {"T2M603", "T2M605"}
_FIELDS = ("dataclass", "NamedTuple", "Enum")  # whose classes are no home of methods


def spelled(node: cst.BaseExpression, name: str, module: ModuleInfo) -> bool:
    """The expression is the imported name itself, not a variable that holds it."""
    if canonical(qualified(node, module.imports)) == name:
        return True
    return bool(module.imports.stars) and isinstance(node, cst.Name) and name.endswith(f".{node.value}")


def holds_tensors(value: Value) -> bool:
    """A container that is seen to hold tensors, no weights."""
    if value.kind in CONTAINERS:
        return any(map(holds_tensors, value.parts))
    return value.kind == "tensor" and not value.likely and not is_weight(value)


def keeps_tensors(value: Value, work: Translation) -> bool:
    """An object of a class of the project that keeps tensors in attributes, neither weights nor buffers."""
    cls = work.class_of(value) if value.kind in ("object", "module") else None
    kept = (pair for each in (cls.lineage() if cls is not None else ()) for pair in each.attrs.items())
    return any(holds_tensors(held) for name, held in kept if name not in work.project.buffers)


def _has_keys(name: str, work: Translation) -> bool:
    """The options of a program, whatever their name says: they are asked for by texts, `opt["type"]`."""
    stmts = work.stmt.block.scope.body.walk() if work.stmt is not None else ()
    asked = (n for s in stmts for n in s.nodes if type(n) is cst.Subscript and dotted(n.value) == name)
    return any(isinstance(constant(n.slice[0].slice.value), str) for n in asked if type(n.slice[0].slice) is cst.Index)


def called(name: str, original: cst.Call, updated: cst.Call, work: Translation, where: Positions) -> cst.BaseExpression:
    """A call of an imported name."""
    if name == "functools.partial" and original.args:
        first = work.module.value(original.args[0].value)
        rule = work.rules.find(first.name) if first.kind == "api" and is_foreign(first.name) else None
        if rule is not None:
            outcome = apply_partial(rule, original, updated, work.facts)
            return work.take(findable_partial(rule, outcome, original, updated, work.project), updated)
    if name == "copy.deepcopy" and len(original.args) == 1 and not work.mixed:
        held = work.module.value(original.args[0].value)
        if held.kind == "tensor" and not held.likely and not is_weight(held):
            work.tell("T2M601", name, "Tensor.copy(): a deep copy of a tensor shares its memory in MindSpore")
            return cst.Call(cst.Attribute(parenthesised(updated.args[0].value), cst.Name("copy")))
        tensors = held.kind in CONTAINERS and holds_tensors(held) or keeps_tensors(held, work)
        if tensors or changed_in_place(held, original, work):
            work.notes.needs.add("deep_copied")
            work.tell("T2M601", name, "a deep copy of a tensor shares its memory in MindSpore")
            return updated.with_changes(func=cst.Name("deep_copied"))
        options = held.likely and _has_keys(dotted(original.args[0].value), work)
        if not options and "optimizer" in {held.kind, *(item.kind for item in held.items or ())}:
            todo = "make another one, and load the state of the first"
            work.refuse("T2M605", "copy.deepcopy of an optimizer", "MindSpore's optimizers cannot be copied", todo)
    if name in ("itertools.chain", CHAINED) and (parameters := joined(original, work, where)) is not None:
        return parameters
    if (
        name.startswith("numpy.")
        and not work.mixed
        and work.module.value(original).kind == "tensor"
        and id(original) not in where.converted
    ):
        work.notes.needs.add("ms")
        work.tell("T2M613", name, "NumPy's functions of a torch tensor give a tensor: made one again")
        return cst.Call(cst.parse_expression(f"{work.alias('ms')}.Tensor"), [cst.Arg(updated)])
    if not is_foreign(name):
        return updated
    rule = work.rules.find(name)
    left = changed(updated, func=work.full_name(name, updated.func))
    if name.endswith(".vector_to_parameters") and (later := _used_later(original, work)):
        if later in ("written", "stepped"):
            why = "the parameters are views of the vector in torch: what is written into it moves them"
            if later == "stepped":
                why = "the parameters are views of the vector in torch: it is read after an optimizer has moved them"
            work.refuse("T2M611", name, why, "give it a copy of the vector, or call it again behind the write")
            return updated
        why = "assumed: who reads the vector behind it wants what was given: torch's changes with the parameters"
        work.notes.findings.append(Finding("T2M611", Tier.ASSUMED, name, why))
    if (answer := asked(name, work)) is not None:
        work.tell("T2M601", name, f"{answer.value} here, by what stands around it")
        return answer
    if rule is None and (text := _of_text(name, original, updated, work, where)) is not None:
        return text
    if rule is None:
        return updated if work.mixed and dotted(original.func) in stand_ins(work.module) else work.unknown(name, left)
    if kind := compiled.transform(name):
        return transformed(kind, rule, original, updated, left, work, where)
    outcome = widened(rule, work.apply(rule, original, updated), original, work, where)
    if outcome.node is None and any(a.star for a in original.args) and not work.hides_change(rule, original, updated):
        unfit = any(found.code in UNFIT for found in outcome.findings)  # they are seen, and MindSpore has no such form
        outcome = outcome if unfit else apply_whole(rule, updated) or outcome
    if work.module.value(original).kind == "optimizer" and outcome.node is not None:
        work.notes.first += told_apart(original, updated, work)
        made = work.take(outcome, left)
        idle = work.module.zeroed and work.module.value(original).dtype == "plain"
        return skipping(made, work) if work.module.skips and not idle else made
    return work.take(outcome, left)


def _used_later(call: cst.Call, work: Translation) -> str:
    """What becomes of a vector that has a name, after the call that is given it: "written" in place, "stepped" where
    it is read after an optimizer took a step, "read" or ""."""
    given = argument(call, 0, "vec")
    place, stmt = dotted(given) if given is not None else "", work.stmt
    if not place or stmt is None:
        return ""
    turns = {s for owner in stmt.ancestors() if owner.is_loop for s in owner.walk()}
    later = [s for s in stmt.block.scope.body.walk() if s.number > stmt.number or s in turns and s is not stmt]
    if any(place in (s.defs | s.muts if type(s.node) is cst.AugAssign else s.muts) for s in later):
        return "written"
    stepped = False
    for each in sorted(later, key=lambda s: (s.number <= stmt.number, s.number)):  # in the order in which they run
        if place in each.defs:
            break
        if stepped and place in each.uses and not each.blocks:
            return "stepped"
        calls = [c.func for c in each.calls if isinstance(c.func, cst.Attribute)] if not each.blocks else []
        stepped |= any(f.attr.value == "step" and work.module.value(f.value).kind == "optimizer" for f in calls)
    return "read" if any(place in s.uses and place not in s.defs for s in later) else ""


def _of_text(
    name: str, original: cst.Call, updated: cst.Call, work: Translation, where: Positions
) -> cst.BaseExpression | None:
    """`torch.__version__.split(".")`: a method of the text that an attribute holds."""
    rule = work.rules.find(name.rpartition(".")[0])
    if rule is None or not rule.attribute or rule.main.returns != "str":
        return None
    if not isinstance(original.func, cst.Attribute) or not isinstance(updated.func, cst.Attribute):
        return None
    text = used(rule.name, original.func.value, updated.func.value, work, where)
    return updated.with_changes(func=updated.func.with_changes(value=text))


def skipping(made: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """An optimizer that leaves alone what is frozen when it steps."""
    work.notes.needs.add("skip_frozen")
    why = "the optimizer leaves alone what has no gradient, as torch's does"
    work.tell("T2M308", "parameters frozen or thawed", why)
    return cst.Call(cst.Name("skip_frozen"), [cst.Arg(made)])


def through_name(name: str, original: cst.Call, updated: cst.Call, work: Translation) -> Outcome | None:
    """`f = F.hardtanh`, then `f(x, -1, 1, True)`: what MindSpore's function does not take."""
    rule = work.rules.find(name) if is_foreign(name) and isinstance(original.func, cst.Name) else None
    if rule is None or not name.rpartition(".")[2][:1].islower() or work.mixed:
        return None
    held = bound_once(original.func.value, work.stmt, work.module) if isinstance(original.func, cst.Name) else None
    required = sum(p.default is None and not p.variadic for p in rule.params)
    more = any(a.star or a.keyword is not None for a in original.args) or len(original.args) > required
    if held is None or not more or not spelled(held, name, work.module):
        return None
    outcome = work.apply(rule, original, updated)
    return outcome if outcome.node is not None or work.hides_change(rule, original, updated) else None


def used(
    name: str, original: cst.BaseExpression, updated: cst.BaseExpression, work: Translation, where: Positions
) -> cst.BaseExpression:
    """A name that is not called: a dtype, a class, a function handed on."""
    if (home := ANNOTATED.get(name)) is not None and id(original) in where.classes:
        work.notes.needs.add(home)
        work.tell("T2M601", name, "the module that an annotation names")
        return cst.Name(work.alias(home))
    rule = work.rules.find(name)
    left = work.full_name(name, updated)
    if rule is None:
        return work.unknown(name, left)
    if id(original) in where.partly:
        return left
    if isinstance(original, cst.Attribute) and isinstance(updated, cst.Attribute) and _is_attribute(rule):
        return work.take(apply_attribute(rule, original, updated, work.facts), updated)
    outcome = apply_value(rule, original, work.facts)
    if id(original) in where.typed and (written := of_type(rule, work.project)) is not None:
        return work.take(written, left)
    if id(original) in where.classes:
        types = rule.cls == "ms.Tensor" and id(original) in where.asked  # `(torch.FloatTensor, ...)`: of which type
        named = outcome if types else apply_class(rule)
        if id(original) in where.asked and isinstance(outcome.node, cst.Name) and outcome.node.value == "object":
            todo = "ask for what it can do: hasattr(x, '__getitem__')"
            work.refuse("T2M608", rule.name, "everything is an object", todo)
            return left
        exactly = id(original) in where.typed
        if rule.name in ADAMS and (exactly or id(original) in where.asked):
            if (made := asked_for(rule.name, exactly, left, work)) is not None:
                return made
        if id(original) in where.asked and rule.name in _BASES:
            work.refuse("T2M608", rule.name, "MindSpore's losses are functions, or of other classes", "name the losses")
            return left
        plain = isinstance(outcome.node, (cst.Name, cst.Attribute, cst.Tuple))
        return work.take(outcome if named.node is None and plain else named, left)
    return unbound(original, work.take(findable(rule, outcome, work.project), left), rule, work)


_BASES = {"torch.nn._Loss", "torch.nn._WeightedLoss"}  # of torch's own losses: MindSpore's have another, or none


def unbound(
    original: cst.BaseExpression, made: cst.BaseExpression, rule: Rule, work: Translation
) -> cst.BaseExpression:
    """`act = torch.tanh` in the body of a class: a builtin takes no `self`, a function of Python would."""
    stmt = work.stmt
    if stmt is None or not isinstance(stmt.node, (cst.Assign, cst.AnnAssign)) or stmt.node.value is not original:
        return made
    owner = stmt.block.scope.node
    if not isinstance(owner, cst.ClassDef) or not rule.name.rpartition(".")[2][:1].islower() or rule.attribute:
        return made
    read = [*(d.decorator for d in owner.decorators), *(base.value for base in owner.bases)]
    if any(word in code(node) for node in read for word in _FIELDS):
        return made
    return cst.Call(cst.Name("staticmethod"), [cst.Arg(made.with_changes(lpar=(), rpar=()))])


def _is_attribute(rule: Rule) -> bool:
    return bool(getattr(rule, "attribute", False))
