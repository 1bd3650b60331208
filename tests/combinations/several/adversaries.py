"""A generator against critics: their losses, penalties, and the order of their steps."""

from __future__ import annotations

from tests.combinations.drawing import Drawn, block, under
from tests.combinations.several.parts import Parts, clip, optimizer, reset

TERMS = {  # real, fake, and what the generator minimises
    "bce": (
        "criterion({net}({x}), torch.ones(4, 1))",
        "criterion({net}({x}), torch.zeros(4, 1))",
        "criterion({net}({x}), torch.ones(4, 1))",
    ),
    "hinge": ("F.relu(1.0 - {net}({x})).mean()", "F.relu(1.0 + {net}({x})).mean()", "-{net}({x}).mean()"),
    "least squares": ("(({net}({x}) - 1) ** 2).mean()", "({net}({x}) ** 2).mean()", "(({net}({x}) - 1) ** 2).mean()"),
    "critic": ("-{net}({x}).mean()", "{net}({x}).mean()", "-{net}({x}).mean()"),
}
PENALTY = """

def penalty(D, real, fake):
    alpha = torch.rand(real.size(0), 1)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    score = D(mixed)
    gradients = torch.autograd.grad(outputs=score, inputs=mixed, grad_outputs=torch.ones_like(score),
                                    create_graph=True, retain_graph=True, only_inputs=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()

"""


def adversaries(drawn: Drawn) -> Parts:
    """A generator and a discriminator."""
    real, fake, wanted = TERMS[drawn.pick("terms", list(TERMS))]
    made = drawn.pick("fake", ("detached", "without graph", "drawn again"))
    how = drawn.pick("discriminator", ("sum", "two backwards", "mean", "penalty"))
    frozen = drawn.pick("frozen", ("no", "loop", "method"), 0.6)
    seen = "fake.detach()" if made == "detached" else "fake"
    make = {
        "detached": "fake = G(z)",
        "without graph": "with torch.no_grad():\n    fake = G(z)",
        "drawn again": "fake = G(z).detach()",
    }[made]
    a, b = real.format(net="D", x="real"), fake.format(net="D", x=seen)
    d_reset, d_clip = reset(drawn, "opt_d", "D"), clip(drawn, "D")
    d_step = {
        "sum": block(f"loss_d = {a} + {b}", d_reset, "loss_d.backward()"),
        "mean": block(d_reset, f"loss_real = {a}", f"loss_fake = {b}", "loss_d = 0.5 * (loss_real + loss_fake)",
                      "loss_d.backward()"),
        "two backwards": block(d_reset, f"loss_real = {a}", "loss_real.backward()", f"loss_fake = {b}",
                               "loss_fake.backward()", "loss_d = loss_real + loss_fake"),
        "penalty": block(d_reset, f"loss_d = {a} + {b} + 10.0 * penalty(D, real, {seen})", "loss_d.backward()"),
    }[how]  # fmt: skip
    weights = drawn.pick("weights", ("free", "clamped"), 0.7)
    after = "for p in D.parameters():\n    p.data.clamp_(-0.3, 0.3)" if weights == "clamped" else ""
    again = {"detached": "", "without graph": "fake = G(z)", "drawn again": "fake = G(torch.randn(4, 3))"}[made]
    aux = " + 0.1 * fake.pow(2).mean()" if drawn.pick("regular", ("no", "yes")) == "yes" else ""
    freeze, thaw = {
        "no": ("", ""),
        "loop": tuple(f"for p in D.parameters():\n    p.requires_grad = {flag}" for flag in (False, True)),
        "method": ("D.requires_grad_(False)", "D.requires_grad_(True)"),
    }[frozen]
    g_step = block(freeze, again, reset(drawn, "opt_g", "G"), f"loss_g = {wanted.format(net='D', x='fake')}{aux}",
                   "loss_g.backward()", clip(drawn, "G"), "opt_g.step()", thaw)  # fmt: skip
    if drawn.pick("generator", ("always", "every other"), 0.6) == "every other" and made != "detached":
        g_step = under("if i % 2 == 0:", g_step)
    body = block(
        "real, z = data[i % len(data)], torch.randn(4, 3)", make, d_step, d_clip, "opt_d.step()", after, g_step,
        "history.append(loss_d.item())",
    )  # fmt: skip
    setup = block(
        "D = nn.Sequential(nn.Linear(4, 10), nn.LeakyReLU(0.2), nn.Linear(10, 1))",
        "G = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4))",
        "criterion = nn.BCEWithLogitsLoss()",
        f"opt_d = {optimizer(drawn, 'D.parameters()')}",
        f"opt_g = {optimizer(drawn, 'G.parameters()')}",
        "data = [torch.randn(4, 4) + 1 for _ in range(3)]",
        "history = []",
    )
    return PENALTY if how == "penalty" else "", setup, body, "print([round(h, 4) for h in history])"
