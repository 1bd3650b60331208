"""What goes into the function around a forward, what comes out, and what it is differentiated by."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.boundness import perhaps_missing
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import descend
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.tape.forms.bodies import perhaps_unbound, weighted
from torch2ms.tape.forms.calls import Call, Outputs
from torch2ms.tape.forms.kept_names import kept_names
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.deletions import forget
from torch2ms.tape.forward.given import defaults_of
from torch2ms.tape.forward.region import Region
from torch2ms.tape.model import Event, Owner

MOVED = re.compile("to|cuda|cpu|float|type|contiguous|clone")
PLAIN = {"int", "float", "str", "bool", "none"}
OF_TENSORS = {"shape", "dtype", "device", "data", "grad", "grad_fn", "requires_grad", "T", "mT", "ndim", "real", "imag"}
UNREADABLE = (
    cst.Try, cst.TryStar, cst.With, cst.Match, cst.Set, cst.SetComp, cst.NamedExpr, cst.Del, cst.Nonlocal, cst.Import,
    cst.ImportFrom, cst.ClassDef, cst.Imaginary,
)  # fmt: skip
NOT_RETURNED = {
    "object",
    "function",
    "class",
    "module",
    "optimizer",
    "numpy",
    "dataset",
    "loader",
    "scheduler",
    "method",
}


def outputs_of(writer: Writer, call: Call, stmts: list[Stmt]) -> Outputs:
    event, region = call.event, call.region
    name = dotted(event.roots[0]) if len(event.roots) == 1 and not event.scaler else ""
    name = event.episode.name if event.episode is not None else name
    if event.lifted and event.kind == "backward" and event.episode is None and not event.beside:
        name = event.name  # what the call was assigned to
    if "." in name or weighted(writer, event):
        name = ""
    last = position(region)
    plain = not event.branches and not event.lifted
    asked = event.kind == "gradcall" and bool(region.all) and event.stmt.block is region.block
    gone = [event.stmt] if plain and (event.kind == "backward" or asked) else []
    live = liveness.read_after(region.block, [*region.all, *gone, *call.beside], last) if region.all else set()
    if region.guarded:
        inner = liveness.read_after(event.stmt.block, region.all, event.stmt.block.stmts.index(event.stmt))
        live |= inner
    if asked and gone:  # what it differentiates is in the function, the rest of the statement stays
        live = live - liveness.definite(event.stmt) | _beside(event)
    if not weighted(writer, event):  # the cotangent stands outside
        live |= {root(u) for c in event.cotangents if c is not None for u in expression_uses(c, event.stmt)}
    for stmt in region.after:
        live |= {root(u) for u in stmt.all_uses}
    live |= kept_names(region, writer.module)
    written: dict[str, Value] = {}
    for stmt in stmts:
        for inner_stmt in stmt.walk():
            for place in sorted(inner_stmt.defs | inner_stmt.muts):
                if "." not in place:
                    written[place] = inner_stmt.out.get(place, UNKNOWN)
    defined = {d for s in stmts for d in s.all_defs if "." not in d}
    order = definition_order(stmts)
    aux, shared = [], []
    for place in order:
        if place == name or place not in live or place not in defined:
            continue
        value = written[place]
        if value.kind in NOT_RETURNED or (value.kind == "unknown" and not value.deps and not value.likely):
            shared.append(place)
        else:
            aux.append(place)
    none = perhaps_unbound(writer, aux, stmts, event)  # MindSpore wants a tensor or a container among the results
    records = _records(region.block.scope.body) if aux else set()
    guessed = {a for a in aux if a in records and (written[a].kind == "unknown" or written[a].likely)}
    plain_before = _perhaps_plain_before(aux, stmts, region.block.scope)
    unsure = {*none, *guessed, *plain_before}
    wrapped = bool(aux) and all(a in unsure or not _of_tensors(a, written[a], stmts) for a in aux)
    forget(defined - {name, *aux, *shared}, region.all, writer.scope, writer.plan)
    return Outputs(name, aux, shared, wrapped)


def _perhaps_plain_before(names: list[str], stmts: list[Stmt], scope: Scope) -> set[str]:
    """Those of the names that keep, on some way, a number or None from before: `if errors_out is None: ...`."""
    asked = {n for n in names if n not in _bound_by(stmts)} if names else set()
    if not asked:
        return set()
    absent = {n for n, value in defaults_of(scope.node).items() if isinstance(value, (int, float, str, type(None)))}
    made = {id(i) for s in stmts for i in s.walk()}
    before = [s for s in scope.body.walk() if id(s) not in made]
    plain = {d for s in before for d in s.defs & asked if s.out.get(d, UNKNOWN).kind in PLAIN}
    return plain | asked & absent


def _bound_by(stmts: list[Stmt]) -> set[str]:
    """The names that the statements bind; loops run once at least, as they sum up the loss."""
    bound = set().union(*(liveness.definite(s) for s in stmts))
    return bound.union(*(_bound_by(s.blocks[0].stmts) for s in stmts if type(s.node) is cst.For))


def _records(block: Block) -> set[str]:
    """Names of which attributes are read that tensors do not have: objects of a class, perhaps never seen."""
    stmts = [s for s in block.walk() if type(s.node) is not cst.FunctionDef and type(s.node) is not cst.ClassDef]
    read = {u for s in stmts for u in s.uses if u.count(".") == 1}
    called = {dotted(c.func) for s in stmts for c in s.calls}
    return {root(u) for u in read - called if u.rpartition(".")[2] not in OF_TENSORS}


def _of_tensors(place: str, value: Value, stmts: list[Stmt]) -> bool:
    """A tensor or a container is there, whatever way the statements took, as far as one can tell."""
    if value.kind != "unknown":
        return value.kind not in PLAIN
    makers = [i for s in stmts for i in s.walk() if place in i.defs and not isinstance(i.node, cst.AugAssign)]
    return all(isinstance(i.node, cst.Assign) and _computed(i.node, place) for i in makers)


def _computed(node: cst.Assign, place: str) -> bool:
    """The name gets what a call or an operator makes, and no part of it."""
    whole = any(dotted(t.target) == place for t in node.targets)
    return whole and isinstance(node.value, (cst.Call, cst.BinaryOperation, cst.UnaryOperation))


def _beside(event: Event) -> set[str]:
    """The names that the statement of a gradient call reads beside what it differentiates."""
    node = event.stmt.node
    targets = [t.target for t in node.targets] if isinstance(node, cst.Assign) else []
    inside = {id(n) for part in (*event.roots, *targets) for n in descend(part)}
    read = {n.value for n in descend(node) if type(n) is cst.Name and id(n) not in inside}
    return read & {root(u) for u in event.stmt.uses}


def definition_order(stmts: list[Stmt]) -> list[str]:
    order: dict[str, None] = {}
    for stmt in stmts:
        for inner in stmt.walk():
            for name in _target_order(inner):
                order.setdefault(name)
    return list(order)


def position(region: Region) -> int:
    block = region.block
    if not region.stmts:
        return block.stmts.index(region.event.stmt) if region.event.stmt in block.stmts else 0
    return block.stmts.index(region.stmts[-1])


def parameters_of(writer: Writer, call: Call, stmts: list[Stmt], loop: Stmt | None, outputs: Outputs) -> list[str]:
    """Names that change between calls, in order of first use; everything else is captured."""
    used = _exposed(stmts, outputs, writer)
    bound = set().union(*(liveness.definite(s) for s in stmts)) if stmts else set()
    asked = [call.event.scaled] if call.event.scaled is not None else []
    asked += [c for c in call.event.cotangents if c is not None] if weighted(writer, call.event) else []
    for expr in [*call.event.roots, *asked]:
        for use in sorted(expression_uses(expr, call.event.stmt)):
            if root(use) not in bound and root(use) not in used:
                used.append(root(use))
    own = {d for s in stmts for d in s.all_defs if "." not in d}
    changing = set(own)
    if loop is not None:
        changing |= {d for d in loop.all_defs if "." not in d}
    changing -= {n for n in writer.unbound(stmts, used) if loop is None or not carried(n, stmts)}
    declared = writer.declared()
    changing -= writer.implied
    grown = {root(m) for s in stmts for m in s.all_muts} - own  # filled in place: reached through the closure
    changing -= grown
    changing -= {n for n in used if n in changing and loop is not None and _only_called(n, stmts, loop, writer)}
    params = [
        n for n in used if n in changing and n in writer.scope.locals and n not in outputs.shared and n not in declared
    ]
    missing = perhaps_missing(params, stmts)
    params = [n for n in params if n not in missing] if missing else params
    if params:
        writer.plan.inputs.setdefault(id(writer.scope), []).append((call.event.stmt.number, params))
    return params


def _exposed(stmts: list[Stmt], outputs: Outputs, writer: Writer) -> list[str]:
    """The names that the statements read from outside, as they become: compiled gradients are given what they use."""
    used, read = liveness.exposed(stmts), writer.plan.read
    compiled = [s for s in stmts if id(s) in read] if read else []
    if not compiled:
        return used
    others = [s for s in stmts if id(s) not in read]
    given = {n for s in compiled for n in read[id(s)]}
    left = {root(u) for s in others for u in s.all_uses} | given | {*outputs.aux}
    made = {d for s in stmts for d in s.all_defs}
    return [n for n in used if n in left] + sorted(given - set(used) - made)


def changed_in_place(writer: Writer, params: list[str], stmts: list[Stmt]) -> list[str]:
    """Parameters that the statements write into: MindSpore forbids that for what a gradient function is given."""
    inner = [i for s in stmts for i in s.walk()]
    adding, changing = ([i for i in inner if (type(i.node) is cst.AugAssign) is adds] for adds in (True, False))
    written = {m for i in changing for m in i.muts if not _of_a_copy(m, i)}
    written |= {m for i in adding for m in i.muts if _shown(m, writer, inner)}  # `x += y` binds other names again
    return [p for p in params if p in written and "tensor" in writer.kinds(p, stmts)]


def _shown(name: str, writer: Writer, inner: list[Stmt]) -> bool:
    """The name is one for what an object keeps, `mean = stats.mean` or `mean, var = stats`, wherever it is bound."""
    made = [s for s in writer.scope.body.walk() if name in s.defs and type(s.node) is not cst.AugAssign]
    return bool(made) and not any(s in inner for s in made) and all(_names_part(s.node) for s in made)


def _names_part(node: cst.CSTNode) -> bool:
    if not isinstance(node, cst.Assign):
        return False
    place, parts = dotted(node.value), isinstance(node.targets[0].target, (cst.Tuple, cst.List))
    return "." in place or parts and bool(place)


def _of_a_copy(name: str, stmt: Stmt) -> bool:
    """`x = x.clone()` stands in front of the statement: it writes into that."""
    above = stmt.block.stmts[: stmt.block.stmts.index(stmt)]
    made = next((s.node for s in reversed(above) if name in s.all_defs), None)
    call = made.value if type(made) is cst.Assign else None
    return type(call) is cst.Call and type(call.func) is cst.Attribute and call.func.attr.value == "clone"


def alone(name: str, writer: Writer, stmts: list[Stmt]) -> bool:
    """Nobody else holds the tensor that the statements find under the name: batches of a loader, results of calls."""
    made = [s for s in writer.scope.body.walk() if name in s.defs and s not in {i for o in stmts for i in o.walk()}]
    return bool(made) and all(_batch(s, writer) or _own_result(s, name) for s in made)


def _batch(stmt: Stmt, writer: Writer) -> bool:
    """A loop over a loader, which makes the batches of its own, binds it."""
    node = stmt.node
    given = node.iter if isinstance(node, cst.For) else None
    if isinstance(given, cst.Name):  # `bar = tqdm(loader)`
        made = [s.node for s in writer.scope.body.walk() if given.value in s.defs]
        only = made[0].value if len(made) == 1 and isinstance(made[0], cst.Assign) else None
        given = only if isinstance(only, cst.Call) else given
    if isinstance(given, cst.Call) and dotted(given.func) in ("enumerate", "tqdm") and given.args:
        given = given.args[0].value
    return given is not None and writer.module.value(given).kind == "loader"


def _own_result(stmt: Stmt, name: str) -> bool:
    """`x = x.to(device)`: what is of the name alone stays so."""
    node = stmt.node
    read = {n.value for n in descend(node.value) if isinstance(n, cst.Name)} if isinstance(node, cst.Assign) else set()
    used = {root(u) for u in stmt.uses} & read
    return isinstance(node, cst.Assign) and isinstance(node.value, cst.Call) and name in used and MOVED.fullmatch(
        node.value.func.attr.value if isinstance(node.value.func, cst.Attribute) else "") is not None  # fmt: skip


def _only_called(name: str, stmts: list[Stmt], loop: Stmt, writer: Writer) -> bool:
    """A function, a class or an object that each turn makes: gradient functions do not take them all, the closure sees
    it."""
    kinds = writer.kinds(name, stmts)
    named = [n for s in stmts for n in s.nodes if type(n) is cst.Name and n.value == name]
    if name in {d for s in stmts for d in s.all_defs} or kinds & {"tensor", "param"}:
        return False
    if "module" in kinds and not any(_unreadable(writer.module.value(n), writer) for n in named):
        return False
    makers = [s.node for s in loop.walk() if name in s.defs]
    called = {id(c.func) for s in stmts for i in s.walk() for c in i.calls}
    made: tuple[type[cst.CSTNode], ...] = (cst.Assign, cst.Import, cst.ImportFrom, cst.FunctionDef, cst.ClassDef)
    made = (*made, cst.For) if kinds <= {"object", "function", "unknown", "module"} else made
    only = all(id(n) in called or _callable(writer.module.value(n), writer) for n in named)
    return bool(named) and only and all(isinstance(node, made) for node in makers)


def _callable(value: Value, writer: Writer) -> bool:
    """An object of the program that can be called: MindSpore takes it for a function, and asks for its name."""
    known = value.kind == "object" and writer.project is not None
    cls = class_of(value, writer.module, writer.project) if known and writer.project is not None else None
    return cls is not None and cls.method("__call__") is not None


def _unreadable(cell: Value, writer: Writer) -> bool:
    """MindSpore reads the source of a cell that a gradient function is given, and fails at what it does not know."""
    cls = class_of(cell, writer.module, writer.project) if writer.project is not None else None
    if (
        cls is None and not cell.name and writer.project is not None
    ):  # one of several: `for name, loss in losses.items()`
        classes = [c for m in writer.project.modules.values() for c in m.classes.values() if c.kind == "module"]
    else:
        classes = [cls] if cls is not None else []
    forwards = [forward for c in classes if (forward := c.method("forward")) is not None]
    return any(unread(n) for forward in forwards for s in forward.scope.body.walk() for n in (s.node, *s.nodes))


def unread(node: cst.CSTNode) -> bool:
    """What MindSpore's own parser does not know."""
    if isinstance(node, (cst.For, cst.While)):
        return node.orelse is not None
    if isinstance(node, (cst.ListComp, cst.GeneratorExp, cst.DictComp)):
        return node.for_in.inner_for_in is not None
    return isinstance(node, UNREADABLE)


def leaves_first(call: Call, params: list[str]) -> list[str]:
    """Leaves that are differentiated by position must be parameters; a list of them comes last, one by one."""
    starred = [o.place for o in call.owners if o.starred]
    missing = [o.place for o in call.owners if o.kind == "leaf" and not o.parameter and o.place not in params]
    return [n for n in [*params, *missing] if n not in starred] + [f"*{n}" for n in starred]


def differentiated_by(call: Call, params: list[str]) -> str:
    if starred := next((o.place for o in call.owners if o.starred), ""):
        first = len(params) - 1  # PyNative gives no gradients of a list
        return f", tuple(range({f'{first}, {first} + ' if first else ''}len({starred})))"
    positions = [params.index(o.place) for o in call.owners if o.kind == "leaf" and not o.parameter]
    held = [o.place for o in call.owners if o.parameter]
    weights = [f"[{', '.join(held)}]"] if held else []
    weights += [weights_of(o) for o in call.owners if o.kind != "leaf"]
    where = (
        "None" if not positions else str(positions[0]) if len(positions) == 1 else f"({', '.join(map(str, positions))})"
    )
    if not weights:
        return "" if where == "0" else f", {where}"
    return f", {where}, {joined(weights)}"


def joined(weights: list[str]) -> str:
    """One after the other; optimizers have tuples of parameters, networks lists, which do not add up."""
    kinds = {"tuple" if w.endswith(".parameters") else "list" if w.endswith(("]", ")")) else w for w in weights}
    return " + ".join(weights) if len(kinds) == 1 or len(weights) == 1 else f"[{', '.join(f'*{w}' for w in weights)}]"


def weights_of(owner: Owner) -> str:
    if owner.weights:
        return owner.weights
    if owner.kind == "optimizer":
        return f"{owner.place}.parameters"
    if owner.kind in ("leaves", "params"):
        return owner.place
    if owner.kind == "list":
        return "{0}"
    return f"{owner.place}.trainable_params()"


def of_only_module(owner: Owner) -> str:
    """The parameters of an optimizer that is not made yet: those of its module, "" where it has several."""
    places = owner.owns or frozenset()
    return f"{next(iter(places))}.trainable_params()" if len(places) == 1 else ""


def weight_nodes(call: Call) -> list[cst.CSTNode]:
    return [call.weights] if call.weights is not None else []


def carried(name: str, stmts: list[Stmt]) -> bool:
    """The statements read what the name was bound to in an earlier turn of the loop around them."""
    for stmt in (inner for s in stmts for inner in s.walk()):
        if any(root(u) == name for u in stmt.uses):
            return True
        if name in stmt.defs:
            return False
    return False


def _target_order(stmt: Stmt) -> list[str]:
    node, defs = stmt.node, sorted(d for d in stmt.defs if "." not in d)
    targets: list[str] = []
    if isinstance(node, cst.Assign):
        targets = [n for t in node.targets for n in _flat(t.target) if n in stmt.defs]
    if type(node) is cst.For:
        targets = [n for n in _flat(node.target) if n in stmt.defs]
    return [*targets, *(d for d in defs if d not in targets)]  # `loss = f(out := net(x))` binds both


def _flat(target: cst.CSTNode) -> list[str]:
    if type(target) is cst.Tuple or type(target) is cst.List:
        return [n for e in target.elements for n in _flat(e.value)]
    return [dotted(target)]
