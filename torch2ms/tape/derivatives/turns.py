"""A forward in front of loops in which its gradient is taken again: whether it may run again, and its function."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.program.flow import expression_uses, free_uses, root
from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value, overlaps
from torch2ms.tape.derivatives import heads
from torch2ms.tape.derivatives.paths import RANDOM, Around, calls_run, statements_run
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.steps import asked_by
from torch2ms.tape.ledger.records import STEPS
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Copy, Function, Item, Text

WHY = "ms.grad of a function that runs the forward again in each turn of the loop"
AGAIN = "ms.grad of a function that runs the forward again: another gradient is taken of it"
TELLING = ("print", "input", "next", "open", "write", "log", "debug", "info", "warning")  # each call is noticed


class Turns:
    """A forward in front of loops in which its gradient is taken again and again."""

    def __init__(self, event: Event, region: Region, around: Around, trains: bool) -> None:
        self.event, self.region, self.around, self.trains = event, region, around, trains
        self.scope, self.plan, self.writer = around.scope, around.plan, around.writer
        # loops that the forward is not in, innermost first
        self.loops = [a for a in event.stmt.ancestors() if a.is_loop and a.block is region.block]
        self.last = self.loops[-1] if self.loops else event.stmt
        self.outer = self.last if self.loops else ([event.stmt, *(a for a in event.stmt.ancestors() if a.is_loop)])[-1]
        # the loop that gives the output, the name of its key if it has one, and how the output is got by it
        self.of: tuple[Stmt, str, str] | None = None
        self.item = ""  # the name that the loop has for the output, or for what that is made of
        self.given: list[str] = []  # what else of a turn the output is made of

    def ready(self) -> bool:
        """The forward stands outside of a loop around the call, and may run again."""
        region = self.region
        inner = (a for a in self.event.stmt.ancestors() if a in self.inside())
        if not self.loops or any(a.is_loop and a.block is not region.block for a in inner):
            return False
        return self.repeatable()

    def repeatable(self) -> bool:
        """The forward may run again where the gradient is taken."""
        region = self.region
        if len(self.event.roots) != 1 or not region.stmts or region.guards or region.cut:
            return False
        return self.steady() and self.plain() and self.element() and self.unchanged() and self.finished()

    def stepped(self) -> bool:
        """Weights may have changed since the forward ran: the graph that it left has the old ones."""
        first = self.region.stmts[0].number
        between = [e for e in self.around.events if first < e.stmt.number < self.event.stmt.number]
        return any(e.kind in STEPS and self.uses(e.value) or e.kind == "grad_loop" and _moves(e.stmt) for e in between)

    def uses(self, optimizer: Value) -> bool:
        """The forward may use what an optimizer changes."""
        places = {u for s in self.region.stmts for u in s.all_uses}
        calls = (self.around.callee.get(id(c)) for s in self.region.stmts for c in s.calls)
        if optimizer.kind != "optimizer" or optimizer.owns is None or any(info is not None for info in calls):
            return True
        return any(overlaps(owned, place) for owned in optimizer.owns for place in places)

    def steady(self) -> bool:
        """No network of the forward is known as one that may draw random numbers or keep running values."""
        if self.around.repeats or self.trains:
            return self.around.repeats
        called = [home.value(call.func) for call, home in calls_run(self.region.stmts, self.around)]
        return not called or not any(v.kind == "module" and v.name for v in called) and bool(self.assumed)

    @property
    def assumed(self) -> set[str]:
        """What running again assumes of networks that are not seen."""
        return self.around.unseen(self.region.stmts)

    def makes(self, owners: list[Owner]) -> bool:
        """What is differentiated by is made in the forward."""
        made = {d for s in self.region.all for d in s.all_defs}
        return any(o.place in made for o in owners)

    def plain(self) -> bool:
        """Nobody notices that the forward runs again."""
        region = self.region
        if not all(map(_copied, self.beside())):
            return False
        own = set().union(*map(_listed, walked(region.all)))
        if any(s.all_muts - own or any("." in d for d in s.all_defs) or _turns(s) for s in region.all):
            return False
        if self.taken() & {root(d) for s in region.all for d in s.all_defs}:
            return False
        for node, _ in calls_run(region.all, self.around):
            name = node.func.attr.value if isinstance(node.func, cst.Attribute) else dotted(node.func)
            if name in RANDOM or "random" in dotted(node.func) or name in TELLING:
                return False
        return not any(info is not None and _outlasts(s, info) for s, info in statements_run(region.all, self.around))

    def beside(self) -> list[Stmt]:
        """What stands between the statements of the forward and binds names for them: another forward may take it."""
        stmts = sorted(self.region.stmts, key=lambda s: s.number)
        block, first, last = stmts[0].block, stmts[0].number, stmts[-1].number
        used = {u for s in stmts for u in s.all_uses}
        between = [s for s in block.stmts if first < s.number < last and s not in stmts]
        return [s for s in between if s.all_defs & used]

    def taken(self) -> set[str]:
        """The names that the forward uses before it binds them, if it does."""
        taken: set[str] = set()
        made: set[str] = set()
        for stmt in self.region.all:
            taken |= {root(u) for u in asked_by(stmt, self.around.module)} - made
            made |= {root(d) for d in stmt.all_defs}
        return taken

    def inside(self) -> set[Stmt]:
        """The statements of the outermost of the loops; without any, the call."""
        return set(self.last.walk())

    def element(self) -> bool:
        """What the output is of the forward: its own, or an element of a list or a dict that a loop runs over."""
        (output,) = self.event.roots
        made = {d for s in self.region.stmts for d in s.defs}
        used = self.used()
        for loop in self.loops:
            node = loop.node
            if not isinstance(node, cst.For) or not {root(d) for d in loop.defs} & used:
                continue
            over = node.iter
            target: cst.BaseExpression = node.target
            if isinstance(over, cst.Call) and heads.counts(node):
                over = over.args[0].value
                target = target.elements[-1].value if isinstance(target, cst.Tuple) else target
            target, over = heads.beside(target, over, used)
            held, asked = heads.held(over)
            if heads.counts(node) and not {n.value for n in descend(target) if type(n) is cst.Name} & used:
                continue  # `for k, _ in enumerate(outputs)` that asks `outputs[k]`: a number
            if (shown := heads.shown(target, over, used)) is not None:
                name, place = shown
                parts = expression_uses(over, loop)
                turns = (s for b in loop.blocks for s in b.walk())
                written = {w for s in turns for w in s.defs | s.muts if ".grad" not in w}
                if any(overlaps(w, u) for w in written for u in parts) or not self.made_of(name, over, used, made):
                    return False
                self.item = dotted(name)
                self.of = loop, "", f"{code(over)}[{{}}]{place}"
            elif held not in made:
                numbers = isinstance(over, cst.Call) and dotted(over.func) == "range"
                if not numbers and {root(u) for u in expression_uses(over, loop)} & made:
                    return False  # made of what the forward gives
            elif self.region.each:
                return False  # an element that the turn goes on with
            elif asked != "items" and self.made_of(target, over, used, made):
                self.item = dotted(target)
                self.of = loop, "", f"list({held}.values())[{{}}]" if asked else f"{held}[{{}}]"
            elif not (key := heads.key_of(target, asked)) or not heads.picks(output, target, key, made):
                return False
            elif dotted(output):
                self.of = loop, key, f"{held}[{{}}]"
        return True

    def made_of(self, target: cst.BaseExpression, over: cst.BaseExpression, used: set[str], made: set[str]) -> bool:
        """The output is the element that a loop has under a name, or made of it and of what no loop changes."""
        name = dotted(target)
        if name == dotted(self.event.roots[0]) or not name:
            return bool(name)
        varying = {root(d) for s in self.inside() for d in s.defs} - made
        picked = {root(d) for s in self.loops for d in s.defs}
        self.given = sorted((used & varying) - picked)  # made in the turn, without a graph: else it were of the forward
        held = used & varying - set(self.given) == {name}
        return held and self.around.module.value(over).kind in ("tensor", "list", "tuple")

    def unchanged(self) -> bool:
        """What the forward uses is in each turn what it was when the forward ran."""
        last, own = self.last, walked(self.region.stmts)
        clears = {id(e.stmt) for e in self.around.events if e.kind == "clear"}
        if any(e.kind in STEPS and e.stmt in self.inside() for e in self.around.events):
            return False
        for step in self.region.stmts:
            places = step.all_uses | step.all_defs
            later = [s for s in self.scope.body.walk() if step.number < s.number < last.number]
            for stmt in [*later, *(s for s in last.walk())]:
                if stmt in own or id(stmt) in clears:
                    continue
                written = {w for w in stmt.defs | stmt.muts if ".grad" not in w}
                if self.of is not None and stmt is self.of[0]:
                    written = written - {dotted(self.event.roots[0])}
                if any(overlaps(w, p) for w in written for p in places):
                    return False
        return True

    @property
    def why(self) -> str:
        """What is told of the gradient call."""
        return WHY if self.loops else AGAIN

    def function(self, given: list[str]) -> tuple[str, list[str]]:
        """Write the function in front of the loops; its name, and what it is called with: `given` comes first."""
        (output,) = self.event.roots
        label = dotted(output).rpartition(".")[2] or "output"
        forward = self.writer.fresh(f"forward_{label}")
        returned: list[Item] = [Text("return {0}", [output])]
        if self.of is not None:
            loop, key, element = self.of
            assert isinstance(loop.node, cst.For)
            key = key or self.counter(loop.node)
            params = [key, *self.given]
            if dotted(output):
                returned = [Text(f"return {element.format(key)}")]
            else:
                returned.insert(0, Text(f"{self.item} = {element.format(key)}"))
        else:
            made = {root(d) for s in self.region.all for d in s.all_defs}
            used = self.used()
            used |= set() if self.loops else self.taken()
            params = sorted(used & {root(d) for s in self.outer.walk() for d in s.defs} - made)
        params = [*given, *(p for p in params if p not in given)]
        contexts = self.plan.contexts
        whole = sorted([*self.region.all, *self.beside()], key=lambda s: s.number)
        body: list[Item] = [item for s in whole for item in contexts.get(id(s), [Copy(s, {})])]
        self.plan.before.setdefault(id(self.outer), []).append(Function(forward, params, [*body, *returned]))
        return forward, params

    def used(self) -> set[str]:
        """The names that the output is made of in each turn."""
        used = {root(u) for u in expression_uses(self.event.roots[0], self.event.stmt)}
        return used | {root(u) for s in self.region.each for u in s.all_uses}

    def finished(self) -> bool:
        """What each turn ends the forward with is that of the gradient alone, and nothing changes it before."""
        each, event = self.region.each, self.event.stmt
        own = walked(each)
        for stmt in each:
            later = [s for s in self.scope.body.walk() if stmt.number < s.number < event.number and s not in own]
            written = {w for s in later for w in s.defs | s.muts if ".grad" not in w}
            if any(overlaps(w, p) for w in written for p in stmt.all_uses | stmt.all_defs):
                return False
        return True

    def idle(self) -> list[Stmt]:
        """The statements of the forward whose results nobody else looks at."""
        forward = self.region.all
        own = walked(forward)
        others = [s for s in self.scope.body.walk() if s not in own and s is not self.event.stmt]
        asked = {root(u) for s in others for u in s.uses} | {root(u) for c in self.scope.children for u in free_uses(c)}
        idle: list[Stmt] = []
        for stmt in reversed(forward):
            made = {root(d) for d in stmt.all_defs}
            if made & asked:
                asked |= {root(u) for u in stmt.all_uses}
            else:
                idle.append(stmt)
        return idle

    def counter(self, node: cst.For) -> str:
        """What counts the turns of a loop, which may count them already."""
        if heads.counts(node) and isinstance(node.target, cst.Tuple):
            return dotted(node.target.elements[0].value)
        name = self.writer.fresh_index()
        self.writer.fresh_once(name)
        target = code(node.target).strip("()")
        self.plan.expressions[id(node.target)] = f"{name}, ({target})" if "," in target else f"{name}, {target}"
        if isinstance(node.iter, cst.Call):
            self.plan.around[id(node.iter)] = "enumerate({0})"
        else:
            self.plan.expressions[id(node.iter)] = f"enumerate({code(node.iter)})"
        return name


def walked(stmts: list[Stmt]) -> set[Stmt]:
    """The statements and those in them."""
    return {inner for stmt in stmts for inner in stmt.walk()}


def _listed(stmt: Stmt) -> set[str]:
    """The name that a statement gives to a new list, or to a new dict."""
    node = stmt.node
    new = isinstance(node, cst.Assign) and isinstance(node.value, (cst.List, cst.ListComp, cst.Dict, cst.DictComp))
    return stmt.defs if new else set()


def _copied(stmt: Stmt) -> bool:
    """A statement gives names to what is computed without a call that may do more: `scale = 0.5`."""
    asked = all(dotted(call.func) in ("len", "float", "int", "max", "min", "abs") for call in stmt.calls)
    return isinstance(stmt.node, cst.Assign) and asked and not stmt.muts and not any("." in d for d in stmt.defs)


def _turns(stmt: Stmt) -> bool:
    """A compound statement that does more than to choose or to repeat."""
    return any(inner.blocks and not isinstance(inner.node, (cst.If, cst.For)) for inner in stmt.walk())


def _outlasts(stmt: Stmt, info: FunctionInfo) -> bool:
    """A statement of a function changes what is there after the call: an attribute, an argument, a global name."""
    if isinstance(stmt.node, (cst.Global, cst.Nonlocal)):
        return True
    places = stmt.muts | {d for d in stmt.defs if "." in d}
    own = info.scope.locals - set(info.scope.params)
    return any(root(place) not in own for place in places)


def _moves(loop: Stmt) -> bool:
    """A loop over parameters changes them, not their gradients alone."""
    names = {root(d) for d in loop.defs}
    return any(root(m) in names and ".grad" not in m for m in loop.all_muts)
