"""Functions that go backward from what they are handed and leave the step to others.

`def backward(self, loss): loss.backward()` of an object around an optimizer, a scaler object that is called with the
loss: which function of the weights the loss is, only the caller knows. Written out there, the call is a plain backward
call in sight of its forward.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.shown import taken
from torch2ms.analysis.program.sites import CALL, Site, Unseen, any_object, bound_arguments, overriding, resolved
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.inlining.candidate import Candidate
from torch2ms.inlining.candidates import fits, movable, named, plain, unasked

MOST = 40  # statements that all the calls together become
CLIPS = ("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_")
OTHERS = ("tensor", "param", "api", "list", "dict", "tuple", "float", "int", "str", "optimizer", "scheduler", "none")


def handed_on(project: Project) -> dict[int, Candidate]:
    """By id of the call: the functions of this kind whose calls can all give way to their bodies."""
    if not any(m.has(".backward(") or m.has(".grad = ") for m in project.modules.values()):
        return {}
    found: dict[int, Candidate] = {}
    reached = _sites(project)
    calls = {id(s.call) for info, sites in reached.values() for s in sites if not _clips_handed(info, sites)}
    for info, sites in reached.values():
        made = _candidate(info, sites, calls)
        if made is None or not sites or not all(fits(made, site) for site in sites):
            continue
        if len(sites) * len(made.body) <= MOST:
            made.goes = mentioned(made, project) == len(sites) and unasked(made, project)
            made.shared = len(project.modules) > 1
            found |= {id(site.call): made for site in sites}
    moving = {id(made.info.scope) for made in found.values()}
    return {
        call: made for call, made in found.items()
        if not _clips_handed(made.info, made.sites) or not any(id(s.scope) in moving for s in made.sites)
    }  # fmt: skip


def _sites(project: Project) -> dict[int, tuple[FunctionInfo, list[Site]]]:
    """The functions with a backward call, and all their calls."""
    known = resolved(project)
    found: dict[int, tuple[FunctionInfo, list[Site]]] = {}
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    info = known.get(id(call)) or called_object(call, module, project)
                    if info is None:
                        continue
                    nested = _nested(info) and _goes_backward(scope)
                    if _goes_backward(info.scope) or nested or _only_fills(info.scope) or _only_clips(info):
                        found.setdefault(id(info.scope), (info, []))[1].append(Site(module, scope, stmt, call))
    return found


def called_object(call: cst.Call, module: ModuleInfo, project: Project) -> FunctionInfo | None:
    """The `__call__` of an object of the project."""
    value = module.value(call.func)
    if value.kind != "object" or not value.name or not dotted(call.func):
        return None
    cls = project.find(value.name, module)
    return cls.known(CALL) if isinstance(cls, ClassInfo) else None


def _backward(call: cst.Call) -> bool:
    return type(call.func) is cst.Attribute and call.func.attr.value == "backward"


def _candidate(info: FunctionInfo, sites: list[Site], reached: set[int]) -> Candidate | None:
    """The function, if it is one of these; `reached` are the calls of functions that go backward."""
    scope = info.scope
    fills = _only_fills(scope)
    kinds = ("object", "optimizer", "module") if fills else ("object", "optimizer")
    if overriding(info) or not movable(info) or info.cls is not None and info.cls.kind not in kinds:
        return None
    if fills or info.cls is not None and _only_clips(info) or _clips_handed(info, sites):
        return plain(info, sites, scope.body.stmts[0].lineno, ends=True)
    calls = [(s, c) for s in scope.body.walk() for c in s.calls]
    if any(id(c) in reached for _, c in calls):
        return None  # written out later, when those are
    if _part_of_caller(info, sites):
        return plain(info, sites, scope.body.stmts[0].lineno, ends=True)
    if (through := _through_layers(info, sites)) is not None:
        return plain(info, sites, through.lineno, ends=True)
    backward = next((s for s, c in calls if _backward(c) and _of_parameter(c, scope)), None)
    if backward is None and (item := next((s for s, c in calls if _backward(c) and _of_item(c, scope)), None)):
        return plain(info, sites, item.lineno, ends=True)  # a container is not handed on with the graphs in it
    if backward is None:
        return None
    steps = any(isinstance(c.func, cst.Attribute) and c.func.attr.value == "step" for _, c in calls)
    if steps and not any(_chosen(c, scope) for s, c in calls if _backward(c)) and not any(map(_or_plain, sites)):
        return None  # the whole step is here: callers hand the loss on with its graph
    return plain(info, sites, backward.lineno, ends=True)


def _goes_backward(scope: Scope) -> bool:
    return any(_backward(c) for s in scope.body.walk() for c in s.calls)


def _only_fills(scope: Scope) -> bool:
    """All that it does to gradients is to store some, in loops: `for p, g in zip(params, grads): p.grad = g`."""
    stmts = list(scope.body.walk())
    stores = [s for s in stmts if type(s.node) is cst.Assign and any(_is_grad(t.target) for t in s.node.targets)]
    if not stores or not all(any(isinstance(a.node, cst.For) for a in s.ancestors()) for s in stores):
        return False
    reads = [n for s in stmts if not s.blocks for n in s.nodes if _is_grad(n)]
    names = {c.func.attr.value for s in stmts for c in s.calls if isinstance(c.func, cst.Attribute)}
    values = [n for s in stores for n in descend(s.node.value) if _is_grad(n)]  # type: ignore[union-attr]
    return len(reads) == len(stores) and not values and not names & {"backward", "step", "zero_grad"}


def _only_clips(info: FunctionInfo) -> bool:
    """`def clip_grad_norm_(self, parameters, limit): return torch.nn.utils.clip_grad_norm_(parameters, limit)`, or one
    of several ways to clip them, as other parameters say."""
    given = set(info.scope.params) - {"self"}
    stmts = [s for s in info.scope.body.walk() if type(s.node) not in (cst.Pass, cst.Assert, cst.Raise)]
    if info.cls is not None and len(stmts) > 1:
        return False
    clips = 0
    for stmt in stmts:
        if type(stmt.node) is cst.If:
            if any(root(use) not in given for use in expression_uses(stmt.node.test, stmt)):
                return False
            continue
        call = stmt.node.value if type(stmt.node) is cst.Expr or type(stmt.node) is cst.Return else None
        if isinstance(call, cst.BaseString):
            continue
        if type(call) is not cst.Call or not call.args or info.module.value(call.func).name not in CLIPS:
            return False
        if dotted(call.args[0].value) not in given:
            return False
        clips += 1
    return clips > 0


def _clips_handed(info: FunctionInfo, sites: list[Site]) -> bool:
    """It clips what the function that calls it was handed itself: neither of them knows whose parameters these are."""
    if info.cls is not None or not _only_clips(info):
        return False
    clipped = {dotted(c.args[0].value) for s in info.scope.body.walk() for c in s.calls
               if info.module.value(c.func).name in CLIPS}  # fmt: skip
    for site in sites:
        bound = bound_arguments(info, site.call)
        if any(n in bound and dotted(bound[n].value) in set(site.scope.params) - {"self"} for n in clipped):
            return True
    return False


def _is_grad(node: cst.CSTNode) -> bool:
    return type(node) is cst.Attribute and node.attr.value == "grad" and dotted(node) != "torch.autograd.grad"


def _nested(info: FunctionInfo) -> bool:
    """A function inside of another one that is given nothing and returns nothing."""
    scope, around = info.scope, info.scope.parent
    returns = any(type(s.node) is cst.Return for s in scope.body.walk())
    return around is not None and around.is_function and not scope.params and not returns


def _part_of_caller(info: FunctionInfo, sites: list[Site]) -> bool:
    """It fills what the function around it goes backward from: `output["loss"] = ...`, once."""
    if not _nested(info) or len(sites) != 1 or sites[0].scope is not info.scope.parent:
        return False
    changed = {root(m) for s in info.scope.body.walk() for m in s.muts | s.defs} - info.scope.locals
    calls = [c.func.value for s in sites[0].scope.body.walk() for c in s.calls if _backward(c)]  # type: ignore[attr-defined]
    return bool(changed & {n.value for c in calls for n in descend(c) if isinstance(n, cst.Name)})


def _of_parameter(call: cst.Call, scope: Scope) -> bool:
    """What is differentiated is a parameter, or a scaler's multiple of one."""
    assert isinstance(call.func, cst.Attribute)
    source = call.func.value
    if type(source) is cst.Call and type(source.func) is cst.Attribute and len(source.args) == 1:
        source = source.args[0].value if source.func.attr.value == "scale" else source
    bound = {d for s in scope.body.walk() for d in s.defs}
    given = set(scope.params) - {"self", "cls"} - bound
    if isinstance(source, cst.Name) and source.value in bound:  # `scaled = loss * self.scale`
        made = [s.node for s in scope.body.walk() if source.value in s.defs]
        value = made[0].value if len(made) == 1 and isinstance(made[0], cst.Assign) else None
        nodes = list(descend(value)) if value is not None else []
        params = {*given, source.value} & set(scope.params)  # `loss = loss / self.steps`
        named = any(type(n) is cst.Name and n.value in params for n in nodes)
        return named and not any(isinstance(n, cst.Call) for n in nodes)
    return isinstance(source, cst.Name) and source.value in given


def _of_item(call: cst.Call, scope: Scope) -> bool:
    """What is differentiated is an item or a field of a parameter: `losses["total"].backward()`, or one that a loop
    takes out of it: `for i, y in enumerate(outputs): y.backward()`."""
    assert isinstance(call.func, cst.Attribute)
    source = call.func.value
    while isinstance(source, cst.Call) and isinstance(source.func, cst.Attribute) and not source.args:
        source = source.func.value  # `y.sum().backward()`
    inner = source.value if isinstance(source, (cst.Subscript, cst.Attribute)) else None
    bound = {d for s in scope.body.walk() for d in s.defs}
    made = [s.node for s in scope.body.walk() if isinstance(source, cst.Name) and source.value in s.defs]
    if len(made) == 1 and isinstance(made[0], cst.For):
        inner = taken(made[0].target, made[0].iter, source.value)  # type: ignore[attr-defined]
    return isinstance(inner, cst.Name) and inner.value in set(scope.params) - {"self", "cls"} - bound


def _through_layers(info: FunctionInfo, sites: list[Site]) -> Stmt | None:
    """Its backward call where layers here run on what callers' layers made: neither of them has the whole forward.

    `def __call__(self, x, y): loss = self.criterion(self.generator(x), y); loss.backward()`, with `x = model(batch)`.
    """
    found = next(((s, c.func) for s in info.scope.body.walk() for c in s.calls if _backward(c)), None)
    if found is None:
        return None
    reaching = info.module.value(found[1].value).deps  # type: ignore[attr-defined]
    params = [p for p in info.scope.params if f"@{p}" in reaching and p not in ("self", "cls")]
    given = [p for p in params if _fed_to_layers(p, info)]
    return found[0] if any(_varied(site, info, given) for site in sites) else None


def _fed_to_layers(name: str, info: FunctionInfo) -> bool:
    """The parameter, or what is made of it, is given to layers that have weights."""
    made = {name}
    for stmt in info.scope.body.walk():
        for call in stmt.calls:
            target = info.module.value(call.func)
            given = {root(u) for a in call.args for u in expression_uses(a.value, stmt)}
            if given & made and target.kind == "module" and target.place and not info.module.weightless(target):
                return True
        if not stmt.blocks and {root(u) for u in stmt.uses} & made:
            made |= {root(d) for d in stmt.defs}
    return False


def _varied(site: Site, info: FunctionInfo, names: list[str]) -> bool:
    """The call gives one of these parameters something that layers made."""
    bound = bound_arguments(info, site.call)
    values = [site.module.value(bound[name].value) for name in names if name in bound]
    return any(v.kind in ("tensor", "unknown") and any(d[0] not in "@^" for d in v.deps) for v in values)


def _or_plain(site: Site) -> bool:
    """`if scaler is not None: scaler(loss, opt)`, and otherwise the caller goes backward from the loss itself."""
    block, call = site.stmt.block, site.call
    owner = block.owner
    if owner is None or type(owner.node) is not cst.If or len(owner.blocks) != 2:
        return False
    given = {dotted(a.value) for a in call.args} - {""}
    other = next(b for b in owner.blocks if b is not block)
    return any(_backward(c) and dotted(c.func.value) in given for s in other.stmts for c in s.calls)  # type: ignore[attr-defined]


def _chosen(call: cst.Call, scope: Scope) -> bool:
    """Callers choose what the backward call keeps."""
    return any(root(dotted(a.value)) in scope.params for a in call.args)


def mentioned(made: Candidate, project: Project) -> int:
    """How often something in the project may name the function, calls included."""
    name = made.info.name
    if name == CALL:
        return -1 if _passed(made, project) else len(made.sites)
    if made.info.cls is None:
        return named(made, project)
    count = 0
    for module in project.modules.values():
        count += module.quotes[name]
        count += sum(_may_be(node, made.info, module, project) for node in module.attributes.get(name, ()))
    return count


def _may_be(node: cst.Attribute, info: FunctionInfo, module: ModuleInfo, project: Project) -> bool:
    """An attribute of the name of a method may be this one."""
    value = module.value(node.value)
    cls = project.find(value.name, module) if value.kind in ("object", "module") and value.name else None
    if isinstance(cls, ClassInfo) and (method := cls.known(info.name)) is not None:
        return method is info
    return value.kind not in OTHERS


def _passed(made: Candidate, project: Project) -> bool:
    """An object of the class is handed to something that is not seen, which may call it, or one of any class is
    called that takes the same."""
    cls = made.info.cls
    assert cls is not None
    known, unseen = resolved(project), Unseen()
    for module in project.modules.values():
        for scope in module.scope.walk():
            for stmt in scope.body.walk():
                for call in stmt.calls:
                    if id(call) not in known and any_object(call.func, module, project):
                        unseen.add(call, CALL, stmt)
                    held = [a.value for a in call.args if module.value(a.value).name == cls.qualified]
                    if held and id(call) not in known:
                        if module.value(call.func).kind not in ("class", "function", "method"):
                            return True
    return unseen.reached(made.info.scope)


__all__ = ["handed_on", "mentioned"]
