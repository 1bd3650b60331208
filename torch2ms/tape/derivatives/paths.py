"""What lies between the inputs of a gradient call and its output: the statements that a compiled function repeats."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import expression_uses, root
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.tape.derivatives.closed import layers_of
from torch2ms.tape.derivatives.gradcalls import GradCall, read
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.dependents import silenced, varied_uses
from torch2ms.tape.forward.effects import pure
from torch2ms.tape.model import Event
from torch2ms.tape.plan import Plan

RANDOM = frozenset(
    "rand randn randint randperm normal bernoulli multinomial dropout dropout2d dropout3d alpha_dropout uniform "
    "rsample sample rand_like randn_like normal_ uniform_".split()
)
DROPPING = re.compile(r"^torch\.nn\.(?:\w*Dropout\w*|RReLU)$")


class Misfit(Exception):
    """Why a gradient has no compiled form of its own."""


@dataclass
class Around:
    """Where the gradient calls stand."""

    scope: Scope
    module: ModuleInfo
    project: Project
    plan: Plan
    writer: Writer
    events: list[Event]
    callee: dict[int, FunctionInfo]
    repeats: bool  # a forward that runs twice gives the same values both times
    called: dict[int, tuple[str, ...]] = field(default_factory=dict)  # statements that call compiled functions with
    # names alone, and by what those are differentiated; MindSpore gives zeros for other inputs than the first time
    gone: set[int] = field(default_factory=set)  # statements that only such functions repeat

    def unseen(self, stmts: list[Stmt]) -> set[str]:
        """What running the statements again assumes of networks that are not seen."""
        names = set()
        for call, home in calls_run(stmts, self):
            value, name = home.value(call.func), dotted(call.func)
            given = name in self.scope.params or not self.repeats and name.startswith("self.")
            if value.kind == "module" and not value.name or value.kind == "unknown" and given:
                names.add(f"`{name}`")
        told = f"{', '.join(sorted(names))} {'draw' if len(names) > 1 else 'draws'} no random numbers"
        return {f"{told} and {'keep' if len(names) > 1 else 'keeps'} no running values"} if names else set()

    def again(self, stmts: list[Stmt], forward: list[Stmt]) -> set[str] | None:
        """What is assumed where statements of a forward run for another gradient as well; None: they may not.

        Networks that the function itself puts into training mode are taken for what they are then.
        """
        if not self.repeats:
            return set() if all(pure(s, self.module) for s in stmts) else None
        assumed = self.unseen(forward) if stmts else set()
        return None if assumed and any(_trains(c) for s in self.scope.body.walk() for c in s.calls) else assumed

    def together(self, arguments: Iterable[str]) -> None:
        """One compiled function takes these: the parameters of cells among them need different names."""
        places = set(arguments)
        cells = {v.place for v in self.module.values.values() if v.kind == "module" and v.place in places}
        if len(cells) > 1:
            self.plan.together.append(frozenset(cells))


def _trains(call: cst.Call) -> bool:
    """`model.train()`."""
    return name_called(call) == "train" and not call.args and isinstance(call.func, cst.Attribute)


@dataclass(eq=False)
class Path:
    """One call, and the statements from the inputs to what it differentiates, in order."""

    call: GradCall
    steps: list[Stmt] = field(default_factory=list)


class Way:
    """The way from the inputs of one call to its output, and what goes it."""

    def __init__(self, call: GradCall, around: Around) -> None:
        self.call, self.event, self.around = call, call.event, around
        self.scope, self.module, self.plan = around.scope, around.module, around.plan
        self.inputs = list(call.inputs)
        self.calls = {id(e.stmt): e for e in around.events if e.kind == "gradcall"}
        self.tainted: set[str] = set()
        self.copied: set[int] = set()  # statements that stay where they are as well
        self.path = self.grown()

    def grown(self) -> Path:
        """The statements that lead to the output; those of inner calls are with respect to the same inputs."""
        while True:
            varied = self.varied()
            path = Path(self.call, self.leading(self.event, varied))
            more = [
                name
                for stmt in path.steps
                if (event := self.calls.get(id(stmt))) is not None
                for name in self.own(event).inputs
                if name not in self.inputs
            ]
            if not more:
                return path
            self.inputs += list(dict.fromkeys(more))

    def own(self, event: Event) -> GradCall:
        call = read(event, self.module, attributes=True)
        if isinstance(call, str) or call.weights is not None:
            raise Misfit("a gradient inside its forward has no compiled form")
        return call

    def varied(self) -> set[int]:
        """The statements whose results vary with the inputs, as these are bound at the call."""
        event = self.event
        bound = {name: self.binding(name) for name in self.inputs}
        start = min(s.number if s is not None else -1 for s in bound.values())
        loops = {id(s) for a in event.stmt.ancestors() if a.is_loop for s in a.walk()}
        wanted = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
        self.tainted = set(self.inputs)
        found: set[int] = set()
        carried = wanted - self.fresh_names() - {*self.inputs} if loops else set()
        if carried & {root(d) for d in event.stmt.defs}:
            raise Misfit("its output is made in an earlier turn of a loop")
        for stmt in self.scope.body.walk():
            later = stmt.number > event.stmt.number
            if stmt is event.stmt or stmt.blocks or later and id(stmt) not in loops or stmt.number <= start:
                continue
            if silenced(stmt, self.module) or not self.uses(stmt):
                continue
            written = {root(d) for d in stmt.defs | stmt.muts}
            if flags(stmt.node):
                continue
            if later:
                if written & carried:
                    raise Misfit("its output is made in an earlier turn of a loop")
                continue
            if any(s is not None and stmt.number < s.number and n in stmt.uses for n, s in bound.items()):
                raise Misfit("an input has another value where its forward runs")
            if stmt not in bound.values():
                self.tainted |= written
                found.add(id(stmt))
        return found

    def uses(self, stmt: Stmt) -> bool:
        """What the statement makes varies with the inputs; parameters of a definition are names of its own."""
        event = self.calls.get(id(stmt))
        if event is not None and not event.create_graph:
            return False  # gradients without a graph
        if type(stmt.node) is cst.FunctionDef or type(stmt.node) is cst.ClassDef:
            return bool({root(u) for u in stmt.uses} & self.tainted)
        return varied_uses(stmt.node, self.tainted)

    def fresh_names(self) -> set[str]:
        """Names that each turn of the innermost loop binds before the call."""
        above: set[str] = set()
        stmt = self.event.stmt
        for outer in stmt.ancestors():
            block = stmt.block.stmts
            above |= {root(d) for s in block[: block.index(stmt)] for d in liveness.definite(s)}
            if outer.is_loop:
                return above | {root(d) for d in outer.defs}
            stmt = outer
        return above

    def binding(self, name: str) -> Stmt | None:
        """The last statement above the call that binds an input."""
        made = [s for s in self.scope.body.walk() if name in s.defs and s.number < self.event.stmt.number]
        return made[-1] if made else None

    def leading(self, event: Event, varied: set[int]) -> list[Stmt]:
        """The varied statements, of the block of the call and those around it, that lead to what it differentiates."""
        wanted = {root(u) for r in event.roots for u in expression_uses(r, event.stmt)}
        steps: list[Stmt] = []
        stmt, block = event.stmt, event.stmt.block
        while True:
            for before in reversed(block.stmts[: block.stmts.index(stmt)]):
                names = {root(d) for d in before.all_defs | before.all_muts} & wanted
                if not names or not any(id(s) in varied for s in before.walk()):
                    continue
                if before.blocks:
                    raise Misfit("its forward has control flow that compiled code would freeze")
                steps.append(before)
                wanted |= {root(u) for u in before.uses}
            if block.owner is None:
                break
            if isinstance(block.owner.node, cst.For) and block.owner.defs & wanted & self.tainted:
                raise Misfit("its output is an element of what a loop runs over")
            stmt, block = block.owner, block.owner.block
        return self.begun(sorted(steps, key=lambda s: s.number))

    def begun(self, steps: list[Stmt]) -> list[Stmt]:
        """With the statements that bind what the others bind anew: `x = images` before `x = relu(fc(x))`. Inside a
        function a name that is bound there is its own from the start."""
        while names := _read_first(steps):
            before = [s for s in self.scope.body.walk() if s.number < steps[0].number and s.defs & names]
            last = before[-1] if before else None
            if last is None or last.block is not steps[0].block or not last.is_small or not pure(last, self.module):
                raise Misfit(f"`{min(names)}` is bound anew in its forward")
            steps = [last, *steps]
            self.copied.add(id(last))
        return steps


def _read_first(steps: list[Stmt]) -> set[str]:
    """Names that the statements bind, after they have read them."""
    made = {root(d) for s in steps for d in s.defs}
    found: set[str] = set()
    bound: set[str] = set()
    for stmt in steps:
        found |= {root(u) for u in stmt.uses} & made - bound
        bound |= {root(d) for d in stmt.defs}
    return found


def flags(node: cst.CSTNode) -> bool:
    """`x.requires_grad_(True)`, `x.retain_grad()` and `x.requires_grad = True` as statements: no value changes."""
    if isinstance(node, cst.Assign):
        target = node.targets[0].target
        return type(target) is cst.Attribute and target.attr.value == "requires_grad"
    call = node.value if isinstance(node, cst.Expr) else None
    named = isinstance(call, cst.Call) and isinstance(call.func, cst.Attribute)
    return named and call.func.attr.value in ("requires_grad_", "retain_grad")  # type: ignore[union-attr]


def calls_run(stmts: list[Stmt], around: Around) -> Iterator[tuple[cst.Call, ModuleInfo]]:
    """The calls of the statements, and those of the functions and networks of the project that they run."""
    for stmt, info in statements_run(stmts, around):
        home = around.module if info is None else info.module
        yield from ((call, home) for call in stmt.calls)


def statements_run(stmts: list[Stmt], around: Around) -> Iterator[tuple[Stmt, FunctionInfo | None]]:
    """The statements, and those of the functions and networks of the project that they run, with what they are of."""
    waiting: list[tuple[Stmt, FunctionInfo | None]] = [(inner, None) for s in stmts for inner in s.walk()]
    seen: set[int] = set()
    while waiting:
        stmt, within = waiting.pop()
        yield stmt, within
        home = around.module if within is None else within.module
        for call in stmt.calls:
            info = around.callee.get(id(call))
            value = home.value(call.func)
            if info is None and value.kind == "module" and value.name:
                cls = around.project.find(value.name, home)
                info = cls.method("forward") if isinstance(cls, ClassInfo) else None
            if info is not None and id(info) not in seen:
                seen.add(id(info))
                waiting += [(s, info) for s in info.scope.body.walk()]


def drawing(call: cst.Call, home: ModuleInfo) -> bool:
    """The call draws random numbers."""
    name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
    where, run = dotted(call.func), home.value(call.func)
    if run.kind == "module" and any(DROPPING.search(layer) for layer in layers_of(run)):
        return True
    return name in RANDOM and run.kind != "function" or "random" in where or "rng" in where


def draws(stmts: list[Stmt], around: Around) -> bool:
    """Something that the statements run draws random numbers: run twice, they would not give the same values."""
    return any(drawing(call, home) for call, home in calls_run(stmts, around))
