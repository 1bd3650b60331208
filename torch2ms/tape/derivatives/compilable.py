"""Whether the statements between the inputs and the output of a gradient call can go into a compiled function."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.program.structures import used_as_dict
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.tape.derivatives import compiled
from torch2ms.tape.derivatives.gradcalls import GradCall, captured
from torch2ms.tape.derivatives.mixing import SHOWING, mixes
from torch2ms.tape.derivatives.paths import Around, Misfit, Way, calls_run, drawing, flags, statements_run
from torch2ms.tape.derivatives.two_askers import WHY as TWO_ASK
from torch2ms.tape.derivatives.two_askers import two_askers
from torch2ms.tape.derivatives.written import assumed_of, found_in, problem_of, unmeasured, within
from torch2ms.tape.forms.calls import all_ones
from torch2ms.tape.forms.graphmode import Check
from torch2ms.tape.forms.kept_names import kept_among
from torch2ms.tape.forward.dependents import renamed
from torch2ms.tape.ledger.hooks import hooked
from torch2ms.tape.model import Event

BACKWARD = re.compile(r"\.backward\(")
DICT = "`{0}` is a dict of tensors, whose gradients compiled code loses"
KEYS = "names"  # of the inputs, where they are the values of a dict
LEAVING = ("item", "numpy", "tolist")
STEPPING = ("step", "scaler_step", "step_closure")


class Compilable(Way):
    """One call, with those it is made of, that can be compiled; raises Misfit where it cannot."""

    def __init__(self, call: GradCall, around: Around) -> None:
        super().__init__(call, around)
        self.assumed: set[str] = set()
        self.inner = {n: n.rpartition(".")[2] for n in self.inputs}  # place of an input -> its name inside
        self.arguments: dict[str, str] = {}
        self.smooth: dict[int, str] = {}  # losses in functions that its forward calls, which are written out there
        self.expressions: dict[int, str] = {}  # attributes that have a short name inside
        self.check()

    def check(self) -> None:
        steps, event = self.path.steps, self.event
        used = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
        if not used & self.tainted:
            if together := next((s for n in self.inputs if (s := self.binding(n)) is not None and s.defs & used), None):
                names = sorted(together.defs & {*self.inputs, *used})
                raise Misfit(f"`{'` and `'.join(names)}` come out of one call: let its parts be called one by one here")
            raise Misfit("the graph between its inputs and outputs is made by the caller of this function")
        if len(set(self.inner.values())) != len(self.inner):
            raise Misfit("two things its forward uses have the same short name")
        if self.tainted & {place for stmt in self.scope.body.walk() for place in hooked(stmt)}:
            raise Misfit("a hook on a tensor that is part of it runs for both gradients")
        for stmt in [*steps, event.stmt]:
            if stmt is not event.stmt and (stmt.muts or any("." in d for d in stmt.defs)):
                raise Misfit("its forward changes attributes or tensors in place")
        if renamed(self.inputs, event, self.scope, steps):
            raise Misfit("its forward uses an input under another name as well")
        if any(id(s) in self.plan.contexts for s in steps if id(s) not in self.around.gone):
            raise Misfit("its forward is part of a compiled function")
        if len(event.roots) > 1 and any(c is not None and not all_ones(c, self.scope) for c in event.cotangents):
            raise Misfit("a gradient of a gradient with cotangents of several outputs")
        self.runs()
        self.losses()
        for stmt in steps:
            inner = self.calls.get(id(stmt))
            self.capture(stmt, [stmt.node] if inner is None else [*inner.roots, *self.besides(inner)])
        self.capture(event.stmt, list(event.roots))
        self.unchanged()
        names = [*self.inner.values(), *self.arguments.values(), *([KEYS] if self.call.mapped else [])]
        made = {root(d) for s in steps for d in s.defs}
        if len(set(names)) != len(names) or made & set(names):
            raise Misfit("two things its forward uses have the same short name")
        if not self.around.repeats and not self.kept() and self.dead() < self.moved:
            raise Misfit("its forward is run for another gradient too, and would not give the same values twice")
        if self.event.create_graph and two_askers(self.arguments, self.scope, self.around.project):
            raise Misfit(TWO_ASK)

    def besides(self, event: Event) -> list[cst.CSTNode]:
        """What a statement with a gradient call uses beside the call."""
        whole = self.own(event).whole
        hidden = {id(n) for n in descend(whole)}
        return [n for n in event.stmt.nodes if type(n) is cst.Name and id(n) not in hidden]

    def runs(self) -> None:
        """Nothing that runs in the forward draws numbers, or makes Python values of tensors."""
        for node, home in calls_run([*self.path.steps, self.event.stmt], self.around):
            if node is self.event.node:
                continue
            if drawing(node, home):
                raise Misfit("its forward draws random numbers")
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
            where = dotted(node.func)
            if name in LEAVING or name in ("float", "int", "bool", "print", "input", "open") and "." not in where:
                raise Misfit("its forward makes Python values of tensors, which compiled code would freeze")
            if where == "dict" and all(n is not self.event.node for n in descend(node)):
                raise Misfit("its forward makes a dict, whose values compiled code mixes up")
        for stmt, info in statements_run([*self.path.steps, self.event.stmt], self.around):
            if stmt is not self.event.stmt:
                home = self.module if info is None else info.module
                if reason := compiled.problem(stmt, info, home, self.around.project):
                    raise Misfit(reason)

    def losses(self) -> None:
        """What has no second derivative can be written out."""
        stmts = [*self.path.steps, self.event.stmt] if self.twice else []
        if name := unmeasured(stmts, self.around):
            raise Misfit(f"{name} has no second derivative in MindSpore")
        self.smooth, problem = within(stmts, self.around, Check(self.around.project).bare)
        if problem:
            raise Misfit(problem)
        for key, stmt in found_in(stmts, self.module).items():
            node = next(c for c in stmt.calls if id(c) == key)
            if problem := problem_of(node, self.module, Check(self.around.project).bare):
                raise Misfit(problem)
            self.assumed |= assumed_of(node, self.module)

    def capture(self, stmt: Stmt, nodes: list[cst.CSTNode]) -> None:
        """Give every value from outside that the nodes use a parameter."""
        made = {root(d) for s in self.path.steps for d in s.defs}
        within = {id(n) for node in nodes for n in descend(node)}
        for node in stmt.nodes:
            if id(node) in within and type(node) is cst.Attribute and (place := dotted(node)) in self.inner:
                self.expressions[id(node)] = self.inner[place]
        within -= {id(n) for node in stmt.nodes if dotted(node) in self.inner for n in descend(node)}
        for place in sorted(captured(stmt, self.module, made)):
            places = [n for n in stmt.nodes if id(n) in within
                      and (type(n) is cst.Attribute or type(n) is cst.Name) and dotted(n) == place]  # fmt: skip
            if place in self.inner or not places or any(place.startswith(n + ".") for n in self.inner):
                continue
            if any(used_as_dict(n, place, self.module, self.around.project) for n in nodes):
                raise Misfit(DICT.format(place))
            short = place.rpartition(".")[2]
            if self.arguments.setdefault(place, short) != short:
                raise Misfit("two things its forward uses have the same short name")
            if "." in place:
                self.expressions |= {id(n): short for n in places}
        covered = {id(n) for node in stmt.nodes if dotted(node) in {*self.arguments, *self.inner}
                   for n in descend(node)}  # fmt: skip
        parts = {id(n.attr) for n in stmt.nodes if type(n) is cst.Attribute}
        parts |= {id(n.keyword) for n in stmt.nodes if type(n) is cst.Arg and n.keyword is not None}
        parts |= {id(n) for c in stmt.nodes if isinstance(c, (cst.BaseComp, cst.Lambda)) for n in descend(c)}
        local = _locals(self.scope)
        for node in stmt.nodes:
            if type(node) is not cst.Name or id(node) not in within or id(node) in parts | covered:
                continue
            value = self.module.value(node)
            if value.kind in ("dict", "named_params") and value.deps:
                raise Misfit(DICT.format(node.value))
            if node.value in made or node.value not in local and node.value != "self":
                continue
            raise Misfit(f"it uses `{node.value}`, which compiled code cannot be given")

    def unchanged(self) -> None:
        """What the forward uses is at the call what it was when the forward ran."""
        last, taken = self.event.stmt, {id(s) for s in self.path.steps}
        for step in self.path.steps:
            places = {p for p in self.arguments if any(overlaps(p, u) for u in step.uses)} | step.defs | {*self.inputs}
            loops = [a for a in last.ancestors() if a.is_loop and step not in set(a.walk())]
            between = {id(s): s for s in self.scope.body.walk() if step.number < s.number < last.number}
            for stmt in (between | {id(s): s for a in loops for s in a.walk()}).values():
                if id(stmt) in taken or flags(stmt.node):
                    continue
                if changed := sorted(p for d in stmt.defs | stmt.muts for p in places if overlaps(d, p)):
                    raise Misfit(f"`{changed[0]}` changes between its forward and the call")
            if any(e.kind in STEPPING and step.number < e.stmt.number < last.number for e in self.around.events):
                raise Misfit("weights change between its forward and the call")

    def named_elsewhere(self, stmt: Stmt, gone: set[int]) -> set[str]:
        """Names that a step defines and that stand elsewhere than in the call and the steps that go."""
        given = [c for c in self.event.cotangents if c is not None and not all_ones(c, self.scope)]
        passed = {id(n) for c in given for n in descend(c)}
        hidden = {id(n) for n in descend(self.event.node)} - passed
        hidden |= {id(n) for s in [stmt, *(s for s in self.path.steps if id(s) in gone)] for n in s.nodes}
        left = {n.value for n in descend(self.scope.node) if type(n) is cst.Name and id(n) not in hidden}
        return {root(d) for d in stmt.defs} & left

    def read_elsewhere(self, stmt: Stmt, gone: set[int]) -> set[str]:
        """Names that a step defines and others read than the call, the steps that go, and the compiled function."""
        kept = kept_among([stmt], stmt.block, self.module)
        named, event = self.named_elsewhere(stmt, gone) | kept, self.event
        if not named or stmt.block is not event.stmt.block:
            return named
        own = gone | self.ones().keys() | {id(stmt), id(event.stmt)}
        region = [s for s in stmt.block.stmts if id(s) in own]
        live = liveness.read_after(stmt.block, region, stmt.block.stmts.index(stmt))
        given = {id(n) for c in event.cotangents if c is not None and not all_ones(c, self.scope) for n in descend(c)}
        call = {id(n) for n in descend(event.node)} - given
        beside = {n.value for n in event.stmt.nodes if type(n) is cst.Name and id(n) not in call}
        return named & (live | beside | kept)

    @property
    def moved(self) -> set[int]:
        """The steps that may go from where they are."""
        return {id(s) for s in self.path.steps} - self.copied

    def dead(self) -> set[int]:
        """The steps whose results nobody but the compiled function reads: they go."""
        gone: set[int] = set()
        for stmt in reversed(self.path.steps):
            around = any(a.is_loop and stmt not in set(a.walk()) for a in self.event.stmt.ancestors())
            if not around and id(stmt) not in self.calls.keys() | self.copied and not self.read_elsewhere(stmt, gone):
                gone.add(id(stmt))
        return gone

    def kept(self) -> str:
        """The name of the output, where it is all that others read of the forward, and only behind the call."""
        stmts, event = self.path.steps, self.event
        name = event.roots[0].value if len(event.roots) == 1 and isinstance(event.roots[0], cst.Name) else ""
        if not name or not stmts or any(s.block is not event.stmt.block or id(s) in self.calls for s in stmts):
            return ""
        gone = {id(s) for s in stmts}
        if set().union(*(self.read_elsewhere(s, gone) for s in stmts)) != {name}:
            return ""
        inside = [s for s in event.stmt.block.stmts if stmts[0].number < s.number < event.stmt.number if s not in stmts]
        cotangents = any(c is not None and not all_ones(c, self.scope) for c in event.cotangents)
        return "" if cotangents or any(name in {root(u) for u in s.all_uses} for s in inside) else name

    def ones(self) -> dict[int, Stmt]:
        """Statements that only make a cotangent of ones, which MindSpore takes by itself, by their ids."""
        found: dict[int, Stmt] = {}
        names = {c.value for c in self.event.cotangents if isinstance(c, cst.Name) and all_ones(c, self.scope)}
        for stmt in self.scope.body.walk():
            if stmt.defs and stmt.defs <= names and not self.named_elsewhere(stmt, set()):
                found[id(stmt)] = stmt
        return found

    @property
    def twice(self) -> bool:
        """Its gradient, or that of what it is made with, is differentiated again."""
        recorded = self.call.listed and self.module.says(BACKWARD)  # compiled code gets its gradient in any case
        return self.event.create_graph or recorded or any(id(s) in self.calls for s in self.path.steps)

    def undecided(self, gone: set[int], keeps: str) -> bool:
        """Parameters that shift the output have no part in its gradient, and an optimizer would decay them."""
        if keeps or self.call.listed or gone < self.moved or not decays(self.around.project):
            return False
        own = {id(c) for s in self.path.steps for c in s.calls} | {id(n) for n in descend(self.event.node)}
        for module in self.around.project.modules.values():
            for scope in module.scope.walk():
                info = module.functions.get(id(scope))
                if info is not None and info.cls is not None and info.cls.kind == "module":
                    continue
                calls = (c for stmt in scope.body.walk() for c in stmt.calls if id(c) not in own)
                if any(module.value(c.func).kind == "module" for c in calls):
                    return True
        if self.mixed():
            return False
        raise Misfit("an optimizer decays parameters that have no part in a gradient, which torch leaves alone")

    def mixed(self) -> bool:
        """Each parameter of the one network that makes the output has a part in the gradient."""
        own = [(c, s) for s in [*self.path.steps, self.event.stmt] for c in s.calls if c is not self.event.node]
        runs = [(c, s) for c, s in own if self.runs_network(c)]
        if len(runs) != 1 or not all(name_called(c) in SHOWING for c, _ in own if c is not runs[0][0]):
            return False
        stmts = [*self.path.steps, self.event.stmt]
        read = (self.module.value(n) for s in stmts for n in s.nodes if dotted(n) not in self.inputs)
        if any(v.leaf or v.kind == "param" or v.name in ("parameter", "module_param") for v in read):
            return False  # it may only be added
        return mixes(*runs[0], self.module, self.around.project)

    def runs_network(self, call: cst.Call) -> bool:
        func = call.func
        own = isinstance(func, cst.Attribute) and dotted(func.value) == "self" and func.attr.value == "forward"
        return own or self.module.value(func).kind == "module"


@once
def decays(project: Project) -> bool:
    """Some optimizer moves parameters whose gradient is zero."""
    for module in project.modules.values():
        for call in (c for s in module.scope.walk() for stmt in s.body.walk() for c in stmt.calls):
            name = module.value(call.func).name
            given = [a.value for a in call.args if a.keyword is not None and a.keyword.value == "weight_decay"]
            if name.startswith("torch.optim.") and (given or name.endswith("AdamW")):
                if not given or constant(given[0]) not in (0, None):
                    return True
    return False


def _locals(scope: Scope) -> set[str]:
    """Names of functions around a place, which a function at the top of the module does not see."""
    found: set[str] = set()
    inner: Scope | None = scope
    while inner is not None and not inner.is_module:
        if inner.is_function:
            found |= inner.locals
        inner = inner.parent
    return found
