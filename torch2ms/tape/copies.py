"""Networks that are copies for themselves: averaged weights, targets and teachers, which no optimizer is given."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, method_called
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import UNKNOWN, any_overlap

ADDS = "add_param_group"
LAYERS = re.compile(r"torch\.nn\.(?:(?:Lazy)?(?:Conv|Linear|Bilinear|BatchNorm|InstanceNorm)|GroupNorm|LayerNorm|"
                    r"Embedding|LSTM|GRU|RNN|PReLU|MultiheadAttention)")  # fmt: skip
PLAIN = ("int", "float", "bool", "str", "none", "tensor", "list", "tuple", "dict")
COPIES = ("copy.deepcopy", "deepcopy")
MOVES = ("cuda", "cpu", "float", "double", "half", "load_state_dict")
SAME = ("eval", "to", "requires_grad_", "train")  # give back what they are called on


def freezes_copy(stmt: Stmt, scope: Scope, module: ModuleInfo) -> bool:
    """The parameters that a statement freezes are those of a copy that is part of no other network."""
    places = {p for p in _places(stmt) if p}
    return bool(places) and all(_is_copy(place, scope, module) for place in places)


def freezes_untrained(stmt: Stmt, scope: Scope, module: ModuleInfo, project: Project) -> bool:
    """The parameters that a statement freezes are those of a network that no optimizer of the project is given."""
    if any(m.has(ADDS) for m in project.modules.values()):
        return False  # one may be given them later
    places = {p for p in _places(stmt) if p}
    made = [v for m in project.modules.values() for v in m.values.values() if v.kind == "optimizer"]
    if any(v.owns is None or any(o.startswith(("^", "@")) for o in v.owns) for v in made):
        return False
    if any_overlap(frozenset(places), frozenset().union(*(v.owns or frozenset() for v in made))):
        return False
    if any(_trains_by_hand(frozenset(places), m) for m in project.modules.values()):
        return False
    return bool(places) and all(_is_apart(place, scope, module) for place in places)


def _trains_by_hand(places: frozenset[str], module: ModuleInfo) -> bool:
    """Gradients of what is frozen are read: without an optimizer `p -= lr * p.grad` moves the parameters."""
    read = (module.value(node.value).deps for node in module.attributes.get("grad", ()))
    return any(any_overlap(places, frozenset(d.lstrip("^@") for d in deps)) for deps in read)


def _is_apart(place: str, scope: Scope, module: ModuleInfo) -> bool:
    """A network under a name of this scope, which is part of no other."""
    if not place.isidentifier() or place in scope.params:
        return False
    bound = [s.node for s in scope.body.walk() if place in s.defs]
    for node in bound:
        if not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Call):
            return False
        names = (n for a in node.value.args for n in descend(a) if isinstance(n, cst.Name) and n.value != place)
        used = (module.value(n).kind for n in names)  # `net = Wrapper(net)` is still apart
        if module.value(node.value).kind != "module" or "module" in used:
            return False
    return bool(bound) and not _given(place, [scope], module)


def freezes_passing(stmt: Stmt, scope: Scope, module: ModuleInfo) -> bool:
    """What a statement freezes is made in the function, runs there, and is gone with it: a fixed kernel in a layer."""
    heads = {root(place) for place in _places(stmt)}
    return "self" not in heads and all(
        head and _new(head, scope, module) and not _leaves(head, scope, module) for head in heads
    )


def _leaves(name: str, scope: Scope, module: ModuleInfo) -> bool:
    """Something other than the function may have the network, or its parameters, for longer: all but calls of it."""
    allowed: set[int] = set()
    for stmt in scope.body.walk():
        node = stmt.node
        if isinstance(node, cst.For) and all(_receivers(s) for b in stmt.blocks for s in b.stmts):
            allowed |= {id(n) for n in descend(node.iter)}  # `for p in net.parameters()` that freezes
        if isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
            allowed |= {id(n) for n in descend(node.value.func)}  # what it gives back is dropped
        if isinstance(node, cst.Assign):
            allowed |= {id(n) for t in node.targets for n in descend(t)}
        for call in stmt.calls:
            func = call.func
            if type(func) is cst.Name or method_called(call) in (*SAME, *MOVES):
                allowed |= {id(n) for n in descend(func)}
            elif module.value(func).name.startswith("torch.nn.init."):
                allowed |= {id(n) for a in call.args for n in descend(a)}
    assert isinstance(scope.node, cst.FunctionDef)
    names = (n for n in descend(scope.node.body) if isinstance(n, cst.Name) and n.value == name)
    return any(id(n) not in allowed for n in names)


def of_new(place: str, stmt: Stmt, scope: Scope, module: ModuleInfo) -> bool:
    """What a statement freezes came into being in the function: `self.net = Net()` of a constructor, `net = Net()`.

    `place`: where the parameters are; "" where only the statement tells.
    """
    places = {place} if place else _receivers(stmt)
    return bool(places) and all(_new(each, scope, module) for each in places)


def _receivers(stmt: Stmt) -> set[str]:
    """Whose `requires_grad` a statement sets, "" for what has no name."""
    named = {_receiver(c) for c in stmt.calls if _is(c, "requires_grad_")}
    targets = (t.target for t in stmt.node.targets) if isinstance(stmt.node, cst.Assign) else ()
    return named | {
        dotted(t.value) for t in targets if isinstance(t, cst.Attribute) and t.attr.value == "requires_grad"
    }


def _new(place: str, scope: Scope, module: ModuleInfo) -> bool:
    head, _, rest = place.partition(".")
    own = head == "self" and scope.name == "__init__"
    if not own and (head not in scope.locals or head in scope.params):
        return False
    held = f"self.{rest.partition('.')[0]}" if own and rest else head
    cls = module.classes.get(scope.cls.name) if own and scope.cls is not None else None
    makers = [c.methods["__init__"] for c in cls.lineage() if "__init__" in c.methods] if cls is not None else []
    around = [(i.scope, i.module) for i in makers] or [(scope, module)]
    every = held == "self"  # all that the object has
    bound = [
        (s, m) for each, m in around for s in each.body.walk() if not s.blocks
        if held in s.defs or every and any(d.startswith("self.") for d in s.defs)
    ]  # fmt: skip
    return bool(bound) and all(_made_anew(s, held, m) for s, m in bound)


def _made_anew(stmt: Stmt, held: str, module: ModuleInfo) -> bool:
    """It makes a network out of no other, moves the one it has, or keeps what is none."""
    node = stmt.node
    if not isinstance(node, (cst.Assign, cst.AnnAssign)) or node.value is None:
        return False
    value = _unswitched(node.value)
    if held == "self" and module.value(value).kind in PLAIN or dotted(value) == held:
        return True
    made = module.value(value.func) if isinstance(value, cst.Call) else UNKNOWN
    if not isinstance(value, cst.Call) or made.kind not in ("class", "api"):
        return False
    if LAYERS.match(made.name):
        return True
    unseen = made.kind == "class" or made.name.startswith("torch.")  # what may wrap a network that is not seen
    networks = {"module", "params", "list", "dict", "tuple", *(("unknown", "object") if unseen else ())}
    given = (n for a in value.args for n in descend(a.value) if dotted(n) not in ("", held, "self"))
    return all(module.value(n).kind not in networks for n in given)


def _places(stmt: Stmt) -> set[str]:
    """The networks whose parameters a statement freezes, "" for what is not seen."""
    loop = next((a.node for a in stmt.ancestors() if isinstance(a.node, cst.For)), None)
    named = {_receiver(c) or _taker(c, stmt) for c in stmt.calls if _is(c, "requires_grad_")}
    if isinstance(stmt.node, cst.Assign):
        targets = (t.target for t in stmt.node.targets)
        named |= {dotted(t.value) for t in targets if isinstance(t, cst.Attribute) and t.attr.value == "requires_grad"}
    if loop is None or named != {dotted(loop.target)}:
        return {"", *named} if loop is not None or "" in named else named
    given = loop.iter
    asked = isinstance(given, cst.Call) and isinstance(given.func, cst.Attribute) and given.func.attr.value
    return {_receiver(given)} if asked == "parameters" else {""}


def _is(call: cst.Call, method: str) -> bool:
    return isinstance(call.func, cst.Attribute) and call.func.attr.value == method


def _receiver(call: cst.BaseExpression) -> str:
    return dotted(call.func.value) if isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute) else ""


def _taker(call: cst.Call, stmt: Stmt) -> str:
    """The name of what a call makes and freezes: `self.target = deepcopy(net).eval().requires_grad_(False)`."""
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or _unswitched(call) is call:
        return ""
    made = isinstance(_unswitched(call), cst.Call) and _unswitched(node.value) is _unswitched(call)
    return dotted(node.targets[0].target) if made else ""


def _unswitched(value: cst.BaseExpression) -> cst.BaseExpression:
    """What stands before the methods that give back what they are called on."""
    while isinstance(value, cst.Call) and isinstance(value.func, cst.Attribute):
        if dotted(value.func) in COPIES or value.func.attr.value not in SAME:
            break
        value = value.func.value
    return value


def _is_copy(place: str, scope: Scope, module: ModuleInfo) -> bool:
    cls = module.classes.get(scope.cls.name) if scope.cls is not None else None
    if root(place) == "self":
        if cls is None or cls.kind == "module" or place.count(".") != 1:
            return False
        scopes = [info.scope for c in (*cls.lineage(), *cls.below()) for info in c.methods.values()]
    elif "." in place or place in scope.params:
        return False
    else:
        scopes = [scope]
    bound = [s for inner in scopes for s in inner.body.walk() if place in s.defs]
    if not bound or not all(_copies(s) for s in bound):
        return False
    return not _given(place, scopes, module)


def _given(place: str, scopes: list[Scope], module: ModuleInfo) -> bool:
    """Something that may keep the network is made of it, or of a part of it."""
    makers = ("class", "module", "optimizer")
    stmts = [s for inner in scopes for s in inner.body.walk() if s.defs != {place}]  # not what wraps it itself
    given = [c for s in stmts for c in s.calls if module.value(c).kind in makers]
    return any(place in (dotted(a.value), *_inside(a.value)) for c in given for a in c.args)


def _inside(node: cst.CSTNode) -> list[str]:
    return [dotted(n) for n in node.children] + [p for n in node.children for p in _inside(n)]


def _copies(stmt: Stmt) -> bool:
    node = stmt.node
    if not isinstance(node, cst.Assign) or len(node.targets) != 1 or not isinstance(node.value, cst.Call):
        return False
    value = _unswitched(node.value)
    return isinstance(value, cst.Call) and dotted(value.func) in COPIES
