"""Episodes: functions that go backward from what other calls of their caller left in lists on modules and objects.

`select_action(state)` appends to `policy.saved_log_probs`; `finish_episode()` makes the loss of that list, goes
backward and steps. The caller's statements from the first that fills the list to the call become the differentiated
function, all of them and in their order; `finish_episode` returns the loss, and the caller steps.
"""

from __future__ import annotations

import libcst as cst

from torch2ms.analysis.syntax.arguments import argument
from torch2ms.analysis.syntax.names import dotted
from torch2ms.findings import Finding, Tier
from torch2ms.tape.model import Episode, Event, Owner
from torch2ms.tape.plan import Plan, Text
from torch2ms.tape.uses.clipping import clipping, told

CLIPS = ("clip_norm", "clip_value")


def follow_up(episode: Episode, gradients: str, plan: Plan) -> list[Text]:
    """The step in the caller, and what the call's statement still has to do."""
    clips = [f"{gradients} = {clip_text(c, episode.step).format(gradients)}" for c in episode.clips]
    plan.needs |= {"ops"} if clips else set()
    steps = [*map(Text, clips), Text(f"{episode.place}({gradients})")]
    if episode.target and episode.kept is False and episode.result != "{}":
        steps.append(Text(f"{episode.target} = {episode.result.format(episode.name)}"))
    elif episode.kept:
        plan.expressions[id(episode.site.call)] = episode.result.format(episode.name)
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
