"""Mixed precision: what autocast blocks and gradient scalers become."""

from __future__ import annotations

import textwrap

import pytest

from torch2ms import Tier, convert_source

HEAD = """
import torch
import torch.nn as nn
import torch.nn.functional as F

net = nn.Linear(4, 2)
opt = torch.optim.SGD(net.parameters(), lr=0.1)
"""


def translated(body: str, head: str = HEAD) -> str:
    """The translation of a program that must go through whole, without what stands above its own lines."""
    result = convert_source(head + textwrap.dedent(body), path="program.py")
    assert not result.error
    assert not [f for f in result.findings if f.tier is Tier.REFUSED]
    return result.text


def refused(body: str, head: str = HEAD) -> dict[str, str]:
    """The codes of what is refused, and why."""
    result = convert_source(head + textwrap.dedent(body), path="program.py")
    assert not result.error
    return {f.code: f.why for f in result.findings if f.tier is Tier.REFUSED}


def in_order(text: str, *lines: str) -> bool:
    """Whether the lines stand in the text, stripped, in this order."""
    have = [line.strip() for line in text.splitlines()]
    position = 0
    for line in lines:
        if line not in have[position:]:
            return False
        position = have.index(line, position) + 1
    return True


LOOP = """
    scaler = torch.amp.GradScaler("cuda"{options})
    for x, y in data:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        {middle}
        scaler.step(opt)
        scaler.update()
        print(loss.item())
"""


def loop(middle: str = "pass", options: str = "") -> str:
    return textwrap.dedent(LOOP).format(options=options, middle=middle)


def test_gradients_are_unscaled_before_the_step() -> None:
    text = translated(loop())
    assert in_order(
        text,
        "return scaler.scale(loss), loss",
        "(_, loss), grads = grad_fn(x, y)",
        "grads_finite = ms.amp.all_finite(grads)",
        "grads = scaler.unscale(grads)",
        "if grads_finite:",
        "opt(grads)",
        "scaler.adjust(grads_finite)",
    )


def test_clipping_stands_between_unscale_and_step() -> None:
    text = translated(loop("scaler.unscale_(opt); nn.utils.clip_grad_norm_(net.parameters(), 1.0)"))
    unscale, clip = "grads = scaler.unscale(grads)", "grads = ops.clip_by_norm(grads, 1.0)"
    assert in_order(text, "grads_finite = ms.amp.all_finite(grads)", unscale, clip, "if grads_finite:")
    assert text.count("unscale") == 1


def test_unscale_under_a_condition_moves_out_of_it() -> None:
    body = """
    scaler = torch.amp.GradScaler()
    for x, y in data:
        opt.zero_grad()
        loss = F.cross_entropy(net(x), y)
        scaler.scale(loss).backward()
        if clip:
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), clip)
        scaler.step(opt)
        scaler.update()
    """
    text = translated(body)
    assert in_order(text, "grads = scaler.unscale(grads)", "if clip:", "grads = ops.clip_by_norm(grads, clip)")
    assert text.count("unscale") == 1


APART = """
    def train(net, opt, data, clip, scaler=None):
        for x, y in data:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            if scaler is not None:
                scaler.scale(loss).backward()
            else:
                loss.backward()
            if {test}:
                scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), clip)
            if scaler is not None:
                scaler.step(opt)
                scaler.update()
            else:
                opt.step()
"""


def test_unscale_and_step_under_one_condition_written_twice() -> None:
    text = translated(APART.format(test="scaler is not None"))
    check, clip = "grads_finite = ms.amp.all_finite(grads)", "grads = ops.clip_by_norm(grads, clip)"
    assert in_order(text, "if scaler is not None:", check, "grads = scaler.unscale(grads)", clip)
    assert in_order(text, clip, "if scaler is not None:", "if grads_finite:", "scaler.adjust(grads_finite)", "else:")


def test_unscale_under_another_condition_than_the_step_is_refused() -> None:
    why = "the gradients are unscaled under another condition than that of the step"
    assert why in refused(APART.format(test="clip")).values()


def test_the_loss_that_nobody_reads_is_not_returned() -> None:
    text = translated(loop().replace("print(loss.item())", "pass"))
    assert "_, grads = grad_fn(x, y)" in text
    assert "return scaler.scale(loss)\n" in text


def test_one_update_for_two_optimizers_asks_both_checks() -> None:
    body = """
    G, D = nn.Linear(3, 4), nn.Linear(4, 1)
    opt_G = torch.optim.SGD(G.parameters(), lr=0.1)
    opt_D = torch.optim.SGD(D.parameters(), lr=0.1)
    scaler = torch.cuda.amp.GradScaler()
    for z, real in data:
        opt_D.zero_grad()
        loss_D = D(G(z).detach()).mean() - D(real).mean()
        scaler.scale(loss_D).backward()
        scaler.step(opt_D)
        opt_G.zero_grad()
        loss_G = -D(G(z)).mean()
        scaler.scale(loss_G).backward()
        scaler.step(opt_G)
        scaler.update()
    """
    text = translated(body)
    assert "scaler.adjust(ops.logical_and(D_grads_finite, G_grads_finite))" in text


def test_scaled_or_plain_by_branch_is_one_gradient_call() -> None:
    body = """
    def train(net, opt, data, scaler=None):
        for x, y in data:
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            if scaler is not None:
                scaler.scale(loss).backward()
                scaler.step(opt)
                scaler.update()
            else:
                loss.backward()
                opt.step()
            print(loss.item())
    """
    text = translated(body)
    assert "return (scaler.scale(loss) if scaler is not None else loss), loss" in text
    assert text.count("= grad_fn(") == 1
    assert in_order(text, "if scaler is not None:", "if grads_finite:", "opt(grads)", "else:", "opt(grads)")


def test_a_scaler_that_is_off_leaves_no_trace_in_the_step() -> None:
    text = translated(loop("scaler.unscale_(opt)", ", enabled=False"))
    assert "ms.amp.StaticLossScaler(1.0)" in text
    assert "finite" not in text
    assert in_order(text, "loss, grads = grad_fn(x, y)", "opt(grads)")


ACCELERATED = "ms.get_context('device_target') != 'CPU'"


@pytest.mark.parametrize(
    ("arguments", "made"),
    [
        ("", "ms.amp.DynamicLossScaler(scale_value=65536.0, scale_factor=2, scale_window=2000)"),
        ('"cuda", 1024.0, 4, 0.25, 7', "ms.amp.DynamicLossScaler(scale_value=1024.0, scale_factor=4, scale_window=7)"),
        ("enabled=on", f"scale_window=2000) if (on and {ACCELERATED}) else ms.amp.StaticLossScaler(1.0)"),
        ('"cpu", enabled=on', "scale_window=2000) if on else ms.amp.StaticLossScaler(1.0)"),
    ],
)
def test_arguments_of_a_scaler(arguments: str, made: str) -> None:
    assert made in translated(f"s = torch.amp.GradScaler({arguments})")


@pytest.mark.parametrize("arguments", ["growth_factor=1.5", "backoff_factor=0.25", "growth_factor=g"])
def test_a_scaler_that_does_not_shrink_by_the_inverse_is_refused(arguments: str) -> None:
    assert refused(f"s = torch.cuda.amp.GradScaler({arguments})")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("scaler.update()", "scaler.update(2.0)", "the new scale is given by hand"),
        ("scaler.step(opt)", "done = scaler.step(opt)", "the result of a call of the scaler is used"),
        (
            "scaler.step(opt)",
            "if x.sum() > 0: scaler.step(opt)",
            "the scaler is updated where a step may not have been taken",
        ),
        ("scaler.step(opt)", "pass", "an update of the scaler without a step before it"),
    ],
)
def test_uses_of_a_scaler_that_are_refused(old: str, new: str, why: str) -> None:
    assert why in refused(loop().replace(old, new)).values()


def test_autocast_block_becomes_a_function_above_the_loop() -> None:
    body = """
    for x, y in data:
        opt.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):  # in half
            out = net(x)
            loss = F.cross_entropy(out, y)
        loss = loss * 0.5
        loss.backward()
        opt.step()
    """
    text = translated(body)
    assert in_order(
        text,
        "def autocast_fn(x, y):",
        "# in half",
        "out = net(x)",
        "return loss",
        'autocast_fn = ms.amp.auto_mixed_precision(autocast_fn, amp_level="auto", dtype=ms.bfloat16)',
        "def forward_fn(x, y):",
        "loss = autocast_fn(x, y)",
        "for x, y in data:",
    )


def test_a_block_that_is_all_of_a_forward_needs_no_second_function() -> None:
    body = """
    for x, y in data:
        opt.zero_grad()
        # above
        with torch.autocast("cuda"):  # in half
            loss = F.cross_entropy(net(x), y)
            # below
        loss.backward()
        opt.step()
    """
    text = translated(body)
    wrap = 'forward_fn = ms.amp.auto_mixed_precision(forward_fn, amp_level="auto", dtype=ms.float16)'
    assert in_order(
        text,
        "def forward_fn(x, y):",
        "# in half",
        wrap,
        "grad_fn = ms.value_and_grad(forward_fn, None, opt.parameters)",
    )
    assert "autocast" not in text


@pytest.mark.parametrize(
    ("context", "test"),
    [
        ("torch.autocast('cpu', torch.float16)", ""),
        ("torch.cuda.amp.autocast()", f"if {ACCELERATED}:"),
        ("torch.cuda.amp.autocast(use_amp)", f"if use_amp and {ACCELERATED}:"),
        ("torch.autocast('cuda', enabled=scaler is not None)", f"if scaler is not None and {ACCELERATED}:"),
    ],
)
def test_what_decides_whether_it_is_on_stands_above_the_loop(context: str, test: str) -> None:
    text = translated(f"for x in data:\n    with {context}:\n        y = net(x)\n    print(y)\n")
    wrap = 'autocast_fn = ms.amp.auto_mixed_precision(autocast_fn, amp_level="auto", dtype=ms.float16)'
    assert in_order(text, *([test] if test else []), wrap, "for x in data:", "y = autocast_fn(x)")
    assert test or "if " not in text


def test_what_decides_changes_in_the_loop() -> None:
    body = """
    for i, x in enumerate(data):
        with torch.autocast("cuda", enabled=i > 3):
            y = net(x)
        print(y)
    """
    text = translated(body)
    condition = f"if i > 3 and {ACCELERATED}:"
    assert in_order(text, "for i, x in enumerate(data):", "def autocast_fn(x):", condition, "y = autocast_fn(x)")


def test_a_name_bound_in_some_turns_keeps_its_value() -> None:
    body = """
    for i, x in enumerate(data):
        with torch.autocast("cuda"):
            if i % 2 == 0:
                y = net(x)
        print(y)
    """
    assert in_order(translated(body), "y = None", "def autocast_fn(i, x, y):", "return y", "y = autocast_fn(i, x, y)")


def test_a_block_that_returns() -> None:
    body = """
    def predict(x):
        with torch.no_grad(), torch.autocast("cuda"):
            h = net(x)
            return h.argmax(1)
    """
    assert in_order(
        translated(body), "def predict(x):", "def autocast_fn(x):", "return h.argmax(1)", "return autocast_fn(x)"
    )


def test_a_context_held_in_a_name() -> None:
    body = """
    from contextlib import nullcontext
    kind = "cuda"
    ctx = nullcontext() if kind == "cpu" else torch.amp.autocast(device_type=kind, dtype=torch.float16)
    for x in data:
        with ctx:
            y = net(x)
        print(y)
    """
    text = translated(body)
    assert in_order(text, 'if not (kind == "cpu"):', "for x in data:", "y = autocast_fn(x)")
    assert "ctx" not in text.replace("nullcontext", "")


def test_a_context_held_in_an_attribute() -> None:
    body = """
    class Runner:
        def __init__(self, half):
            self.half = half
            self.ctx = torch.autocast("cuda", enabled=self.half)

        def run(self, x):
            with self.ctx:
                y = net(x)
            return y
    """
    text = translated(body)
    assert in_order(text, "def run(self, x):", f"if self.half and {ACCELERATED}:", "y = autocast_fn(x)")
    assert "self.ctx" not in text
    assert "T2M605" in refused(body.replace("enabled=self.half", "enabled=half"))


def test_a_context_that_is_passed_on_is_refused() -> None:
    assert "T2M522" in refused("ctx = torch.autocast('cuda')\nwith ctx:\n    y = net(x)\nhelp(ctx)\n")


def test_a_backward_call_inside_the_block() -> None:
    body = """
    for x, y in data:
        opt.zero_grad()
        with torch.autocast("cuda"):
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
    """
    text = translated(body)
    wrap = 'forward_fn = ms.amp.auto_mixed_precision(forward_fn, amp_level="auto", dtype=ms.float16)'
    assert in_order(text, "def forward_fn(x, y):", wrap, "for x, y in data:", "opt(grads)")
    assert "autocast" not in text


def test_a_decorator_above_forward() -> None:
    body = """
    class Net(nn.Module):
        @torch.cuda.amp.autocast()
        def forward(self, x):
            return x
    """
    mixed = 'autocast_fn = ms.amp.auto_mixed_precision(autocast_fn, amp_level="auto", dtype=ms.float16)'
    assert in_order(translated(body), "def construct(self, x):", mixed, "return autocast_fn(x)")


def test_precision_switched_off() -> None:
    off = "with torch.autocast('cuda', enabled=False):\n    # full\n    y = net(x)\n"
    assert in_order(translated(off), "# full", "y = net(x)")
    around = "with torch.autocast('cuda'):\n    y = net(x)\n"
    assert in_order(translated(off + around), "# full", "y = net(x)", "autocast_fn()")  # one behind the other
    inside = "def full(x):\n    with torch.autocast('cuda', enabled=False):\n        return net(x)\n\n"
    assert "T2M522" in refused(inside + "with torch.autocast('cuda'):\n    y = full(x)\n")


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("if check(x): break", "a `break` stands inside the block"),
        ("opt.step()", "an optimizer steps inside the block"),
        ("g = torch.autograd.grad(y.sum(), x)", "gradients are taken inside the block"),
    ],
)
def test_blocks_that_are_refused(inside: str, why: str) -> None:
    body = f"for x in data:\n    with torch.autocast('cuda'):\n        y = net(x)\n        {inside}\n    print(y)\n"
    assert refused(body).get("T2M522") == why


def test_accumulation_clips_unscales_and_updates_where_it_steps() -> None:
    body = """
    scaler = torch.amp.GradScaler()
    opt.zero_grad()
    for i, (x, y) in enumerate(data):
        loss = F.cross_entropy(net(x), y) / 2
        scaler.scale(loss).backward()
        if (i + 1) % 2 == 0:
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
    """
    text = translated(body)
    assert in_order(
        text,
        "grads = None",
        "grads = new_grads if grads is None else tuple(a + b for a, b in zip(grads, new_grads))",
        "if (i + 1) % 2 == 0:",
        "grads_finite = ms.amp.all_finite(grads)",
        "grads = scaler.unscale(grads)",
        "grads = ops.clip_by_norm(grads, 0.5)",
        "if grads_finite:",
        "scaler.adjust(grads_finite)",
        "grads = None",
    )


def test_one_backward_for_two_optimizers_is_checked_for_each() -> None:
    body = """
    head = nn.Linear(2, 2)
    opt_head = torch.optim.SGD(head.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler()
    for x, y in data:
        opt.zero_grad()
        opt_head.zero_grad()
        loss = F.cross_entropy(head(net(x)), y)
        scaler.scale(loss).backward()
        scaler.unscale_(opt)
        nn.utils.clip_grad_value_(net.parameters(), 0.1)
        scaler.step(opt)
        scaler.step(opt_head)
        scaler.update()
    """
    text = translated(body)
    assert "ms.value_and_grad(forward_fn, None, opt.parameters + opt_head.parameters)" in text
    assert text.count("ms.amp.all_finite(") == text.count("scaler.unscale(") == 2
    assert text.count("scaler.adjust(ops.logical_and(") == 1
