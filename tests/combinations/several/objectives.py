"""Losses that are more than one call of a network: policies, attacks, several heads."""

from __future__ import annotations

from tests.combinations.drawing import Drawn, block, under
from tests.combinations.several.parts import Parts, clip, optimizer, reset


def policies(drawn: Drawn) -> Parts:
    """An actor and a critic."""
    shared = drawn.pick("networks", ("shared", "apart"))
    surrogate = drawn.pick("surrogate", ("log probability", "ratio"))
    run = "logits, value = model(state)" if shared == "shared" else "logits, value = actor(state), critic(state)"
    policy = "dist = torch.distributions.Categorical(logits=logits)\nlogp = dist.log_prob(action)"
    if surrogate == "ratio":
        policy += "\nratio = torch.exp(logp - old_logp)\nclipped = torch.clamp(ratio, 0.8, 1.2) * advantage"
        policy += "\npolicy_loss = -torch.min(ratio * advantage, clipped).mean()"
    else:
        policy += "\npolicy_loss = -(logp * advantage).mean()"
    steps = drawn.pick("steps", ("sum", "two")) if shared == "apart" else "sum"
    net = "model" if shared == "shared" else "actor"
    losses = block(
        run,
        "value = value.squeeze(-1)",
        "advantage = returns - value.detach()",
        drawn.random.choice(("", "advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-5)")),
        policy,
        "value_loss = F.mse_loss(value, returns)",
    )
    if steps == "sum":
        update = block(
            "loss = policy_loss + 0.5 * value_loss - 0.01 * dist.entropy().mean()", reset(drawn, "optimizer", net)
            if shared == "shared" else "optimizer.zero_grad()", "loss.backward()",
            clip(drawn, net), "optimizer.step()", "history.append(loss.item())",
        )  # fmt: skip
    else:
        update = block(
            "actor_opt.zero_grad()", "(policy_loss - 0.01 * dist.entropy().mean()).backward()", clip(drawn, "actor"),
            "actor_opt.step()", "critic_opt.zero_grad()", "value_loss.backward()", "critic_opt.step()",
            "history.append((policy_loss.item(), value_loss.item()))",
        )  # fmt: skip
    old = "with torch.no_grad():\n    " + (
        "old, _ = model(state)" if shared == "shared" else "old = actor(state)"
    ) + "\n    old_logp = torch.distributions.Categorical(logits=old).log_prob(action)"  # fmt: skip
    body = block(
        "state, returns = torch.randn(6, 4), torch.randn(6)",
        "action = torch.tensor([0, 1, 1, 0, 2, i % 3])",
        old if surrogate == "ratio" else "",
        under("for _ in range(2):", losses, update) if surrogate == "ratio" else block(losses, update),
    )
    both = "list(actor.parameters()) + list(critic.parameters())"
    made = [f"optimizer = {optimizer(drawn, 'model.parameters()' if shared == 'shared' else both)}"]
    if steps == "two":
        made = [f"{n}_opt = {optimizer(drawn, f'{n}.parameters()')}" for n in ("actor", "critic")]
    apart = [
        "actor = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))",
        "critic = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))",
    ]
    setup = block(*(["model = Model()"] if shared == "shared" else apart), *made, "history = []")
    classes = """

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.base = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
        self.actor = nn.Linear(8, 3)
        self.critic = nn.Linear(8, 1)

    def forward(self, x):
        x = self.base(x)
        return self.actor(x), self.critic(x)

"""
    return classes if shared == "shared" else "", setup, body, "print(history)"


def attacks(drawn: Drawn) -> Parts:
    """Training on inputs that were moved against the network."""
    kind = drawn.pick("attack", ("fgsm", "pgd by grad", "pgd by backward", "trades"))
    attack = {
        "fgsm": block(
            "x_adv = x.clone().detach().requires_grad_(True)", "cost = F.cross_entropy(model(x_adv), y)",
            "model.zero_grad()", "cost.backward()", "x_adv = (x_adv + 0.1 * x_adv.grad.sign()).detach()",
        ),
        "pgd by grad": block(
            "x_adv = x.detach() + 0.01 * torch.randn(x.shape)",
            under("for _ in range(3):", "x_adv.requires_grad_()", "cost = F.cross_entropy(model(x_adv), y)",
                  "grad = torch.autograd.grad(cost, [x_adv])[0]", "x_adv = x_adv.detach() + 0.05 * grad.sign()",
                  "x_adv = torch.min(torch.max(x_adv, x - 0.2), x + 0.2)"),
        ),
        "pgd by backward": block(
            "delta = torch.zeros_like(x, requires_grad=True)",
            under("for _ in range(3):", "cost = F.cross_entropy(model(x + delta), y)", "cost.backward()",
                  "delta.data = (delta + 0.05 * delta.grad.detach().sign()).clamp(-0.2, 0.2)", "delta.grad.zero_()"),
            "x_adv = x + delta.detach()",
        ),
        "trades": block(
            "x_adv = x.detach() + 0.01 * torch.randn_like(x)",
            under("for _ in range(2):", "x_adv.requires_grad_()",
                  under("with torch.enable_grad():",
                        "cost = F.kl_div(F.log_softmax(model(x_adv), dim=1), F.softmax(model(x), dim=1),"
                        " reduction='sum')"),
                  "grad = torch.autograd.grad(cost, [x_adv])[0]",
                  "x_adv = (x_adv.detach() + 0.05 * torch.sign(grad.detach())).clamp(-3.0, 3.0)"),
        ),
    }[kind]  # fmt: skip
    modes = drawn.pick("modes", ("none", "eval and train"))
    if modes != "none":
        attack = block("model.eval()", attack, "model.train()")
    learn = {
        "adversarial": "loss = F.cross_entropy(model(x_adv), y)",
        "both": "loss = 0.5 * (F.cross_entropy(model(x), y) + F.cross_entropy(model(x_adv), y))",
        "regular": "out = model(x)\nloss = F.cross_entropy(out, y) + 2.0 * F.kl_div("
        "F.log_softmax(model(x_adv), dim=1), F.softmax(out, dim=1), reduction='batchmean')",
    }[drawn.pick("learn", ("adversarial", "both", "regular"))]
    body = block(
        "x, y = torch.randn(5, 6), torch.tensor([0, 1, 2, 0, i % 3])",
        attack, "optimizer.zero_grad()", learn, "loss.backward()", clip(drawn, "model"), "optimizer.step()",
        "history.append(round(loss.item(), 4))",
    )  # fmt: skip
    layers = "nn.Linear(6, 10), nn.Dropout(0.1), nn.ReLU(), nn.Linear(10, 3)"
    setup = block(f"model = nn.Sequential({layers})", f"optimizer = {optimizer(drawn, 'model.parameters()')}",
                  "history = []")  # fmt: skip
    return "", setup, body, "print(history)"


def heads(drawn: Drawn) -> Parts:
    """An encoder with two heads, trained together or in turns."""
    how = drawn.pick("how", ("list of optimizers", "one for all", "two backwards", "in turns"))
    run = block("code = encoder(x)", "out, side = classifier(code), domain(code)",
                "main = F.cross_entropy(out, y)", "other = F.binary_cross_entropy_with_logits(side, d)")  # fmt: skip
    parts = ("encoder", "classifier", "domain")
    three = block(*(f"opt_{n[0]} = {optimizer(drawn, f'{n}.parameters()')}" for n in parts))
    weight = drawn.random.choice(("0.3", "weights[1]", "(0.1 * (i + 1))"))
    if how == "list of optimizers":
        setup = block(three, "optimizers = [opt_e, opt_c, opt_d]")
        update = block(
            run, under("for o in optimizers:", "o.zero_grad()"), f"loss = main + {weight} * other", "loss.backward()",
            under("for o in optimizers:", "o.step()"),
        )  # fmt: skip
    elif how == "one for all":
        setup = "params = [p for m in (encoder, classifier, domain) for p in m.parameters()]\noptimizer = " + optimizer(
            drawn, "params"
        )
        update = block(run, "optimizer.zero_grad()", f"loss = main + {weight} * other", "loss.backward()",
                       "optimizer.step()")  # fmt: skip
    elif how == "two backwards":
        setup = three
        resets = block(*(f"opt_{n[0]}.zero_grad()" for n in parts))
        update = block(
            run, resets, "main.backward(retain_graph=True)", f"({weight} * other).backward()",
            "loss = main + other", "opt_e.step()", "opt_c.step()", "opt_d.step()",
        )  # fmt: skip
    else:
        setup = three
        update = block(
            "loss = F.cross_entropy(classifier(encoder(x)), y)", "opt_e.zero_grad()", "opt_c.zero_grad()",
            "loss.backward()", "opt_e.step()", "opt_c.step()",
            "other = F.binary_cross_entropy_with_logits(domain(encoder(x).detach()), d)",
            "opt_d.zero_grad()", "other.backward()", "opt_d.step()",
        )  # fmt: skip
    body = block(
        "x, y = torch.randn(6, 5), torch.tensor([0, 1, 2, 2, 1, i % 3])",
        "d = (torch.arange(6) % 2).float().unsqueeze(1)",
        "weights = [1.0, 0.4]",
        update,
        "history.append((loss.item(), other.item()))",
    )
    nets = block(
        "encoder = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU())",
        "classifier = nn.Linear(8, 3)",
        "domain = nn.Sequential(nn.Linear(8, 4), nn.Tanh(), nn.Linear(4, 1))",
    )
    return "", block(nets, setup, "history = []"), body, "print(history)"
