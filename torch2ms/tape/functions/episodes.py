"""Episodes: functions that go backward from what other calls of their caller left in lists on modules and objects.

`select_action(state)` appends to `policy.saved_log_probs`; `finish_episode()` makes the loss of that list, goes
backward and steps. The caller's statements from the first that fills the list to the call become the differentiated
function, all of them and in their order; `finish_episode` returns the loss, and the caller steps.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import libcst as cst

from torch2ms.analysis.program.project import FunctionInfo
from torch2ms.analysis.program.sites import Site
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.analysis.values import UNKNOWN, Value
from torch2ms.findings import Finding, Tier
from torch2ms.tape.forward.region import Region
from torch2ms.tape.ledger.event import Event
from torch2ms.tape.ledger.ledger import Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.uses.clipping import clipping, told

CLIPS = ("clip_norm", "clip_value")


@dataclass(eq=False)
class Episode:
    """The function, what it does to gradients, and the one call of it with the statements that belong to it."""

    info: FunctionInfo
    backward: Event
    step: Event
    clips: list[Event]  # between the two
    clears: list[Event]
    returns: Stmt | None
    result: str = ""  # what it returned, of the loss `{}`; "" for nothing
    site: Site = None  # type: ignore[assignment]
    name: str = ""  # of the loss in the caller
    place: str = ""  # of the optimizer in the caller
    owner: Value = UNKNOWN
    deps: frozenset[str] = frozenset()
    stmts: list[Stmt] = field(default_factory=list)
    after: list[Stmt] = field(default_factory=list)

    @property
    def root(self) -> str:
        return dotted(self.backward.roots[0])

    def region(self, event: Event) -> Region:
        """The statements of the caller that become the function."""
        return Region(event, event.stmt.block, list(self.stmts), after=list(self.after))

    def events(self) -> list[Event]:
        """The call as events of its caller."""
        stmt, call = self.site.stmt, self.site.call
        clear = Event("clear", stmt, call, self.place, self.owner, lifted=True)
        backward = Event("backward", stmt, call, value=Value("tensor", deps=self.deps), roots=[call], cotangents=[None],
                         lifted=True, episode=self)  # fmt: skip
        step = Event("step", stmt, call, self.place, self.owner, lifted=True, episode=self)
        return [clear, backward, step]

    @property
    def kept(self) -> bool:
        """The call is a part of a statement that stays."""
        node = self.site.stmt.node
        return not (isinstance(node, cst.Expr) and node.value is self.site.call) and self.target != self.name

    @property
    def target(self) -> str:
        """The name that takes what the call returns."""
        node = self.site.stmt.node
        if isinstance(node, cst.Assign) and node.value is self.site.call and len(node.targets) == 1:
            target = node.targets[0].target
            return target.value if isinstance(target, cst.Name) else ""
        return ""

    def follow_up(self, gradients: str, plan: Plan) -> list[Text]:
        """The step in the caller, and what the call's statement still has to do."""
        clips = [f"{gradients} = {clip_text(c, self.step).format(gradients)}" for c in self.clips]
        plan.needs |= {"ops"} if clips else set()
        steps = [*map(Text, clips), Text(f"{self.place}({gradients})")]
        if self.target and self.kept is False and self.result != "{}":
            steps.append(Text(f"{self.target} = {self.result.format(self.name)}"))
        elif self.kept:
            plan.expressions[id(self.site.call)] = self.result.format(self.name)
        return steps


def clip_text(clip: Event, step: Event) -> str:
    """The clipping of the gradients `{0}`, "" where it has no form of its own."""
    clipped = clipping(clip, [_stepped(step)])
    if isinstance(clipped, str) or not isinstance(clip.stmt.node, cst.Expr) or clip.stmt.node.value is not clip.node:
        return ""
    limit = clip_limit(clip)
    return clipped[0]("{0}", limit) if limit else ""


def clip_limit(clip: Event) -> str:
    """The limit of a clipping, a number or a name; "" for anything else."""
    assert isinstance(clip.node, cst.Call)
    limit = argument(clip.node, 1, "clip_value" if clip.kind == "clip_value" else "max_norm")
    if isinstance(limit, (cst.Integer, cst.Float)):
        return limit.value
    return dotted(limit) if limit is not None else ""


def _stepped(step: Event) -> Owner:
    return Owner("optimizer", step.place, step.value.owns, ordered=step.value.ordered)


def plan_episode(episode: Episode, plan: Plan) -> None:
    """The function returns the loss; clearing, backward and step go, what stood behind them stays."""
    body = episode.info.scope.body.stmts
    root_node = episode.backward.roots[0]
    plan.findings += [told(c, [_stepped(episode.step)]) for c in episode.clips]
    for event in [*episode.clears, episode.backward, *episode.clips, episode.step]:
        plan.replaced[id(event.stmt)] = []
    last = Text("return {0}", [root_node])
    if episode.returns is not None:
        if episode.result != "{}":
            plan.replaced[id(episode.returns)] = [last]
    elif id(body[-1]) in plan.replaced:
        plan.replaced[id(body[-1])] = [last]
    else:
        plan.behind.setdefault(id(body[-1]), []).append(last)
    notes = [(episode.backward, "T2M105", "backward call whose forward is elsewhere",
             "the function returns the loss, its caller takes the gradient of the whole episode"),
            (episode.step, "T2M103", "optimizer step", "the caller steps, behind the gradient")]  # fmt: skip
    notes += [
        (c, "T2M102", "reset of gradients", "gradient functions start from nothing at each call: dropped")
        for c in episode.clears
    ]
    plan.findings += [Finding(code, Tier.EXACT, what, why, line=e.stmt.lineno) for e, code, what, why in notes]
