"""What the forms of one scope share: its plan, the names that are taken, and the loops around a call."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import ROW, any_overlap, overlaps
from torch2ms.tape.forms.calls import Call
from torch2ms.tape.model import Owner
from torch2ms.tape.plan import Function, Plan

CALLS = 3  # functions within functions that are looked into


class Writer:
    """Writes the calls of one scope into the plan."""

    def __init__(self, scope: Scope, module: ModuleInfo, plan: Plan, project: Project | None = None) -> None:
        self.scope = scope
        self.module = module
        self.plan = plan
        self.project = project
        self.gone: set[int] = set()  # statements that are dropped
        self.implied: set[str] = set()  # names of ones that a gradient is multiplied with: nobody is given them
        self.names: set[str] = set()  # that are taken beside those which the module binds

    def fresh(self, base: str) -> str:
        name, i = base, 2
        while name in self.names or name in self.module.bound:
            name, i = f"{base}_{i}", i + 1
        self.names.add(name)
        return name

    def fresh_global(self, base: str) -> str:
        """A name for a function at the top of the module, where those of other scopes stand as well."""
        self.names |= {i.name for items in self.plan.before.values() for i in items if isinstance(i, Function)}
        return self.fresh(base)

    def fresh_index(self) -> str:
        for name in ("i", "k", "n"):
            if name not in self.names and name not in self.module.bound:
                return name
        return self.fresh("index")

    def fresh_once(self, name: str) -> str:
        self.names.add(name)
        return name

    def suffix(self, call: Call) -> str:
        if not call.several:
            return ""
        if len(call.event.roots) > 1 and len(call.owners) == 1 and call.owners[0].variable.endswith("_grads"):
            return call.owners[0].variable.removesuffix("_grads")  # a sum of several: they have the network in common
        node = call.event.roots[0]
        name = call.event.name or dotted(node).rpartition(".")[2]
        if not name and isinstance(node, cst.Call):
            name = dotted(node.func).rpartition(".")[2].removeprefix("backward_").removeprefix("compute_")
        return name or "loss"

    def hoist(self, call: Call) -> Stmt | None:
        """The outermost loop above which the gradient function can be made: its weights do not change inside.

        A function that stands in front of its statements is called by them, and stays in the loop as they do.
        """
        if any(isinstance(item, Function) for s in call.region.all for item in self.plan.before.get(id(s), [])):
            return None
        if self.module.grows and any(o.kind == "optimizer" for o in call.owners):
            return None
        first = call.region.all[0] if call.region.all else call.event.stmt
        anchor = first if not call.region.guards else call.region.guards[0]
        found = None
        weights = {root(o.place) for o in call.owners if o.kind != "leaf" or o.parameter}
        if call.weights is not None:
            weights |= {root(u) for u in expression_uses(call.weights, call.event.stmt)}
        if not call.region.all:  # a called function is differentiated as it is: it is there where it is defined
            weights |= {root(dotted(r.func)) for r in call.event.roots if isinstance(r, cst.Call)}
        for ancestor in anchor.ancestors():
            if isinstance(ancestor.node, (cst.For, cst.While)):
                changed = {root(d) for d in ancestor.all_defs if d in {o.place for o in call.owners} or "." not in d}
                if changed & weights:
                    break
                found = ancestor
        return found

    def declared(self, *kinds: type) -> set[str]:
        """Names the scope declares global or nonlocal, or one of these `kinds`."""
        return {
            i.name.value
            for s in self.scope.body.walk()
            if type(s.node) in (kinds or (cst.Global, cst.Nonlocal))
            for i in s.node.names  # type: ignore[union-attr]
        }

    def unbound(self, stmts: list[Stmt], names: list[str]) -> set[str]:
        """Names without a value before the statements: a loop binds them that, for all we know, takes no turn."""
        inside = {id(i) for s in stmts for i in s.walk()}
        bound = {d for s in self.scope.body.walk() if id(s) not in inside for d in s.defs} | set(self.scope.params)
        return {n for n in names if n not in bound}

    def is_tensor(self, name: str, stmts: list[Stmt]) -> bool:
        """Every use of the name in the statements is a tensor."""
        seen = [
            self.module.value(n)
            for s in stmts for n in s.nodes
            if type(n) is cst.Name and n.value == name
        ]  # fmt: skip
        return bool(seen) and all(v.kind == "tensor" for v in seen)

    def kinds(self, name: str, stmts: list[Stmt]) -> set[str]:
        """What the name is where the statements use it, and where they bind it."""
        nodes = (n for s in stmts for n in s.nodes if type(n) is cst.Name and n.value == name)
        bound = (inner.out[name].kind for s in stmts for inner in s.walk() if name in inner.out)
        return {self.module.value(n).kind for n in nodes if id(n) in self.module.values} | set(bound)

    def varied(self, name: str, stmts: list[Stmt]) -> bool:
        return any(inner.out[name].deps for s in stmts for inner in s.walk() if name in inner.out)

    def touches(self, stmts: list[Stmt], owner: Owner) -> bool:
        """Statements use the parameters of an owner, also under another name of its network, or in a function."""
        return owner.owns is not None and self.uses_any(stmts, owner.owns, self.module, CALLS)

    def uses_any(self, stmts: list[Stmt], places: frozenset[str], home: ModuleInfo, depth: int) -> bool:
        uses = {u for s in stmts for u in s.all_uses}
        if any(overlaps(u, p) for u in uses for p in places):
            return True
        held = (home.value(n) for s in stmts for n in s.nodes if isinstance(n, (cst.Name, cst.Attribute)))
        if any(any_overlap(v.deps, places) for v in held if v.kind in ("params", "named_params") or v.name == ROW):
            return True
        return any(self.brings(c, places, home, depth) for s in stmts for i in s.walk() for c in i.calls)

    def brings(self, call: cst.Call, places: frozenset[str], home: ModuleInfo, depth: int) -> bool:
        """What is called uses some of the parameters itself, whatever its arguments bring."""
        func = home.value(call.func)
        if func.kind == "module":
            return any_overlap(func.own, places)
        if isinstance(call.func, cst.Attribute) and func.kind in ("unknown", "method"):
            held = home.value(call.func.value)  # `self.critic.act(inputs)` of a network whose class is not seen
            if held.kind == "module" and held.place and any_overlap(held.own, places):
                return True
        if func.kind not in ("function", "method", "object") or not any_overlap(home.value(call).deps, places):
            return False
        found = self.project.find(func.name, home) if self.project is not None and func.name else None
        if not isinstance(found, FunctionInfo) or not depth:
            return isinstance(call.func, cst.Name)  # a lambda, an object; no method of a tensor
        given = any(any_overlap(v.own, places) for v in (home.value(a.value) for a in call.args) if v.kind == "module")
        return given or self.uses_any(found.scope.body.stmts, places, found.module, depth - 1)
