"""Policy gradients from lists that other calls fill: what is not certain to train alike is refused, with the reason."""

from __future__ import annotations

import pytest

from tests.fixture_cases import FIXTURES
from torch2ms import Result, Tier, convert_source

BASE = (FIXTURES / "project" / "a2c_segments" / "original.py").read_text(encoding="utf-8")
CALL = "        total += update(net, optimizer, state)\n"
LOOP = "        for _ in range(length):\n"
STEP = "    optimizer.step()\n"

UNCERTAIN = {
    "a list that survives": ([("    net.saved.clear()\n", "")], "`saved` keeps what was appended"),
    "cleared under a condition": (
        [("    net.saved.clear()\n", "    if R > 0:\n        net.saved.clear()\n")],
        "`saved` brings along",
    ),
    "a rollout before the loop": (
        [("    total = 0.0\n", "    total = 0.0\n    act(net, state)\n")],
        "not all made just before the call",
    ),
    "every second segment": (
        [(CALL, f"        if segment % 2:\n    {CALL}")],
        "not all made just before the call",
    ),
    "a segment that is skipped": (
        [(LOOP, f"        if segment == 2:\n            continue\n{LOOP}"),
         (CALL, f"        if total > 100:\n            continue\n{CALL}")],
        "a `continue` stands inside its forward",
    ),
    "changed weights read behind the step": (
        [(STEP, f"{STEP}    print(net.body.weight.sum().item())\n")],
        "`saved` brings along what other functions left in it",
    ),
    "a schedule behind the step": (
        [(STEP, f"{STEP}    scheduler.step()\n"),
         ("def update(net, optimizer,", "def update(net, optimizer, scheduler,"),
         ("update(net, optimizer, state)", "update(net, optimizer, optim.lr_scheduler.StepLR(optimizer, 2), state)")],
        "`saved` brings along",
    ),
    "gradients that add up": ([("    optimizer.zero_grad()\n", "")], ""),
    "two callers": (
        [(CALL, CALL + CALL.replace("update", "1.0 + update"))],
        "called from 2 places",
    ),
    "the list under another name": (
        [("    total = 0.0\n", "    total = 0.0\n    buffer = net.saved\n")],
        "`saved` is used elsewhere too",
    ),
    "the list by its name": (
        [("    total = 0.0\n", "    total = 0.0\n    buffer = getattr(net, 'saved')\n")],
        "`saved` is used elsewhere too",
    ),
    "a function passed on": (
        [("    total = 0.0\n", "    total = 0.0\n    choose = act\n")],
        "may be called elsewhere too",
    ),
    "a rollout elsewhere": (
        [("if __name__ == '__main__':\n", "def probe(net, state):\n    return act(net, state)\n\n\n"
          "if __name__ == '__main__':\n    probe(ActorCritic(), Drift(1).reset())\n")],
        "filled outside of functions",
    ),
    "a value kept from the segment before": (
        [("        self.rewards = []\n", "        self.rewards = []\n        self.last = 0.0\n"),
         ("    net.entropies.append(", "    net.last = value\n    net.entropies.append("),
         ("    entropy = ", "    returns = [r - net.last for r in returns]\n    entropy = ")],
        "`last`",
    ),
    "an order that would change": (
        [(CALL, CALL.replace("update(", "env.x.sum() + update("))],
        "inside a larger expression",
    ),
}  # fmt: skip


def changed(changes: list[tuple[str, str]]) -> Result:
    text = BASE
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return convert_source(text, path="prog.py")


@pytest.mark.parametrize("name", UNCERTAIN)
def test_what_is_not_certain_is_refused(name: str) -> None:
    changes, reason = UNCERTAIN[name]
    result = changed(changes)
    assert not result.error
    refused = [f for f in result.findings if f.tier is Tier.REFUSED]
    assert {f.code for f in refused} >= {"T2M110", "T2M113"}
    assert any(reason in f.why for f in refused), [f.why for f in refused]
    assert "loss.backward()" in result.text


def test_a_loss_made_of_both_is_not_cut_in_half() -> None:
    """What the function differentiates itself is known, what the list holds is not: no gradient of the half alone."""
    result = changed([("    R = net(torch.from_numpy(last_state))[1].item()\n",
                       "    R = net(torch.from_numpy(last_state))[1].sum()\n"),
                      ("torch.tensor([R])", "R.reshape(1)"),
                      (STEP, f"{STEP}    print(net.body.weight.sum().item())\n")])  # fmt: skip
    assert any(f.code == "T2M110" for f in result.findings)


def test_names_of_the_caller_are_kept() -> None:
    result = changed([(CALL, "        loss = 0.5\n        total += update(net, optimizer, state) + loss\n")])
    assert not [f for f in result.findings if f.tier is Tier.REFUSED]
    assert "(episode_loss, (loss,)), grads = grad_fn()" in result.text
    assert "total += episode_loss.item() + loss" in result.text


def test_clipping_moves_between_the_gradient_and_the_step() -> None:
    lines = [line.strip() for line in changed([]).text.splitlines()]
    start = lines.index("loss, grads = grad_fn()")
    assert lines[start + 1 : start + 3] == ["grads = ops.clip_by_norm(grads, 0.5)", "optimizer(grads)"]
