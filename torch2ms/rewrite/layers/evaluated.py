"""Modules in evaluation mode that become parts of a new one, which begins in training mode: they stay as they are.

`net.set_train()` reaches every part. What was put into evaluation mode before it was handed in, or is put there by the
constructor of the new module, is put back behind it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, method_called
from torch2ms.analysis.syntax.text import code
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import UNKNOWN, choices

EVALUATING = re.compile(r"\.eval\(\)|\.train\(\s*[^)\s]")
GOING_ON = ("to", "cuda", "cpu", "double", "float", "half", "bfloat16", "apply", "requires_grad_", "eval", "train")
TRAINING, EVALUATION, UNSEEN = "training", "evaluation", "unseen"


class Hidden(Exception):
    """A part is put into evaluation mode where it cannot be named from outside."""


def kept_modes(
    place: str, made: cst.BaseExpression, stmt: Stmt, module: ModuleInfo, project: Project
) -> dict[str, str]:
    """The parts of what a statement binds to `place` that are not in training mode, and what is seen of their modes.

    Raises Hidden where one has no name.
    """
    if not project.says(EVALUATING):
        return {}
    found: dict[str, str] = {}
    call, _ = _behind(made)
    if isinstance(call, cst.Call):
        for given in _given(call):
            part, mode = _behind(given)
            if module.value(part).kind == "module" and dotted(part):
                mode = mode or _mode_before(dotted(part), stmt, module, project)
                if mode != TRAINING:
                    found[code(part)] = mode
        for cls in _classes(call.func, module, project):
            found |= {f"{place}.{part}": EVALUATION for part in _by_constructor(cls, project)}
            _ask_parts(cls, project)
    return found


def _behind(node: cst.BaseExpression) -> tuple[cst.BaseExpression, str]:
    """What `net.to(device).eval()` is called on, and the mode it is left in, if the calls say one."""
    mode = ""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in GOING_ON:
        mode = mode or _mode_of(node)
        node = node.func.value
    return node, mode


def _mode_of(call: cst.Call) -> str:
    """The mode that a call leaves its module in; "" for other calls."""
    name = method_called(call)
    if name == "eval" and not call.args:
        return EVALUATION
    if name != "train":
        return ""
    flag = constant(call.args[0].value) if call.args else True
    return {True: TRAINING, False: EVALUATION}.get(flag, UNSEEN) if isinstance(flag, bool) else UNSEEN


def _given(call: cst.Call) -> Iterator[cst.BaseExpression]:
    """The arguments of a call, and those inside of lists, dicts and calls of layers that hold layers."""
    waiting = [arg.value for arg in call.args]
    while waiting:
        node = waiting.pop()
        yield node
        if isinstance(node, (cst.Tuple, cst.List, cst.Dict)):
            waiting += [e.value for e in node.elements]
        elif isinstance(node, cst.Call) and not (isinstance(node.func, cst.Attribute) and _mode_of(node)):
            waiting += [arg.value for arg in node.args]


def _mode_before(name: str, stmt: Stmt, module: ModuleInfo, project: Project) -> str:
    """The mode in which a module of the scope is when a statement runs."""
    last: tuple[Stmt, str] | None = None
    for earlier in stmt.block.scope.body.walk():
        if earlier.number >= stmt.number:
            break
        for call in earlier.calls:
            if isinstance(call.func, cst.Attribute) and dotted(call.func.value) == name and (mode := _mode_of(call)):
                last = earlier, mode
            elif any(dotted(arg.value) == name for arg in call.args) and _evaluates(call, stmt.block.scope, project):
                last = earlier, UNSEEN
        if name in earlier.defs and isinstance(earlier.node, cst.Assign):
            made, mode = _behind(earlier.node.value)
            last = earlier, mode or (TRAINING if _makes(made, module) else UNSEEN)
    if last is None:
        return UNSEEN
    around = {id(stmt.block), *(id(a.block) for a in stmt.ancestors())}
    return last[1] if id(last[0].block) in around else UNSEEN


def _makes(node: cst.BaseExpression, module: ModuleInfo) -> bool:
    """A class is called, of the project or a layer; a copy, or what a function returns, may be in either mode."""
    value = module.value(node.func) if isinstance(node, cst.Call) else UNKNOWN
    return value.kind == "class" or value.kind == "api" and value.name.startswith("torch.nn.")


def _evaluates(call: cst.Call, scope: Scope, project: Project) -> bool:
    """A function of the project is called that may change the mode of what it is given."""
    name = dotted(call.func).rpartition(".")[2]
    found = [
        i for m in project.modules.values() for i in m.functions.values() if i.name == name and i.scope is not scope
    ]
    return any(_mode_of(c) for info in found for s in info.scope.body.walk() for c in s.calls)


def _classes(func: cst.BaseExpression, module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The classes of the project that a call may make an object of."""
    value = module.value(func)
    found = [project.find(one.name, module) for one in choices(value)] if value.kind == "class" else []
    return [one for one in found if isinstance(one, ClassInfo)]


def _constructors(cls: ClassInfo) -> Iterator[FunctionInfo]:
    return (part.methods["__init__"] for part in cls.lineage() if "__init__" in part.methods)


def _by_constructor(cls: ClassInfo, project: Project) -> Iterator[str]:
    """The parts that the constructor of a class leaves in evaluation mode, as attributes of the object."""
    for info in _constructors(cls):
        for stmt in info.scope.body.walk():
            evaluated = [c for c in stmt.calls if _mode_of(c) in (EVALUATION, UNSEEN)]
            functions = [c for c in stmt.calls if not evaluated and _leaves_in_evaluation(c, info.module, project)]
            if not evaluated and not functions:
                continue
            node = stmt.node
            part = ""
            if functions:
                part = _handed_in(node, functions[0])
            elif isinstance(node, cst.Expr):
                part = dotted(_behind(node.value)[0])
            elif isinstance(node, cst.Assign) and _behind(node.value)[1] == EVALUATION:
                part = dotted(node.targets[0].target)
            if not part.startswith("self.") or stmt.block.owner is not None or len(evaluated) > 1:
                raise Hidden
            yield part.removeprefix("self.")


def _leaves_in_evaluation(call: cst.Call, module: ModuleInfo, project: Project) -> bool:
    """`freeze(net)`, a function of the project that puts what it is given, or gives back, into evaluation mode.

    Raises Hidden where it may do so.
    """
    target = module.value(call.func)
    found = project.find(target.name, module) if target.kind == "function" and target.name else None
    if not isinstance(found, FunctionInfo) or found.cls is not None:
        return False
    set_there = [(s, c) for s in found.scope.body.walk() for c in s.calls if _mode_of(c) in (EVALUATION, UNSEEN)]
    if any(s.block.owner is not None or _mode_of(c) == UNSEEN for s, c in set_there) or len(set_there) > 1:
        raise Hidden
    return bool(set_there)


def _handed_in(node: cst.CSTNode, call: cst.Call) -> str:
    """The attribute that a function is given as its only argument, or whose value it gives back."""
    if isinstance(node, cst.Expr) and node.value is call and len(call.args) == 1:
        return dotted(call.args[0].value)
    given_back = isinstance(node, cst.Assign) and _behind(node.value)[0] is call
    return dotted(node.targets[0].target) if given_back else ""  # type: ignore[attr-defined]


def _ask_parts(cls: ClassInfo, project: Project) -> None:
    """Raise Hidden where a class whose objects are made in a class puts parts of its own into evaluation mode."""
    seen, waiting = {id(cls)}, [cls]
    while waiting:
        for inner in _makes_inside(waiting.pop(), project):
            if id(inner) not in seen:
                seen.add(id(inner))
                if list(_by_constructor(inner, project)):
                    raise Hidden
                waiting.append(inner)


@once
def _made_inside(project: Project) -> dict[int, list[ClassInfo]]:
    """By id of a class: the classes that it names, and those above it; as far as that was asked for."""
    return {}


def _makes_inside(cls: ClassInfo, project: Project) -> list[ClassInfo]:
    known = _made_inside(project)
    if id(cls) not in known:
        found: dict[int, ClassInfo] = {}
        for part in cls.lineage():
            for node in descend(part.scope.node):
                if type(node) is cst.Name or type(node) is cst.Attribute:
                    found |= {id(one): one for one in _classes(node, part.module, project)}
        known[id(cls)] = list(found.values())
    return known[id(cls)]
