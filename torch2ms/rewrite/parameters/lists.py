"""Lists of parameters: `net.parameters()`, and those of several modules joined."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.methods import bare
from torch2ms.analysis.known.torchapi import ROWS
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.findings import Finding, Tier
from torch2ms.rewrite.parameters.beside import REFUSED, TODO, beside, buffers_by_class, clashes
from torch2ms.rewrite.parameters.frozen import frozen
from torch2ms.rewrite.parameters.keys import tell_of_state
from torch2ms.rewrite.positions import Positions
from torch2ms.rewrite.translation import Translation

LAYERS = {"children", "named_children", "modules"}
FIRST = {"parameters", "buffers", *LAYERS}
CHAINED = "itertools.chain.from_iterable"
_WHATEVER_ITS_SHAPE = ("numel", "nelement", "requires_grad", "dtype", "device", "is_leaf")
WITHOUT_WEIGHTS = re.compile(r"BatchNorm\w*[(,][^)\n]*affine=False")  # MindSpore's layer does not tell
MOVING = re.compile(r"""\.moving_\w+\s*=[^=]|["']moving_""")  # names that the program gives its parts
SPECTRAL = {"weight_u", "weight_v"}  # vectors that spectral_norm keeps; weight_norm calls its direction weight_v
ALL_THE_SAME = re.compile(r"GroupNorm\w*[(,][^)\n]*affine=False|\.InstanceNorm\dd\b(?![^)\n]*affine=True)")


def enumerated(
    name: str, original: cst.Call, updated: cst.Call, work: Translation, where: Positions
) -> cst.BaseExpression:
    """`net.parameters()`: cells list statistics of normalisation among them, and frozen ones not as trainable."""
    assert isinstance(updated.func, cst.Attribute)
    if isinstance(original.func, cst.Attribute) and bare(work.module.value(original.func.value)):
        work.tell("T2M505", f"Module.{name}", "a criterion has no parameters")
        return cst.List([])
    if isinstance(original.func, cst.Attribute) and _looked_at(original, work):
        why = "the weight of a one-dimensional convolution has an axis more in MindSpore"
        work.refuse("T2M505", f"Module.{name}", why, "name the weight: conv.weight")
        return updated
    if not frozen(work.project):
        form = "trainable_params" if name == "parameters" else "untrainable_params"
        why = f"nothing is frozen in the project: {form}()"
        if name == "parameters":
            work.tell("T2M505", "Module.parameters", why)
        else:
            tell_of_state("Module.buffers", why, work)
        return _listed(updated, form)
    if name == "parameters" and _optimized(original, [original], work, where) and not work.module.skips:
        work.tell("T2M505", "Module.parameters", "an optimizer takes what is trainable when it is made")
        return _listed(updated, "trainable_params")
    if name == "parameters" and id(original) in where.filtered:
        work.tell("T2M505", "Module.parameters", "the comprehension filters by requires_grad")
        return _listed(updated, "get_parameters")
    made = _frozen_among(name, updated.func.value, work)
    return _walked_again(made) if id(original) in where.plan.listed else made


def _walked_again(made: cst.BaseExpression) -> cst.BaseExpression:
    """A list of what `get_parameters()` gives, which can be walked through once."""
    once = isinstance(made, cst.Call) and code(made.func).endswith(".get_parameters")
    return cst.parse_expression(f"list({code(made)})") if once else made


def _optimized(original: cst.BaseExpression, calls: list[cst.Call], work: Translation, where: Positions) -> bool:
    """Only an optimizer is given the parameters, by name or at once: it takes what is trainable."""
    bound = work.stmt.defs if work.stmt is not None else set()
    listed = bool(bound) and bound <= work.module.optimized and id(original) not in where.filtered
    return listed or any(id(call) in where.trained for call in calls)


def _frozen_among(name: str, module: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """All parameters of a module, frozen ones among them, or all of its buffers."""
    clash = clashes(work.project)
    unseen = buffers_by_class(work.project) is None or name != "parameters" or work.project.says(ALL_THE_SAME)
    if clash and unseen:
        work.refuse("T2M505", f"Module.{name}", REFUSED, TODO)
        return cst.Call(cst.Attribute(module, cst.Name("get_parameters")))
    if clash:
        work.notes.needs.add("named_beside")
        _tell(name, "a buffer has the name of a parameter: told apart by the classes of layers", work)
        return cst.parse_expression(f"[p for _, p in {beside(work.project, code(module))}]")
    if name == "parameters" and work.project.says(ALL_THE_SAME):
        work.notes.needs.add("all_parameters")
        _tell(name, "parameters may be frozen, and layers without weights have ones and zeros in MindSpore", work)
        buffers = sorted(filter(None, work.project.buffers))
        given = f", {tuple(buffers)!r}" if buffers else ""
        return cst.parse_expression(f"all_parameters({code(module)}{given})")
    if name == "parameters" and not work.project.keeps_state:
        _tell(name, "parameters may be frozen, and no layer of the project keeps statistics: get_parameters()", work)
        return cst.Call(cst.Attribute(module, cst.Name("get_parameters")))
    test = told_by_name(work.project) if name == "parameters" else f"not ({told_by_name(work.project)})"
    test = test.replace("not ('moving_' not in p.name)", "'moving_' in p.name")
    _tell(name, "parameters may be frozen: told apart from statistics and buffers by name", work)
    return cst.parse_expression(f"[p for p in {code(module)}.get_parameters() if {test}]")


def _tell(name: str, why: str, work: Translation) -> None:
    """What all of them become; MindSpore's layers without weights are an assumption."""
    if work.project.says(WITHOUT_WEIGHTS):  # MindSpore's layer has them all the same, untrained
        assumed = "nothing counts or sums the ones and zeros of layers with affine=False, which are among them"
        found = Finding("T2M505", Tier.ASSUMED, f"Module.{name}", f"{why}; assumed: {assumed}")
        work.notes.findings.append(found)
    else:
        work.tell("T2M505", f"Module.{name}", why)


def _looked_at(original: cst.Call, work: Translation) -> bool:
    """`[p.grad for p in conv.parameters()]` of a layer whose weight has another shape in MindSpore."""
    layer = work.module.value(original.func.value).name  # type: ignore[attr-defined]
    if layer not in ROWS or work.stmt is None:
        return False
    listed = (n for n in work.stmt.nodes if isinstance(n, (cst.ListComp, cst.GeneratorExp)))
    for found in (n for n in listed if n.for_in.iter is original):
        parameter = dotted(found.for_in.target)
        used = [n for n in descend(found.elt) if type(n) is cst.Name and n.value == parameter]
        blind = (n for n in descend(found.elt) if type(n) is cst.Attribute and n.attr.value in _WHATEVER_ITS_SHAPE)
        return len(used) > sum(dotted(n.value) == parameter for n in blind)
    return False


def _listed(call: cst.Call, name: str) -> cst.BaseExpression:
    """The call of a method of cells without arguments."""
    assert isinstance(call.func, cst.Attribute)
    return cst.Call(cst.Attribute(call.func.value, cst.Name(name)))


def named(original: cst.Call, updated: cst.Call, work: Translation, where: Positions) -> cst.BaseExpression | None:
    """`net.named_parameters()` where some are frozen; None where it lists what an optimizer is going to train."""
    if not frozen(work.project) or original.args or not isinstance(updated.func, cst.Attribute):
        return None
    bound = work.stmt.defs if work.stmt is not None else set()
    optimized = id(original) in where.trained or bound and bound <= work.module.optimized or _gathers(original, work)
    if optimized and not work.module.skips:
        return None
    if clashes(work.project) and buffers_by_class(work.project) is None:
        work.refuse("T2M505", "Module.named_parameters", REFUSED, TODO)
        return None
    if clashes(work.project):
        work.notes.needs.add("named_beside")
        work.tell("T2M505", "Module.named_parameters", "a buffer has the name of a parameter: told apart by classes")
        return cst.parse_expression(beside(work.project, code(updated.func.value)))
    buffers = sorted(work.project.buffers)
    given = f", {tuple(buffers)!r}" if buffers else ""
    work.notes.needs.add("all_named_parameters")
    work.tell("T2M505", "Module.named_parameters", "frozen parameters are among them, statistics and buffers are not")
    return cst.parse_expression(f"all_named_parameters({code(updated.func.value)}{given})")


def own_parameters(updated: cst.Attribute, work: Translation) -> cst.BaseExpression:
    """`layer._parameters.items()`: what the layer has itself, by torch's names."""
    work.notes.needs.add("named_parameters")
    why = "what the layer has itself; assumed: none of it is frozen"
    work.notes.findings.append(Finding("T2M505", Tier.ASSUMED, "Module._parameters", why))
    return cst.parse_expression(f"dict(named_parameters({code(updated.value)}, recurse=False))")


def _gathers(original: cst.Call, work: Translation) -> bool:
    """The parameters go into lists one by one, as those do that groups of an optimizer are made of."""
    node = work.stmt.node if work.stmt is not None else None
    if isinstance(node, cst.For) and node.iter is original:
        appended = (n for n in descend(node.body) if isinstance(n, cst.Call) and dotted(n.func).endswith(".append"))
        return any(_second(node.target) == dotted(a.value) for call in appended for a in call.args)
    listed = (n for n in descend(node) if isinstance(n, (cst.ListComp, cst.GeneratorExp))) if node is not None else ()
    return any(n.for_in.iter is original and dotted(n.elt) == _second(n.for_in.target) for n in listed)


def _second(target: cst.BaseExpression) -> str:
    """What a loop over names and parameters calls the parameter; the pair, where it has one name."""
    parts = target.elements if isinstance(target, cst.Tuple) else ()
    return dotted(parts[1].value if len(parts) == 2 else target)


def told_by_name(project: Project) -> str:
    """The condition that holds for a parameter `p` and not for statistics of normalisation, nor for buffers."""
    tests, names = ["'moving_' not in p.name"], set(filter(None, project.buffers))
    sources = [module.source for module in project.modules.values()]
    if project.says(MOVING):
        tests, names = [], names | {"moving_mean", "moving_variance"}
    if names & SPECTRAL and any("weight_norm" in source for source in sources):  # whose direction is a matrix
        tests.append(f"(p.ndim > 1 or p.name.rpartition('.')[2] not in {tuple(sorted(names & SPECTRAL))!r})")
        names -= SPECTRAL
    if names:
        asked = f"!= {min(names)!r}" if len(names) == 1 else f"not in {tuple(sorted(names))!r}"
        tests.append(f"p.name.rpartition('.')[2] {asked}")
    return " and ".join(tests)


def first(original: cst.Call, updated: cst.Call) -> cst.BaseExpression | None:
    """`next(net.parameters())`: MindSpore's are a list, and so are the layers in a network."""
    if dotted(original.func) != "next" or not original.args:
        return None
    asked, made = original.args[0].value, updated.args[0].value
    if not isinstance(asked, cst.Call) or not isinstance(asked.func, cst.Attribute) or asked is made:
        return None
    if asked.func.attr.value not in FIRST or code(made).endswith("get_parameters()"):
        return None
    if len(original.args) > 1 or asked.func.attr.value in LAYERS:
        listed = cst.Call(cst.Name("iter"), [cst.Arg(made)])
        return updated.with_changes(args=[updated.args[0].with_changes(value=listed), *updated.args[1:]])
    return cst.Subscript(made, [cst.SubscriptElement(cst.Index(cst.Integer("0")))])


def joined(original: cst.BaseExpression, work: Translation, where: Positions) -> cst.BaseExpression | None:
    """Parameters of several stand-alone nets in one list: equal names are told apart by a CellList.

    A loop that freezes and thaws them wants them all, and none to have another name: there they stay on their own.
    """
    modules = parameter_modules(original, work.module)
    if not modules or len(modules) < 2 and not modules[0].startswith("*"):
        return _alone(original, modules, work)
    calls = [n for n in descend(original) if type(n) is cst.Call]
    every = frozen(work.project) and not any(id(n) in where.filtered for n in (original, *calls))
    every = every and (work.module.skips or not _optimized(original, calls, work, where))
    if every and not _bound(original, work) and not any(id(n) in where.trained for n in calls):
        return None
    work.notes.needs.add("nn")
    work.tell("T2M506", "parameters of several modules", "a CellList gives them different names")
    called = (n.func for n in calls if type(n.func) is cst.Attribute)
    dicts = {dotted(f.value) for f in called if work.module.value(f.value).name == "torch.nn.ModuleDict"}
    modules = [f"{work.alias('nn')}.CellList(list({m}.values()))" if m in dicts else m for m in modules]  # no CellDict
    held = modules[0].removeprefix("*") if len(modules) == 1 else ""
    named = [n for n in descend(original) if type(n) is cst.Name or type(n) is cst.Attribute]
    lists = {code(n) for n in named if work.module.value(n).kind == "list"}
    listed = held if held in lists else f"[{', '.join(modules)}]"  # a tuple of networks is not taken
    cells = cst.parse_expression(f"{work.alias('nn')}.CellList({listed})")
    if not every:
        return cst.Call(cst.Attribute(cells, cst.Name("trainable_params")))
    made = _frozen_among("parameters", cells, work)
    return _walked_again(made) if isinstance(original, (cst.BinaryOperation, cst.ListComp)) else made


def _bound(original: cst.BaseExpression, work: Translation) -> bool:
    """`params = list(chain(...))`: a name for the list."""
    node = work.stmt.node if work.stmt is not None else None
    value = node.value if isinstance(node, (cst.Assign, cst.AnnAssign)) else None
    if isinstance(value, cst.Call) and value is not original and dotted(value.func) in ("list", "tuple"):
        return any(arg.value is original for arg in value.args)
    return value is original


def _alone(original: cst.BaseExpression, modules: list[str] | None, work: Translation) -> cst.BaseExpression | None:
    """`list(net.parameters()) + list(criterion.parameters())`: those of the net."""
    if not modules or not isinstance(original, cst.BinaryOperation):
        return None
    work.tell("T2M505", "Module.parameters", "a criterion has no parameters")
    return cst.parse_expression(f"{modules[0]}.trainable_params()")


def parameter_modules(node: cst.BaseExpression, module: ModuleInfo, lists: bool = False) -> list[str] | None:
    """The modules of `list(a.parameters()) + list(b.parameters())` or `chain(a.parameters(), b.parameters())`.

    Those that a loop goes over are the items of what it goes over: `*nets`. `lists`: a list of such lists is meant.
    """
    if type(node) is cst.BinaryOperation and type(node.operator) is cst.Add:
        if parameter_modules(node.right, module) is None:  # asked first: of a long sum it is the short side
            return None
        return _all([parameter_modules(side, module) for side in (node.left, node.right)])
    if type(node) is cst.ListComp or type(node) is cst.GeneratorExp:
        return _in_turn(node, module, lists)
    if type(node) is cst.Call:
        target = module.value(node.func)
        if dotted(node.func) in ("list", "tuple") and len(node.args) == 1:
            return parameter_modules(node.args[0].value, module)
        if target.kind == "api" and target.name == "itertools.chain":
            return _all([parameter_modules(a.value, module, bool(a.star)) for a in node.args])
        if target.kind == "api" and target.name == CHAINED and len(node.args) == 1:
            return parameter_modules(node.args[0].value, module, lists=True)
        if (
            type(node.func) is cst.Attribute
            and node.func.attr.value == "parameters"
            and not node.args
            and dotted(node.func.value)
        ):
            holder = module.value(node.func.value)
            if holder.kind == "object":
                return _of_object(dotted(node.func.value), module.value(node))
            return [] if bare(holder) else [code(node.func.value)]
    return None


def _of_object(holder: str, given: Value) -> list[str] | None:
    """The modules behind a method `parameters` of a class that is none: `return self.head.parameters()`."""
    places = [given.place] if given.place else sorted(given.deps)
    return places if places and all(p.startswith(f"{holder}.") for p in places) else None


def told_apart_in(loop: cst.For, iterated: cst.BaseExpression, work: Translation) -> cst.BaseExpression:
    """`for net in nets: params += list(net.parameters())`: stand-alone nets, whose parameters one optimizer takes."""
    net = work.module.value(loop.target)
    kind = work.module.value(loop.iter).kind
    work.notes.first += _named_by_key(loop, work)
    held = loop.iter.func if isinstance(loop.iter, cst.Call) and not loop.iter.args else None
    values = isinstance(held, cst.Attribute) and held.attr.value == "values"
    values = values and work.module.value(held.value).kind == "dict"  # type: ignore[union-attr]
    chained = isinstance(loop.iter, cst.Call) and work.module.value(loop.iter.func).name == "itertools.chain"
    plain = kind in ("list", "tuple") and bool(chained or dotted(loop.iter))
    if net.kind != "module" or not values and not plain:
        return iterated
    if not _gathered(loop, f"{dotted(loop.target)}.parameters", work):
        return iterated
    work.notes.needs.add("nn")
    work.tell("T2M506", "parameters of several modules", "a CellList gives them different names")
    listed = f"list({code(iterated)})" if values else code(iterated) if kind == "list" else f"[*{code(iterated)}]"
    return cst.parse_expression(f"{work.alias('nn')}.CellList({listed})")


def _named_by_key(loop: cst.For, work: Translation) -> list[str]:
    """`for k in nets: params += list(nets[k].parameters())` of a dict: names that begin with the key, in each turn."""
    held = loop.iter.func if isinstance(loop.iter, cst.Call) else None
    if isinstance(held, cst.Attribute) and held.attr.value == "items" and isinstance(loop.target, cst.Tuple):
        table, key, item = held.value, dotted(loop.target.elements[0].value), _second(loop.target)
    else:
        table, key = loop.iter, dotted(loop.target)
        item = f"{code(table)}[{key}]"
    value = work.module.value(table) if key and item and dotted(table) else UNKNOWN
    networks = value.kind == "dict" and (value.name == "of module" or {v.kind for v in value.items or ()} == {"module"})
    begins = isinstance(loop.body.body[0], cst.SimpleStatementLine)  # in front of which the line is written
    if not networks or not begins or not _gathered(loop, f"{item}.parameters", work):
        return []
    work.tell("T2M506", "parameters of several modules", "named by the key of their cell: they may have equal names")
    prefix = dotted(table).removeprefix("self.").replace(".", "_")
    return [f'{item}.update_parameters_name(f"{prefix}_{{{key}}}.")']


def _gathered(loop: cst.For, asked: str, work: Translation) -> bool:
    """A list gets the parameters of each item of the loop, which `asked` calls, and an optimizer the list."""
    lists: set[str] = set()
    for node in descend(loop.body):
        if isinstance(node, cst.AugAssign) and isinstance(node.operator, cst.AddAssign):
            lists |= {dotted(node.target)} if asked in _called(node.value) else set()
        elif isinstance(node, cst.Call) and dotted(node.func).endswith((".extend", ".append")):
            lists |= {dotted(node.func).rpartition(".")[0]} if asked in _called(node) else set()
    stmts = (s for scope in work.module.scope.walk() for s in scope.body.walk()) if lists else ()
    made = (call for s in stmts for call in s.calls if work.module.value(call).kind == "optimizer")
    return any(dotted(arg.value) in lists for call in made for arg in call.args)


def _called(node: cst.CSTNode) -> set[str]:
    return {code(n.func) for n in descend(node) if isinstance(n, cst.Call)}


def _all(parts: list[list[str] | None]) -> list[str] | None:
    found = [part for part in parts if part is not None]
    return [m for part in found for m in part] if len(found) == len(parts) else None


def _in_turn(node: cst.ListComp | cst.GeneratorExp, module: ModuleInfo, lists: bool) -> list[str] | None:
    """`[p for net in nets for p in net.parameters()]`, or `net.parameters() for net in nets`."""
    loop, inner = node.for_in, node.for_in.inner_for_in
    if not isinstance(loop.target, cst.Name) or module.value(loop.target).kind != "module" or loop.ifs:
        return None
    if lists is not (inner is None):
        return None
    given: cst.BaseExpression = node.elt
    if inner is not None:
        if inner.inner_for_in is not None or not given.deep_equals(inner.target):
            return None
        if any(code(test.test) != f"{code(inner.target)}.requires_grad" for test in inner.ifs):
            return None
        given = inner.iter
    of_it = parameter_modules(given, module)
    if of_it != [loop.target.value]:
        return None
    if isinstance(loop.iter, (cst.Tuple, cst.List)):
        return [code(e.value) for e in loop.iter.elements]
    return [f"*{code(loop.iter)}"]


def of_parameter_list(name: str, original: cst.Call, updated: cst.Call, work: Translation) -> cst.BaseExpression | None:
    """A method of an `nn.ParameterList`, None where the tuple that takes its place has it."""
    if name == "parameters" and not original.args:
        assert isinstance(updated.func, cst.Attribute)
        return cst.parse_expression(f"list({code(updated.func.value)})")
    if name in ("append", "extend") and work.facts.grows:
        return updated
    if name in ("append", "extend", "insert"):
        why, todo = "a ParameterTuple does not grow", "collect the parameters in a list first"
    elif work.rules.find(f"torch.nn.Module.{name}") is not None:
        why, todo = "a ParameterTuple is no cell", "ask the module that the list belongs to"
    else:
        return None
    work.refuse("T2M605", f"torch.nn.ParameterList.{name}", why, todo)
    return updated
