"""Gradient scaling: what `unscale_`, `step` and `update` of a scaler become beside the gradient tuple.

torch's scaler remembers per optimizer whether it has unscaled and whether it saw an overflow. In the output both are
plain variables: the gradients are checked and unscaled once, the step asks the check, the update receives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import libcst as cst

from torch2ms.analysis.program.project import ModuleInfo
from torch2ms.analysis.program.structure import Block, Scope, Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.syntax.tree import code, constant
from torch2ms.analysis.values import any_overlap
from torch2ms.editing import layout
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forms.writer import Writer
from torch2ms.tape.model import Event, Owner
from torch2ms.tape.plan import Plan, Text

KINDS = ("unscale", "scaler_step", "scaler_update")


@dataclass(eq=False)
class Round:
    """One check-and-unscale of one optimizer's gradients, with the steps that rely on it."""

    place: str
    scaler: str
    site: Stmt  # where it is written: at a statement of the source, or above a compound one
    unscales: list[Event] = field(default_factory=list)
    steps: list[Event] = field(default_factory=list)

    @property
    def off(self) -> bool:
        return any(e.off for e in [*self.unscales, *self.steps])


class _Untold(Exception):
    """Why it cannot be told which check belongs to which step."""


class Scaling:
    """The scaler's events of one scope."""

    def __init__(self, events: list[Event]) -> None:
        self.events = [e for e in events if e.kind in KINDS]
        self.rounds: list[Round] = []
        self.updates: list[tuple[Event, list[Round]]] = []
        self.skipped: list[tuple[str, Stmt]] = []  # optimizers that may take no step, and the condition for it
        self.problem = next(filter(None, map(_form, self.events)), "")
        if not self.problem:
            try:
                self.arrange()
            except _Untold as reason:
                self.problem = str(reason)

    def arrange(self) -> None:
        """Which unscale serves which step and which update."""
        waiting: list[Round] = []
        unscales: dict[tuple[str, str], list[Event]] = {}
        for event in self.events:
            key = event.scaler, event.place
            if event.kind == "unscale":
                unscales.setdefault(key, []).append(event)
            elif event.kind == "scaler_step":
                served = self.serving(event)
                if served is None:
                    served = self.round(event, unscales.pop(key, []))
                    waiting.append(served)
                served.steps.append(event)
            else:
                lone = [k for k in unscales if k[0] == event.scaler]
                waiting += [self.round(None, unscales.pop(k)) for k in lone]
                self.update(event, [r for r in waiting if r.scaler == event.scaler])
                waiting = [r for r in waiting if r.scaler != event.scaler]
        for left in unscales.values():
            self.round(None, left)

    def update(self, event: Event, rounds: list[Round]) -> None:
        """An update takes what was checked since the last one, or what the update in another branch took."""
        taken = [r for e, rs in self.updates if e.scaler == event.scaler and e.stmt.excludes(event.stmt) for r in rs]
        rounds = rounds or taken
        if not rounds:
            raise _Untold("an update of the scaler without a step before it")
        places = dict.fromkeys(r.place for r in rounds)
        sites = {place: [r.site for r in rounds if r.place == place] for place in places}
        unsure = [place for place, own in sites.items() if not _certain(own, event.stmt)]
        skipped = {place: _skipped(sites[place], event.stmt) for place in unsure}
        if len(unsure) == len(sites) or None in skipped.values():  # torch raises where no step was taken at all
            raise _Untold("the scaler is updated where a step may not have been taken")
        self.skipped += [(place, holder) for place, holder in skipped.items() if holder is not None]
        self.updates.append((event, rounds))

    def serving(self, step: Event) -> Round | None:
        """A round that this step in another branch shares: it was unscaled before the branches."""
        for done in self.rounds:
            same = done.place == step.place and done.scaler == step.scaler and bool(done.unscales)
            apart = all(s.stmt.excludes(step.stmt) for s in done.steps)
            if same and apart and _around(done.site.block, step.stmt):
                return done
        return None

    def round(self, step: Event | None, unscales: list[Event]) -> Round:
        """The check before a step: at the first unscale, moved out of conditions that the step is not under."""
        first = unscales[0] if unscales else step
        assert first is not None
        site = first.stmt
        for other in [*unscales[1:], *([step] if step is not None and unscales else [])]:
            site = _moved_out(site, other.stmt, both=other is not step)
        made = Round(first.place, first.scaler, site, unscales)
        self.rounds.append(made)
        return made

    # --- writing

    def write(self, owners: list[Owner], plan: Plan, writer: Writer) -> None:
        finite: dict[str, str] = {}
        for made in self.rounds:
            owner = next(o for o in owners if o.place == made.place)
            name = finite[made.place] = finite.get(made.place) or writer.fresh(f"{owner.base}_finite")
            if made.off:
                plan.replaced |= {id(e.stmt): [] for e in made.unscales}
                plan.replaced |= {id(e.stmt): [Text(f"{made.place}({owner.variable})")] for e in made.steps}
                continue
            check = [
                Text(f"{name} = ms.amp.all_finite({owner.variable})"),
                Text(f"{owner.variable} = {made.scaler}.unscale({owner.variable})"),
            ]
            for event in made.unscales:
                plan.replaced[id(event.stmt)] = []
            for event in made.steps:
                plan.replaced[id(event.stmt)] = [Text(f"if {name}:\n    {made.place}({owner.variable})")]
                why = "unscaled gradients, and no step where one of them is not finite"
                plan.findings.append(Finding("T2M521", Tier.EXACT, "scaler.step", why, line=event.stmt.lineno))
            if any(e.stmt is made.site for e in [*made.unscales, *made.steps]):
                plan.replaced[id(made.site)] = [*check, *plan.replaced[id(made.site)]]
            else:
                plan.before.setdefault(id(made.site), []).extend(check)
        for place, holder in self.skipped:
            if not all(r.off for r in self.rounds if r.place == place):
                plan.before.setdefault(id(holder), []).append(Text(f"{finite[place]} = ms.Tensor(True)"))
        for event, rounds in self.updates:
            if event.off:
                plan.replaced[id(event.stmt)] = []
                continue
            names = list(dict.fromkeys(finite[r.place] for r in rounds))
            joined = names[0]
            for name in names[1:]:
                joined = f"ops.logical_and({joined}, {name})"
                plan.needs.add("ops")
            plan.replaced[id(event.stmt)] = [Text(f"{event.scaler}.adjust({joined})")]
            plan.findings.append(
                Finding("T2M521", Tier.EXACT, "scaler.update", "adjust receives the check", line=event.stmt.lineno)
            )
        if self.rounds:
            plan.needs.add("ms")


def joined(events: list[Event], scope: Scope, module: ModuleInfo) -> list[Event]:
    """`if amp: scaler.scale(loss).backward() else: loss.backward()` is one backward call, of a root scaled or not.

    So is one that keeps the graph but in the last turn: `if i < n - 1: loss.backward(retain_graph=True) else: ...`.
    """
    for event in events:
        event.off = bool(event.scaler) and _off(event.scaler, scope, module)
        if event.off and event.kind == "backward":
            event.scaler = ""
    out = list(events)
    backwards = [e for e in events if e.kind == "backward"]
    for first, second in pairwise(backwards):
        branch = first.stmt.block.owner
        if branch is None or branch is not second.stmt.block.owner or not _two_ways(branch, first, second, module):
            continue
        scaled, plain = (first, second) if first.scaler else (second, first)
        assert isinstance(branch.node, cst.If)
        made = Event(
            "backward",
            branch,
            branch.node,
            value=plain.value,
            roots=plain.roots,
            cotangents=plain.cotangents,
            scaler=scaled.scaler,
        )
        made.branches = [first.stmt, second.stmt]
        made.scaled = branch.node.test if scaled.scaler else None
        made.inverse = scaled is second
        made.retain_graph = first.retain_graph or second.retain_graph
        if not holds_more(made):
            branch.leading = (*branch.leading, *(c for s in made.branches for c in layout.comments_only(s.leading)),
                              *(c for s in made.branches for c in layout.trailing_comment(s.trailing)))  # fmt: skip
        out[out.index(first)] = made
        out.remove(second)
    return sorted(out, key=lambda e: e.stmt.number)


def _off(place: str, scope: Scope, module: ModuleInfo) -> bool:
    """Whether the scaler is made with `enabled=False`, wherever it is made."""
    attribute = place.startswith("self.")
    if attribute and scope.cls is None:
        return False
    scopes = (
        scope.cls.walk()
        if attribute and scope.cls is not None
        else [scope]
        if place in scope.locals
        else [module.scope]
    )
    made = [s.node for part in scopes for s in part.body.walk() if place in s.defs]
    calls = [n.value for n in made if isinstance(n, cst.Assign) and isinstance(n.value, cst.Call)]
    return bool(made) and len(calls) == len(made) and all(constant(argument(c, 9, "enabled")) is False for c in calls)


def holds_more(event: Event) -> bool:
    """Whether the branches of a joined backward call hold anything else."""
    return any(s not in event.branches for block in event.stmt.blocks for s in block.stmts)


def _two_ways(branch: Stmt, first: Event, second: Event, module: ModuleInfo) -> bool:
    """Both branches of an `if` begin by going back from one loss, and one of them scales it, or keeps the graph."""
    counts = all(dotted(call.func) == "len" for call in branch.calls)
    if not isinstance(branch.node, cst.If) or len(branch.blocks) != 2 or not counts:
        return False
    if not first.scaler and not second.scaler and any(len(block.stmts) > 1 for block in branch.blocks):
        return False
    begin = all(_begins(block, e, module) for block, e in zip(branch.blocks, (first, second), strict=True))
    plain = not any(
        e.problem or e.create_graph or e.inputs is not None or e.cotangents != [None] for e in (first, second)
    )
    one_way = bool(first.scaler and second.scaler) or bool(first.scaler or second.scaler) and bool(branch.calls)
    return begin and plain and not one_way and code(first.roots[0]) == code(second.roots[0])


def _begins(block: Block, event: Event, module: ModuleInfo) -> bool:
    """The event stands first in a block, or behind names for the parameters of a network."""
    stmts = block.stmts
    named = stmts[: stmts.index(event.stmt)] if event.stmt in stmts else ()
    values = (s.node.value if isinstance(s.node, cst.Assign) else None for s in named)
    return event.stmt in stmts and all(v is not None and module.value(v).kind == "params" for v in values)


def _form(event: Event) -> str:
    """Why the statement of an event is none of the known forms."""
    call = event.node
    assert isinstance(call, cst.Call)
    if not (isinstance(event.stmt.node, cst.Expr) and event.stmt.node.value is call):
        return "the result of a call of the scaler is used"
    if event.kind == "scaler_update":
        return "the new scale is given by hand" if call.args else ""
    if len(call.args) != 1 or not event.place:
        return "the scaler steps with more than an optimizer" if call.args else "the scaler's optimizer is not seen"
    return ""


def _line(stmt: Stmt) -> list[Stmt]:
    """The statement and those around it, outermost last."""
    return [stmt, *stmt.ancestors()]


Guard = tuple[str, int, Stmt]


def _guards(stmt: Stmt, block: Block) -> list[Guard]:
    """The conditions between a block and a statement in it, outermost first: test, branch, and what stands under it."""
    found: list[Guard] = []
    for holder in _line(stmt):
        if holder.block is block:
            return found[::-1]
        owner = holder.block.owner
        assert owner is not None
        test = code(owner.node.test) if isinstance(owner.node, cst.If) and not owner.calls else f"{owner.number}"
        found.append((test, owner.blocks.index(holder.block), holder))
    return found[::-1]


def _common(first: Stmt, second: Stmt) -> Block:
    """The innermost block that holds both."""
    blocks = [s.block for s in _line(first)]
    return next(s.block for s in _line(second) if s.block in blocks)


def _shared(first: Stmt, second: Stmt) -> int:
    """Under how many of its conditions below their common block `first` stands that `second` stands under too."""
    block = _common(first, second)
    mine, others = _guards(first, block), {(t, i) for t, i, _ in _guards(second, block)}
    written = frozenset(d for s in block.walk() if first.number < s.number < second.number for d in s.defs)
    count = 0
    for guard, (test, index, holder) in enumerate(mine):
        owner = holder.block.owner
        assert owner is not None
        if (test, index) not in others or any_overlap(frozenset(owner.uses), written):
            break
        count = guard + 1
    return count


def _moved_out(site: Stmt, other: Stmt, both: bool) -> Stmt:
    """Where both statements find the gradients unscaled: at `site`, or above those conditions that are its own."""
    block = _common(site, other)
    mine = _guards(site, block)
    kept = _shared(site, other)
    if kept == len(mine):
        return site
    if not both and kept < len(_guards(other, block)):
        raise _Untold("the gradients are unscaled under another condition than that of the step")
    inner = [holder for _, _, holder in mine]
    out = inner[kept - 1] if kept else next(s for s in _line(site) if s.block is block)
    if any(s.is_loop for s in _line(site) if s.number >= out.number and s.blocks):
        raise _Untold("the gradients are unscaled in a loop of its own")
    return out


def _around(block: Block, stmt: Stmt) -> bool:
    """Whether the statement stands in the block, at any depth."""
    return any(s.block is block for s in _line(stmt))


def _certain(sites: list[Stmt], stmt: Stmt) -> bool:
    """Whether one of the sites was surely passed: under conditions that hold here, or one in each branch of an `if`."""
    for site in sites:
        if site.number <= stmt.number and _shared(site, stmt) == len(_guards(site, _common(site, stmt))):
            return True
        owner = site.block.owner
        if (
            owner is not None
            and isinstance(owner.node, cst.If)
            and len(owner.blocks) == 2
            and _around(owner.block, stmt)
        ):
            return all(any(site.block is block for site in sites) for block in owner.blocks)
    return False


def _skipped(sites: list[Stmt], stmt: Stmt) -> Stmt | None:
    """The `if` statement above `stmt` under which alone the only site stands, None where it stands elsewhere."""
    (site,) = sites if len(sites) == 1 else (None,)
    if site is None or site.number > stmt.number:
        return None
    block = _common(site, stmt)
    line = _line(site)
    below = line[: next(i for i, s in enumerate(line) if s.block is block)]
    owners = [s.block.owner for s in below]
    return owners[-1] if owners and all(o is not None and isinstance(o.node, cst.If) for o in owners) else None
