"""What the parameters of a function hold: what its callers pass, or what annotation, name and default say."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation import guess, masked
from torch2ms.analysis.evaluation.usage import NONE, TOLD, a_dict, used
from torch2ms.analysis.known import paths
from torch2ms.analysis.known.wrapped import FAMILIES
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, Project
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant
from torch2ms.analysis.values import AROUND, EITHER, ENDLESS, NO_DEPS, UNKNOWN, UNTYPED, Value, of_optimizer, replace

READS = re.compile(r"\.grad\b")
LITERALS = {cst.Integer: "int", cst.Float: "float", cst.SimpleString: "str", cst.Tuple: "tuple", cst.List: "list",
            cst.Dict: "unknown", cst.UnaryOperation: "unknown"}  # fmt: skip
ROWS = ("list", "tuple")
SIZES = ("int", *ROWS)
DICTS = {"dict", "typing.Dict", "typing.Mapping", "typing.MutableMapping", "collections.abc.Mapping"}  # in annotations


def parameters(info: FunctionInfo, project: Project) -> dict[str, Value]:
    """The value of each parameter by name."""
    node = info.scope.node
    assert type(node) is cst.FunctionDef
    params = [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]
    env = {p.name.value: _own(info, p.name.value, i) or _or_none(info, p, project) for i, p in enumerate(params)}
    if info.module.says(READS):
        env |= {name: _leaf(env[name], name) for name in _looked_at(info, env)}
    for star in (node.params.star_arg, node.params.star_kwarg):
        if type(star) is cst.Param:
            name = star.name.value
            passed = info.args.get(name) or Value("tuple" if star is node.params.star_arg else "dict")
            own = frozenset({f"@{name}"})
            owns = passed.owns | own if passed.owns else None  # the layers in it, see `bind_arguments`
            env[name] = replace(passed, place="", deps=passed.deps | own if passed.deps else NO_DEPS, owns=owns)
    return env


def _looked_at(info: FunctionInfo, env: dict[str, Value]) -> list[str]:
    """Parameters whose gradients the function reads, and of which no caller says what they are."""
    unsaid = [n for n, v in env.items() if v.kind == "unknown" or v.kind == "tensor" and v.likely or v.kind == "module"]
    unsaid = [n for n in unsaid if (passed := info.args.get(n)) is None or passed.kind == "unknown"]
    bound = {d for stmt in info.scope.body.walk() for d in stmt.defs} if unsaid else set()
    used = {use for stmt in info.scope.body.walk() for use in stmt.uses} if unsaid else set()
    return [n for n in unsaid if n not in bound and any(f"{use}.".startswith(f"{n}.grad.") for use in used)]


def _leaf(value: Value, name: str) -> Value:
    """A tensor that accumulates gradients for the callers."""
    return Value("tensor", place=name, deps=frozenset({name}), leaf=True, likely=True)


def _own(info: FunctionInfo, name: str, position: int) -> Value | None:
    """What the class of a method says: `self`, the context of a custom gradient, the gradients it is given."""
    cls = info.cls
    if cls is None:
        return None
    if position == 0 and info.of_class:
        return Value("class", name=cls.qualified)
    if position == 0 and not info.static and name in ("self", "cls"):
        return Value("module" if cls.kind == "module" else "object", name=cls.qualified, place=name)
    if cls.kind != "autograd" or info.name not in ("forward", "backward", "setup_context"):
        return None
    context = "setup_context" if cls.method("setup_context") is not None else "forward"
    if position == 0 and info.name in ("backward", context):
        return Value("ctx")
    return Value("tensor", place=name, deps=frozenset({f"@{name}"})) if info.name == "backward" else None


def _or_none(info: FunctionInfo, param: cst.Param, project: Project) -> Value:
    value = _parameter(info, param, project)
    left_out = value.kind == "dtype" and param.default is not None and dotted(param.default) == "None"
    return replace(value, name=UNTYPED) if left_out else value


def _parameter(info: FunctionInfo, param: cst.Param, project: Project) -> Value:
    name = param.name.value
    own = frozenset({f"@{name}"})
    passed = info.args.get(name)
    endless = param.default is not None and masked.infinite(param.default, UNKNOWN)
    uses = info.module.used.get(id(info.scope), NONE)
    if passed is not None and passed.likely and passed.kind == "optimizer" and _is_dict(name, info, uses):
        passed = None  # the name alone said so, in the caller
    literal = _literal(param.default) if param.default is not None else ""
    declared = _declared(info, param.annotation, name, project) if param.annotation is not None else None
    guessed_only = passed is not None and passed.likely and declared is not None and declared.kind != passed.kind
    if passed is not None and passed.kind not in ("unknown", "none") and not guessed_only:
        passed = used(passed, name, uses)
        if (passed.kind in ROWS) != (literal in ROWS) and literal in SIZES and passed.kind in SIZES:
            passed = replace(passed, likely=True)  # `padding=1`, where a caller gives `[1, 2]`
        place = passed.place if passed.place == "self" and of_optimizer(passed) else name
        return _perhaps_endless(replace(passed, place=place, deps=passed.deps | own), endless)
    if declared is not None:
        return _perhaps_endless(declared, endless)
    if passed is not None and passed.name in (EITHER, AROUND):  # `meter.update(loss.item())`, and elsewhere a tensor
        return Value("unknown", passed.name, passed.deps | own, place=name)
    if endless:
        return Value("float", ENDLESS, likely=True)
    guessed = guess.by_name(name)
    if guessed.kind == "optimizer" and _is_dict(name, info, uses):
        guessed = UNKNOWN
    if guessed.kind not in ("unknown", "tensor") and literal in ("int", "float", "str"):  # `d_model=512`
        return Value(literal, likely=True)
    if guessed.kind == "optimizer" and literal == "bool" and not info.module.has(f"{name}."):
        return Value(literal, likely=True)  # `update_optimizer=False`
    if guessed.kind == "unknown":
        guessed = used(guessed, name, uses)
    if guessed.kind != "unknown":
        return replace(guessed, deps=own, likely=True)
    if literal:
        return Value(literal, likely=True)
    if param.default is not None and (given := info.module.value(param.default)).kind in ("tensor", "numpy"):
        return replace(given, place=name, deps=own, likely=True)
    if info.cls is not None and info.cls.kind in ("module", "autograd") and info.name in ("forward", "backward"):
        return Value("tensor", place=name, deps=own, likely=True)
    return Value("unknown", place=name, deps=own | (passed.deps if passed is not None else NO_DEPS))


def _is_dict(name: str, info: FunctionInfo, uses: frozenset[str]) -> bool:
    """`opt["model_type"]` is no optimizer's; `opts["critic"].step()` is told what optimizers are."""
    if a_dict(name, uses):
        return True
    nodes = [n for stmt in info.scope.body.walk() if name in stmt.uses for n in stmt.nodes]
    entries = [n for n in nodes if type(n) is cst.Subscript and dotted(n.value) == name and _by_text(n)]
    told = [n for n in nodes if type(n) is cst.Attribute and n.attr.value in TOLD and n.value in entries]
    return bool(entries) and not told


def _by_text(node: cst.Subscript) -> bool:
    index = node.slice[0].slice
    return len(node.slice) == 1 and type(index) is cst.Index and isinstance(constant(index.value), str)


def _perhaps_endless(value: Value, endless: bool) -> Value:
    """The value of a parameter whose default is an infinite number, or not."""
    return replace(value, name=ENDLESS) if endless and value.kind in ("int", "float") else value


def _declared(info: FunctionInfo, annotation: cst.Annotation, name: str, project: Project) -> Value | None:
    """What an annotation says of a parameter, None where it names nothing that is known."""
    own = frozenset({f"@{name}"})
    if type(annotation.annotation) is cst.Subscript:
        return _container(annotation.annotation, name, own, info)
    full = qualified(annotation.annotation, info.module.imports)
    if kind := guess.ANNOTATIONS.get(full, ""):
        return Value(kind, place=name, deps=own)
    if full in paths.NAMES:
        return paths.PATH
    if full in FAMILIES:
        return Value("object", name=full, place=name)
    found = project.find(dotted(annotation.annotation), info.module)
    if isinstance(found, ClassInfo):
        return Value("module" if found.kind == "module" else "object", name=found.qualified, place=name, deps=own)
    return None


def _container(annotation: cst.Subscript, name: str, own: frozenset[str], info: FunctionInfo) -> Value | None:
    """`inputs: Dict[str, torch.Tensor]`: a dict, whatever the name and the place of the parameter speak for."""
    if (qualified(annotation.value, info.module.imports) or dotted(annotation.value)) not in DICTS:
        return None
    held = annotation.slice[-1].slice
    entry = qualified(held.value, info.module.imports) if isinstance(held, cst.Index) else ""
    of_tensors = guess.ANNOTATIONS.get(entry) == "tensor"
    return Value("dict", "of tensor" if of_tensors else "", place=name, deps=own, likely=True)


def _literal(default: cst.BaseExpression) -> str:
    """The kind of a literal, "" for other defaults."""
    return "bool" if dotted(default) in ("True", "False") else LITERALS.get(type(default), "")
