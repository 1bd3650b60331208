"""What the whole project says about gradients: which functions may run inside a differentiated one."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted, name_called, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.tape.copies import freezes_copy, freezes_passing, freezes_untrained
from torch2ms.tape.derivatives.paths import drawing
from torch2ms.tape.entries import left_to_others
from torch2ms.tape.inside import inside
from torch2ms.tape.ledger.beyond import weighted_parts
from torch2ms.tape.silent import silent

# an InstanceNorm keeps statistics only where it is asked to
STATISTICS = re.compile(
    r"BatchNorm|spectral_norm|track_running_stats(?!\s*=\s*False\b)|InstanceNorm\dd\([^()]*,[^()]*,[^()]*,[^()]*,|"
    r"torchvision|timm|hub\.load|from_pretrained|transformers"
)

TRUE = cst.Name("True")

SAVED = re.compile(r"\b(?:save|load)\b")
STATE = re.compile(f"{STATISTICS.pattern}|register_buffer")

DRAWS = re.compile(r"[Dd]ropout|DropPath|RReLU|rrelu|gumbel|bernoulli|rsample|reparam|torchvision|timm|transformers")

NUMBERS = re.compile(r"rand|normal|multinomial|bernoulli|sample")

RENAMED = re.compile(r"Norm|Embedding|PReLU|Transformer(?:En|De)coder|\bTransformer\(|nn\.Transformer\b|"
                     r"torchvision|timm|hub\.load|from_pretrained|transformers")  # fmt: skip


TWICE = re.compile(r"\bcreate_graph\b|\bautograd\b|\bgrad\(")

FLAGS = re.compile(r"\.\s*(?:(?:\\|#[^\n]*\n)\s*)*requires_grad")  # each turn begins with a sign of its own: linear

UNRECORDED = re.compile(r"no_grad|inference_mode|set_grad_enabled|(?<!utils)\.data\b")


def prepare(project: Project) -> None:
    """Mark the functions whose body may be differentiated."""
    frozen = [
        (stmt, s, m) for m in project.modules.values() if flags(m)
        for s in m.scope.walk() for stmt in s.body.walk()
        if not all(switched(stmt, m))
    ]  # fmt: skip
    project.freezes = bool(frozen)
    project.freezes_trained = not all(freezes_copy(*f) or freezes_untrained(*f, project) for f in frozen)
    project.renames = project.says(RENAMED)
    project.draws = project.says(DRAWS)
    project.forwards_draw = project.draws or project.says(NUMBERS) and forwards_draw(project)
    project.keeps_state = project.says(STATE)
    project.buffers = frozenset(buffers(project))
    project.trained = frozenset(trained(project))
    names = frozenset(name for _, name in project.trained)
    classes = [c for m in project.modules.values() for c in m.classes.values()]
    names -= {name for c in classes for name in names & c.attrs.keys() if (c.qualified, name) not in project.trained}
    for module in project.modules.values():
        module.weights = names
    project.moves_state = moves_state(project)
    project.stepping = stepping(project)
    project.moving = project.stepping | (deriving(project) if project.says(TWICE) else set())
    project.checkpoints = project.says(SAVED) and any(
        v.kind == "api" and v.name in ("torch.save", "torch.load")
        for m in project.modules.values() for v in m.values.values()
    )  # fmt: skip
    project.pickles = project.checkpoints and any(
        pickled(call, stmt, m) or unpickled(call, stmt, m)
        for m in project.modules.values() for s in m.scope.walk() for stmt in s.body.walk() for call in stmt.calls
    )  # fmt: skip
    forwards = [c.methods["forward"] for m in project.modules.values() for c in m.classes.values()
                if c.kind == "module" and "forward" in c.methods]  # fmt: skip
    conditional = any(_conditional(info) or _picks_layers(info, project) for info in forwards)
    counting = any(_counts_for_all(c) for m in project.modules.values() for c in m.classes.values()
                   if c.kind == "module")  # fmt: skip
    for module in project.modules.values():
        module.conditional = conditional or project.freezes
        module.counting = counting
    work: list[FunctionInfo] = []
    for module in project.modules.values():
        for cls in module.classes.values():
            if cls.kind in ("module", "autograd"):
                for name in ("forward", "__call__"):
                    if name in cls.methods:
                        work.append(cls.methods[name])
    if project.says(UNRECORDED):
        project.silent = silent(project)
        work += left_to_others(project)
    differentiate(work, project)


def buffers(project: Project) -> Iterator[str]:
    """The names under which modules register buffers, "" for one that is not seen."""
    for module in project.modules.values():
        normed = module.has("spectral_norm")
        if not normed and not module.has("register_buffer"):
            continue
        for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls):
            if name_called(call) == "register_buffer" and call.args:
                named = [a.value for a in call.args if a.keyword is None or a.keyword.value == "name"]
                name = constant(named[0]) if named else ""
                yield name if isinstance(name, str) else ""
            elif normed and qualified(call.func, module.imports).endswith(".spectral_norm"):  # two vectors beside it
                name = constant(argument(call, 1, "name")) if argument(call, 1, "name") is not None else "weight"
                yield from (f"{name}_u", f"{name}_v") if isinstance(name, str) else ()


def trained(project: Project) -> Iterator[tuple[str, str]]:
    """The attributes that hold leaves which an optimizer updates, made there or elsewhere: class and name."""
    leaves = {
        (cls.qualified, name) for module in project.modules.values() for cls in module.classes.values()
        for name, value in cls.attrs.items() if value.place == f"self.{name}" and value.deps == {value.place}
        if value.kind == "tensor" and value.name not in ("parameter", "module_param")
    }  # fmt: skip
    if not leaves:
        return
    owned = {
        place for module in project.modules.values() for value in module.values.values()
        if value.kind == "optimizer" for place in value.owns or ()
    }  # fmt: skip
    names = {place.rpartition(".")[2] for place in owned}
    yield from (leaf for leaf in leaves if leaf[1] in names)


def moves_state(project: Project) -> bool:
    """Running a module may change statistics or buffers; masks and frequencies that are only read stay as they are."""
    if project.says(STATISTICS) or "" in project.buffers:
        return True
    if any(_counts(c) or _counts_for_all(c) for m in project.modules.values() for c in m.classes.values()
           if c.kind == "module"):  # fmt: skip
        return True
    return any(
        project.buffers & set(place.split("."))
        for module in project.modules.values() for scope in module.scope.walk() if scope.name != "__init__"
        for stmt in scope.body.walk() for place in stmt.defs | stmt.muts
    )  # fmt: skip


def stepping(project: Project) -> frozenset[str]:
    """Names under which an optimizer may be let step: `step`, and the functions that call one of the names."""
    names: set[str] = set()
    for module in project.modules.values():
        for scope in module.scope.walk():
            for func in [c.func for s in scope.body.walk() for c in s.calls if c.func.__class__ is cst.Attribute]:
                if func.attr.value == "step" and module.value(func.value).kind in ("optimizer", "scaler"):
                    names.add("step")
    return frozenset(callers(names, project))


def deriving(project: Project) -> set[str]:
    """Names under which gradients may be taken by compiled functions, which keep the storage of weights they met."""
    return callers({"grad"}, project)


def callers(names: set[str], project: Project) -> set[str]:
    """The names, and those of the functions that call one of them, hand it on, or have such a function inside.

    The class stands for the function that makes its objects.
    """
    users: defaultdict[str, list[str]] = defaultdict(list)
    for module in project.modules.values():
        for info in module.functions.values() if names else ():
            stmts = list(info.scope.body.walk())
            used = {use.rpartition(".")[2] for s in stmts for use in s.uses}
            for name in used.union(inner.name for inner in info.scope.children):
                users[name].append(called_as(info.scope))
    waiting = list(names)
    while waiting:
        new = set(users.get(waiting.pop(), ())) - names - {""}
        names |= new
        waiting += new
    return names


def called_as(scope: Scope) -> str:
    """The name by which a function is called."""
    return scope.cls.name if scope.cls is not None and scope.name == "__init__" else scope.name


def forwards_draw(project: Project) -> bool:
    """The forward of a network of the project draws random numbers, or a function that it calls."""
    names: set[str] = set()
    called: list[tuple[str, bool, set[str]]] = []
    for module in project.modules.values():
        for info in module.functions.values():
            calls = [c for s in info.scope.body.walk() for c in s.calls]
            ran = info.cls is not None and info.cls.kind == "module" and info.name == "forward"
            called.append((info.name, ran, {name_called(c) for c in calls}))
            names |= {info.name for c in calls if drawing(c, module)}
    before = -1
    while len(names) != before:
        before = len(names)
        names |= {name for name, _, calls in called if calls & names}
    return any(ran and name in names for name, ran, _ in called)


def differentiate(work: list[FunctionInfo], project: Project) -> None:
    """The functions, and those they call, may run inside a gradient function."""
    if project.says(UNRECORDED):
        for info in inside(project).reached([i for i in work if not i.differentiated], callees):
            info.differentiated = True
        return
    while work:
        info = work.pop()
        if not info.differentiated:
            info.differentiated = True
            work += callees(info, project)


def _counts(cls: ClassInfo) -> bool:
    """A forward changes what the network itself has: `self.calls += 1`, `self.trace.append(...)`."""
    if "forward" not in cls.methods:
        return False
    for stmt in cls.methods["forward"].scope.body.walk():
        own = {place for place in stmt.defs if place.startswith("self.")} if not stmt.blocks else set()
        if own and (type(stmt.node) is cst.AugAssign or own & stmt.uses):
            return True
        called = (dotted(call.func) for call in stmt.calls)
        if any(name.startswith("self.") and name.endswith(".append") for name in called):
            return True
    return False


def _counts_for_all(cls: ClassInfo) -> bool:
    """Running a network changes what others see: `Net.calls += 1`, `self.__class__.calls`, a global name."""
    for name, info in cls.methods.items():
        own, known = info.scope.locals, info.module.scope.locals
        for stmt in info.scope.body.walk() if name != "__init__" else ():
            places = stmt.defs | stmt.muts if not stmt.blocks else set()
            if any(root(p) in known and root(p) not in own or ".__class__." in p for p in places):
                return True
            target = stmt.node.target if type(stmt.node) is cst.AugAssign else None
            held = target.value if type(target) is cst.Attribute else None
            if type(held) is cst.Call and dotted(held.func) == "type":
                return True
    return False


def _conditional(info: FunctionInfo) -> bool:
    """Layers are called, or parameters read, under a condition: some parameters may get no gradient in a step."""
    for stmt in info.scope.body.walk():
        under = any(isinstance(a.node, (cst.If, cst.While)) or _counted(a.node) for a in stmt.ancestors())
        under = under or _left_early(stmt)
        chosen = {id(n) for n in _chosen(stmt)}
        for call in stmt.calls:
            value = info.module.value(call.func)
            if (under or id(call) in chosen) and value.kind == "module" and value.place.startswith("self."):
                return True
        if under and not stmt.blocks and any(map(_changing, stmt.ancestors())):
            read = (info.module.value(n) for n in stmt.nodes if isinstance(n, cst.Attribute))
            if any(value.name in ("module_param", "parameter") for value in read):
                return True
    return False


def _picks_layers(info: FunctionInfo, project: Project) -> bool:
    """Of a network that it holds a forward runs some layers and never the whole: the others get no gradient."""
    uses = {u for s in info.scope.body.walk() for u in s.uses if u.startswith("self.")}
    called = {dotted(c.func) for s in info.scope.body.walk() for c in s.calls}
    picked: dict[str, set[str]] = {}
    for use in uses - called | {c for c in called if c.count(".") > 1}:
        _, name, *rest = use.split(".")
        if rest and f"self.{name}" not in called:
            picked.setdefault(name, set()).add(rest[0])
    held = info.cls.attrs if info.cls is not None else {}
    for name, layers in picked.items():
        value = held.get(name)
        cls = class_of(value, info.module, project) if value is not None and value.kind == "module" else None
        if cls is not None and weighted_parts(cls, project).keys() - layers and not layers & cls.methods.keys():
            return True
    return False


def _left_early(stmt: Stmt) -> bool:
    """A loop around it may end before its last turn, or the function may have returned before."""
    for around in (stmt, *stmt.ancestors()):
        block = around.block.stmts
        before = [s for s in block[: block.index(around)] if type(s.node) is cst.If and _changing(s)]
        if any(isinstance(i.node, cst.Return) for s in before for i in s.walk()):
            return True
        jumps = (cst.Break, cst.Continue, cst.Return)
        if around.is_loop and any(isinstance(s.node, jumps) for b in around.blocks for s in b.walk()):
            return True
    return False


def _changing(around: Stmt) -> bool:
    """A loop that may not run, or an `if` that asks for more than how the module was made."""
    if not isinstance(around.node, cst.If):
        return isinstance(around.node, cst.While) or _counted(around.node)
    return any(not use.startswith("self.") for use in around.uses)


def _counted(node: cst.CSTNode) -> bool:
    """A loop over `range` of something that is not a number: it may not run at all."""
    return (
        isinstance(node, cst.For)
        and isinstance(node.iter, cst.Call)
        and dotted(node.iter.func) == "range"
        and any(not isinstance(constant(a.value), int) for a in node.iter.args)
    )


def _chosen(stmt: Stmt) -> Iterator[cst.CSTNode]:
    """What the branches of conditional expressions in a small statement hold."""
    if stmt.blocks or type(stmt.node) is cst.FunctionDef or type(stmt.node) is cst.ClassDef:
        return
    for node in stmt.nodes:
        if type(node) is cst.IfExp:
            yield from descend(node.body)
            yield from descend(node.orelse)


def pickled(call: cst.Call, stmt: Stmt, module: ModuleInfo) -> bool:
    """`torch.save` of something other than the parameters of a module, or into an open file."""
    target = module.value(call.func)
    given = argument(call, 0, "obj")
    if target.kind != "api" or target.name != "torch.save":
        return False
    if any(arg.star for arg in call.args):  # `def save_on_master(*args): torch.save(*args)`: whatever callers have
        return True
    if given is None:
        return False
    if opened(argument(call, 1, "f"), stmt):
        return True
    saved = module.value(given)
    return saved.kind != "module" and saved.name != "state_dict"


def unpickled(call: cst.Call, stmt: Stmt, module: ModuleInfo) -> bool:
    """`torch.load` of what cannot be the parameters of a module: it is unpacked, or comes out of an open file."""
    target, given = module.value(call.func), argument(call, 0, "f")
    if target.kind != "api" or target.name != "torch.load" or given is None:
        return False
    node = stmt.node
    if isinstance(node, cst.Assign) and node.value is call:
        if any(isinstance(t.target, (cst.Tuple, cst.List)) for t in node.targets):
            return True
    return opened(given, stmt)


def opened(given: cst.BaseExpression | None, stmt: Stmt) -> bool:
    """A name that its scope binds to an open file: MindSpore's checkpoints want a path."""
    return isinstance(given, cst.Name) and any(_opens(s.node, given.value) for s in stmt.block.scope.body.walk())


def _opens(node: cst.CSTNode, name: str) -> bool:
    """The statement binds the name to an open file, or to bytes in memory."""
    bound: list[tuple[cst.BaseExpression, cst.BaseExpression]] = []
    if isinstance(node, cst.With):
        bound = [(i.item, i.asname.name) for i in node.items if i.asname is not None]
    elif isinstance(node, cst.Assign):
        bound = [(node.value, t.target) for t in node.targets]
    return any(
        dotted(target) == name
        and isinstance(made, cst.Call)
        and dotted(made.func).rpartition(".")[2] in ("open", "BytesIO")
        for made, target in bound
    )


def flags(module: ModuleInfo) -> bool:
    """A module has statements that set `requires_grad`, perhaps: most have none, and are not walked for them."""
    return module.plain is not None or module.says(FLAGS)


@once
def flagged(project: Project) -> bool:
    return any(map(flags, project.modules.values()))


def switched(stmt: Stmt, module: ModuleInfo) -> list[bool]:
    """For each `requires_grad` of what may be a parameter that the statement sets: whether it is set to True."""
    found: list[tuple[cst.BaseExpression, cst.BaseExpression | None]] = []
    if type(stmt.node) is cst.Assign:
        for target in stmt.node.targets:
            if type(target.target) is cst.Attribute and target.target.attr.value == "requires_grad":
                found.append((target.target.value, stmt.node.value))
    for call in stmt.calls:
        if type(call.func) is cst.Attribute and call.func.attr.value == "requires_grad_":
            found.append((call.func.value, call.args[0].value if call.args else None))
    if found and stmt.block.scope.is_function and freezes_passing(stmt, stmt.block.scope, module):
        return []
    return [
        value is None or constant(value) is True
        for node, value in found
        if (held := module.value(node)).kind != "tensor" or held.name in ("module_param", "parameter")
        if held.kind != "unknown" or constant(value or TRUE) is not True or not _an_input(dotted(node), stmt, module)
    ]


def _an_input(place: str, stmt: Stmt, module: ModuleInfo) -> bool:
    """A network is called with it in the same function: `net_d(self.real)`."""
    calls = (c for s in stmt.block.scope.body.walk() if place in s.uses for c in s.calls) if place else ()
    return any(
        module.value(call.func).kind == "module" and any(dotted(arg.value) == place for arg in call.args)
        for call in calls
    )


def callees(info: FunctionInfo, project: Project) -> list[FunctionInfo]:
    """The project's functions that a function calls."""
    found: list[FunctionInfo] = []
    for stmt in info.scope.body.walk():
        for call in stmt.calls:
            target = info.module.value(call.func)
            if target.kind == "function":
                hit = project.find(target.name, info.module)
                if isinstance(hit, FunctionInfo):
                    found.append(hit)
            elif type(call.func) is cst.Attribute and info.cls is not None:
                receiver = info.module.value(call.func.value)
                if receiver.place == "self":
                    method = info.cls.method(call.func.attr.value)
                    if method is not None:
                        found.append(method)
    return found
