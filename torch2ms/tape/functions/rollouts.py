"""Finds the episodes of a project: the statements of a caller that fill what a called function goes backward from.

Everything about these lists has to be seen: who fills them, that every such call stands among the statements, and that
they are empty before the first. What is not seen is a reason to refuse.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from torch2ms.analysis.program import liveness
from torch2ms.analysis.program.flow import root
from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.sites import Site, Unseen, bound_arguments, receiving
from torch2ms.analysis.program.structure import Scope, Stmt
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, descend
from torch2ms.analysis.values import UNKNOWN, Value, overlaps
from torch2ms.tape.forward.effects import leaves
from torch2ms.tape.forward.stashes import Stash, emptied_by, examine, graph_places, read_in, related, used_among
from torch2ms.tape.functions.episodes import CLIPS, clip_limit, clip_text
from torch2ms.tape.functions.summary import Lifting
from torch2ms.tape.model import Episode, Event

MOST_CALLS = 200  # followed from what fills a list up to the caller
QUIET = {"print", "len", "float", "int", "str", "format", "item", "append", "round"}
MODELS = ("module", "optimizer", "params", "named_params", "param", "scheduler")
SIMPLE = (cst.Name, cst.Attribute, cst.Integer, cst.Float, cst.SimpleString, cst.UnaryOperation, cst.Minus)
MIXED = (cst.IfExp, cst.BooleanOperation, cst.Lambda, cst.BaseComp, cst.NamedExpr, cst.Comparison)


class Episodes:
    """Finds the episodes of a project."""

    def __init__(self, project: Project, lifting: Lifting, events: dict[int, list[Event]], unseen: Unseen) -> None:
        self.lifting = lifting
        self.events = events
        self.unseen = unseen
        self.modules: list[ModuleInfo] = []  # those that have to do with the function
        self.found: dict[int, Episode] = {}
        self.reasons: dict[int, str] = {}
        candidates = [e for i in lifting.functions.values() if (e := self.candidate(i)) is not None]
        for episode in candidates:
            key = id(episode.info.scope)
            self.modules = related(project, episode.info.module)
            stashes = list(graph_places(self.modules).values())
            filled = [s for s in stashes if self.reached(s, [episode.info])]
            if not filled:
                continue
            if reason := self.complete(episode, filled, stashes) or self.disturbed(episode):
                self.reasons[key] = reason
            else:
                self.found[key] = episode

    # --- the function

    def candidate(self, info: FunctionInfo) -> Episode | None:
        """It clears, goes backward from a loss it made, steps, and does nothing afterwards that the step changes."""
        body, events = info.scope.body, self.events[id(info.scope)]
        kinds = [e.kind for e in events if e.kind not in CLIPS]
        node = info.scope.node
        assert isinstance(node, cst.FunctionDef)
        if kinds.count("backward") != 1 or kinds.count("step") != 1 or set(kinds) != {"clear", "backward", "step"}:
            return None
        if any(e.problem or e.stmt.block is not body or e.stmt.modes or e.stmt.off for e in events):
            return None
        backward = next(e for e in events if e.kind == "backward")
        step = next(e for e in events if e.kind == "step")
        clears = [e for e in events if e.kind == "clear"]
        clips = [e for e in events if e.kind in CLIPS]
        if any(not backward.stmt.number < c.stmt.number < step.stmt.number or not clip_text(c, step) for c in clips):
            return None
        if backward.scaler or backward.inputs is not None or backward.branches or backward.cotangents != [None]:
            return None
        if not isinstance(backward.roots[0], cst.Name) or node.decorators or node.asynchronous is not None:
            return None
        if not isinstance(step.stmt.node, cst.Expr) or not step.place or step.stmt.number < backward.stmt.number:
            return None
        if not any(self.empties(c, step) and c.stmt.number < backward.stmt.number for c in clears):
            return None
        returns = [s for s in body.walk() if type(s.node) is cst.Return]
        if len(returns) > 1 or returns and returns[0] is not body.stmts[-1]:
            return None
        if any(type(n) is cst.Yield or type(n) is cst.Await for n in descend(node)):
            return None
        episode = Episode(info, backward, step, clips, clears, returns[0] if returns else None)
        value = returns[0].node.value if returns else None  # type: ignore[union-attr]
        if value is not None and dotted(value) != "None":
            forms = {"{}": episode.root, "{}.item()": f"{episode.root}.item()", "float({})": f"float({episode.root})"}
            episode.result = next((form for form, text in forms.items() if code(value) == text), "")
            if not episode.result:
                return None
        after = body.stmts[body.stmts.index(backward.stmt) + 1 :]
        gone = {id(e.stmt) for e in events} | {id(s) for s in returns}
        if not all(id(s) in gone or self.quiet(s, episode) for s in after):
            return None
        return episode

    def empties(self, clear: Event, step: Event) -> bool:
        owns = step.value.owns
        return clear.place == step.place or clear.value.kind == "module" and owns == frozenset({clear.place})

    def quiet(self, stmt: Stmt, episode: Episode) -> bool:
        """The step changes nothing that the statement reads, nor the other way round."""
        if emptied_by(stmt, self.lifting.callee):
            return True
        module, scope = episode.info.module, episode.info.scope
        if stmt.blocks or episode.root in stmt.defs | stmt.muts or not isinstance(stmt.node, (cst.Expr, cst.Assign)):
            return False
        for call in stmt.calls:
            name = call.func.attr.value if isinstance(call.func, cst.Attribute) else dotted(call.func)
            if name not in QUIET:
                return False
        own = scope.locals - set(scope.params)
        for node in stmt.nodes:
            if isinstance(node, cst.Name) and module.value(node).kind in MODELS:
                return False
        return all(root(u) in own or root(u) in QUIET for u in stmt.uses | stmt.defs)

    # --- the call

    def complete(self, episode: Episode, filled: list[Stash], stashes: list[Stash]) -> str:
        """Find the statements of the caller; the reason if they are not all seen."""
        info = episode.info
        sites = self.lifting.sites.get(id(info.scope), [])
        if len(sites) != 1:
            return f"`{info.name}` is called from {len(sites)} places, and the rollout would have to be known at each"
        episode.site = site = sites[0]
        if info.scope in self.unseen or self.passed_on(info):
            return f"`{info.name}` may be called elsewhere too"
        if site.stmt.modes or site.stmt.off or site.stmt.blocks or not self.placed(episode):
            return f"the call of `{info.name}` stands inside a larger expression"
        episode.name = self.loss_name(episode)
        if reason := self.optimizer(episode):
            return reason
        before = -1
        while len(filled) != before:
            before = len(filled)
            fills: list[Stmt] = []
            deps: set[str] = set()
            for stash in filled:
                examine(stash, self.modules, info.scope, self.lifting.callee)
                if stash.problem:
                    return stash.problem
                if reason := self.follow(stash, episode, fills, deps):
                    return reason
            if reason := self.cut(episode, fills):
                return reason
            inside = [s for top in episode.stmts for s in top.walk()]
            called = [self.lifting.callee[id(c)] for s in inside for c in s.calls if id(c) in self.lifting.callee]
            used = {u for s in inside for u in s.uses | s.muts}
            filled = [s for s in stashes if self.reached(s, [info, *called]) or not s.bare and used_among(s, used)]
        episode.deps = frozenset(deps)
        if not any(overlaps(d, o) for d in deps for o in episode.owner.owns or ()):
            return f"how what is kept for `{info.name}` depends on the parameters is not seen"
        return ""

    def reached(self, stash: Stash, infos: list[FunctionInfo]) -> bool:
        """One of the functions, or one they call, reads the place or fills it."""
        return any(read_in(stash, i.scope) for i in self.closure(infos))

    def closure(self, infos: list[FunctionInfo]) -> list[FunctionInfo]:
        """The functions and all they call."""
        seen: dict[int, FunctionInfo] = {}
        work = list(infos)
        while work:
            info = work.pop()
            if seen.setdefault(id(info.scope), info) is info:
                for inner in info.scope.walk():
                    for call in (c for s in inner.body.walk() for c in s.calls):
                        target = self.lifting.callee.get(id(call))
                        if target is not None and id(target.scope) not in seen:
                            work.append(target)
        return list(seen.values())

    def inside(self, episode: Episode) -> list[FunctionInfo]:
        """Every function that runs inside the differentiated one."""
        calls = [c for top in episode.stmts for s in top.walk() for c in s.calls]
        return self.closure(
            [episode.info, *(self.lifting.callee[id(c)] for c in calls if id(c) in self.lifting.callee)]
        )

    def passed_on(self, info: FunctionInfo) -> bool:
        """The function's name stands somewhere else than in calls of it."""
        calls = [s.call.func for s in self.lifting.sites.get(id(info.scope), [])]
        known = {id(f.attr if isinstance(f, cst.Attribute) else f) for f in calls}
        known.add(id(info.scope.node.name))  # type: ignore[union-attr]
        for module in self.modules:
            for scope in module.scope.walk():
                for stmt in scope.body.walk():
                    if type(stmt.node) is cst.Import or type(stmt.node) is cst.ImportFrom:
                        known |= {id(n) for n in stmt.nodes}
            for node in module.nodes:
                if type(node) is cst.Name and node.value == info.name and id(node) not in known:
                    return True
        return False

    def placed(self, episode: Episode) -> bool:
        """Nothing of the statement around the call is evaluated before it, but names and constants."""
        node, call = episode.site.stmt.node, episode.site.call
        if not all(isinstance(n, SIMPLE) for a in call.args for n in _expressions(a.value)):
            return False
        if any(a.star for a in call.args) or not dotted(call.func):
            return False
        if isinstance(node, cst.AugAssign) and not isinstance(node.target, cst.Name):
            return False
        if isinstance(node, cst.Expr) and node.value is call or episode.target:
            return bool(episode.result) or not episode.target
        if not isinstance(node, (cst.Expr, cst.Assign, cst.AugAssign)) or not episode.result:
            return False
        path = list(_path(node, call))
        calls = [n for n in path if isinstance(n, cst.Call)]
        outer = {id(n) for c in calls for n in descend(c.func)}
        around = [c for c in episode.site.stmt.calls if c is not call and c not in calls]
        others = [c for c in around if not self.counted(c, episode)]
        if others or any(isinstance(n, MIXED) for n in path):
            return False
        own = {id(n) for n in descend(call)}
        rest = [n for n in descend(node) if id(n) not in own | outer]
        return not any(isinstance(n, (cst.Attribute, cst.Subscript, *MIXED)) for n in rest)

    def counted(self, call: cst.Call, episode: Episode) -> bool:
        """`round(total, 3)`: a number of numbers, whenever it is taken."""
        numbers = _rounds(call) and episode.site.module.value(call.func).kind == "builtin"
        return numbers and all(isinstance(a.value, (cst.Name, cst.Integer, cst.Float)) for a in call.args)

    def loss_name(self, episode: Episode) -> str:
        if episode.target and episode.result == "{}":
            return episode.target
        taken = episode.site.scope.locals | episode.site.module.scope.locals | set(episode.site.module.imports.table)
        scope = episode.site.scope.parent
        while scope is not None:
            taken, scope = taken | scope.locals, scope.parent
        candidates = [episode.root, "loss", "episode_loss", *(f"episode_loss_{i}" for i in range(2, 100))]
        return episode.target or next(n for n in candidates if n not in taken)

    def optimizer(self, episode: Episode) -> str:
        """Where the optimizer lives in the caller's words."""
        site, place = episode.site, episode.step.place
        head, _, rest = place.partition(".")
        info = episode.info
        if head == "self" and info.cls is not None:
            base = receiving(info, site.call)
            episode.place = f"{base}.{rest}"
            value = episode.step.value
            owns = None if value.owns is None else frozenset(self.outside(o, site, info) for o in value.owns)
            episode.owner = Value("optimizer", value.name, place=episode.place, owns=owns, dtype=value.dtype)
        elif head in info.scope.params:
            argument = self.bound(site, info).get(head)
            if argument is None or rest or site.module.value(argument).kind != "optimizer" or not dotted(argument):
                return f"which optimizer `{info.name}` steps is not seen"
            episode.owner = site.module.value(argument)
            episode.place = episode.owner.place or dotted(argument)
        elif head in info.scope.locals or info.module is not site.module:
            return f"which optimizer `{info.name}` steps is not seen"
        elif head in site.scope.locals and not site.scope.is_module:
            return f"`{head}` means something else where `{info.name}` is called"
        else:
            episode.place, episode.owner = place, episode.step.value
        if any(self.hidden(c, episode) for c in episode.clips):
            return f"the limit of the clipping is not known where `{info.name}` is called"
        return "" if episode.owner.owns else f"which parameters `{episode.place}` holds is not seen"

    def hidden(self, clip: Event, episode: Episode) -> bool:
        """The limit is a name that means something else, or nothing, in the caller."""
        head, info, site = root(clip_limit(clip)), episode.info, episode.site
        if not head.isidentifier():
            return False
        local = head in info.scope.locals or not site.scope.is_module and head in site.scope.locals
        return local or info.module is not site.module

    def bound(self, site: Site, info: FunctionInfo) -> dict[str, cst.BaseExpression]:
        return {name: arg.value for name, arg in bound_arguments(info, site.call).items() if not arg.star}

    def outside(self, place: str, site: Site, info: FunctionInfo) -> str:
        """A place of the callee in the caller's words, "" for one that is not seen."""
        head, _, rest = place.lstrip("^@").partition(".")
        tail = f".{rest}" if rest else ""
        if head == "self" and info.cls is not None:
            base = receiving(info, site.call)
            return base + tail if base else ""
        if head in info.scope.params:
            argument = self.bound(site, info).get(head)
            value = site.module.value(argument) if argument is not None else UNKNOWN
            known = value.place or (dotted(argument) if argument is not None else "")
            return known + tail if value.kind in ("module", "object") and known else ""
        return "" if head in info.scope.locals else place

    def follow(self, stash: Stash, episode: Episode, fills: list[Stmt], deps: set[str]) -> str:
        """The statements of the caller that fill the place, by themselves or by what they call."""
        caller, callee = episode.site.scope, episode.info.scope
        work: list[tuple[Scope, Stmt, frozenset[str]]] = []
        for fill in stash.fills:
            work.append((fill.scope, fill.stmt, fill.module.value(fill.value).deps))
        seen: set[tuple[int, frozenset[str]]] = set()
        while work:
            scope, stmt, made = work.pop()
            if (id(stmt), made) in seen:
                continue
            seen.add((id(stmt), made))
            if len(seen) > MOST_CALLS:
                return f"`{stash.name}` is filled through functions that call themselves"
            if stmt.modes or stmt.off:
                return f"`{stash.name}` is filled inside a block of its own"
            if scope is caller:
                fills.append(stmt)
                deps |= {d for d in made if self.real(d, scope, episode)}
                continue
            info = self.lifting.functions.get(id(scope))
            if info is None:
                return f"`{stash.name}` is filled outside of functions"
            if scope is not callee and (info.scope in self.unseen or self.passed_on(info)):
                return f"`{info.name}`, which fills `{stash.name}`, may be called elsewhere too"
            for site in self.lifting.sites.get(id(scope), []):
                moved = frozenset().union(*(self.graph(d, site, info) for d in made))
                work.append((site.scope, site.stmt, moved))
        return "" if fills else f"what fills `{stash.name}` is not seen"

    def graph(self, dep: str, site: Site, info: FunctionInfo) -> frozenset[str]:
        """What something varied with a place of the callee is varied with in the caller."""
        if place := self.outside(dep, site, info):
            return frozenset({place})
        argument = self.bound(site, info).get(root(dep.lstrip("^@")))
        return site.module.value(argument).deps if argument is not None else frozenset()

    def real(self, dep: str, scope: Scope, episode: Episode) -> bool:
        """Parameters behind the dependence: a global place, or a local one that the optimizer holds."""
        if dep.startswith(("@", "^")):
            return False
        held = any(overlaps(dep, o) for o in episode.owner.owns or ())
        return held or scope.is_module or root(dep) not in scope.locals

    # --- the statements

    def cut(self, episode: Episode, fills: list[Stmt]) -> str:
        """All statements from the first that fills to the call: nothing changes its place."""
        stmt = episode.site.stmt
        block = stmt.block
        end = block.stmts.index(stmt)
        tops = []
        for fill in fills:
            top = next((s for s in [fill, *fill.ancestors()] if s.block is block), None)
            if top is None or block.stmts.index(top) > end:
                return f"what `{episode.info.name}` differentiates is not all made just before the call"
            if top is not stmt:
                tops.append(block.stmts.index(top))
        if not tops:
            return f"what `{episode.info.name}` differentiates is not made just before the call"
        first, last = min(tops), max(tops) + 1
        first = self.widened(block.stmts, first, end, bool([a for a in stmt.ancestors() if a.is_loop]))
        last = max([last, *(i + 1 for i in range(last, end) if not self.plain(block.stmts[i], stmt))])
        episode.stmts, episode.after = block.stmts[first:last], block.stmts[last:end]
        bounds = self.events[id(episode.site.scope)]
        for top in episode.stmts:
            inner = list(top.walk())
            if reason := leaves(top):
                return f"a `{reason}` stands inside its forward"
            if any(e.stmt in inner for e in bounds):
                return "another gradient event stands inside its forward"
            if any(s.modes or s.off or isinstance(s.node, _DEFINING) for s in inner):
                return "a block or definition of its own stands inside its forward"
        if any(leaves(s) for s in episode.after):
            return "a jump stands between the forward and the call"
        return ""

    def widened(self, stmts: list[Stmt], first: int, end: int, loops: bool) -> int:
        """Where the names start that the statements need: these belong to the same turn."""
        while True:
            inside = stmts[first:end]
            own = {d for s in inside for d in s.all_defs}
            needed = {n for n in liveness.exposed(inside) if loops or n in own}
            earlier = [i for i in range(first) if {root(d) for d in stmts[i].all_defs} & needed]
            if not earlier:
                return first
            first = min(earlier)

    def plain(self, stmt: Stmt, call: Stmt) -> bool:
        """A statement of numbers alone may as well come after the call."""
        if stmt.blocks or stmt.calls or stmt.muts - stmt.defs or not isinstance(stmt.node, (cst.Assign, cst.AugAssign)):
            return False
        inside = {root(u) for u in call.uses}
        return not any("." in p for p in stmt.defs | stmt.uses) and not stmt.defs & inside

    def disturbed(self, episode: Episode) -> str:
        """Something that runs inside, or elsewhere, has to do with gradients itself."""
        inside = self.inside(episode)
        if any(self.events.get(id(s)) for i in inside for s in i.scope.walk() if s is not episode.info.scope):
            return "another gradient event stands inside its forward"
        own = (episode.info.scope, episode.site.scope)
        for scope in (s for m in self.modules for s in m.scope.walk() if s not in own):
            if any(e.kind not in ("step", "clear", "backward") for e in self.events.get(id(scope), ())):
                return "gradients are used in another function too"
        if any(isinstance(s.node, (cst.Global, cst.Nonlocal)) for i in inside for s in i.scope.body.walk()):
            if episode.kept or episode.after:
                return "what runs inside its forward writes global names"
        return ""


_DEFINING = (cst.FunctionDef, cst.ClassDef, cst.Global, cst.Nonlocal, cst.Import, cst.ImportFrom)


def _rounds(call: cst.Call) -> bool:
    """A call of what makes numbers of numbers."""
    return dotted(call.func) in ("round", "abs", "int", "float")


def _expressions(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    return (n for n in descend(node) if isinstance(n, (cst.BaseExpression, cst.Minus)))


def _path(node: cst.CSTNode, target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """The nodes that the target lies in."""
    return (n for n in descend(node) if n is not target and any(m is target for m in descend(n)))
