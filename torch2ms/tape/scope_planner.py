"""Plans what a scope does to gradients: regions, the form of each gradient call, and where it is written."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo, ModuleInfo, Project
from torch2ms.analysis.program.structure import Scope
from torch2ms.findings import Finding, Tier
from torch2ms.tape.between import cleared_between, looked_at, made_between
from torch2ms.tape.cells import CellWriter
from torch2ms.tape.derivatives.again import plan_again
from torch2ms.tape.derivatives.beside import plan_beside
from torch2ms.tape.derivatives.chains import plan_chains
from torch2ms.tape.derivatives.curvature import Curvature, plan_curvature
from torch2ms.tape.derivatives.gradcalls import GradCall, plan_gradcall
from torch2ms.tape.derivatives.listed import listed
from torch2ms.tape.derivatives.paths import Around
from torch2ms.tape.derivatives.recorded import plan_recorded
from torch2ms.tape.derivatives.repeated import SHARED, plan_repeated, repeated, rotated, shared
from torch2ms.tape.derivatives.turns import Turns
from torch2ms.tape.forms.calls import Call, Repeats
from torch2ms.tape.forms.function import write
from torch2ms.tape.forms.interface import of_only_module
from torch2ms.tape.forms.naming import name_gradients
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.forward.nested import misfit
from torch2ms.tape.forward.region import Region
from torch2ms.tape.forward.regions import Finder
from torch2ms.tape.forward.shared import absorb, apart, complete, following, join
from torch2ms.tape.forward.steps import callers
from torch2ms.tape.forward.twice import both_run, quiet
from torch2ms.tape.forward.unseen import unseen_step
from torch2ms.tape.forwards import Outside, fit_together, forward_of
from torch2ms.tape.functions.handing import own_value
from torch2ms.tape.functions.taking import plan_call, plan_definition
from torch2ms.tape.hopeless import hopeless
from torch2ms.tape.ledger import owners
from torch2ms.tape.ledger.events import many_times, perhaps
from torch2ms.tape.ledger.hooks import has_hooks, watched
from torch2ms.tape.ledger.idle import drop_early
from torch2ms.tape.ledger.records import LOADS, Records
from torch2ms.tape.ledger.wrapped import refuse_wrapped
from torch2ms.tape.model import Event, Handed, Owner, Taken
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.refusals import give_up, refuse
from torch2ms.tape.telling import tell_call, tell_dead
from torch2ms.tape.uses import gradients
from torch2ms.tape.uses.kept import keeps_zeros
from torch2ms.tape.uses.none_there import none_there
from torch2ms.tape.uses.own_memory import kept_by_steps
from torch2ms.tape.uses.resets import dead_clears, plan_clears, start_accumulators
from torch2ms.tape.uses.scaling import Scaling, holds_more
from torch2ms.tape.uses.stored import guard_empty
from torch2ms.tape.verdicts import Verdicts

TUPLES = ("torch.optim.NAdam", "torch.optim.RAdam")  # MindSpore's raise where the gradients are a list


def _now_and_then(event: Event) -> bool:
    """A call that takes gradients, or goes backward from a loss, runs otherwise than the statement it stands in."""
    call = event.node
    if not isinstance(call, cst.Call) or event.stmt.blocks:
        return False
    bound = event.kind == "handed" and all(isinstance(root, cst.Name) for root in event.roots)
    return many_times(call, event.stmt.node) if bound else perhaps(call, event.stmt.node)


class ScopePlanner:
    """The plan of one scope, event by event; `run` makes it."""

    def __init__(
        self,
        scope: Scope,
        module: ModuleInfo,
        plan: Plan,
        events: list[Event],
        project: Project,
        callee: dict[int, FunctionInfo],
        handed: Handed | None = None,
        taken: Taken | None = None,
        stored: Sequence[Owner] = (),
    ) -> None:
        self.scope = scope
        self.module = module
        self.plan = plan
        self.handed = handed
        self.taken = taken
        self.handed_back = taken is not None and taken.gives and not taken.clears_if
        self.outside = Outside()
        if handed is not None:
            self.plan_parameter(handed)
            for event in events:
                if event.node is handed.backward.node:
                    own_value(event, handed.root)
        self.records = Records(scope, module, events, handed is None, plan.config.assume_cleared, stored)
        self.verdicts = Verdicts(scope, module, project, self.records, handed, taken)
        self.writer = Writer(scope, module, plan, project)
        self.project = project
        self.callee = callee
        self.deferred: set[int] = set()  # forwards that wait until their loss is handed on
        self.chained: set[int] | None = None  # gradient calls that are planned together
        self.compiled: Curvature | None = None  # those with respect to weights
        self.again: dict[int, str] | None = None  # those with respect to tensors: why they are not compiled
        self.shared: dict[int, Turns] = {}  # forwards that run again, as a later backward call needs them too
        self.repeats: dict[int, Repeats] = {}  # ... and those of loops, by id of the backward call
        self.dropped: set[int] = set()  # resets that nothing notices, by id of the statement
        self.staying: set[int] = set()  # statements of events that were refused: they keep their places
        self.used: set[tuple[str, int, str]] = set()  # groups of optimizers whose gradients are kept here
        self.filled: set[tuple[str, int, str]] = set()  # ... and those of them that a backward call here fills

    # --- planning

    def plan_parameter(self, handed: Handed) -> None:
        """The playback becomes a parameter behind the loss."""
        node = self.scope.node
        assert isinstance(node, cst.FunctionDef)
        for param in [*node.params.posonly_params, *node.params.params, *node.params.kwonly_params]:
            if param.name.value == handed.root:
                self.plan.beside[id(param)] = handed.playback

    def refuse_problems(self) -> None:
        """What an event says of itself, before the others are told that it stays."""
        refuse_wrapped(self.records.events, self.scope, self.project)
        for event in self.records.events:
            if not event.problem and event.kind in ("handed", "taken") and _now_and_then(event):
                event.problem = "an expression runs it only under a condition, or more than once"
            if not event.problem and event.kind == "clear" and (name := kept_by_steps(self.project)):
                if keeps_zeros(event):
                    event.problem = f"`{name}` keeps the gradient itself, which is set to zero in place"
            if event.problem:
                refuse(event, event.problem, self.plan)

    def drop_unmet(self) -> None:
        """Leave out backward calls whose gradients no function finds: their forwards stay."""
        gone = [e for e in self.records.events if e.kind == "backward" and id(e.node) in self.project.unmet]
        for event in gone:
            tell_dead(event, self.verdicts, self.plan)
        if gone:
            self.records.read([e for e in self.records.events if e not in gone])

    def run(self) -> None:
        """Plan every event of the scope or refuse it; where one is refused, the others are planned once more."""
        self.refuse_problems()
        if any(e.problem for e in self.records.events):
            give_up(self.records.events, "another gradient event of this scope is not translated", self.plan)
            return
        drop_early(self.records, self.plan)
        self.drop_unmet()
        if absent := none_there(self.records, self.module, self.plan):
            self.records.read([e for e in self.records.events if e not in absent])
        self.plan.listed |= {id(e.inputs) for e in self.records.events if e.kind == "gradcall"}
        takers = {id(e): self.verdicts.fed(e) for e in self.records.events if e.kind in ("backward", "handed")}
        self.scaling = Scaling(self.records.events)
        if reason := hopeless(self.verdicts, takers, self.scaling.problem):
            give_up(self.records.events, reason, self.plan)
            return
        self.dropped = dead_clears(self.records, self.handed_back)
        self.writer.gone = {id(e.stmt) for e in self.records.events if e.kind == "clear" and not e.lifted}
        finder = Finder(
            self.module,
            self.project,
            {id(e.stmt) for e in self.records.events if e.kind == "clear" and (not e.lifted or e.called)}
            | self.records.joined,
            self.records.events,
        )
        around = Around(
            self.scope, self.module, self.project, self.plan, self.writer, self.records.events, self.callee,
            self.verdicts.repeats(),
        )  # fmt: skip
        chained = self.derivatives(finder, around)
        self.prepare(finder, chained)
        regions = self.regions(takers, chained, finder, around)
        if regions is None or not self.settled(regions, takers, finder, around):
            return
        cells = self.write_calls(self.calls(regions, takers))
        if cells is not None:
            self.write_others(cells, chained, finder, around)

    def derivatives(self, finder: Finder, around: Around) -> set[int]:
        """Plan the gradient calls that are planned together, once; the ids of those that are settled by it."""
        if self.chained is None:
            self.chained = plan_chains(self.records.events if around.repeats else [], around)
        if self.compiled is None:
            self.compiled = plan_curvature(
                self.records.events, self.scope, self.module, self.plan, self.writer, finder, self.project
            )
        done = self.chained | self.compiled.done
        if self.again is None:
            self.again = plan_again(done, around)
            settled = done | {key for key, why in self.again.items() if not why}
            repeats = plan_repeated([e for e in self.records.events if id(e) not in settled], around, finder)
            self.again |= dict.fromkeys(repeats, "")
        return done | {key for key, problem in self.again.items() if not problem}

    def prepare(self, finder: Finder, chained: set[int]) -> None:
        """Tell who looks for forwards what is known by now."""
        assert self.compiled is not None
        finder.event_stmts -= {id(e.stmt) for e in self.records.events if id(e) in chained}
        finder.event_stmts |= self.staying
        finder.activity.units = self.compiled.groups
        finder.draws = self.project.forwards_draw
        finder.mixed = self.plan.contexts.keys() | self.plan.halved.keys()
        finder.activity.foreign = self.verdicts.foreign()
        finder.activity.callers = callers(self.scope)

    def regions(
        self, takers: dict[int, list[Owner]], chained: set[int], finder: Finder, around: Around
    ) -> list[tuple[Event, Region]] | None:
        """The backward calls with their forwards; None where one was refused, and the others planned again."""
        assert self.compiled is not None
        found: list[tuple[Event, Region]] = []
        self.repeats = {}
        for event in self.records.events:
            if event.kind not in ("backward", "handed"):
                continue
            region, problem = forward_of(event, takers[id(event)], finder, self.verdicts, self.outside)
            repeats = self.shared.get(id(event))
            if repeats is None and problem:
                repeats = self.turned(event, takers[id(event)], finder, around)
            if repeats is not None:
                self.repeats[id(event)] = repeats
                region, problem = Region(event, event.stmt.block), ""
            if not problem:
                left = [e for e in self.records.events if id(e) not in chained]
                problem = misfit(region, left, self.module, self.project)
            if self.compiled.cut(region.all):
                problem = problem or "a part of its forward is compiled with another gradient"
            if problem:
                self.without(event, takers[id(event)], problem)
                return None
            for stmt in region.all:
                finder.taken.setdefault(id(stmt), region)
            found.append((event, region))
        for _, region in found:  # what another function takes stands in that one
            region.after = [s for s in region.after if finder.taken.get(id(s), region) is region]
        return found

    def settled(
        self, regions: list[tuple[Event, Region]], takers: dict[int, list[Owner]], finder: Finder, around: Around
    ) -> bool:
        """No two forwards are in each other's way; False where some were joined or refused, and planned again."""
        if join(regions, takers, self.records, self.plan):
            self.restart()
            return False
        for pair in following(regions, takers, self.records):
            if fit_together(pair, regions, takers, finder, self.verdicts, self.outside, self.plan.config.jit):
                absorb(pair[1], pair[0], "one function with the next: it returns the sum", self.records, self.plan)
                self.restart()
                return False
        if (late := self.still_open(regions)) is not None:
            self.without(late, takers[id(late)], "two graphs are open at once: MindSpore plays the last one back first")
            return False
        complete(regions)
        while (clash := self.verdicts.overlap(regions, finder)) is not None:
            first, one, two = clash
            if around.repeats and quiet(self.project) and both_run(one, two, self.records.events, finder):
                self.verdicts.twice.add((id(first), id(two.event)))
                continue
            if (again := shared(first, one, takers[id(first)], around)) is not None:
                self.shared[id(first)] = again
                self.restart()
            else:
                self.without(two.event, takers[id(two.event)], SHARED)
            return False
        return True

    def write_calls(self, calls: list[Call]) -> CellWriter | None:
        """Write the gradient calls; None where one has no form, and the others are planned again."""
        self.name()
        before = self.plan.saved()
        cells = CellWriter(self.writer, self.records.events, self.records.owners, self.project)
        for call in calls:
            call.turns = self.repeats.get(id(call.event))
            if problem := self.write(call, cells):
                self.plan.restore(before)
                self.without(call.event, call.owners, problem)
                return None
        return cells

    def write_others(self, cells: CellWriter, chained: set[int], finder: Finder, around: Around) -> None:
        """Write what is left once the gradients have names: `autograd.grad`, steps, reads, clears."""
        for event in self.records.events:
            if event.kind != "gradcall" or id(event) in chained:
                continue
            if problem := self.gradcall(event, finder, around):
                refuse(event, problem, self.plan)
        self.loads([e for e in self.records.events if id(e) not in cells.done])
        guard_empty(self.records, self.plan)
        self.used |= {o.group for o in self.records.owners if o.stored}
        self.filled |= {o.group for o in self.records.owners if o.stored and self.records.filled(o)}
        plan_clears(self.records, self.plan, self.dropped, self.handed_back)
        start_accumulators(self.records, self.scope, self.plan)
        if self.taken is not None:
            plan_definition(self.taken, self.plan)

    def turned(self, event: Event, takers: list[Owner], finder: Finder, around: Around) -> Turns | None:
        """The forward of the event stands in front of a loop around it, and may run again in each turn."""
        if event.kind != "backward" or not event.retain_graph or not takers:
            return None
        finder.repeating = True
        region, problem = forward_of(event, takers, finder, self.verdicts, self.outside)
        finder.repeating = False
        return (not problem and repeated(event, region, takers, around)) or rotated(event, takers, around)

    def calls(self, regions: list[tuple[Event, Region]], takers: dict[int, list[Owner]]) -> list[Call]:
        """The gradient calls to write; an event whose gradients nobody takes is settled here."""
        calls = []
        for event, region in regions:
            if not takers[id(event)]:
                if watching := self.untaken(event):
                    calls.append(Call(event, region, watching, several=len(regions) > 1))
                continue
            call = Call(event, region, self.outside_of(region, takers[id(event)]))
            if self.verdicts.played(event):
                assert self.handed is not None
                call.played, call.inputs = self.handed.playback, [self.handed.root]
            call.several = len(regions) > 1
            call.beside = apart(region, [other for _, other in regions if other is not region])
            call.deferred = id(event) in self.deferred
            call.delayed = looked_at(event, region, takers[id(event)], self.records)
            call.keep = bool(event.branches) and holds_more(event) or event.episode is not None and event.episode.kept
            calls.append(call)
        return calls

    def outside_of(self, region: Region, takers: list[Owner]) -> list[Owner]:
        """The owners that a function of the region can be differentiated by: not what it makes on the way to others."""
        made = {d for s in region.all for i in s.walk() if isinstance(i.node, cst.Assign) for d in i.defs}
        inner = [o for o in takers if o.kind == "leaf" and not o.parameter and o.place in made]
        if len(inner) == len(takers):
            return takers
        for owner in inner:
            owner.inside = True
        return [o for o in takers if o not in inner]

    def untaken(self, event: Event) -> list[Owner]:
        """No load takes the gradients of the event: the owners that hooks watch, or a dead store, or a refusal."""
        if method := self.verdicts.own_optimizer():
            refuse(event, f"`{method}` may use the gradients it stores", self.plan)
        elif any(e.kind in LOADS for e in self.records.events) and not self.verdicts.placed(event):
            refuse(event, "whose gradients it fills is not seen", self.plan)
        elif (name := self.verdicts.stepping(event)) and self.scope.is_module:
            refuse(event, f"`{name}` may use the gradients it stores", self.plan)
        elif name := unseen_step(event, self.scope, self.module, self.project):
            refuse(event, f"`{name}` may use the gradients it stores", self.plan)
        elif has_hooks(self.module):
            watching = watched(event, self.module)
            if not watching:
                refuse(event, "hooks wait for its gradients, and what they come from is not seen", self.plan)
            return watching
        elif name := self.verdicts.reader(event):
            refuse(event, f"`{name}` may read the gradients it stores", self.plan)
        else:
            tell_dead(event, self.verdicts, self.plan)
        return []

    def name(self) -> None:
        for owner in self.records.owners:
            name_gradients(owner, self.records, self.writer)
            if self.taken is not None and owner.place in self.taken.variables:
                owner.variable = self.taken.variables[owner.place]
            owner.weights = self.before_made(owner) or owner.weights
            if owner.parameter or owner.kind == "leaves":
                self.plan.leaves |= {o: o.rpartition(".")[2] for o in owner.owns or ()}
                self.plan.homes |= {(id(self.scope), o) for o in owner.owns or ()}

    def before_made(self, owner: Owner) -> str:
        """The parameters of an optimizer whose gradients are taken before it is made: those of its module."""
        bound = [s.number for s in self.scope.body.walk() if owner.place in s.defs]
        taken = [e.stmt.number for e in self.records.events if e.kind == "backward" and owner in self.records.takers(e)]
        if owner.kind != "optimizer" or not bound or not taken or min(bound) < min(taken):
            return ""
        owner.unmade = True
        return of_only_module(owner)

    def write(self, call: Call, cells: CellWriter) -> str:
        """Write one gradient call; a reason if it has no form."""
        if any(o.unmade and not o.weights for o in call.owners) or made_between(call, self.scope, self.writer):
            return "it fills parameters that an optimizer is given later"
        for owner in call.owners if call.event.kind == "backward" else ():
            if self.records.accumulates(call.event, owner):
                held = bool(self.records.held(call.event, owner))
                call.accumulate[owner.place] = held and not self.records.may_be_empty(call.event, owner)
            elif any(call.event in stores for _, stores in self.records.gaps(owner)):
                owner.accumulating = True
                call.delayed.add(owner.place)
            elif cleared_between(call, owner, self.records, self.writer, self.dropped):
                call.delayed.add(owner.place)
        plain = self.plan.config.style != "cell" or call.event.episode is not None or bool(call.event.beside)
        plain = plain or any(o.stored for o in call.owners)
        as_cell = "" if plain else cells.write(call) or "cell"
        if as_cell != "cell" and (problem := write(self.writer, call)):
            return problem
        if self.plan.config.jit and not call.compiled:
            call.form += "; not compiled: ms.vjp records it step by step"
        if as_cell not in ("", "cell"):
            call.form += f"; not a training cell: {as_cell}"
        self.plan.replaced |= {id(stmt): [] for stmt in call.event.branches}
        tell_call(call, self.verdicts, self.plan)
        return ""

    def gradcall(self, event: Event, finder: Finder, around: Around) -> str:
        """Write one `autograd.grad`; a reason if it has no form."""
        compiled, again = self.compiled, self.again
        assert compiled is not None and again is not None
        if around.repeats and plan_beside(event, around, finder):
            return ""
        if problem := compiled.problems.get(id(event)):
            return problem
        starred = self.starred(event, around) if (problem := again.get(id(event), "")) else None
        if problem and starred is None:
            return problem
        other = plan_gradcall(
            event, self.scope, self.module, self.plan, self.writer, finder, around.again, compiled, given=starred
        )
        return "" if not other or plan_recorded(event, around) else problem or other

    def starred(self, event: Event, around: Around) -> GradCall | None:
        """The call, where it is of a list of tensors, has no graph, and what is compiled would not do."""
        call = listed(event, around) if not event.create_graph else None
        return call if call is not None and not call.mapped and "." not in call.inputs[0] else None

    def without(self, event: Event, takers: list[Owner], why: str) -> None:
        """Refuse an event with all that has to do with its owners; plan the rest again."""
        related = {id(event)}
        if event.kind == "backward" and all(o.owns is None for o in takers):  # whom it fills is not seen
            filling = [self.records.takers(e) for e in self.records.events if e.kind == "backward" and e is not event]
            takers = takers + [o for o in self.records.owners if not any(o in filled for filled in filling)]
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
                refuse(other, why, self.plan)
                self.staying.add(id(other.stmt))
        self.records.events = [e for e in self.records.events if id(e) not in related]
        if self.records.events:
            self.restart()

    def restart(self) -> None:
        self.records.read(self.records.events)
        self.run()

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

    def loads(self, events: list[Event]) -> None:
        for event in events:
            for owner in self.records.owners:
                if event.kind == "step" and event.place == owner.place:
                    self.step(event, owner)
                if event.kind == "taken" and owners.concerns(event, owner, self.records.owners):
                    plan_call(
                        event, self.records.owners, self.plan, owner.stored and self.records.may_be_empty(event, owner)
                    )
        if self.taken is not None and not self.taken.gives and not self.taken.steps:
            self.plan.borrowed.add(id(self.scope))
        gradients.plan(events, self.records, self.plan, self.writer)
        self.scaling.write(self.records.owners, self.plan, self.writer)

    def step(self, event: Event, owner: Owner) -> None:
        if event.lifted:  # written with the gradient call
            return
        if event.closure is not None:
            self.plan.replaced[id(event.stmt)] = [Text(f"return {{0}}, {owner.variable}", [event.node])]
            return
        changed = any(e.writes or e.kind in ("clip_norm", "clip_value") for e in self.records.events)
        listed = changed and event.value.name in TUPLES
        text = f"{event.through or owner.place}({f'tuple({owner.variable})' if listed else owner.variable})"
        if isinstance(event.stmt.node, cst.Expr) and event.stmt.node.value is event.node:
            self.plan.replaced[id(event.stmt)] = [Text(text)]
        else:
            self.plan.expressions[id(event.node)] = text
        self.plan.findings.append(
            Finding("T2M103", Tier.EXACT, "optimizer step", "takes the gradients as argument", line=event.stmt.lineno)
        )
