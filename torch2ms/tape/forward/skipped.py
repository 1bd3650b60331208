"""Layers of a network that its `forward` runs at some steps only: under conditions, or picked out of a list.

torch has no gradient for the others and an optimizer skips them; MindSpore's gradient is zeros, and momentum, averages
or decay move them all the same. Layers that nothing in the project ever runs are of this kind at every step.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import libcst as cst

from torch2ms.analysis.evaluation.lookup import class_of
from torch2ms.analysis.evaluation.modes import is_no_grad
from torch2ms.analysis.program.flow import expression_uses
from torch2ms.analysis.program.project import ClassInfo, FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.assigned import Pair, side_by_side
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import Value, overlaps
from torch2ms.tape.forward.alternatives import classes_of
from torch2ms.tape.forward.branching import decided_by, settled, ways
from torch2ms.tape.forward.choices import LAYERS, SEQUENTIAL, by_name, chosen, moving, one_item, own, tests_of
from torch2ms.tape.forward.cut_uses import without_graph
from torch2ms.tape.forward.differing import PICKING, Lists, by_branch, by_item, by_side, deciding, lists_of, picked
from torch2ms.tape.forward.dispatched import dispatched
from torch2ms.tape.forward.fixed import fixed
from torch2ms.tape.forward.given import NOT_SEEN, Given
from torch2ms.tape.forward.left import Skipped
from torch2ms.tape.forward.lent import lent
from torch2ms.tape.forward.made_by import held_in, made_by_others, put_in
from torch2ms.tape.forward.once import always_made, by_object, of_one_turn
from torch2ms.tape.forward.own_functions import class_around, of_branches, of_self, own_lines
from torch2ms.tape.forward.passed_over import of_items
from torch2ms.tape.forward.results import at_times, never_used, written_for
from torch2ms.tape.forward.tables import in_turn
from torch2ms.tape.forward.unnamed import goes_through_itself, unnamed
from torch2ms.tape.forward.unsteady import changes
from torch2ms.tape.forward.watched import spelled
from torch2ms.tape.ledger.beyond import PARAMETERS, handed, of_base, weighted_parts, weights

JUMPS = (cst.Break, cst.Continue, cst.Return)
DEEP = 3  # methods that call methods
NAMING = re.compile(r"\bgetattr\(|[}\])]\[|= *[{\[(].*self\.\w+ *[,}\])]")  # layers are picked without naming one
BEGINNING = re.compile(r"(\w+\.)*init\.\w+_\(")
DRAWING = re.compile(r"\b(choice|choices|sample)$")
BY_NAME = re.compile(r"\bsetattr\(\s*self\b|\.(add|register)_module\(")


def skipped(
    stmts: list[Stmt], given: Given, module: ModuleInfo, project: Project, wanted: frozenset[str], depth: int = 0
) -> Iterator[Skipped]:
    """What the networks that these statements call leave out of the `wanted` ones."""
    for stmt in stmts:
        for call in stmt.calls:
            value = module.value(call.func)
            if value.kind == "function":
                around = call, stmt, given, module, project
                yield from (*_of_function(*around), *in_turn(*around))
            yield from _of_results(call, stmt, given, stmts, module, project)
            yield from _of_method(call, stmt, given, module, project, wanted)
            if depth < DEEP and (found := own_lines(call, stmt, module, project)) is not None:
                inner, names, home, own_info = found
                inside = given.of(call, stmt, names)
                yield from _picked(inner, inside.turning, home, project)
                yield from of_branches(own_info, stmt, inside, home, project) if own_info is not None else ()
                yield from skipped(inner, inside, home, project, wanted, depth + 1)
            if value.kind != "module" or not any(overlaps(value.place, w) for w in wanted if value.place):
                continue
            classes = _classes(value, stmt, module, project)
            for cls in classes or ([] if value.name else made_by_others(module, project)):
                if (info := cls.method("forward")) is not None:
                    params = given.of(call, stmt, info.scope.params, info.scope.node)
                    forward = _Forward(cls, info, project, params, spelled=dotted(call.func))
                    left = forward.skipped(value.place)
                    named = (len(classes) == 1 or bool(value.name)) and value.name != SEQUENTIAL
                    yield from left if named else (replace(each, code=dotted(call.func)) for each in left)
            for cls in (c for c in put_in(project) if c not in classes):  # somewhere in it, for all that is seen
                there = _Forward(cls, cls.methods["forward"], project, Given(evaluating=given.evaluating))
                for each in there.skipped(value.place):
                    if each.changes:
                        yield replace(each, place=value.place, code=dotted(call.func))


def _of_results(
    call: cst.Call, stmt: Stmt, given: Given, stmts: list[Stmt], module: ModuleInfo, project: Project
) -> Iterator[Skipped]:
    """The layers of which a called function uses the results at some steps only."""
    if not call.args or not any(module.value(a.value).kind in ("dict", "tuple", "list") for a in call.args):
        return
    value = module.value(call.func)
    cls = class_of(value, module, project) if value.kind == "module" else None
    named = project.find(value.name, module) if value.kind == "function" else None
    info = cls.method("forward") if cls is not None else named or of_self(call, stmt, project)
    if isinstance(info, FunctionInfo):
        inside = given.of(call, stmt, info.scope.params, info.scope.node)
        lists = lists_of(stmts, module, project)
        for test, places, moves in at_times(call, stmt, inside, info.scope, module, lists):
            yield from (Skipped(p, code(test), moves, spelled(p, stmts, module)) for p in sorted(places))
        made = list(written_for(cls, module)) if cls is not None else []
        for through, places, _ in never_used(call, info.scope, module, lists, made):
            yield from (Skipped(p, code(through), code=spelled(p, stmts, module), ever=True) for p in sorted(places))


def _of_method(
    call: cst.Call, stmt: Stmt, given: Given, module: ModuleInfo, project: Project, wanted: frozenset[str]
) -> Iterator[Skipped]:
    """What another method of a network than its forward leaves out at times, or never takes of its lists of layers."""
    net = module.value(call.func.value) if type(call.func) is cst.Attribute else None
    if net is None or net.kind != "module" or not any(overlaps(net.place, w) for w in wanted if net.place):
        return
    cls = class_of(net, module, project)
    info = cls.method(call.func.attr.value) if cls is not None else None  # type: ignore[attr-defined]
    if cls is not None and info is not None:
        params = given.of(call, stmt, info.scope.params, info.scope.node)
        forward = _Forward(cls, info, project, params, spelled=dotted(call.func.value))  # type: ignore[attr-defined]
        yield from (left for left in forward.skipped(net.place) if left.changes)
        for inner, _ in forward.reached(info, Given(), ()):
            yield from forward.items(inner, net.place)


def _picked(stmts: list[Stmt], changing: set[str], module: ModuleInfo, project: Project) -> Iterator[Skipped]:
    """The layers that a function picks itself, of a network that it knows by the name that its caller has for it."""
    loops, lists = [s for s in stmts if s.is_loop], lists_of(stmts, module, project)
    for stmt in stmts:
        for test, places in (*chosen(stmt, module), *picked(stmt, module, lists)):
            asked = {name for _, names in tests_of(test, stmt, loops) for name in names} if places else set()
            moves = bool(asked & changing)
            yield from (Skipped(p, code(test), moves, spelled(p, stmts, module) if moves else "") for p in places)
    yield from of_items(stmts, module, project)


def _run(value: Value, module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The class of a network, or those of what it runs in a row."""
    if value.name == SEQUENTIAL:
        found = [cls for item in value.parts for cls in _run(item, module, project)]
        return list({id(cls): cls for cls in found}.values())
    cls = class_of(value, module, project) if value.kind == "module" else None
    return [cls] if cls is not None else []


def _classes(value: Value, stmt: Stmt, module: ModuleInfo, project: Project) -> list[ClassInfo]:
    """The class of a network; of one that subclasses make, each in its own way, all of theirs."""
    if value.name:
        return _run(value, module, project)
    if "." not in value.place:
        return classes_of(value.place, stmt.block.scope, module, project)
    cls = class_around(stmt, project) if value.place.startswith("self.") else None
    methods = [m for c in (*cls.lineage(), *cls.below()) for m in c.methods.values()] if cls is not None else []
    made = [(s.out.get(value.place), m.module) for m in methods for s in m.scope.body.walk() if value.place in s.defs]
    named = [class_of(v, home, project) for v, home in made if v is not None and v.kind == "module" and v.name]
    return [c for c in named if c is not None]


def _of_function(call: cst.Call, stmt: Stmt, given: Given, module: ModuleInfo, project: Project) -> Iterator[Skipped]:
    """What a function of the project leaves out of a network that it is given, or one of those in a table."""
    nets = [(n, module.value(a.value)) for n, a in enumerate(call.args) if a.keyword is None and not a.star]
    nets = [(n, v) for n, v in nets if v.kind == "module" and v.place]
    value = module.value(call.func)
    names = [value.name] if value.name or not value.items else [v.name for v in value.items if v.kind == "function"]
    found = [project.find(name, module) for name in names] if nets else []
    infos = [each for info in found if isinstance(info, FunctionInfo) for each in dispatched(info)]
    by = call.func if len(found) == len(infos) or not call.args else call.args[0].value  # what decides which one runs
    yield from (left for info in infos for left in lent(call, stmt, given, info, nets))
    for number, net in nets if infos else ():
        cls = class_of(net, module, project)
        each = [
            _Forward(
                cls, info, project, given.of(call, stmt, info.scope.params, info.scope.node), info.scope.params[number],
                dotted(call.args[number].value),
            )
            for info in infos if number < len(info.scope.params)
        ] if cls is not None else []  # fmt: skip
        runs = [way.run(way.info, ()) for way in each] if len(each) > 1 else []
        for name in sorted(set[str]().union(*(runs[0] ^ other for other in runs[1:]))):  # some of them leave it out
            place, moves = f"{net.place}.{name}", given.moves(by, stmt)
            yield Skipped(place, code(by), moves, each[0].naming(name), ever=not moves)
        for way in each:
            yield from way.skipped(net.place)


class _Forward:
    """The forward of a class, and what of its layers runs on every way through it."""

    def __init__(
        self, cls: ClassInfo, info: FunctionInfo, project: Project, params: Given, name: str = "",
        spelled: str = "", depth: int = 0,
    ) -> None:  # fmt: skip
        self.cls, self.info, self.project, self.params, self.name, self.depth = cls, info, project, params, name, depth
        self.spelled = spelled  # what names the network where the gradient is taken
        self.watched = ""  # ... or, of a network in it, what the layers belong to that are to be watched
        self.taken: tuple[Stmt, Block | None] | None = None
        self.parts = weighted_parts(cls, project) | weights(cls) | of_base(cls, project) | handed(cls)
        self.choosing = project.says(NAMING)

    def prefix(self, info: FunctionInfo) -> str:
        """How a method or a function begins the places of layers: with `self`, or with the name of the network."""
        return f"{self.name or 'self'}." if info is self.info else "self."

    def skipped(self, place: str) -> Iterator[Skipped]:
        if self.depth > 3 or self.info.scope.off:
            return
        whole = self.run(self.info, ())
        for name in self.parts if not self.name else ():
            if name not in whole and not self.used_elsewhere(name):
                yield Skipped(f"{place}.{name}", code=self.naming(name))
        for info, given in self.reached(self.info, self.params, ()):
            every = info.scope.body.walk()
            yield from self.items(info, place)
            for stmt in every:
                for flag, name in self.unmet(stmt, given, whole):
                    yield Skipped(f"{place}.{name}", flag, code=self.naming(name), ever=True)
                for asked, name in self.of_some_objects(stmt, whole) if whole and type(stmt.node) is cst.If else ():
                    yield Skipped(f"{place}.{name}", asked, code=self.watched or self.spelled, ever=True)
                for test, missing in self.cuts(stmt, info, whole):
                    for name in sorted(missing):
                        moves = changes(test, stmt, info, given, self.cls, self.project)
                        once = not moves and one_item(test, stmt)
                        ever = not moves and of_one_turn(test, stmt, self.cls, self.project)
                        part = f"{place}.{name}" if name else place
                        yield Skipped(part, code(test), moves, self.naming(name), ever, once)
                for call in stmt.calls:
                    value, prefix = info.module.value(call.func), self.prefix(info)
                    if value.kind != "module" or not f"{value.place}.".startswith(prefix):
                        continue
                    rest = value.place[len(prefix) :]
                    classes = _run(value, info.module, self.project)
                    if not classes and rest.isidentifier() and (not value.name or value.name == SEQUENTIAL):
                        classes = held_in(rest, self.cls, self.project)
                    for cls in classes:
                        if (inner := cls.method("forward")) is None or inner is self.info:
                            continue
                        params = given.of(call, stmt, inner.scope.params, inner.scope.node)
                        forward = _Forward(cls, inner, self.project, params, depth=self.depth + 1)
                        forward.watched = self.watched or self.naming(rest.partition(".")[0].partition("[")[0])
                        yield from forward.skipped(f"{place}.{rest}" if rest else place)

    def items(self, info: FunctionInfo, place: str) -> Iterator[Skipped]:
        """The layers behind other items than those that a method takes."""
        for item, places in fixed(info.scope.body.walk(), info.module, self.of_list(info), self.project):
            for name in sorted(self.direct(set(places), info)):
                yield Skipped(f"{place}.{name}", item, code=self.naming(name), ever=True)

    def naming(self, name: str) -> str:
        """What names a part of the network where the gradient is taken; "" for a weight, which no call tells of."""
        if name in self.parts and self.parts[name].name in PARAMETERS:
            return ""
        return self.watched or (self.spelled and name and f"{self.spelled}.{name}") or self.spelled

    def cuts(self, stmt: Stmt, info: FunctionInfo, whole: set[str]) -> Iterator[tuple[cst.BaseExpression, set[str]]]:
        """The conditions and subscripts of a statement, and the layers that do not run under some of them."""
        if whole and (asked := decided_by(stmt)):
            left = set[str]()
            for self.taken in ((stmt, block) for block in ways(stmt)):
                if not _raises(self.taken[1]):
                    left |= whole - self.run(self.info, ())
            self.taken = None
            if type(stmt.node) is cst.If:
                left |= self.behind(by_branch(stmt, info.scope.body.walk(), info.module, self.of_list(info)), info)
            left |= self.not_reached(stmt, info)
            yield from ((test, left) for test in asked)
        elif self.direct(stmt.uses, info) or self.choosing or any(type(n) in PICKING for n in stmt.nodes):
            loops = [a for a in stmt.ancestors() if a.is_loop]
            for node in descend(own(stmt)):
                if type(node) is cst.Subscript and moving(node):
                    layers = self.among_items(node.value, stmt, info)
                    decided = [node] if layers else deciding(node, stmt)
                    layers = layers or self.behind(by_item(node, info.module, self.of_list(info)), info)
                    for test, _ in (t for d in decided for t in tests_of(d, stmt, loops)) if layers else ():
                        yield test, layers
                elif type(node) is cst.IfExp:
                    sides = [self.direct(expression_uses(n, stmt), info) for n in (node.body, node.orelse)]
                    found = by_side(node, info.module, self.of_list(info))
                    yield node.test, sides[0] ^ sides[1] | self.behind(found, info)
                elif type(node) is cst.CompFor and node.ifs:  # `net(x) for net in self.nets if ...`
                    held = self.direct(expression_uses(node.iter, stmt), info)
                    layers = {name for name in held if self.parts[name].name in (SEQUENTIAL, *LAYERS)}
                    yield from ((each.test, layers) for each in node.ifs if layers)
                elif type(node) is cst.Call and DRAWING.search(dotted(node.func)):  # `random.choice(self.branches)`
                    held = self.direct(set().union(*(expression_uses(a.value, stmt) for a in node.args)), info)
                    if layers := {name for name in held if self.parts[name].name in (SEQUENTIAL, *LAYERS)}:
                        yield node, layers
                elif type(node) is cst.Call and (name := by_name(node)) is not None:
                    layers = self.below(dotted(node.args[0].value), info, whole)
                    for test, _ in tests_of(name, stmt, loops) if layers else ():
                        yield test, layers

    def not_reached(self, stmt: Stmt, info: FunctionInfo) -> set[str]:
        """The lists of layers that a loop goes through, which a condition ends, or a turn of it."""
        jumps = any(isinstance(s.node, JUMPS) for s in stmt.walk())
        loops = [a for a in stmt.ancestors() if a.is_loop] if jumps else ()
        layers = set[str]().union(*(self.direct(loop.all_uses, info) for loop in loops))
        return {name for name in layers if self.parts[name].name in (*LAYERS, SEQUENTIAL, *PARAMETERS[1:])}

    def unmet(self, stmt: Stmt, given: Given, whole: set[str]) -> Iterator[tuple[str, str]]:
        """The layers that do not run at any step: a flag that is written out keeps them from it."""
        taken = settled(stmt, given) if given.written and whole else None
        if taken is not None:
            self.taken = stmt, (*taken, None)[0]
            left = whole - self.run(self.info, ())
            self.taken = None
            yield from ((code(decided_by(stmt)[0]), name) for name in sorted(left))

    def of_some_objects(self, stmt: Stmt, whole: set[str]) -> Iterator[tuple[str, str]]:
        """The layers that every network of the class has, and that one never runs, by what it was made with."""
        left = set[str]()
        for block in by_object(stmt, self.cls, self.project) if self.info.name == "forward" else ():
            self.taken = stmt, block
            left |= whole - self.run(self.info, ())
            self.taken = None
        asked = self.direct(stmt.uses, self.info) if left else set()  # what is None where it is left out
        yield from ((code(decided_by(stmt)[0]), n) for n in sorted(left - asked) if always_made(n, self.cls))

    def behind(self, places: frozenset[str], info: FunctionInfo) -> set[str]:
        """The layers that values depend on."""
        return self.direct(set(places), info) if places else set()

    def of_list(self, info: FunctionInfo) -> Lists:
        prefix = self.prefix(info)
        lists = {f"{prefix}{name}" for name, part in self.parts.items() if part.name in LAYERS}
        return lists.__contains__

    def among_items(self, node: cst.BaseExpression, stmt: Stmt, info: FunctionInfo) -> set[str]:
        """The layers in a list of layers, in a display of them, or in what a name was bound to."""
        name, prefix = dotted(node), self.prefix(info)
        part = self.parts.get(name[len(prefix) :]) if name.startswith(prefix) else None
        if part is not None:
            return {name[len(prefix) :]} if part.name in (SEQUENTIAL, *LAYERS, *PARAMETERS[1:]) else set()
        if isinstance(node, (cst.Dict, cst.List, cst.Tuple)):
            return self.direct(expression_uses(node, stmt), info)
        bound = [s for s in info.scope.body.walk() if name in s.defs]
        pairs = ((s, pair) for s in bound if type(s.node) is cst.Assign for pair in _pairs(s.node))
        made = [(given, s) for s, (target, given) in pairs if dotted(target) in (name, "")]  # "": of several targets
        for loop in (s for s in bound if isinstance(s.node, cst.For)):  # lists in a list
            return {n for n in self.direct(loop.uses, info) if self.parts[n].name in LAYERS}
        return set[str]().union(*(self.among_items(v, s, info) for v, s in made if not isinstance(v, cst.Name)))

    def below(self, place: str, info: FunctionInfo, whole: set[str]) -> set[str]:
        """The layers of a place that nothing else names, "" for those that nothing names at all."""
        prefix = self.prefix(info)
        if place != prefix[:-1]:
            return self.direct({place}, info)
        return self.parts.keys() - whole or ({""} if self.cls.module.says(BY_NAME) else set())

    def direct(self, uses: set[str], info: FunctionInfo) -> set[str]:
        """The layers among the places that an expression reads."""
        prefix = self.prefix(info)
        return {u[len(prefix) :].partition(".")[0] for u in uses if u.startswith(prefix)} & self.parts.keys()

    def run(self, info: FunctionInfo, around: tuple[FunctionInfo, ...], given: Given = NOT_SEEN) -> set[str]:
        """The layers that a method runs, on the way that is taken, or that what it is given decides."""
        return self.among(info.scope.body.stmts, info, (*around, info), {}, given)[0]

    def among(
        self, stmts: list[Stmt], info: FunctionInfo, around: tuple[FunctionInfo, ...], each: dict[str, set[str]],
        given: Given,
    ) -> tuple[set[str], bool]:  # fmt: skip
        """The layers that run in statements, and whether the function or the turn of a loop ends with them.
        `each` has the names that loops around them give to layers."""
        found: set[str] = set()
        for stmt in stmts:
            if not any(is_no_grad(i.item, info.module) for w in stmt.modes for i in w.items):
                named = self.named(stmt, info, around) - self.untaken(stmt, info, given)
                layers = [d for d in stmt.defs if stmt.out[d].kind == "module"] if type(stmt.node) is cst.For else ()
                if layers:
                    each = {**each, **dict.fromkeys(layers, named)}
                    named = set()
                found |= named.union(*(each[u] for u in stmt.uses & each.keys()))
            blocks: list[Block] = stmt.blocks
            certain = self.taken is not None and stmt is self.taken[0]
            if certain and self.taken is not None:
                blocks = [self.taken[1]] if self.taken[1] is not None else []
            elif given.written and (taken := settled(stmt, given)) is not None:
                blocks, certain = taken, True
            ends = isinstance(stmt.node, (cst.Return, cst.Raise, cst.Continue, cst.Break))
            for block in blocks:
                inner, leaves = self.among(block.stmts, info, around, each, given)
                found |= inner
                ends = ends or certain and leaves
            if ends:
                return found, True
        return found, False

    def named(self, stmt: Stmt, info: FunctionInfo, around: tuple[FunctionInfo, ...]) -> set[str]:
        """The layers that a statement names, itself or in methods that it calls."""
        methods = [(c, m) for c, m in self.methods(stmt, info) if m not in around]
        # what its methods use is among the uses of a statement already
        uses = expression_uses(stmt.node, stmt) if methods and not stmt.blocks else stmt.uses
        found = self.direct(uses, info) - _cut(stmt, self.prefix(info))
        for call, method in methods:
            found |= self.run(method, around, Given().of(call, stmt, method.scope.params, method.scope.node))
        return found

    def untaken(self, stmt: Stmt, info: FunctionInfo, given: Given) -> set[str]:
        """The layers on sides of conditional expressions that what is written out keeps from running."""
        found = set[str]()
        for node in stmt.nodes if given.written and not stmt.blocks else ():
            if type(node) is cst.IfExp and (met := given.settled(node.test)) is not None:
                sides = [self.direct(expression_uses(side, stmt), info) for side in (node.body, node.orelse)]
                found |= sides[met] - sides[not met]
        return found

    def methods(self, stmt: Stmt, info: FunctionInfo) -> Iterator[tuple[cst.Call, FunctionInfo]]:
        """The methods of the network that a statement calls."""
        prefix = self.prefix(info)
        for call in stmt.calls:
            name = dotted(call.func)
            method = self.cls.method(name[len(prefix) :]) if name.startswith(prefix) else None
            method = self.cls.method("forward") if name == prefix[:-1] else method
            if method is not None:
                yield call, method

    def reached(
        self, info: FunctionInfo, given: Given, around: tuple[FunctionInfo, ...]
    ) -> Iterator[tuple[FunctionInfo, Given]]:
        """A method and those of the class that it calls, each with what it is given."""
        yield info, given
        for stmt in info.scope.body.walk():
            for call, method in self.methods(stmt, info):
                if method not in (*around, info):
                    inside = given.of(call, stmt, method.scope.params, method.scope.node)
                    yield from self.reached(method, inside, (*around, info))

    def used_elsewhere(self, attr: str) -> bool:
        """Something else may run a layer that the forward does not run."""
        own = [info.scope for info, _ in self.reached(self.info, Given(), ())]
        if self.cls.torch_base in (SEQUENTIAL, *LAYERS) and goes_through_itself(own):
            return True  # its attributes are items of it
        for module in self.project.modules.values():
            if unnamed(module, attr):
                return True
            for scope in (s for s in module.scope.walk() if s not in own and not self.replaced(s)):
                begins = scope.name == "__init__" and scope.cls is not None
                others = self.of_others(scope, own)
                for stmt in scope.body.walk():
                    if isinstance(stmt.node, cst.Expr) and (begins or BEGINNING.match(code(stmt.node))):
                        continue  # `nn.init.zeros_(self.extra.weight)`
                    uses = (u.split(".")[1:] for u in stmt.uses | stmt.muts if not others or not u.startswith("self."))
                    if any(attr in names for names in uses) or others and _deeper(stmt, attr):
                        if not without_graph(stmt, attr, module):
                            return True
        return False

    def replaced(self, scope: Scope) -> bool:
        """A method of a class above, whose place another takes, and which the classes below do not call."""
        lineage = self.cls.lineage()
        home = next((n for n, cls in enumerate(lineage) if cls.scope is scope.cls), 0)
        taking = self.cls.method(scope.name) if home else None
        if taking is None or taking.scope is scope or scope.cls is None:
            return False
        called = re.compile(rf"(super\([^()]*\)|\b{scope.cls.name})\.{scope.name}\b")
        return not any(called.search(code(cls.scope.node)) for cls in lineage[:home])

    def of_others(self, scope: Scope, own: list[Scope]) -> bool:
        """What `self` has there is not what this network has: a method of another class, or of a subclass that takes
        the place of one that this network runs."""
        if scope.cls is None or any(scope.cls is cls.scope for cls in self.cls.lineage()):
            return False
        below = any(scope.cls is cls.scope for cls in self.cls.below())
        return not below or any(scope.name == method.name for method in own)


def _pairs(node: cst.Assign) -> Iterator[Pair]:
    """What each target of an assignment gets."""
    for target in node.targets:
        yield from side_by_side(target.target, node.value)


def _deeper(stmt: Stmt, attr: str) -> bool:
    """A part of something that an object holds has the name: `self.backbone.fc`."""
    return any(attr in u.split(".")[2:] for u in stmt.uses | stmt.muts if u.startswith("self."))


def _cut(stmt: Stmt, prefix: str) -> set[str]:
    """The layers whose outputs a statement detaches: `self.extra(h).detach()`."""
    run = [dotted(c.func).removeprefix(prefix) for c in stmt.calls]
    inner = [c.func.value for c in stmt.calls if isinstance(c.func, cst.Attribute) and c.func.attr.value == "detach"]
    cut = [dotted(n.func).removeprefix(prefix) for n in inner if isinstance(n, cst.Call)]
    return {name for name in cut if run.count(name) == cut.count(name)}


def _raises(block: Block | None) -> bool:
    return block is not None and bool(block.stmts) and isinstance(block.stmts[-1].node, cst.Raise)
