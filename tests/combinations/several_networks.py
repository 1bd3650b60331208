"""Programs with several networks or states: adversaries, targets, twins, recurrences, policies, attacks, heads."""

from __future__ import annotations

from textwrap import indent

from tests.combinations.drawing import Drawn, Program

HEAD = """\
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed({seed})
{classes}
"""
OPTIMIZERS = (
    "optim.SGD({params}, lr=0.05)",
    "optim.Adam({params}, lr=0.01, betas=(0.5, 0.999))",
    "optim.RMSprop({params}, lr=0.005)",
    "optim.AdamW({params}, lr=0.01)",
    "optim.SGD({params}, lr=0.02, momentum=0.9, nesterov=True)",
)
RESETS = (
    "{opt}.zero_grad()",
    "{net}.zero_grad()",
    "{opt}.zero_grad(set_to_none=True)",
    "for p in {net}.parameters():\n    p.grad = None",
)
CLIPS = (
    "",
    "nn.utils.clip_grad_norm_({net}.parameters(), 0.5)",
    "torch.nn.utils.clip_grad_value_({net}.parameters(), clip_value=0.1)",
    "for p in {net}.parameters():\n    p.grad.data.clamp_(-0.2, 0.2)",
)


def block(*parts: str) -> str:
    """Statements one after the other."""
    return "\n".join(part for part in parts if part)


def under(head: str, *parts: str) -> str:
    """Statements under a head."""
    return f"{head}\n{indent(block(*parts), '    ')}"


def optimizer(drawn: Drawn, params: str) -> str:
    return drawn.random.choice(OPTIMIZERS).format(params=params)


def reset(drawn: Drawn, opt: str, net: str) -> str:
    return drawn.random.choice(RESETS).format(opt=opt, net=net)


def clip(drawn: Drawn, net: str) -> str:
    return drawn.random.choice(CLIPS).format(net=net)


# --- families: (classes and functions, setting up, one batch, what is printed at the end)

Parts = tuple[str, str, str, str]
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


def targets(drawn: Drawn) -> Parts:
    """A network that is trained towards what a slow copy of it says."""
    chosen = drawn.pick("chosen", ("gather", "index", "mask"))
    value = {
        "gather": "value = net(state).gather(1, action.unsqueeze(1)).squeeze(1)",
        "index": "value = net(state)[torch.arange(5), action]",
        "mask": "value = (net(state) * F.one_hot(action, 3).float()).sum(dim=1)",
    }[chosen]
    best = drawn.pick("best", ("max", "values", "double"))
    following = {
        "max": "best = target(following).max(1)[0]",
        "values": "best = target(following).max(dim=1).values",
        "double": "best = target(following).gather(1, net(following).argmax(1, keepdim=True)).squeeze(1)",
    }[best]
    cut = drawn.pick("cut", ("no_grad", "detach", "decorated"))
    aim = "aim = reward + 0.9 * (1 - done) * best"
    functions = ""
    if cut == "no_grad":
        aims = under("with torch.no_grad():", following, aim)
    elif cut == "detach":
        aims = block(following, "aim = (reward + 0.9 * (1 - done) * best).detach()")
    else:
        inner = indent(block(following, "return reward + 0.9 * (1 - done) * best"), "    ")
        functions = f"\n\n@torch.no_grad()\ndef aim_of(net, target, following, reward, done):\n{inner}\n\n"
        aims = "aim = aim_of(net, target, following, reward, done)"
    loss = {
        "mse": "loss = F.mse_loss(value, aim)",
        "huber": "loss = F.smooth_l1_loss(value, aim)",
        "weighted": "error = aim - value\nloss = (weight * error.pow(2)).mean()\n"
        "print([round(e, 4) for e in error.abs().detach().numpy().tolist()])",
    }[drawn.pick("loss", ("mse", "huber", "weighted"))]
    update = {
        "soft": "for t, p in zip(target.parameters(), net.parameters()):\n"
        "    t.data.copy_(0.9 * t.data + 0.1 * p.data)",
        "lerp": "with torch.no_grad():\n    for t, p in zip(target.parameters(), net.parameters()):\n"
        "        t.lerp_(p, 0.1)",
        "hard": "if i % 3 == 2:\n    target.load_state_dict(net.state_dict())",
        "add": "with torch.no_grad():\n    for t, p in zip(target.parameters(), net.parameters()):\n"
        "        t.mul_(0.95)\n        t.add_(0.05 * p)",
    }[drawn.pick("update", ("soft", "lerp", "hard", "add"))]
    body = block(
        "state, following = torch.randn(5, 4), torch.randn(5, 4)",
        "action, reward = torch.tensor([0, 1, 2, 1, i % 3]), torch.randn(5)",
        "done, weight = (torch.rand(5) < 0.2).float(), torch.rand(5) + 0.5",
        value, aims, loss, reset(drawn, "optimizer", "net"), "loss.backward()", clip(drawn, "net"), "optimizer.step()",
        update, "history.append(loss.item())",
    )  # fmt: skip
    copied = {
        "deepcopy": "target = copy.deepcopy(net)",
        "loaded": "target = Net()\ntarget.load_state_dict(net.state_dict())\ntarget.eval()",
        "frozen": "target = copy.deepcopy(net)\nfor p in target.parameters():\n    p.requires_grad = False",
    }[drawn.pick("copied", ("deepcopy", "loaded", "frozen"))]
    setup = block("net = Net()", copied, f"optimizer = {optimizer(drawn, 'net.parameters()')}", "history = []")
    classes = """

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(4, 12)
        self.values = nn.Linear(12, 3)

    def forward(self, x):
        return self.values(F.relu(self.hidden(x)))

"""
    return classes + functions, setup, body, "print(history, sum(p.sum().item() for p in target.parameters()))"


def twins(drawn: Drawn) -> Parts:
    """Two views of a batch, one of them without gradients."""
    kind = drawn.pick("kind", ("byol", "simsiam", "distil", "contrast"))
    optimized = {
        "sum": "list(online.parameters()) + list(head.parameters())",
        "chain": "itertools.chain(online.parameters(), head.parameters())",
        "groups": "[{'params': online.parameters()}, {'params': head.parameters(), 'lr': 0.02}]",
    }[drawn.pick("optimized", ("sum", "chain", "groups"))]
    if kind == "byol":
        forward = block(
            "p1, p2 = head(online(a)), head(online(b))",
            under("with torch.no_grad():", "t1, t2 = target(a), target(b)"),
            "loss = (2 - 2 * F.cosine_similarity(p1, t2.detach(), dim=-1)).mean()",
            "loss = loss + (2 - 2 * F.cosine_similarity(p2, t1, dim=-1)).mean()",
        )
    elif kind == "simsiam":
        forward = block(
            "z1, z2 = online(a), online(b)",
            "p1, p2 = head(z1), head(z2)",
            "loss = -(F.cosine_similarity(p1, z2.detach()).mean() + F.cosine_similarity(p2, z1.detach()).mean()) * 0.5",
        )
    elif kind == "distil":
        forward = block(
            "out = head(online(a))",
            under("with torch.no_grad():", "wanted = target(a)"),
            "soft = F.kl_div(F.log_softmax(out / 2.0, dim=1), F.softmax(wanted / 2.0, dim=1), reduction='batchmean')",
            "loss = soft * 4.0 + 0.3 * F.cross_entropy(out, labels)",
        )
    else:
        forward = block(
            "za, zb = F.normalize(head(online(a)), dim=1), F.normalize(head(online(b)), dim=1)",
            "logits = za @ zb.t() / 0.2",
            "loss = (F.cross_entropy(logits, torch.arange(6)) + F.cross_entropy(logits.t(), torch.arange(6))) / 2",
        )
    ema = {
        "no": "",
        "parameters": "for t, p in zip(target.parameters(), online.parameters()):\n"
        "    t.data = t.data * 0.9 + p.data * 0.1",
        "function": "update(online, target, 0.9)",
    }[drawn.pick("average", ("no", "parameters", "function"))]
    function = """

@torch.no_grad()
def update(online, target, decay):
    for (name, p), (_, t) in zip(online.named_parameters(), target.named_parameters()):
        t.data.mul_(decay).add_(p.data, alpha=1 - decay)

"""
    schedule = drawn.pick("schedule", ("no", "cosine", "lambda"))
    sched = {
        "no": "",
        "cosine": "scheduler = optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)",
        "lambda": "scheduler = optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 3))",
    }[schedule]
    body = block(
        "x, labels = torch.randn(6, 5), torch.tensor([0, 1, 2, 3, 0, i % 4])",
        "a, b = x + 0.1 * torch.randn_like(x), x * (torch.rand_like(x) > 0.2)",
        forward, "optimizer.zero_grad()", "loss.backward()", "optimizer.step()", ema,
        "scheduler.step()" if sched else "", "history.append(loss.item())",
    )  # fmt: skip
    setup = block(
        "online = nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Linear(8, 4))",
        "head = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 4))",
        "target = copy.deepcopy(online)",
        "for p in target.parameters():\n    p.requires_grad_(False)",
        f"optimizer = {optimizer(drawn, optimized)}",
        sched,
        "history = []",
    )
    return function if "update(" in ema else "", setup, body, "print(history)"


def recurrences(drawn: Drawn) -> Parts:
    """A recurrent network whose state goes from batch to batch."""
    cell = drawn.pick("cell", ("LSTM", "GRU", "by hand"))
    pair = cell == "LSTM"
    first = "(weight.new_zeros(1, 3, 8), weight.new_zeros(1, 3, 8))" if pair else "weight.new_zeros(1, 3, 8)"
    if cell == "by hand":
        layer, run = "self.cell = nn.RNNCell(6, 8)", block(
            "h, outputs = hidden[0], []",
            under("for t in range(x.size(1)):", "h = self.cell(self.embed(x[:, t]), h)", "outputs.append(h)"),
            "out, hidden = torch.stack(outputs, dim=1), h.unsqueeze(0)",
        )  # fmt: skip
    else:
        layer = f"self.cell = nn.{cell}(6, 8, batch_first=True)"
        run = "out, hidden = self.cell(self.embed(x), hidden)"
    classes = f"""

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        {layer}
        self.decode = nn.Linear(8, 7)

    def forward(self, x, hidden):
{indent(run, "        ")}
        return self.decode(out), hidden

    def init_hidden(self):
        weight = next(self.parameters())
        return {first}


def repackage(h):
    if isinstance(h, torch.Tensor):
        return h.detach()
    return tuple(repackage(v) for v in h)

"""
    detached = drawn.pick("detached", ("function", "inline", "reset"))
    cut = {
        "function": "hidden = repackage(hidden)",
        "inline": "hidden = tuple(h.detach() for h in hidden)" if pair else "hidden = hidden.detach()",
        "reset": "hidden = model.init_hidden()",
    }[detached]
    by_hand = drawn.pick("update", ("optimizer", "by hand"), 0.6) == "by hand"
    step = "for p in model.parameters():\n    p.data.add_(p.grad, alpha=-0.2)" if by_hand else "optimizer.step()"
    body = block(
        "x = torch.randint(0, 7, (3, 5))",
        "y = (x + 1) % 7",
        cut,
        reset(drawn, "model" if by_hand else "optimizer", "model"),
        "output, hidden = model(x, hidden)",
        "loss = criterion(output.view(-1, 7), y.view(-1))",
        "loss.backward()",
        clip(drawn, "model"),
        step,
        "total += loss.item()",
        under("if i % 3 == 2:", "print(round(total / 3, 4))", "total = 0.0"),
    )
    setup = block(
        "model = Model()",
        "criterion = nn.CrossEntropyLoss()",
        "" if by_hand else f"optimizer = {optimizer(drawn, 'model.parameters()')}",
        "hidden = model.init_hidden()",
        "total = 0.0",
    )
    return classes, setup, body, "print(sum(p.abs().sum().item() for p in model.parameters()))"


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


KINDS = {
    "adversaries": adversaries,
    "targets": targets,
    "twins": twins,
    "recurrences": recurrences,
    "policies": policies,
    "attacks": attacks,
    "heads": heads,
}
LOOPS = {
    "steps": "for i in range(6):\n{body}",
    "epochs": "for epoch in range(2):\n    for i in range(3):\n{deep}",
    "while": "i = 0\nwhile i < 6:\n{body}\n    i += 1",
}


def program(seed: int) -> Program:
    """The program of a seed; the same one every time."""
    drawn = Drawn(seed)
    classes, setup, body, ending = KINDS[drawn.pick("program", list(KINDS))](drawn)
    loop = LOOPS[drawn.pick("loop", list(LOOPS))].format(body=indent(body, "    "), deep=indent(body, " " * 8))
    place = drawn.pick("place", ("script", "main"))
    text = HEAD.format(seed=seed, classes=classes)
    train = block(setup, loop, ending)
    if place == "main":
        train = f'\n\ndef main():\n{indent(train, "    ")}\n\n\nif __name__ == "__main__":\n    main()'
    return Program(seed, drawn, f"{text}{train}\n")
