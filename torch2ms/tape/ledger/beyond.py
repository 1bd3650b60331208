"""What a network holds beside the parameters that optimizers were given: their gradients are not among those taken."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.program.project import ClassInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.analysis.syntax.names import name_called
from torch2ms.analysis.syntax.tree import code
from torch2ms.analysis.values import PART, PICKED, Value, overlaps
from torch2ms.tape.ledger.owners import concerns, relation
from torch2ms.tape.model import Event, Owner

WEIGHTED = re.compile(
    r"Linear|Conv|Norm|Embedding|RNN|LSTM|GRU|Transformer|Attention|PReLU|Sequential|Module(List|Dict)"
)
PARAMETERS = ("parameter", "parameter list", "torch.nn.ParameterDict")
BASE = re.compile(r"torch\.nn\.(?:Linear|Bilinear|Conv\w+|Embedding)")
UNBIASED = re.compile(r"\bbias\s*=\s*(?!True)")
FROZEN = re.compile(r"requires_grad *= *False")
BIASED = re.compile(r"Linear|Conv\w*$|[hc]Norm")  # layers with a bias, unless they are told to have none


def weighted_parts(cls: ClassInfo, project: Project) -> dict[str, Value]:
    """The attributes of the instances of a class that are layers with parameters."""
    held = {name: v for c in reversed(cls.lineage()) for name, v in c.attrs.items()}
    return {name: v for name, v in held.items() if weighted(v, cls.module, project)}


def weights(cls: ClassInfo) -> dict[str, Value]:
    """The attributes of the instances of a class that are parameters, or lists of them, and not frozen ones."""
    held = {name: v for c in reversed(cls.lineage()) for name, v in c.attrs.items() if v.name in PARAMETERS}
    made = [s for c in cls.lineage() if held for m in c.methods.values() for s in m.scope.body.walk() if not s.blocks]
    frozen = {d for s in made if any(d[5:] in held for d in s.defs) and FROZEN.search(code(s.node)) for d in s.defs}
    return {name: v for name, v in held.items() if f"self.{name}" not in frozen}


def of_base(cls: ClassInfo, project: Project) -> dict[str, Value]:
    """The weight and the bias that a class has from the layer of torch's it is derived from, where its own forward
    computes with them itself: `return F.linear(x, self.weight)` leaves the bias out."""
    forward = cls.method("forward")
    if forward is None or not BASE.fullmatch(cls.torch_base):
        return {}
    methods = [m for each in cls.lineage() for m in each.methods.values()]
    calls = [(c, m.name) for m in methods for s in m.scope.body.walk() for c in s.calls]
    if any(name_called(c) in ("super", "forward") and name != "__init__" for c, name in calls):
        return {}
    starred = any(a.star for c, name in calls if name == "__init__" and name_called(c) == name for a in c.args)
    biased = cls.torch_base != "torch.nn.Embedding" and not starred and not project.says(UNBIASED)
    return {name: Value("param", PARAMETERS[0], place=f"self.{name}") for name in ("weight", "bias")[: 1 + biased]}


def handed(cls: ClassInfo) -> dict[str, Value]:
    """The attributes of the instances of a class that a forward calls, and that it was given: layers, it may be."""
    attrs = [c.attrs for c in reversed(cls.lineage())]
    held = {n: v for each in attrs for n, v in each.items() if not v.name and v.kind in ("unknown", "module")}
    init, forward = (cls.method("__init__"), cls.method("forward")) if held else (None, None)
    if init is None or forward is None:
        return {}
    params = set(init.scope.params)
    bound = [(s.node, d) for s in init.scope.body.walk() for d in s.defs if type(s.node) is cst.Assign]
    kept = {d[5:] for node, d in bound if d.startswith("self.") and code(node.value) in params}
    called = {code(c.func)[5:] for s in forward.scope.body.walk() if kept for c in s.calls}
    return {name: held[name] for name in kept & called & held.keys()}


def weighted(value: Value, module: ModuleInfo, project: Project) -> bool:
    """A layer with parameters, for all that is seen."""
    if value.kind != "module" or value.likely:
        return False
    cls = class_of(value, module, project)
    if cls is not None and cls.weighted:
        return True
    return bool(WEIGHTED.search(value.name if cls is None else cls.torch_base))  # `class Scaled(nn.Linear)` as well


def read_beyond(event: Event, owners: list[Owner], events: list[Event], module: ModuleInfo, project: Project) -> str:
    """A network whose gradients are read as a whole, of which the optimizers hold a part only; "" if there is none.

    What scales or clamps each gradient by itself may leave out those that no optimizer takes; a norm may not.
    """
    reads = event.kind in ("leaf_grad", "grad_loop") and not event.writes
    if not reads and event.kind != "clip_norm" or project.freezes:
        return ""
    meant = [o for o in owners if o.kind == "optimizer" and concerns(event, o, owners)]
    if not reads and relation(event, meant) == "other":
        return ""  # which is no clipping of theirs: it is refused by itself
    held = [o.owns for o in meant]
    owns = frozenset().union(*(o for o in held if o is not None))
    if not owns or None in held or any(o.startswith(("^", "@")) for o in owns):
        return ""
    reached = frozenset().union(*(e.value.deps for e in events if e.kind in ("backward", "handed")))
    for whole in event.value.deps:
        below = [o for o in owns if o.startswith(f"{whole}.")]
        if below and len(below) == len([o for o in owns if overlaps(o, whole)]) and not whole.startswith(("^", "@")):
            value = _network(whole, event.stmt.block.scope, module)
            if _lacks(whole, value, below, reached, module, project):
                return whole
    return ""


def _network(place: str, scope: Scope, module: ModuleInfo) -> Value | None:
    """What a scope knows of the network at a place."""
    nodes = (n for s in scope.body.stmts for n in s.nodes if type(n) in (cst.Name, cst.Attribute))
    values = (module.value(n) for n in nodes)
    return next((v for v in values if v.kind == "module" and v.name and v.place == place), None)


def _lacks(
    whole: str, value: Value | None, held: list[str], reached: frozenset[str], module: ModuleInfo, project: Project
) -> bool:
    """Some layer of a network that has gradients, or its bias, is not among these parts of it."""
    if any(f"{PART}:" in h or ":>" in h for h in held):
        return False  # a slice of its layers
    picked = [h for h in held if PICKED in h]
    if picked:  # two conditions may pick all of it between them
        return held == picked and len(held) == 1 and "requires_grad" not in held[0]
    parts = _places(whole, value, module, project) if value is not None else {}
    missing = [part for part in parts if not any(overlaps(part, h) for h in held)]
    if any(overlaps(part, r) for part in missing for r in reached):
        return True
    weights = [p for p in parts if f"{p}.weight" in held and not any(h in held for h in (p, f"{p}.bias"))]
    return not module.has("bias=") and any(BIASED.search(parts[p].name) for p in weights)


def _places(whole: str, value: Value, module: ModuleInfo, project: Project) -> dict[str, Value]:
    """Where the layers with parameters of a network are, as far as they are seen."""
    if value.name == "torch.nn.Sequential":
        items = {f"{whole}{PART}{n}>": v for n, v in enumerate(value.items or ())}
        return {place: v for place, v in items.items() if weighted(v, module, project)}
    cls = class_of(value, module, project)
    return {f"{whole}.{name}": v for name, v in weighted_parts(cls, project).items()} if cls is not None else {}
