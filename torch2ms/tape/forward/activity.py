"""Activity: which statements make something that is varied with the owners of gradients, and useful for the root."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import gathered
from torch2ms.analysis.values import Value, any_overlap, overlaps
from torch2ms.tape.forward.dependents import silenced
from torch2ms.tape.forward.steps import cut_off, graphless, is_called, lasting, optimized

HOLDERS = {"module", "optimizer", "params", "named_params", "param", "object", "function", "class"}  # of weights
VALUED = {cst.If, cst.While, cst.Assign, cst.AnnAssign}  # statements that read one expression for its value
TENSOR = Value("tensor")
Owns = frozenset[str] | None  # the owners of the gradients; None: anyone


class Activity:
    """What is varied in the statements of one scope."""

    def __init__(self, module: ModuleInfo) -> None:
        self.module = module
        self.foreign: frozenset[str] = frozenset()  # leaves that no optimizer of the callers can own
        self.callers: dict[str, list[Stmt]] = {}  # by name, the statements that call what it holds: no tensor
        self.units: list[set[int]] = []  # ids of statements that gave way to one call: none goes in without the others
        self.known: set[int] | None = None  # the varied statements, where they are known otherwise
        self.arrays = module.has("from_numpy(") or "numpy" in module.imports.table.values()  # it may make some

    def varied(self, stmt: Stmt, wanted: set[str], owns: Owns) -> dict[str, Value]:
        """What the statement makes that is varied with an owner of the gradients, and useful for the root."""
        if self.known is not None:
            known = [s for s in stmt.walk() if id(s) in self.known]
            made = {p: v for s in known for p, v in s.out.items() if any(overlaps(p, u) for u in wanted)}
            return made or ({"": TENSOR} if known else {})
        found = {}
        for place, values in lasting(stmt).items():
            if place in self.callers and is_called(place, stmt, self.callers[place]):
                continue
            for value in values:
                if self.reached(value, owns) and not self.hands_on(place, value, stmt):
                    if any(overlaps(place, u) for u in wanted):
                        found[place] = value
        return found

    def hands_on(self, place: str, value: Value, stmt: Stmt) -> bool:
        """It is weights, or holds them, and nothing is computed of them: a network, `w = net.weight`, lists of such."""
        if value.of_leaves:
            return True
        if value.name.startswith("torch.distributions.") or value.keys is not None:
            return False  # a distribution, or a record, is its tensors
        if value.kind in HOLDERS or value.leaf:
            return True
        listed = value.kind in ("list", "tuple")
        if listed and value.name in ("of param", "of parameter"):
            return True
        rows = value.kind in ("list", "dict", "unknown")  # unknown: what a filter picks
        if rows and place in optimized(stmt.block.scope, self.module):
            return True
        weight = value.name == "module_param"
        itself = value.place if weight else place  # `w = net.weight`
        if {d for d in value.deps if not d.startswith("@")} != {itself}:
            return False
        return listed or weight and place != itself or silenced(stmt, self.module)  # a parameter changes its value

    def reached(self, value: Value, owns: Owns) -> bool:
        """The value is varied with an owner of the gradients."""
        real = frozenset(d for d in value.deps if not d.startswith("@"))
        real -= self.foreign if owns is None else frozenset()
        return bool(real) and (owns is None or any_overlap(real, owns))

    def along(self, stmt: Stmt, active: list[Stmt]) -> dict[str, Value]:
        """The statement is part of a unit that is in the region already."""
        inside = {id(s) for s in active}
        return {"": TENSOR} if any(id(stmt) in unit and unit & inside for unit in self.units) else {}

    def for_others(self, stmt: Stmt, wanted: set[str], owns: Owns, behind: list[Stmt]) -> bool:
        """A network is called for nothing, and behind it the network, or objects that are not seen, are asked for what
        they kept."""
        call = stmt.node.value if isinstance(stmt.node, cst.Expr) else None
        if not isinstance(call, cst.Call) or self.module.value(call.func).kind != "module":
            return False
        asked = (n.value for s in behind for n in s.nodes if type(n) is cst.Attribute)
        own = any(place.startswith(f"{dotted(call.func)}.") for place in wanted)
        kept = own or any(self.module.value(held).kind == "unknown" for held in asked)
        return kept and self.reached(self.module.value(call), owns)

    def ended(self, stmt: Stmt, owns: Owns) -> set[str]:
        """What a statement reads that is varied with an owner of the gradients, where nothing that it makes is.

        An index, a number, a NumPy array: the graph ends there. A call that changes an object may hide it in there.
        """
        found: set[str] = set()
        hidden: set[str] = set()
        cut: set[str] = set()
        whole: set[str] = set()
        for inner in stmt.walk():
            asked = stmt.blocks or self.arrays and any(graphless(c, self.module) for c in inner.calls)
            ends = cut_off(inner, self.module) if asked and not inner.blocks else set()
            cut |= ends
            whole |= inner.uses - ends
            changed = (m for m in inner.muts if root(m) not in self.module.imports.table)  # torch.zeros(2).fill_(1)
            if type(inner.node) not in VALUED or any(changed):
                hidden |= inner.uses
            else:
                found |= self.read(inner, owns)
        return found | (cut - whole) - hidden

    def read(self, stmt: Stmt, owns: Owns) -> set[str]:
        """The varied places that a condition, or the right side of an assignment, reads."""
        read = stmt.node.test if isinstance(stmt.node, (cst.If, cst.While)) else getattr(stmt.node, "value", None)
        found: set[str] = set()
        for node in gathered(read) if read is not None else ():
            if (type(node) is cst.Name or type(node) is cst.Attribute) and (place := dotted(node)) in stmt.uses:
                shown = node.value if type(node) is cst.Attribute and node.attr.value == "data" else node
                value = self.module.value(shown)
                if value.kind == "tensor" and self.reached(value, owns):
                    found |= {u for u in stmt.uses if u == place or u.startswith(f"{place}.")}
        return found
