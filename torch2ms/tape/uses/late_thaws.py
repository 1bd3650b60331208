"""Optimizers made of parameters that are frozen then and thawed while it still steps.

torch's optimizer has them all and passes over what has no gradient; MindSpore's is made of what is trainable at the
time, and never moves the others. Who freezes, who makes and who thaws may stand in three places that only meet when
the program runs (a callback out of a list), so functions are told by their names here, and the order of what happens
by the statements in which those names stand.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import libcst as cst

from torch2ms.analysis.program.answers import once
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted, name_called
from torch2ms.analysis.syntax.tree import constant, descend
from torch2ms.analysis.values import overlaps
from torch2ms.findings import Finding, Tier
from torch2ms.tape.copies import of_new
from torch2ms.tape.plan import Plan
from torch2ms.tape.project import called_as
from torch2ms.tape.uses.call_graph import call_graph
from torch2ms.tape.uses.toggles import NOBODY_KNOWS, Toggle, direct, flag_of, put_back, toggles

MADE = ("module", "tensor", "param", "optimizer", "scheduler", "scaler", "loader", "list", "dict", "tuple", "str")


def refuse_late_thaws(scope: Scope, module: ModuleInfo, project: Project, plan: Plan) -> None:
    """Mark the optimizers of a scope that miss what is thawed later."""
    for make, line in late_thaws(project) if project.freezes and not (module.uses_mindspore or module.skips) else ():
        if make.scope is scope:
            made = f"`{make.place}`" if make.place else "optimizer"
            what = f"{made} made while parameters are frozen that line {line} may thaw"
            why = "MindSpore's optimizer holds what is trainable when it is made, and would never move the others"
            todo = "make a new optimizer when they are thawed, or give them to it with add_param_group"
            plan.refuse(make.stmt, Finding("T2M308", Tier.REFUSED, what, why, todo, make.stmt.lineno))


@dataclass(frozen=True)
class Make:
    """A statement that makes an optimizer, or that calls a function which makes one and leaves it behind."""

    scope: Scope
    module: ModuleInfo
    stmt: Stmt
    place: str  # of the optimizer, or of the object that has it
    owns: frozenset[str] | None  # where its parameters stand; None: not seen from here


@once
def late_thaws(project: Project) -> list[tuple[Make, int]]:
    """The optimizers that lack what is thawed while they still step, and a line that does so."""
    order = order_of(project)
    found = []
    for scope, module in order.scopes if order.thaws else ():
        for make in _makes(scope, module):
            if _filtered(make) or not order.frozen_before(make, set()):
                continue
            if (thaw := next(order.thawed_after(make, set()), None)) is not None:
                found.append((make, thaw.lineno))
    return found


def _makes(scope: Scope, module: ModuleInfo) -> Iterator[Make]:
    for stmt in scope.body.walk():
        for call in stmt.calls if not stmt.blocks else ():
            value = module.value(call)
            if value.kind == "optimizer" and module.value(call.func).kind not in ("function", "method"):
                yield Make(scope, module, stmt, next(iter(sorted(stmt.defs)), ""), value.owns)


def _filtered(make: Make) -> bool:
    """It is given only what is trainable: nobody moves the others, in torch neither."""
    wanted = set(make.stmt.uses)
    for stmt in [s for s in reversed(make.scope.body.walk()) if s.number <= make.stmt.number and not s.blocks]:
        if isinstance(stmt.node, (cst.FunctionDef, cst.ClassDef)):
            continue
        if stmt is make.stmt or (stmt.defs | stmt.muts) & wanted:
            if _asks(stmt.node) or stmt is not make.stmt and any(_asks(test) for test in _conditions(stmt)):
                return True
            wanted |= stmt.uses
    return False


def _conditions(stmt: Stmt) -> Iterator[cst.BaseExpression]:
    """What is asked before it runs: by an `if` around it, or by one in front of it that goes on with the next turn."""
    for around in stmt.ancestors():
        if isinstance(around.node, cst.If):
            yield around.node.test
    for other in stmt.block.stmts:
        if isinstance(other.node, cst.If) and any(isinstance(s.node, cst.Continue) for s in other.walk()):
            yield other.node.test


def _asks(node: cst.CSTNode) -> bool:
    """It reads a flag; `p.requires_grad = False` reads none."""
    read = node.value if isinstance(node, cst.Assign) else node
    return any(isinstance(n, cst.Attribute) and n.attr.value == "requires_grad" for n in descend(read))


@once
def order_of(project: Project) -> Order:
    return Order(project)


def switches(scope: Scope, module: ModuleInfo, project: Project) -> list[Toggle]:
    """What a scope freezes and thaws; of calls that are not followed the name is all that is known."""
    return order_of(project).switches(scope, module)


def named_between(steps: list[Stmt], scope: Scope, module: ModuleInfo, project: Project) -> list[Toggle]:
    """The calls known by their names only that may freeze parameters, in a loop where an optimizer steps."""
    order = order_of(project) if steps and project.freezes_trained else None
    if order is None or not order.leading:
        return []
    loops = [a for step in steps for a in step.ancestors() if a.is_loop]
    followed = {id(inner) for t in toggles(scope, module, project) for inner in t.stmt.walk()}
    stmts = {id(s): s for loop in loops for s in loop.walk() if not s.blocks and id(s) not in followed}
    found = [list(order.unfollowed(s, module, order.leading)) for s in stmts.values()]
    return [t for each in found for t in each if any(other.flag is not True for other in each)]


class Order:
    """What freezes and thaws in front of a statement and behind it, in whichever function of the project."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.scopes = [(s, m) for m in project.modules.values() for s in m.scope.walk()]
        self.freezing: set[int] = set()  # ids of scopes that freeze, or that may run such a one
        self.grasping: set[int] = set()  # ... parameters that were there before
        self.thawing: set[int] = set()
        self.thaws = False
        for scope, module in self.scopes:
            own = [_told(t) for t in direct(scope.body, module)]
            back = any(t.flag is False and put_back(t, own, scope, module, project) for t in own)
            self.thaws = self.thaws or not back and any(t.flag is not False for t in own)
            if scope.is_function and not back:
                frozen = [t for t in own if t.flag is not True]
                self.freezing |= {id(scope) for _ in frozen}
                self.grasping |= {id(scope) for t in frozen if not of_new(t.place, t.stmt, scope, module)}
                self.thawing |= {id(scope) for t in own if t.flag is not False}
        if self.freezing or self.thawing:
            self.graph = call_graph(project)
            self.freezing, self.grasping, self.thawing = map(
                self.graph.leading, (self.freezing, self.grasping, self.thawing)
            )
        self.seen: dict[int, list[Toggle]] = {}

    @cached_property
    def unnamed(self) -> set[int]:
        """The functions that call methods by names that are not written out, and those that may run these."""
        by_name = (s for s, _ in self.scopes if any(_unnamed(c) for inner in s.body.walk() for c in inner.calls))
        return self.graph.leading(id(s) for s in by_name if s.is_function) if self.freezing else set()

    @cached_property
    def getters(self) -> set[int]:
        """The properties that freeze something, by the ids of their scopes."""
        named = (self.graph.functions[name] for name in self.graph.getters) if self.freezing else ()
        return {id(i.scope) for each in named for i in each} & self.freezing

    @cached_property
    def leading(self) -> set[int]:
        """What freezes something that was there before, and what may call it by its name."""
        return self.grasping | self.unnamed

    def frozen_before(self, make: Make, asked: set[int]) -> bool:
        """Something that the optimizer holds may be frozen when it is made."""
        if any(
            t.flag is not True and _early(t.stmt, make.stmt) and _concerns(t, make)
            for t in self.switches(make.scope, make.module)
        ):
            return True
        if id(make.scope) in asked or not make.scope.is_function or _made_here(make):
            return False
        asked.add(id(make.scope))
        return any(self.frozen_before(there, asked) for there in self.calls(make))

    def thawed_after(self, make: Make, asked: set[object]) -> Iterator[Stmt]:
        """The statements that may thaw what it holds while it is there to step.

        `asked`: functions, by id, and the names of those that are done with before.
        """
        used = _used(make)
        yield from (
            t.stmt
            for t in self.switches(make.scope, make.module)
            if t.flag is not False and t.stmt.number in used and t.stmt is not make.stmt and _concerns(t, make)
        )
        if id(make.scope) in asked or not make.scope.is_function or not _left_behind(make):
            return
        asked.add(id(make.scope))
        if make.scope.cls is not None and root(make.place) == "self":
            yield from self._in_methods(make, asked)
        for there in self.calls(make):
            yield from self.thawed_after(there, asked)

    def _in_methods(self, make: Make, asked: set[object]) -> Iterator[Stmt]:
        """... in the other methods of the object that has it, but for those that are done with before, or make it."""
        asked |= {name for s in make.scope.body.walk() if _early(s, make.stmt) for c in s.calls if (name := _own(c))}
        asked |= self._above(make.scope)  # these are asked by what they call
        for scope, module in self.scopes:
            if scope.cls is make.scope.cls and not asked & {id(scope), scope.name} and scope.name != "__init__":
                there = replace(make, scope=scope, module=module)
                yield from (t.stmt for t in self.switches(scope, module) if t.flag is not False and _concerns(t, there))

    def _above(self, scope: Scope) -> set[int]:
        """The methods of the same object that call one, directly or by others, by their ids."""
        found, waiting = set[int](), [scope]
        while waiting:
            name = waiting.pop().name
            for caller, _, stmt in self.calling.get(name, ()):
                own = caller.cls is scope.cls and any(_own(c) == name for c in stmt.calls)
                if own and id(caller) not in found:
                    found.add(id(caller))
                    waiting.append(caller)
        return found

    def calls(self, make: Make) -> Iterator[Make]:
        """The statements that call the function; of what they give it, and get, the optimizer holds something."""
        for scope, module, stmt in self.calling.get(called_as(make.scope), ()):
            if not any(may_run(c, make.scope, make.module, scope, module) for c in stmt.calls):
                continue
            yield Make(scope, module, stmt, next(iter(sorted(stmt.defs)), ""), None)

    @cached_property
    def calling(self) -> dict[str, list[tuple[Scope, ModuleInfo, Stmt]]]:
        """The simple statements of the project by the names that they call."""
        found: dict[str, list[tuple[Scope, ModuleInfo, Stmt]]] = {}
        for scope, module in self.scopes:
            for stmt in scope.body.walk():
                for name in {name_called(c) for c in stmt.calls} if not stmt.blocks else ():
                    found.setdefault(name, []).append((scope, module, stmt))
        return found

    def makes(self, scope: Scope, module: ModuleInfo) -> Iterator[Make]:
        """The statements of a function that make optimizers."""
        return _makes(scope, module)

    def switches(self, scope: Scope, module: ModuleInfo) -> list[Toggle]:
        if id(scope) not in self.seen:
            found = [_told(t) for t in toggles(scope, module, self.project)]
            known = {id(inner) for t in found for inner in t.stmt.walk()}
            seen = {"self", *scope.locals, *scope.params, *module.scope.locals}
            found = [t if root(t.place) in seen else replace(t, place=NOBODY_KNOWS) for t in found]
            for stmt in scope.body.walk():
                if not stmt.blocks and id(stmt) not in known:
                    found += self.unfollowed(stmt, module, self.freezing)
            self.seen[id(scope)] = found
        return self.seen[id(scope)]

    def unfollowed(self, stmt: Stmt, module: ModuleInfo, freezing: set[int]) -> Iterator[Toggle]:
        """What calls of a statement may do that are not followed, and properties that it reads."""
        for call in stmt.calls:
            yield from self.named(call, stmt, module, freezing)
        if self.getters & freezing:
            read = self.graph.mentioned(stmt, stmt.block.scope, module)
            if any(id(info.scope) in self.getters & freezing for info in read):
                yield Toggle(stmt, NOBODY_KNOWS, False)

    def named(self, call: cst.Call, stmt: Stmt, module: ModuleInfo, freezing: set[int]) -> Iterator[Toggle]:
        """What a call may do to the flags that is not followed: `hook(net)`, `callback.begin(trainer)`."""
        if not freezing and not self.thawing:
            return
        run = list(self.graph.meant(call, stmt.block.scope, module))
        meant = {id(i.scope) for i in run}
        if meant & self.unnamed:
            texts = {text for a in call.args if isinstance(text := constant(a.value), str)}
            meant = {id(i.scope) for text in texts for i in self.graph.functions.get(text, ())} if texts else freezing
        places, known = {NOBODY_KNOWS}, module.value(call.func).kind in ("function", "class")
        if known and not self.graph.unseen(call, module) and not any(_inner(i.scope) for i in run):
            places = stmt.defs | stmt.uses or places  # what it makes or is given is what it may freeze
        if not meant & self.grasping:
            places = stmt.defs or places
        if meant & freezing:
            yield from (Toggle(stmt, place, False) for place in places)
        if meant & self.thawing:
            yield Toggle(stmt, NOBODY_KNOWS, True)


def _inner(scope: Scope) -> bool:
    """A function that stands in another has more than it is given."""
    return scope.cls is None and scope.parent is not None and not scope.parent.is_module


def _unnamed(call: cst.Call) -> bool:
    """`getattr(callback, event)(trainer)`: any method may be meant."""
    made = call.func
    by_name = type(made) is cst.Call and type(made.func) is cst.Name and made.func.value == "getattr"
    return by_name and len(made.args) > 1 and constant(made.args[1].value) is ...  # type: ignore[attr-defined]


def _own(call: cst.Call) -> str:
    """The method of the same object that is called: `self.setup()`, not `self.net.train()`."""
    head, _, name = dotted(call.func).partition(".")
    return name if head == "self" and "." not in name else ""


def _told(toggle: Toggle) -> Toggle:
    """`p.requires_grad_(False)` freezes, whatever has the parameter."""
    unseen = toggle.place == NOBODY_KNOWS and toggle.flag is None and not toggle.stmt.blocks
    return replace(toggle, flag=flag_of(toggle.stmt)[0]) if unseen else toggle


def may_run(call: cst.Call, scope: Scope, own: ModuleInfo, caller: Scope, module: ModuleInfo) -> bool:
    """A call in some other function may run this one; the class stands for the function that makes its objects."""
    if name_called(call) != called_as(scope):
        return False
    if scope.cls is None:  # `model.train()` is not the function `train`
        return not isinstance(call.func, cst.Attribute) or module.value(call.func.value).kind not in MADE
    theirs, mine = (
        m.classes.get(s.cls.name) if s.cls is not None else None for s, m in ((caller, module), (scope, own))
    )
    if theirs is None or mine is None or not isinstance(call.func, cst.Attribute):
        return True
    above = isinstance(call.func.value, cst.Call) and dotted(call.func.value.func) == "super"
    if not above and dotted(call.func.value) != "self":
        return True
    lineages = [cls.lineage() for cls in (theirs, *theirs.below())]  # of whatever `self` may be
    meant = [
        next((c for c in each[above and each.index(theirs) + 1 :] if scope.name in c.methods), None)
        for each in lineages
    ]
    return mine in meant or None in meant


def _concerns(toggle: Toggle, make: Make) -> bool:
    return make.owns is None or toggle.place == NOBODY_KNOWS or any(overlaps(toggle.place, o) for o in make.owns)


def _early(stmt: Stmt, make: Stmt) -> bool:
    """It runs in front of the other, in a turn of a loop at least."""
    return stmt.number < make.number or any(a.is_loop and make in a.walk() for a in stmt.ancestors())


def _made_here(make: Make) -> bool:
    """The networks that it moves come into being in the scope itself."""
    made = {d for s in make.scope.body.walk() if isinstance(s.node, cst.Assign) and s.calls for d in s.defs}
    return bool(make.owns) and all(o in made or root(o) in made for o in make.owns or ())


def _left_behind(make: Make) -> bool:
    """Others have the optimizer when the function is over."""
    names = _names(make)
    if not make.place or any("." in name for name in names):
        return True
    return any(isinstance(s.node, cst.Return) and _has(s, names) for s in make.scope.body.walk())


def _names(make: Make) -> set[str]:
    """The names under which its scope has the optimizer: `some = {"main": SGD(...)}`, `optimizer = some["main"]`."""
    names = {make.place} - {""}
    for stmt in make.scope.body.walk():
        if isinstance(stmt.node, (cst.Assign, cst.For)) and stmt.number > make.stmt.number and _has(stmt, names):
            names |= stmt.defs
    return names


def _used(make: Make) -> range:
    """The numbers of the statements from the make to the last that has what was made, loops whole."""
    later = [s for s in make.scope.body.walk() if s.number > make.stmt.number]
    around = [a for a in make.stmt.ancestors() if a.is_loop]
    anew = next((s for s in later if _made_anew(s, make)), None)
    names = _names(make)
    uses = [s for s in make.scope.body.walk() if s is not make.stmt and (not s.blocks or s.is_loop) and _has(s, names)]
    looped = [a for a in around if any(a in s.ancestors() and s.number < make.stmt.number for s in uses)]
    ends = [s.number for s in uses if s.number > make.stmt.number and (anew is None or s.number < anew.number)]
    held = [a for s in uses if s.number in ends for a in (s, *s.ancestors()) if a.is_loop]
    loops = [a for a in held if make.stmt not in a.walk()]
    ends += [i.number for a in (*loops, *looped) for i in a.walk()]
    if _captured(make.scope, names):
        ends += [s.number for s in later]
    begin = min([make.stmt.number, *(a.number for a in looped)])
    return range(begin, max(ends, default=begin) + 1)


def _made_anew(stmt: Stmt, make: Make) -> bool:
    """Whatever comes after the statement has another under the name."""
    outer = {id(make.stmt.block), *(id(a.block) for a in make.stmt.ancestors())}
    return make.place in stmt.defs and make.place not in stmt.uses and id(stmt.block) in outer


def _has(stmt: Stmt, names: set[str]) -> bool:
    return any(overlaps(use, name) for use in stmt.uses | stmt.defs for name in names)


def _captured(scope: Scope, names: set[str]) -> bool:
    """A nested function, or one that reads names of the module, has the optimizer."""
    return any(
        name in s.uses and root(name) not in child.locals
        for child in scope.walk() if child is not scope for s in child.body.walk() for name in names
    )  # fmt: skip
