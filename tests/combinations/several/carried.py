"""What goes on from one step to the next: target networks, twins, recurrent states."""

from __future__ import annotations

from textwrap import indent

from tests.combinations.drawing import Drawn, block, under
from tests.combinations.several.parts import Parts, clip, optimizer, reset


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
