"""`class QLinear(nn.Linear): def __init__(self, *args, bits=4, **kwargs): super().__init__(*args, **kwargs)`.

What `*args` and `**kwargs` hand on to a layer of torch decides how the layer is written: it gets the names that the
layer's own constructor has for what the project gives. `nn.Linear.__init__(self, ...)` is written as `super()` does it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Plain, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.api.rules import Rules
from torch2ms.api.signature import Param
from torch2ms.editing.suites import Suites
from torch2ms.findings import Finding, Tier
from torch2ms.wrappers.passes import each_module

INIT = "__init__"
METHODS = ("reset_parameters", "train", "eval", "forward", "extra_repr")
ASKING = ("super", "isinstance", "issubclass")
LATE = 1000  # the position of what is given by name
TIGHT = cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace(""))
COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
WHY = "written out as what the project gives; callers outside are assumed to give no more"


@dataclass(eq=False)
class Layer:
    """A class derived from a layer of torch, and the call of the layer's constructor in its own."""

    cls: ClassInfo
    node: cst.FunctionDef
    call: cst.Call
    plain: list[Param] = field(default_factory=list)  # what `*args` hands on
    named: list[Param] = field(default_factory=list)  # what `**kwargs` hands on

    def parameters(self) -> list[cst.Param]:
        """What its own constructor takes once all is written out."""
        own, plain = self.node.params, [_parameter(p) for p in self.plain]
        asked = [_parameter(p) for p in self.named if p.default is None]
        given = [_parameter(p) for p in self.named if p.default is not None]
        return [*own.params, *plain, *asked, *own.kwonly_params, *given]


@each_module
def constructors(module: ModuleInfo, project: Project) -> Plain | None:
    """What becomes of a module with such classes."""
    if not module.has(INIT):
        return None
    found = [layer for cls in module.classes.values() if (layer := _layer(cls, module)) is not None]
    handed = {id(x.node): x for x in found if _stars(x.node) and _fill(x, project)}
    by_name = {id(x.call) for x in found if not _is_super(x.call)}
    by_name |= {id(call) for cls in module.classes.values() for call in _by_name(cls, module)}
    return Constructors(module, handed, by_name).plain() if handed or by_name else None


def _layer(cls: ClassInfo, module: ModuleInfo) -> Layer | None:
    init = cls.methods.get(INIT)
    node = init.scope.node if init is not None else None
    if cls.kind != "module" or cls.torch_base in ("", "torch.nn.Module") or not isinstance(node, cst.FunctionDef):
        return None
    if cls.bases[:1] != [cls.torch_base]:
        return None
    calls = [
        n for n in descend(node) if isinstance(n, cst.Call) and isinstance(n.func, cst.Attribute)
        and n.func.attr.value == INIT and (_is_super(n) or qualified(n.func.value, module.imports) == cls.torch_base)
    ]  # fmt: skip
    return Layer(cls, node, calls[0]) if len(calls) == 1 else None


def _by_name(cls: ClassInfo, module: ModuleInfo) -> list[cst.Call]:
    """`nn.Linear.reset_parameters(self)` in the methods of a class derived from it first of all."""
    if cls.kind != "module" or cls.torch_base in ("", "torch.nn.Module") or cls.bases[:1] != [cls.torch_base]:
        return []
    return [
        call for info in cls.methods.values() if not info.static for s in info.scope.body.walk() for call in s.calls
        if isinstance(call.func, cst.Attribute) and call.func.attr.value in METHODS and call.args
        and dotted(call.args[0].value) == "self" and qualified(call.func.value, module.imports) == cls.torch_base
    ]  # fmt: skip


def _is_super(call: cst.Call) -> bool:
    func = call.func
    return isinstance(func, cst.Attribute) and isinstance(func.value, cst.Call) and dotted(func.value.func) == "super"


def _stars(node: cst.FunctionDef) -> list[str]:
    """The names of `*args` and `**kwargs`, "" for one that it has not; nothing if it has neither."""
    args, options = node.params.star_arg, node.params.star_kwarg
    found = [args.name.value if isinstance(args, cst.Param) else "", options.name.value if options is not None else ""]
    return found if any(found) else []


def _fill(layer: Layer, project: Project) -> bool:
    """Find what all the calls of the class hand on."""
    node, call = layer.node, layer.call
    stars = _stars(node)
    for name, star in zip(stars, ("*", "**"), strict=True):
        handed = [a for a in call.args if a.star == star]
        uses = sum(isinstance(n, cst.Name) and n.value == name for n in descend(node.body)) if name else 0
        if name and (uses != 1 or len(handed) != 1 or dotted(handed[0].value) != name) or not name and handed:
            return False
    rule = Rules.load().find(layer.cls.torch_base)
    calls = _calls(layer.cls, project)
    if rule is None or not calls or layer.cls.children:
        return False
    theirs = list(rule.forms[0].signature.params)
    given = [a for a in call.args if not a.star and not (dotted(a.value) == "self" and not _is_super(call))]
    rest = theirs[sum(a.keyword is None for a in given) :]
    own = [p.name.value for p in node.params.params[1:]]
    taken = {*own, *(p.name.value for p in node.params.kwonly_params)}
    most = max(sum(a.keyword is None for a in c.args) for c in calls) - len(own)
    keywords = {a.keyword.value for c in calls for a in c.args if a.keyword is not None} - taken
    layer.plain = rest[: max(most, 0)]
    layer.named = [p for p in rest[max(most, 0) :] if p.name in keywords]
    known = {p.name for p in (*layer.plain, *layer.named)}
    if most > len(rest) or most > 0 and not stars[0] or not keywords <= known or known & taken:
        return False
    if (layer.named or keywords) and not stars[1]:
        return False
    added = [*((p, i + len(own)) for i, p in enumerate(layer.plain)), *((p, LATE) for p in layer.named)]
    if any(p.default is None and not _always(p, position, calls) for p, position in added):
        return False
    defaults = [p.default is not None for p in layer.parameters()]
    return defaults == sorted(defaults)


def _always(param: Param, position: int, calls: list[cst.Call]) -> bool:
    """Every call gives the argument."""
    return all(
        sum(a.keyword is None for a in c.args) > position
        or any(a.keyword is not None and a.keyword.value == param.name for a in c.args)
        for c in calls
    )


def _calls(cls: ClassInfo, project: Project) -> list[cst.Call]:
    """The calls that make objects of the class; none where it may be made elsewhere too."""
    found: list[cst.Call] = []
    for module in project.modules.values():
        calls = module.of_kind(cst.Call)
        found += [c for c in calls if _means(c.func, cls, module)]
        apart = {id(c.func) for c in found}
        apart |= {id(n) for c in calls if dotted(c.func) in ASKING for a in c.args for n in descend(a.value)}
        if cls.scope.name in module.quotes:
            return []
        named = [node for kind in (cst.Name, cst.Attribute) for node in module.of_kind(kind)]
        if any(_means(node, cls, module) and id(node) not in apart for node in named):
            return []
    return found if not any(a.star for c in found for a in c.args) else []


def _means(node: cst.CSTNode, cls: ClassInfo, module: ModuleInfo) -> bool:
    value = module.value(node)
    return value.kind == "class" and cls.qualified in (value.name, *(i.name for i in value.items or ()))


class Constructors(Suites):
    """One module with the constructors written out."""

    def __init__(self, module: ModuleInfo, handed: dict[int, Layer], by_name: set[int]) -> None:
        super().__init__(module)
        self.handed = handed
        self.by_name = by_name
        self.calls = {id(x.call): x for x in handed.values()}

    def leave_FunctionDef(self, original: cst.FunctionDef, updated: cst.FunctionDef) -> cst.FunctionDef:
        layer = self.handed.get(id(original))
        if layer is None:
            return updated
        what = ", ".join(f"{a.star}{code(a.value)}" for a in layer.call.args if a.star)
        line = self.numbers.get(id(original), (self.line, 0))[0]
        self.findings.append(Finding("T2M536", Tier.ASSUMED, what, WHY, line=line))
        params = updated.params
        ours = layer.parameters()
        made = [p if isinstance(p.comma, cst.Comma) else p.with_changes(comma=COMMA) for p in ours]
        made[-1] = made[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        lone = cst.MaybeSentinel.DEFAULT
        return updated.with_changes(
            params=params.with_changes(params=made, star_arg=lone, kwonly_params=[], star_kwarg=None)
        )

    def leave_Call(self, original: cst.Call, updated: cst.Call) -> cst.BaseExpression:
        layer = self.calls.get(id(original))
        if id(original) in self.by_name and isinstance(updated.func, cst.Attribute):
            above = updated.func.with_changes(value=cst.Call(cst.Name("super")))
            updated = updated.with_changes(func=above, args=updated.args[1:])
        if layer is None:
            return updated
        args: list[cst.Arg] = []
        for arg in updated.args:
            if arg.star == "*":
                args += [cst.Arg(cst.Name(p.name)) for p in layer.plain]
            elif arg.star == "**":
                args += [cst.Arg(cst.Name(p.name), cst.Name(p.name), TIGHT) for p in layer.named]
            else:
                args.append(arg)
        args = [a.with_changes(comma=COMMA) for a in args]
        args[-1:] = [a.with_changes(comma=cst.MaybeSentinel.DEFAULT) for a in args[-1:]]
        return updated.with_changes(args=args)


def _parameter(param: Param) -> cst.Param:
    default = cst.parse_expression(param.default) if param.default is not None else None
    equal = TIGHT if default is not None else cst.MaybeSentinel.DEFAULT
    return cst.Param(cst.Name(param.name), default=default, equal=equal)


__all__ = ["constructors"]
