"""What the forward of an autograd.Function hands to its backward, and where a Cell's bprop finds the same values."""

from __future__ import annotations

from dataclasses import dataclass, replace

import libcst as cst

from torch2ms.analysis.program.flow import MUTATORS, root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.assigned import assigned
from torch2ms.analysis.syntax.names import dotted, is_foreign
from torch2ms.analysis.syntax.tree import code, constant, descend

RANDOM = {
    "rand", "randn", "randint", "randperm", "rand_like", "randn_like", "randint_like", "bernoulli", "bernoulli_",
    "normal", "normal_", "uniform", "uniform_", "random_", "exponential_", "multinomial", "poisson", "dropout",
    "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_dropout", "gumbel_softmax", "rrelu", "empty",
    "empty_like", "random", "choice", "shuffle", "sample", "rsample", "time", "perf_counter",
}  # fmt: skip
REPEATABLE = {
    "len", "range", "int", "float", "bool", "str", "isinstance", "min", "max", "abs", "sum", "tuple", "list", "sorted",
    "round", "zip", "enumerate", "reversed", "all", "any", "type", "hasattr", "pow",
}  # fmt: skip
SIMPLE = (cst.Assign, cst.AnnAssign, cst.AugAssign, cst.If, cst.For, cst.Pass)
CALLS = {"save_for_backward", "mark_non_differentiable", "set_materialize_grads", "mark_dirty", "save_for_forward"}


class Refused(Exception):
    """Why a custom gradient cannot be written as bprop; the message is for the user."""


@dataclass
class Kept:
    """One value the backward reads: an input, an output, a literal, computed again, or a field of the cell."""

    how: str
    place: str = ""
    index: int = 0
    text: str = ""
    until: int = 0  # it is the value before this statement of the forward
    node: cst.BaseExpression | None = None  # what is not a place but an expression


def direct_calls(body: list[Stmt], ctx: str, name: str) -> list[tuple[Stmt, cst.Call]]:
    """Statements `ctx.name(...)`."""
    found = []
    for stmt in body:
        node = stmt.node
        if (
            isinstance(node, cst.Expr)
            and isinstance(node.value, cst.Call)
            and dotted(node.value.func) == f"{ctx}.{name}"
        ):
            found.append((stmt, node.value))
    return found


def fresh(stmt: Stmt) -> Stmt:
    """The statement once more, for another place; what is planned for the first does not concern it."""
    copy = replace(stmt, leading=(), trailing=None, blocks=[])
    copy.blocks = [replace(block, owner=copy) for block in stmt.blocks]
    for block in copy.blocks:
        block.stmts = [fresh(s) for s in block.stmts]
    return copy


class Context:
    """The function that fills ctx: `forward`, or `setup_context` where the class has one."""

    def __init__(self, keeper: FunctionInfo, ctx: str, inputs: list[str], outputs: list[str]) -> None:
        self.module = keeper.module
        self.scope = keeper.scope
        self.stmts = keeper.scope.body.stmts
        self.ctx = ctx
        self.inputs = inputs
        self.outputs = outputs
        self.again: dict[int, None] = {}  # statements that bprop repeats, by position
        self.skipped: set[int] = set()
        self.saved_by: Stmt | None = None
        self.saved: list[cst.BaseExpression] = []
        self.position = 0
        places = (d for s in self.stmts for d in s.all_defs | s.all_muts)
        self.changing = {root(d) for d in places if self.outside(d)}  # a counter of the class or of the module
        self.objects: set[str] = set()  # inputs that MindSpore's bprop does not get: it hands None for cells
        self.find_saves()

    def find_saves(self) -> None:
        walked = list(self.scope.body.walk())
        found = direct_calls(walked, self.ctx, "save_for_backward")
        if len(found) > 1:
            raise Refused("save_for_backward is called in more than one place")
        if not found:
            return
        self.saved_by, call = found[0]
        if self.saved_by not in self.stmts:
            raise Refused("save_for_backward is called under a condition")
        if any(a.star or a.keyword is not None for a in call.args):
            raise Refused("save_for_backward(*...) hides what is saved")
        self.saved = [a.value for a in call.args]
        self.position = self.stmts.index(self.saved_by)

    # --- where a value comes from

    def saved_values(self) -> list[Kept]:
        return [self.value(node, self.position) for node in self.saved]

    def attribute(self, name: str) -> Kept:
        place = f"{self.ctx}.{name}"
        if not any(place in s.all_defs for s in self.stmts):
            raise Refused(f"nothing in forward sets {place}")
        found = self.at(place, len(self.stmts))
        if found.how == "input" and found.place in self.objects:
            return Kept("field", place, until=len(self.stmts))
        return found

    def value(self, node: cst.BaseExpression, until: int) -> Kept:
        place = dotted(node)
        if constant(node) is not ...:
            return Kept("literal", text=code(node))
        if isinstance(node, cst.Name) or place.startswith(self.ctx + "."):
            return self.at(place, until)
        return self.computed(code(node), {p for p in _places(node)}, until, node)

    def at(self, place: str, until: int) -> Kept:
        writers = [i for i in range(until) if self.writes(i, place)]
        if not writers:
            if place in self.inputs:
                return Kept("input", place, self.inputs.index(place))
            if place in self.outputs:  # of setup_context
                return Kept("output", place, self.outputs.index(place))
            return Kept("literal", text=place)
        if place in self.outputs and not any(self.writes(i, place) for i in range(until, len(self.stmts))):
            return Kept("output", place, self.outputs.index(place))
        last = self.stmts[writers[-1]].node
        value = next((v for t, v in assigned(last) if dotted(t) == place), None)
        if value is not None and not self.changing & {root(p) for p in _places(value)}:
            if constant(value) is not ... or isinstance(value, cst.Name) or dotted(value).startswith(self.ctx + "."):
                found = self.value(value, writers[-1])
                if found.how != "again":
                    return found
        return self.computed(place, {place}, until, None)

    def computed(self, place: str, needed: set[str], until: int, node: cst.BaseExpression | None) -> Kept:
        """Computed again by the same statements where that gives the same value, else kept in the cell."""
        chosen: list[int] = []
        pure = node is None or all(self.repeatable(c) for c in descend(node) if isinstance(c, cst.Call))
        needed = {self.spot(n) for n in needed}
        for i in reversed(range(until)):
            if not any(self.writes(i, n) for n in needed):
                continue
            chosen.append(i)
            stmt = self.stmts[i]
            if isinstance(stmt.node, (cst.Assign, cst.AnnAssign)):
                needed -= {d for d in stmt.defs if "." not in d or d.startswith(self.ctx + ".")}
            needed |= {self.spot(u) for s in stmt.walk() for u in s.uses} - {self.ctx}
            pure = pure and self.pure(stmt)
        if not pure:
            return Kept("field", place, until=until, node=node)
        for i in chosen:
            self.again[i] = None
        return Kept("again", place, until=until, node=node)

    def spot(self, place: str) -> str:
        return place if place.startswith(self.ctx + ".") else root(place)

    def writes(self, position: int, place: str) -> bool:
        if position in self.skipped:
            return False
        stmt = self.stmts[position]
        return any(d == place or root(d) == place for d in stmt.all_defs | stmt.all_muts)

    # --- can it be repeated

    def pure(self, stmt: Stmt) -> bool:
        if self.changing & {root(place) for place in stmt.all_defs | stmt.all_muts | stmt.all_uses}:
            return False
        return all(isinstance(s.node, SIMPLE) and all(self.repeatable(c) for c in s.calls) for s in stmt.walk())

    def outside(self, place: str) -> bool:
        """What is there when the function has returned: it was another when the next one ran."""
        return root(place) not in self.scope.locals and not place.startswith(f"{self.ctx}.")

    def repeatable(self, call: cst.Call) -> bool:
        """Whether the call gives the same value a second time and changes nothing."""
        target = self.module.value(call.func)
        last = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
        if last in RANDOM or last in MUTATORS or (last.endswith("_") and not last.endswith("__")):
            return False
        if target.kind == "api":
            name = target.name
            known = is_foreign(name) or name.startswith(("numpy.", "math."))
            return known and not any(part in RANDOM or part in ("distributed", "cuda") for part in name.split("."))
        if target.kind == "builtin":
            return target.name in REPEATABLE
        return isinstance(call.func, cst.Attribute) and target.kind not in ("class", "function", "module", "autograd")

    def overwritten(self, kept: list[Kept]) -> bool:
        """Repeating the chosen statements would hand the backward something else than what was kept."""
        written = {self.spot(d) for i in self.again for d in self.stmts[i].all_defs | self.stmts[i].all_muts}
        if written & set(self.inputs):
            return True
        return any(
            i >= k.until and self.writes(i, p)
            for k in kept
            if k.how == "again"
            for i in self.again
            for p in ({k.place} if k.node is None else _places(k.node))
        )


def _places(node: cst.CSTNode) -> set[str]:
    return {n.value for n in descend(node) if isinstance(n, cst.Name)} | {p for n in descend(node) if (p := dotted(n))}
