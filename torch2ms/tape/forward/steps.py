"""What single statements read, make and cut: the steps of the walk from a loss back to the weights."""

from __future__ import annotations

from collections.abc import Iterable

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, qualified
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import Value
from torch2ms.tape.forward.harmless import part_of, shaped
from torch2ms.tape.model import Event

CUTTING = {"detach", "item", "tolist", "shape", "size", "dim", "device", "dtype"}  # what has no graph
SHOWING = {"torch.from_numpy", "torch.as_tensor", "torch.asarray"}  # tensors in the memory of arrays
# what makes arrays, or tensors of arrays; `np.reshape(x, n)` is a method of the tensor, with its graph
ARRAYS = {"torch.from_numpy", "numpy.array", "numpy.asarray", "numpy.ascontiguousarray"}
MOVING = {"to", "cuda", "cpu", "float", "double", "long", "contiguous", "type"}


def made_by(stmt: Stmt) -> set[str]:
    """What has its value from the statement alone, whatever was there before."""
    if type(stmt.node) is cst.With or type(stmt.node) is cst.If:
        return liveness.definite(stmt) - stmt.all_muts
    return set() if stmt.blocks else stmt.defs - stmt.muts


def asked_by(stmt: Stmt, module: ModuleInfo) -> set[str]:
    """What the statement reads of what was there before it."""
    asked = stmt.all_uses
    if "self" in asked and not _hands_itself_on(module):
        for inner in stmt.walk():
            if "self" in inner.uses and not _networks_alone(inner, module):
                break
        else:
            asked = asked - {"self"}
    if not stmt.blocks or isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
        return asked
    first = set(liveness.exposed([stmt]))
    return {u for u in asked if root(u) in first}


@once
def _hands_itself_on(module: ModuleInfo) -> bool:
    """An object gives itself, or a method, to others, or is named in a function: `Head(self)`, `hook(self.noisy)`."""
    methods = {name for cls in module.classes.values() for name in cls.methods}
    for call in module.of_kind(cst.Call):
        if type(call.func) is cst.Name and call.func.value == "super":
            continue
        for arg in call.args:
            place = dotted(arg.value)
            if place == "self" or place.startswith("self.") and place[5:] in methods:
                return True
    inner: list[cst.CSTNode] = list(module.of_kind(cst.Lambda))
    inner += [s.node for s in module.scope.walk() if s.is_function and s.parent is not None and s.parent.is_function]
    return any(type(n) is cst.Name and n.value == "self" for node in inner for n in descend(node))


def _networks_alone(stmt: Stmt, module: ModuleInfo) -> bool:
    """Of the object whose method it is, the statement calls networks, which see nothing of the object around them."""
    if stmt.blocks and isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
        return False
    for call in stmt.calls:  # loops: asked of statement after statement
        if type(call.func) is cst.Attribute and type(call.func.value) is cst.Name and call.func.value.value == "self":
            if module.value(call.func).kind not in ("module", "lossfn"):
                return False
    bare = 0
    for node in stmt.nodes:
        if type(node) is cst.Name and node.value == "self":
            bare += 1
        elif type(node) is cst.Attribute and type(node.value) is cst.Name and node.value.value == "self":
            bare -= 1
    return bare == 0


def _sum_of_names(node: cst.CSTNode) -> bool:
    """`(log_prob + target_entropy).detach()`: operators over names, which do nothing else with them."""
    operators = (cst.BinaryOperation, cst.UnaryOperation)
    return isinstance(node, operators) and not any(isinstance(n, (cst.Call, cst.NamedExpr)) for n in descend(node))


def cut_off(stmt: Stmt, module: ModuleInfo) -> set[str]:
    """What a statement reads without its graph wherever it does: `net_d(fake.detach())`, `values[1:].detach()`,
    `len(losses)`, what a gradient is asked of."""
    calls = [c for s in stmt.walk() for c in s.calls if graphless(c, module)]
    always = not stmt.blocks or isinstance(stmt.node, cst.With)
    if not always and not calls or isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
        return set()
    asked = {id(n) for call in calls for arg in call.args for n in descend(arg)}
    cutting = [n for n in stmt.nodes if type(n) is cst.Attribute and n.attr.value in CUTTING]
    shown = [n.value for n in cutting if part_of(n.value, module) is not None or _sum_of_names(n.value)]
    asked |= {id(n) for whole in shown for n in descend(whole)}
    cut = asked | {id(n) for node in cutting if dotted(node.value) for n in descend(node)}
    places = [n for n in stmt.nodes if type(n) is cst.Name or type(n) is cst.Attribute]
    whole = {dotted(n) for n in places if id(n) not in cut}
    given = {dotted(n) for n in places if id(n) in asked}
    uses = stmt.all_uses
    found = {u for u in uses if u.rpartition(".")[2] in CUTTING and u.rpartition(".")[0] not in whole}
    return found | {u.rpartition(".")[0] for u in found} | {u for u in uses & given if u not in whole}


def graphless(call: cst.Call, module: ModuleInfo) -> bool:
    """Nothing of what the call is given goes on in what it gives with a graph."""
    name = qualified(call.func, module.imports)
    if name == "torch.autograd.grad":
        graph = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "create_graph"]
        plain = all(a.keyword is not None for a in call.args[4:]) and not any(a.star for a in call.args)
        return plain and (not graph or constant(graph[0]) is False)
    return name == "len" or name in ARRAYS or shaped(call, module)


def lasting(stmt: Stmt) -> dict[str, list[Value]]:
    """What the places that a statement writes may hold when it has run: a name that is bound anew holds the last."""
    found: dict[str, list[Value]] = {place: [value] for place, value in stmt.out.items()}
    jumps = any(type(s.node) is cst.Break or type(s.node) is cst.Continue for s in stmt.walk())
    for block in stmt.blocks:
        inside: dict[str, list[Value]] = {}
        for child in block.stmts:
            for place, values in lasting(child).items():
                anew = place in child.defs - child.muts and not child.blocks and not jumps
                inside[place] = values if anew else [*inside.get(place, []), *values]
        for place, values in inside.items():
            found.setdefault(place, []).extend(values)
    return found


def same_object(node: cst.CSTNode) -> bool:
    """`x, y = x.to(device), y.to(device)`: names for what is there already, nothing new is made."""
    if not isinstance(node, cst.Assign):
        return False
    values = [e.value for e in node.value.elements] if isinstance(node.value, cst.Tuple) else [node.value]
    return all(dotted(_moved(v)) for v in values)


def added_to(stmts: Iterable[Stmt]) -> set[str]:
    """The names to whose tensors statements add something: `mean += h.mean(0)`."""
    return {d for s in stmts for inner in s.walk() if type(inner.node) is cst.AugAssign for d in inner.defs}


def _moved(node: cst.BaseExpression) -> cst.BaseExpression:
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in MOVING:
        node = node.func.value
    return node


def unseen(place: str, stmt: Stmt) -> bool:
    """Nothing is known of what the statement puts there."""
    value = stmt.out.get(place)
    return value is not None and value.kind == "unknown"


def callers(scope: Scope) -> dict[str, list[Stmt]]:
    """The statements that call what a name of the scope holds."""
    found: dict[str, list[Stmt]] = {}
    for stmt in scope.body.walk():
        for call in stmt.calls:
            if name := dotted(call.func):
                found.setdefault(name, []).append(stmt)
    return found


def is_called(place: str, made: Stmt, calls: list[Stmt]) -> bool:
    """What a statement puts into a place may be what one of these calls: until the name is bound again."""
    stmts = made.block.stmts
    following = stmts[stmts.index(made) + 1 :]
    again = next((s.number for s in following if s.is_small and place in s.defs), None)
    loops = [a for a in made.ancestors() if a.is_loop]
    for stmt in calls:
        if stmt.number > made.number and (again is None or stmt.number <= again):
            return True
        if again is None and stmt.number <= made.number and any(loop in stmt.ancestors() for loop in loops):
            return True  # in the next turn
    return False


def optimized(scope: Scope, module: ModuleInfo) -> set[str]:
    """The names of what optimizers are made of in a scope: parameters, alone or in groups."""
    calls = [c for s in scope.body.walk() for c in s.calls if c.args and module.value(c).kind == "optimizer"]
    return {place for c in calls if (place := dotted(c.args[0].value))}


def written_directly(stmt: Stmt) -> str:
    """The place that a small statement itself writes into: `h.mul_(2)`, `h += 1`, `h[0] = 1`; or ""."""
    node = stmt.node
    if isinstance(node, cst.AugAssign):
        held: cst.BaseExpression = node.target
    elif isinstance(node, cst.Assign) and len(node.targets) == 1:
        held = node.targets[0].target
        if not isinstance(held, cst.Subscript):
            return ""
    elif isinstance(node, cst.Expr) and isinstance(node.value, cst.Call):
        held = node.value
        while isinstance(held, cst.Call) and isinstance(held.func, cst.Attribute):
            held = held.func.value if held.func.attr.value.endswith("_") else cst.Name("_")
    else:
        return ""
    while isinstance(held, cst.Subscript):
        held = held.value
    return dotted(held).removesuffix(".data")


def puts_back(stmt: Stmt, event: Event) -> bool:
    """`data["pos"] = pos`, where a gradient is taken at `pos`: the dict is what it was."""
    node = stmt.node
    if event.inputs is None or not isinstance(node, cst.Assign) or not isinstance(node.value, cst.Name):
        return False
    target = node.targets[0].target
    kept = len(node.targets) == 1 and isinstance(target, (cst.Subscript, cst.Attribute))
    return kept and any(isinstance(n, cst.Name) and n.value == node.value.value for n in descend(event.inputs))


def changed_before(stmts: list[Stmt], call: Stmt, module: ModuleInfo) -> str:
    """An array that statements between a forward and its backward call write into, and whose memory it uses; or "".

    torch's tape keeps the memory, not what was in there: the gradient is that of the new numbers.
    """
    if not stmts or "numpy" not in module.imports.table.values():
        return ""
    shown: set[str] = set()
    for node in (c for s in stmts for i in s.walk() for c in i.calls if c.args):
        if qualified(node.func, module.imports) in SHOWING:
            shown.add(dotted(node.args[0].value))
    block, own = call.block.stmts, set(stmts)
    between = block[block.index(stmts[-1]) + 1 : block.index(call)] if stmts[-1] in block else []
    for stmt in (i for s in between if s not in own for i in s.walk()):
        if hit := sorted(stmt.muts & shown - {""}):
            return hit[0]
    return ""


def cotangents_of(event: Event, module: ModuleInfo) -> set[str]:
    """What the cotangents of several tensors are made of: the function returns the sum that is weighted with them."""
    given = [c for c in event.cotangents if c is not None] if event.kind == "gradcall" else []
    kinds = {module.value(node).kind for node in [*event.roots, *given]} if given else set()
    if len(event.roots) < 2 and not (kinds and kinds <= {"list", "tuple"}):
        return set()
    return set().union(*(expression_uses(c, event.stmt) for c in given))
