"""Activations that change their argument in place: which layers do, and what a call of a module does to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

import libcst as cst

from torch2ms.analysis.known.starts import LATER, OF_CLASS, SOME, UNSEEN, UNSURE
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import code, constant, descend
from torch2ms.analysis.values import UNKNOWN, Value

# class -> the function that does the same, and how many arguments come before `inplace`
LAYERS = {"ReLU": ("relu", 0), "ReLU6": ("relu6", 0), "LeakyReLU": ("leaky_relu", 1), "ELU": ("elu", 1),
          "CELU": ("celu", 1), "SELU": ("selu", 0), "SiLU": ("silu", 0), "Mish": ("mish", 0),
          "Hardswish": ("hardswish", 0), "Hardsigmoid": ("hardsigmoid", 0), "Hardtanh": ("hardtanh", 2),
          "Threshold": ("threshold", 2), "RReLU": ("", 2)} | {
              f"{name}Dropout{dims}": ("", 1) for name, dims in (
                  ("", ""), ("", "1d"), ("", "2d"), ("", "3d"), ("Alpha", ""), ("FeatureAlpha", ""))}  # fmt: skip
FUNCTIONS = {f"torch.nn.functional.{name}": (name, count + 1) for name, count in LAYERS.values() if name} | {
    f"torch.nn.functional.{name}": ("", count) for name, count in (
        ("dropout", 3), ("dropout1d", 3), ("dropout2d", 3), ("dropout3d", 3), ("alpha_dropout", 3),
        ("feature_alpha_dropout", 3), ("rrelu", 4))}  # fmt: skip
NAMED = {"torch.celu_", "torch.selu_", "torch.threshold_", "torch.rrelu_"}  # of torch itself, and no methods of tensors
IN_PLACE = re.compile(r"\binplace\b|_\(")
NUMBERS = re.compile(r"\w+\((?:, (?:\w+=)?-?[\d.]+(?:e-?\d+)?)*\)")  # `leaky_relu(, 0.2)`
DEPTH = 3  # how many modules and functions are looked into, one within the other
MADE = re.compile(r"\binplace\s*=\s*True|\b(?:ReLU6?|SiLU|SELU|Mish|ELU|Hardswish)\(True\)|LeakyReLU\([^()]+, True\)")


def layer(name: str, node: cst.Call) -> frozenset[str]:
    """What a layer of torch does to its argument: as `leaky_relu(, 0.2)`, nothing where it does nothing."""
    known = LAYERS.get(name.rpartition(".")[2])
    return frozenset({_text(known[0], node, known[1], 0)}) if known is not None and _on(node, known[1]) else frozenset()


def _on(node: cst.Call, position: int) -> bool:
    for i, arg in enumerate(node.args):
        if (arg.keyword is not None and arg.keyword.value == "inplace") or (arg.keyword is None and i == position):
            return constant(arg.value) is True
    return False


def _text(function: str, node: cst.Call, count: int, start: int) -> str:
    if any(arg.star for arg in node.args):
        return "("  # its settings are not seen
    given = []
    for i, arg in enumerate(node.args):
        if arg.keyword is None and start <= i < count:
            given.append(code(arg.value))
        elif arg.keyword is not None and arg.keyword.value not in ("inplace", "input"):
            given.append(f"{arg.keyword.value}={code(arg.value)}")
    return f"{function}({''.join(f', {text}' for text in given)})"


def subject(call: cst.Call) -> cst.Arg | None:
    """The argument that a call is about: the first one, or the one that is named so."""
    for position, arg in enumerate(call.args):  # asked of every call: no generator
        named = position == 0 if arg.keyword is None else arg.keyword.value == "input"
        if named and not arg.star:
            return arg
    return None


def subjects(call: cst.Call, module: ModuleInfo, project: Project) -> Iterator[tuple[cst.Arg, frozenset[str]]]:
    """The arguments which a call may change in place, each with the activations that it may apply to it."""
    first = subject(call)
    if first is not None and (acts := changes(call, module, project)):
        yield first, acts
    for position, arg in enumerate(call.args):
        if arg is first or arg.star or type(arg.value) is not cst.Name or not project.says(IN_PLACE):
            continue
        keyword = arg.keyword.value if arg.keyword is not None else ""
        if acts := changes(call, module, project, at=keyword or position):
            yield arg, acts


def changes(
    call: cst.Call, module: ModuleInfo, project: Project, depth: int = DEPTH, at: int | str = 0
) -> frozenset[str]:
    """The activations that a call may apply in place to one of its arguments, by its position or its name."""
    target = module.value(call.func)
    if target.kind == "method" or target.kind == "unknown" and type(call.func) is cst.Attribute:
        known = _methods(project) if depth == DEPTH else {}
        name = name_called(call) if target.kind == "unknown" else target.name
        return known.get((module.name, name, at), known.get(("", name, at), frozenset()))
    if target.kind not in ("module", "function"):
        return of_torch(call, target) if at == 0 else frozenset()
    found = project.find(target.name, module) if target.name and not target.name.startswith("torch.") else None
    if isinstance(found, ClassInfo) and depth:
        return of_class(found, project, depth, at)
    if isinstance(found, FunctionInfo) and depth and found.cls is None:
        return frozenset(map(_for_others, _of_argument(found, at, project, depth)))
    return seen(target.starts, project, module, depth) if at == 0 else frozenset()


def seen(acts: frozenset[str], project: Project, module: ModuleInfo, depth: int) -> frozenset[str]:
    """The activations with those of classes among them; what nobody saw only where something activates in place."""
    if not any(text[:1] in (OF_CLASS, LATER, UNSEEN) for text in acts):
        return acts
    found: set[str] = set()
    for text in acts - {UNSEEN}:
        later = LATER if text.startswith(LATER) else ""
        if not text.startswith(f"{later}{OF_CLASS}"):
            found.add(text)
            continue
        cls = project.find(text[len(later) + 1 :], module) if depth else None
        own = of_class(cls, project, depth - 1) if isinstance(cls, ClassInfo) else frozenset()
        found |= {f"{later}{act}" for act in own}
    if found <= {SOME, UNSURE}:
        found = set()
    return frozenset(found | ({UNSEEN} if UNSEEN in acts and project.says(MADE) else set()))


def at_once(acts: frozenset[str]) -> frozenset[str]:
    """The activations without those of later turns."""
    now = frozenset(text for text in acts if text[:1] not in (LATER, UNSEEN))
    return now if now - {SOME, UNSURE} else frozenset()


def of_torch(call: cst.Call, target: Value) -> frozenset[str]:
    """What a function of torch does to its argument in place."""
    known = FUNCTIONS.get(_plain(target.name)) if target.kind == "api" else None
    if known is None:
        return frozenset()
    named = target.name.endswith("_")  # `F.elu_(x)`, `torch.celu_(x)`
    return frozenset({_text(known[0], call, known[1], 1)}) if named or _on(call, known[1]) else frozenset()


@once
def _methods(project: Project) -> dict[tuple[str, str, int | str], frozenset[str]]:
    """What methods do to an argument, by module, name and argument, and by the last two for those of other modules.

    Those that do different things to it cannot be told apart.
    """
    found: dict[tuple[str, str, int | str], set[frozenset[str]]] = {}
    for module in project.modules.values() if project.says(IN_PLACE) else ():
        for info in module.functions.values():
            if info.cls is None or info.name == "forward":
                continue
            own = 0 if info.static else 1
            for position, name in enumerate(info.scope.params[own:]):
                acts = _of_argument(info, position + own, project, DEPTH) if module.says(IN_PLACE) else frozenset()
                acts = frozenset(map(_for_others, acts))
                for home, at in ((home, at) for home in (module.name, "") for at in (position, name)):
                    found.setdefault((home, info.name, at), set()).add(acts)
        for stmt in (s for scope in module.scope.walk() for s in scope.body.walk() if type(s.node) is cst.Assign):
            acts = at_once(seen(module.value(stmt.node.value).starts, project, module, DEPTH))  # type: ignore[union-attr]
            for place in (d for d in stmt.defs if "." in d and acts):  # `self.act = lambda x: F.elu(x, inplace=True)`
                for home in (module.name, ""):
                    found.setdefault((home, place.rpartition(".")[2], 0), set()).add(acts)
    return {key: next(iter(each)) if len(each) == 1 else frozenset({"(", *frozenset().union(*each)})
            for key, each in found.items()}  # fmt: skip


def of_lambda(node: cst.Lambda, values: Mapping[int, Value]) -> frozenset[str]:
    """What a lambda does to its first argument in place, by what its calls are called on."""
    name = node.params.params[0].name.value if node.params.params else ""
    calls = [n for n in descend(node.body) if isinstance(n, cst.Call) and n.args and dotted(n.args[0].value) == name]
    found = (of_torch(call, values.get(id(call.func), UNKNOWN)) for call in calls if name)
    return frozenset(map(_for_others, frozenset().union(*found)))


def _for_others(text: str) -> str:
    """The activation for whoever calls what has it: its settings have to be numbers there."""
    return text if NUMBERS.fullmatch(text) else f"({text.partition('(')[2]}"


def _plain(name: str) -> str:
    """The function of torch.nn.functional behind one that is named for what it changes."""
    if not name.endswith("_"):
        return name
    return f"torch.nn.functional.{name.rpartition('.')[2][:-1]}"


def of_class(cls: ClassInfo, project: Project, depth: int, at: int | str = 0) -> frozenset[str]:
    """What the forward of a module does to its argument."""
    info = cls.method("forward")
    at = at + 1 if isinstance(at, int) else at
    return _of_argument(info, at, project, depth) if info is not None else frozenset()


def _of_argument(info: FunctionInfo, at: int | str, project: Project, depth: int) -> frozenset[str]:
    """What a function does to one of its arguments, before it gives the name to another tensor."""
    params = info.scope.params
    name = at if isinstance(at, str) else params[at] if at < len(params) else ""
    if name not in params:
        return frozenset()
    return _of_name(name, info.scope.body, info.module, project, depth)[0]


def _of_name(name: str, block: Block, module: ModuleInfo, project: Project, depth: int) -> tuple[frozenset[str], bool]:
    """What a block does to the tensor of a name; whether it may be over before its end, or the name another's.

    `F.relu_(x)` by itself is a store, which everybody sees. What is done under a condition has no form: a text that
    begins with a bracket.
    """
    perhaps = False
    for at, stmt in enumerate(block.stmts):
        if other := _second_name(stmt, name):
            rest = Block(block.scope, block.owner, block.role, block.node, block.stmts[at + 1 :])
            if acts := _of_name(other, rest, module, project, depth)[0]:
                return frozenset(map(_unsure, acts)) if perhaps else acts, perhaps
        for inner in stmt.blocks:
            acts, left = _of_name(name, inner, module, project, depth)
            if acts:
                return frozenset(map(_unsure, acts)), perhaps
            perhaps |= left
        for call in stmt.calls if not stmt.blocks else ():
            given = _given(call, name)
            alone = type(stmt.node) is cst.Expr and stmt.node.value is call and module.value(call.func).kind == "api"
            if given is None or alone or given and not project.says(IN_PLACE):
                continue
            keyword = call.args[given].keyword
            acts = at_once(changes(call, module, project, depth - 1, keyword.value if keyword is not None else given))
            if acts:
                return frozenset(map(_unsure, acts)) if perhaps else acts, perhaps
        if name in stmt.defs or type(stmt.node) in (cst.Return, cst.Raise, cst.Continue, cst.Break):
            return frozenset(), True
    return frozenset(), perhaps


def _second_name(stmt: Stmt, name: str) -> str:
    """`h = x`: the other name, "" for other statements."""
    node = stmt.node
    if type(node) is not cst.Assign or len(node.targets) != 1 or type(node.value) is not cst.Name:
        return ""
    target = node.targets[0].target
    return target.value if node.value.value == name and type(target) is cst.Name else ""


def _given(call: cst.Call, name: str) -> int | None:
    """The position of the argument that is this variable."""
    for position, arg in enumerate(call.args):  # asked of call after call: no generator
        if type(arg.value) is cst.Name and arg.value.value == name:
            return position
    return None


def _unsure(text: str) -> str:
    return text if text.startswith("(") else f"({text}"


def first(items: tuple[Value, ...]) -> frozenset[str]:
    return items[0].starts if items else frozenset()
