"""Plans the gradient code of one scope: ledger, regions, the form of each gradient call, and where it is written."""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.flow import expression_uses
from torch2ms.analysis.names import dotted
from torch2ms.analysis.program import Scope, Stmt
from torch2ms.analysis.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.values import any_overlap
from torch2ms.findings import Finding, Tier
from torch2ms.tape import gradients, owners
from torch2ms.tape.calls import Call
from torch2ms.tape.cells import CellWriter
from torch2ms.tape.chains import plan_chains
from torch2ms.tape.curvature import Curvature, plan_curvature
from torch2ms.tape.episodes import plan_episode
from torch2ms.tape.events import Event, find
from torch2ms.tape.exports import plan_closure, plan_export
from torch2ms.tape.forms import Writer
from torch2ms.tape.gradcalls import dependents, plan_gradcall
from torch2ms.tape.handing import Handed, more_than, own_value
from torch2ms.tape.helpers import plan_helper
from torch2ms.tape.hooks import has_hooks, watched
from torch2ms.tape.idle import drop_idle
from torch2ms.tape.ledger import Owner
from torch2ms.tape.lifting import Lifting, called_events, lifted
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.records import LOADS, Records
from torch2ms.tape.regions import Finder, Region
from torch2ms.tape.scaling import Scaling, holds_more, joined
from torch2ms.tape.stashes import Stash, feeding, related, used_among
from torch2ms.tape.taking import Taken, plan_call, plan_definition
from torch2ms.tape.unseen import through_unseen
from torch2ms.tape.verdicts import Verdicts


def plan_scope(
    scope: Scope, module: ModuleInfo, plan: Plan, info: FunctionInfo | None, lifting: Lifting, project: Project
) -> None:
    """Add the edits for every gradient event of the scope to the plan."""
    export = lifting.exports.get(id(scope))
    if export is not None:
        plan_export(export, plan)
        return
    if (helper := lifting.helpers.get(id(scope))) is not None:
        plan_helper(helper, plan)
        return
    if (episode := lifting.episodes.get(id(scope))) is not None:
        plan_episode(episode, plan)
        return
    events = find(scope, module)
    closures = [
        e for e in events if e.kind == "step_closure" and plan_closure(e, scope, module, plan, lifting, project)
    ]
    events = sorted(
        [
            *(e for e in events if e not in closures),
            *lifted(scope, module, lifting),
            *called_events(scope, module, lifting),
        ],
        key=lambda e: e.stmt.number,
    )
    if events := drop_idle(events, scope, module, plan):
        handed, taken = lifting.handed.get(id(scope)), lifting.taken.get(id(scope))
        planner = _ScopePlanner(
            scope, module, plan, info, joined(events, scope, module), project, lifting.callee, handed, taken
        )
        planner.incomplete = lifting.incomplete.get(id(scope), "")
        planner.left = lifting.left
        planner.run()


class _ScopePlanner:
    def __init__(
        self,
        scope: Scope,
        module: ModuleInfo,
        plan: Plan,
        info: FunctionInfo | None,
        events: list[Event],
        project: Project,
        callee: dict[int, FunctionInfo],
        handed: Handed | None = None,
        taken: Taken | None = None,
    ) -> None:
        self.scope = scope
        self.module = module
        self.plan = plan
        self.info = info
        self.handed = handed
        self.taken = taken
        self.incomplete = ""  # why the calls around it and this function are no episode
        self.left: list[Stash] = []  # lists outside of functions that hold graphs
        if handed is not None:
            self.plan_parameter(handed)
            for event in events:
                if event.node is handed.backward.node:
                    own_value(event, handed.root)
        self.records = Records(scope, module, events, handed is None, plan.config.assume_cleared)
        self.verdicts = Verdicts(scope, module, project, self.records, handed, taken)
        self.writer = Writer(scope, module, plan, project)
        self.project = project
        self.callee = callee
        self.deferred: set[int] = set()  # forwards that wait until their loss is handed on
        self.chained: set[int] | None = None  # gradient calls that are planned together
        self.compiled: Curvature | None = None  # those with respect to weights

    # --- planning

    def plan_parameter(self, handed: Handed) -> None:
        """The playback becomes a parameter behind the loss."""
        node = self.scope.node
        assert isinstance(node, cst.FunctionDef)
        for param in [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]:
            if param.name.value == handed.root:
                self.plan.beside[id(param)] = handed.playback

    def region(self, event: Event, wanted: list[Owner], finder: Finder) -> tuple[Region, str]:
        """The forward of an event, and why it cannot be one, "" if it can."""
        if self.verdicts.played(event):
            assert self.handed is not None
            region = finder.find(
                event, None, active=dependents([self.handed.root], event, self.scope, self.module, entry=True)
            )
            passed = event.handing is not None and (region.stmts or not isinstance(event.roots[0], cst.Name))
            if other := more_than(self.handed.root, region, self.module):
                return region, f"the loss depends on `{other}` beside what callers made"
            return region, region.problem or ("the loss is changed before it is handed on" if passed else "")
        owns: frozenset[str] | None = frozenset()
        for owner in wanted:
            owns = None if owner.owns is None or owns is None else owns | owner.owns
        if event.episode is not None:
            region = event.episode.region(event)
        else:
            region = finder.find(event, owns if wanted else None)
            if left := self.left_elsewhere(event):
                return region, self.incomplete or f"`{left}` brings along what other functions left in it"
        if region.problem:
            return region, region.problem
        if (
            wanted
            and all(d.startswith("@") for d in self.records.root_deps(event))
            and not any(o.kind == "leaf" for o in wanted)
        ):
            active, models = through_unseen(event, self.scope, self.module)
            if not models or event.kind != "backward":
                return region, self.incomplete or "how the loss depends on the parameters is not seen"
            for owner in wanted:
                owner.assumed.add(f"`{'`, `'.join(models)}` holds the parameters of `{owner.place}`")
            region = finder.find(event, None, active=active)
            return region, region.problem
        if crossing := self.verdicts.crossing(event, region, owns if wanted else None):
            return region, f"`{crossing}` brings a graph along that is made elsewhere"
        return region, ""

    def left_elsewhere(self, event: Event) -> str:
        """A list outside of this function, filled with graphs by others, that the loss is made of."""
        if not self.left or event.lifted:
            return ""
        roots = set().union(*(expression_uses(r, event.stmt) for r in event.roots))
        used = feeding(event.stmt, roots)
        near = {id(m) for m in related(self.project, self.module)}
        for stash in self.left:
            elsewhere = [f for f in stash.fills if f.scope is not self.scope and id(f.module) in near]
            if elsewhere and used_among(stash, used) and not (stash.bare and stash.name in self.verdicts.local_names()):
                return stash.name
        return ""

    def run(self) -> None:
        for event in self.records.events:
            if event.problem:
                self.refuse(event, event.problem)
        if any(e.problem for e in self.records.events):
            self.give_up("another gradient event of this scope is not translated")
            return
        takers = {id(e): self.verdicts.fed(e) for e in self.records.events if e.kind in ("backward", "handed")}
        self.scaling = Scaling(self.records.events)
        if reason := self.verdicts.hopeless(takers, self.scaling.problem):
            self.give_up(reason)
            return
        dropped = self.dead_clears()
        self.writer.gone = {id(e.stmt) for e in self.records.events if e.kind == "clear" and not e.lifted}
        finder = Finder(
            self.module,
            {id(e.stmt) for e in self.records.events if e.kind == "clear" and not e.lifted},
            self.records.events,
        )
        if self.chained is None:
            chains = self.records.events if self.verdicts.repeats() else []
            self.chained = plan_chains(chains, self.scope, self.module, self.plan, self.writer, self.callee)
        if self.compiled is None:
            self.compiled = plan_curvature(
                self.records.events, self.scope, self.module, self.plan, self.writer, finder, self.project
            )
        compiled = self.compiled
        chained = self.chained | compiled.done
        finder.event_stmts -= {id(e.stmt) for e in self.records.events if id(e) in chained}
        finder.mixed = self.plan.contexts.keys() | self.plan.halved.keys()
        finder.foreign = self.verdicts.foreign()
        finder.holders = {n for s in self.scope.body.walk() for c in s.calls if (n := dotted(c.func))}
        regions: list[tuple[Event, Region]] = []
        for event in self.records.events:
            if event.kind not in ("backward", "handed"):
                continue
            region, problem = self.region(event, takers[id(event)], finder)
            if compiled.cut(region.all):
                problem = problem or "a part of its forward is compiled with another gradient"
            if problem:
                self.without(event, takers[id(event)], problem)
                return
            for stmt in region.all:
                finder.taken.setdefault(id(stmt), region)
            regions.append((event, region))
        if self.shared(regions, takers):
            self.restart()
            return
        if (late := self.still_open(regions)) is not None:
            self.without(late, takers[id(late)], "two graphs are open at once: MindSpore plays the last one back first")
            return
        if (clash := self.verdicts.overlap(regions, finder)) is not None:
            self.without(
                clash, takers[id(clash)], "two backward calls share a forward, and something happens between them"
            )
            return
        calls = []
        for event, region in regions:
            if not takers[id(event)]:
                if method := self.verdicts.own_optimizer():
                    self.refuse(event, f"`{method}` may use the gradients it stores")
                    continue
                if any(e.kind in LOADS for e in self.records.events) and not self.verdicts.placed(event):
                    self.refuse(event, "whose gradients it fills is not seen")
                    continue
                if has_hooks(self.module):
                    watching = watched(event, self.module)
                    if not watching:
                        self.refuse(event, "hooks wait for its gradients, and what they come from is not seen")
                        continue
                    calls.append(Call(event, region, watching, several=len(regions) > 1))
                    continue
                self.dead(event)
                continue
            call = Call(event, region, takers[id(event)])
            if self.verdicts.played(event):
                assert self.handed is not None
                call.played, call.inputs = self.handed.playback, [self.handed.root]
            call.several = len(regions) > 1
            call.deferred = id(event) in self.deferred
            call.delayed = self.looked_at(event, region, takers[id(event)])
            call.keep = bool(event.branches) and holds_more(event) or event.episode is not None and event.episode.kept
            calls.append(call)
        for owner in self.records.owners:
            self.name(owner)
            if self.taken is not None and owner.place in self.taken.variables:
                owner.variable = self.taken.variables[owner.place]
            if owner.parameter or owner.kind == "leaves":
                self.plan.leaves |= {o: o.rpartition(".")[2] for o in owner.owns or ()}
        before = self.plan.saved()
        cells = CellWriter(self.writer, self.records.events, self.records.owners, self.project)
        for call in calls:
            for owner in call.owners if call.event.kind == "backward" else ():
                if self.records.accumulates(call.event, owner):
                    call.accumulate[owner.place] = bool(
                        self.records.held(call.event, owner)
                    ) and not self.records.may_be_empty(call.event, owner)
            plain = self.plan.config.style != "cell" or call.event.episode is not None
            as_cell = "" if plain else cells.write(call) or "cell"
            if as_cell != "cell" and (problem := self.writer.write(call)):
                self.plan.restore(before)
                self.without(call.event, call.owners, problem)
                return
            if self.plan.config.jit and not call.compiled:
                call.form += "; not compiled: ms.vjp records it step by step"
            if as_cell not in ("", "cell"):
                call.form += f"; not a training cell: {as_cell}"
            self.plan.replaced |= {id(stmt): [] for stmt in call.event.branches}
            self.explain(call)
        for event in self.records.events:
            if (
                event.kind == "gradcall"
                and id(event) not in chained
                and (
                    problem := compiled.problems.get(id(event))
                    or plan_gradcall(
                        event,
                        self.scope,
                        self.module,
                        self.plan,
                        self.writer,
                        finder,
                        self.verdicts.repeats(),
                        compiled,
                    )
                )
            ):
                self.refuse(event, problem)
        self.loads([e for e in self.records.events if id(e) not in cells.done])
        self.clears(dropped)
        self.start()
        if self.taken is not None:
            plan_definition(self.taken, self.plan)

    def looked_at(self, event: Event, region: Region, takers: list[Owner]) -> set[str]:
        """Owners whose gradients are used between the forward and the backward call."""
        start = region.stmts[-1].number if region.stmts else event.stmt.number
        between = [e for e in self.records.events if start < e.stmt.number < event.stmt.number and e.kind in LOADS]
        return {o.place for o in takers for e in between if owners.concerns(e, o, self.records.owners)}

    def name(self, owner: Owner) -> None:
        same = [o for o in self.records.owners if o.kind == "optimizer"]
        if owner.kind == "leaf":
            own = self.users_name(owner)
            owner.variable = own or self.writer.fresh(owner.place.replace(".", "_").removeprefix("self_") + "_grad")
            if not owner.parameter:
                self.unmark(owner)
        elif len(self.records.owners) == 1 or (len(same) == 1 and owner.kind == "optimizer"):
            owner.variable = self.writer.fresh("grads")
        else:
            short = owner.place.rpartition(".")[2]
            for word in ("optimizer", "optim", "opt"):
                if short.replace(word, "").strip("_"):
                    short = short.replace(word, "").strip("_")
            if not short.isidentifier():  # opt1, opt2: what is left of the name is no name
                short = owner.place.rpartition(".")[2]
            owner.variable = self.writer.fresh(f"{short}_grads")

    def users_name(self, owner: Owner) -> str:
        """The user's own name for a leaf's gradient: the one that takes it, and nothing else, where it is read."""
        records = self.records
        reads = [e for e in records.events if e.kind == "leaf_grad" and owners.concerns(e, owner, records.owners)]
        node = reads[0].stmt.node if len(reads) == 1 else None
        target = node.targets[0].target if isinstance(node, cst.Assign) and len(node.targets) == 1 else None
        if not isinstance(node, cst.Assign) or not isinstance(target, cst.Name):
            return ""
        name, value = target.value, node.value
        if isinstance(value, cst.Attribute) and value.attr.value == "data":
            value = value.value
        bindings = [s for s in self.scope.body.walk() if name in s.defs]
        if value is not reads[0].node or len(bindings) != 1 or any(name in c.locals for c in self.scope.children):
            return ""
        stores = [e for e in records.events if e.kind == "backward" and owner in records.takers(e)]
        late = any(e.stmt.number > bindings[0].number or records.accumulates(e, owner) for e in stores)
        return "" if late else name

    def unmark(self, owner: Owner) -> None:
        """`x.requires_grad = True` of a leaf that gradient functions take as an argument says nothing any more."""
        for stmt in self.scope.body.walk():
            node = stmt.node
            if isinstance(node, cst.Assign) and dotted(node.targets[0].target) == f"{owner.place}.requires_grad":
                self.plan.replaced[id(stmt)] = []
                why = "gradient functions name what they differentiate: dropped"
                self.plan.findings.append(Finding("T2M303", Tier.EXACT, "requires_grad", why, line=stmt.lineno))

    def without(self, event: Event, takers: list[Owner], why: str) -> None:
        """Refuse an event with all that has to do with its owners; plan the rest again."""
        related = {id(event)}
        for owner in takers:
            for other in self.records.events:
                if (
                    other.kind == "backward"
                    and owner in self.records.takers(other)
                    or other.kind in LOADS
                    and owners.concerns(other, owner, self.records.owners)
                ):
                    related.add(id(other))
                if other.kind == "clear" and owner.cleared_by(other, len(self.records.owners) == 1):
                    related.add(id(other))
        scalers = {e.scaler for e in self.records.events if id(e) in related and e.kind == "scaler_step"}
        related |= {id(e) for e in self.records.events if e.kind == "scaler_update" and e.scaler in scalers}
        for other in self.records.events:
            if id(other) in related:
                self.refuse(other, why)
        self.records.events = [e for e in self.records.events if id(e) not in related]
        if self.records.events:
            self.restart()

    def restart(self) -> None:
        self.records.read(self.records.events)
        self.run()

    def shared(self, regions: list[tuple[Event, Region]], takers: dict[int, list[Owner]]) -> bool:
        """Two backwards over one forward become one function that returns the sum of the roots; True if any did."""
        for (first, one), (second, two) in zip(regions, regions[1:], strict=False):
            same = {id(s) for s in one.all} & {id(s) for s in two.all}
            plain = (
                not any(c is not None for c in [*first.cotangents, *second.cotangents])
                and first.scaler == second.scaler
            )
            if (
                not same
                or "handed" in (first.kind, second.kind)
                or first.stmt.block is not second.stmt.block
                or takers[id(first)] != takers[id(second)]
                or not plain
            ):
                continue
            if one.guards or two.guards or not self.nothing_between(first, second):
                continue
            second.roots = [*first.roots, *second.roots]
            second.cotangents = [*first.cotangents, *second.cotangents]
            self.records.events.remove(first)
            self.plan.replaced[id(first.stmt)] = []
            self.plan.findings.append(
                Finding(
                    "T2M101",
                    Tier.EXACT,
                    "backward call",
                    "one function with the next: it returns the sum",
                    line=first.stmt.lineno,
                )
            )
            return True
        return False

    def nothing_between(self, first: Event, second: Event) -> bool:
        """No load of gradients, and no clear, between two events of a block."""
        return not any(
            first.stmt.number < e.stmt.number < second.stmt.number and e.kind in (*LOADS, "clear", "gradcall")
            for e in self.records.events
        )

    def still_open(self, regions: list[tuple[Event, Region]]) -> Event | None:
        """A loss that is handed on, whose forward is recorded before an earlier one has been played back."""
        handed = [(e, r) for e, r in regions if e.kind == "handed"]
        for (first, _), (second, region) in zip(handed, handed[1:], strict=False):
            if not region.all or not region.all[-1].number < first.stmt.number < second.stmt.number:
                continue
            if not self.verdicts.independent(first, second, region):
                return second
            self.deferred.add(id(second))
        return None

    def dead_clears(self) -> set[int]:
        """Clears that nothing later notices: the next store starts afresh, or nobody loads."""
        dead = set()
        live_owners = [
            o
            for o in self.records.owners
            if any(self.records.accumulates(e, o) for e in self.records.events if e.kind == "backward")
        ]
        for event in self.records.events:
            if event.kind == "clear" and not any(
                o.cleared_by(event, len(self.records.owners) == 1) for o in live_owners
            ):
                dead.add(id(event.stmt))
        return dead

    def clears(self, dropped: set[int]) -> None:
        for event in self.records.events:
            if event.kind == "clear" and event.lifted and id(event.stmt) not in dropped:
                for owner in self.records.owners:
                    if owner.accumulating and owner.cleared_by(event, len(self.records.owners) == 1):
                        self.plan.before.setdefault(id(event.stmt), []).append(Text(f"{owner.variable} = None"))
            if event.kind != "clear" or event.lifted:
                continue
            items: list[Text] = []
            if id(event.stmt) not in dropped:
                for owner in self.records.owners:
                    if owner.cleared_by(event, len(self.records.owners) == 1) and owner.accumulating:
                        zeroed = owner.kind == "leaf" and isinstance(event.stmt.node, cst.Expr)
                        self.plan.needs |= {"ops"} if zeroed else set()
                        items.append(
                            Text(f"{owner.variable} = {f'ops.zeros_like({owner.variable})' if zeroed else 'None'}")
                        )
            if items and any(
                id(a) in self.plan.contexts and id(a) not in self.plan.halved for a in event.stmt.ancestors()
            ):
                self.refuse(event, "it stands inside an autocast block, which becomes a function")
                continue
            self.plan.replaced[id(event.stmt)] = list(items)
            why = (
                "becomes the reset of the accumulator"
                if items
                else "gradient functions start from nothing at each call: dropped"
            )
            self.plan.findings.append(Finding("T2M102", Tier.EXACT, "reset of gradients", why, line=event.stmt.lineno))

    def start(self) -> None:
        """Accumulators exist before the first loop that adds to them."""
        for owner in self.records.owners:
            if (
                owner.kind == "leaf"
                and (owner.accumulating or owner.initial)
                and (made := self.made(owner)) is not None
            ):
                self.plan.behind.setdefault(id(made), []).append(Text(f"{owner.variable} = None"))
                continue
            if not owner.accumulating:
                continue
            first = next(
                e
                for e in self.records.events
                if e.kind == "backward" and owner.place in {o.place for o in self.records.takers(e)}
            )
            top = first.stmt
            for ancestor in first.stmt.ancestors():
                top = ancestor
            covered = any(
                e.kind == "clear" and owner.cleared_by(e, len(self.records.owners) == 1)
                and e.stmt.block is self.scope.body and e.stmt.number < top.number
                for e in self.records.events
            )  # fmt: skip
            if not covered:
                self.plan.before.setdefault(id(top), []).append(Text(f"{owner.variable} = None"))

    def made(self, owner: Owner) -> Stmt | None:
        """The statement that makes a leaf."""
        for stmt in self.scope.body.walk():
            if owner.place in stmt.defs and stmt.out[owner.place].leaf:
                return stmt
        return None

    def loads(self, events: list[Event]) -> None:
        for event in events:
            for owner in self.records.owners:
                if event.kind == "step" and event.place == owner.place:
                    self.step(event, owner)
                if event.kind == "taken" and owners.concerns(event, owner, self.records.owners):
                    plan_call(event, self.records.owners, self.plan)
        gradients.plan(events, self.records.owners, self.module, self.plan, self.writer)
        self.scaling.write(self.records.owners, self.plan, self.writer)

    def step(self, event: Event, owner: Owner) -> None:
        if event.lifted:  # written with the gradient call
            return
        state = owner.before[self.records.number[id(event)]]
        text = f"{owner.place}({owner.variable})"
        if isinstance(event.stmt.node, cst.Expr) and event.stmt.node.value is event.node:
            if state.empty and owner.accumulating:
                text = f"if {owner.variable} is not None:\n    {text}"
            self.plan.replaced[id(event.stmt)] = [Text(text)]
        else:
            self.plan.expressions[id(event.node)] = text
        self.plan.findings.append(
            Finding("T2M103", Tier.EXACT, "optimizer step", "takes the gradients as argument", line=event.stmt.lineno)
        )

    def dead(self, event: Event) -> None:
        forward = [r for r in event.roots if not dotted(r) and not event.lifted and not event.branches]
        self.plan.replaced[id(event.stmt)] = [Text("{0}", [r]) for r in forward]
        why = "nobody reads the gradients it stores: the forward stays, the backward goes"
        tier = Tier.EXACT
        if any(e.kind in LOADS for e in self.records.events):
            tier, why = Tier.ASSUMED, why + "; assumed: no optimizer holds the parameters behind it"
        elif self.scope.is_function and not self.project.reads_gradients:
            tier, why = Tier.ASSUMED, why + "; assumed: nothing outside the converted files reads them"
        self.plan.findings.append(
            Finding("T2M104", tier, "backward call without a reader", why, line=event.stmt.lineno)
        )

    def explain(self, call: Call) -> None:
        tier, why = Tier.EXACT, call.form
        notes = sorted({n for o in call.owners for n in o.assumed} | call.assumed)
        if notes:
            tier, why = Tier.ASSUMED, why + "; assumed: " + ", ".join(notes)
        if any(self.partly(call.event, o) for o in call.owners):
            tier, why = (
                Tier.ASSUMED,
                why
                + "; assumed: every parameter of the optimizer takes part in the loss"
                + " (torch skips those without gradient)",
            )
        others = self.project.leaving - {id(self.scope)}
        if any(self.records.entry_seen(call.event, o, bool(others)) for o in call.owners):
            tier, why = Tier.ASSUMED, why + "; assumed: the gradients are empty when the function is called"
        if self.handed is not None and not self.handed.called:
            tier, why = Tier.ASSUMED, why + f"; assumed: callers outside hand `{self.handed.playback}` over as well"
        what = "backward call" if call.event.handing is None else "call that goes backward"
        for stmt in call.event.branches or [call.event.stmt]:
            self.plan.findings.append(Finding("T2M101", tier, what, why, line=stmt.lineno))
        self.plan.needs.add("ms")

    def partly(self, event: Event, owner: Owner) -> bool:
        """Some parameters may get no gradient in torch; MindSpore gives zeros, and momentum or decay moves them."""
        if owner.kind != "optimizer" or owner.plain:
            return False
        real = frozenset(d for d in event.value.deps if not d.startswith(("@", "^")))
        missing = (
            owner.owns is not None
            and real
            and any(not any_overlap(frozenset({o}), real) for o in owner.owns if not o.startswith("^"))
        )
        return bool(missing) or self.module.conditional

    # --- refusals

    def refuse(self, event: Event, why: str) -> None:
        names = {"backward": ("T2M110", "backward call"), "handed": ("T2M110", "call that goes backward"),
                 "gradcall": ("T2M210", "torch.autograd.grad"),
                 "clear": ("T2M112", "reset of gradients"), "step": ("T2M113", "optimizer step"),
                 "step_closure": ("T2M114", "step with a closure")}  # fmt: skip
        code, what = names.get(event.kind, ("T2M115", "use of gradients"))
        todo = "write the statements that feed the loss as a function and take its gradient with ms.value_and_grad"
        if event.kind in ("step", "scaler_step"):
            todo = "call the optimizer with the gradients"
        elif event.kind == "clear":
            todo = "MindSpore keeps no gradients: drop it once the backward call is translated"
        self.plan.refused.add(id(event.node))
        for stmt in event.branches or [event.stmt]:
            self.plan.refuse(stmt, Finding(code, Tier.REFUSED, what, why, todo + f" ({why})", stmt.lineno))

    def give_up(self, why: str) -> None:
        done = {id(f) for f in self.plan.marks}
        for event in self.records.events:
            if not event.problem and id(event) not in done:
                self.refuse(event, why)
