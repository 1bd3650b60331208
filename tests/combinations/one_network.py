"""Programs that train one network: model, forward, backward, reset, what stands between, step, loop, place."""

from __future__ import annotations

import re
from textwrap import indent

from tests.combinations.drawing import Drawn, Program

HEAD = """\
{imports}import torch
from torch import nn
import torch.nn.functional as F

torch.manual_seed({seed})

{classes}
"""

MODELS = {
    "sequential": "model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))",
    "norm": "model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3))",
    "batch norm": "model = nn.Sequential(nn.Linear(6, 8, bias=False), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))",
    "dropout": "model = nn.Sequential(nn.Linear(6, 8), nn.Sigmoid(), nn.Dropout(0.2), nn.Linear(8, 3))",
    "class": "model = Net()",
    "two outputs": "model = Both()",
}
CLASSES = {
    "class": """
class Net(nn.Module):
    def __init__(self, hidden=8):
        super().__init__()
        self.body = nn.Linear(6, hidden)
        self.head = nn.Linear(hidden, 3)
        self.scale = nn.Parameter(torch.tensor(0.7))

    def forward(self, x):
        h = F.relu(self.body(x))
        if x.shape[0] > 2:
            h = h + 0.1 * h.mean(dim=0, keepdim=True)
        return self.scale * self.head(h)
""",
    "two outputs": """
class Both(nn.Module):
    def __init__(self):
        super(Both, self).__init__()
        self.body = nn.Linear(6, 8)
        self.head, self.code = nn.Linear(8, 3), nn.Linear(8, 2)

    def forward(self, x):
        h = torch.tanh(self.body(x))
        return self.head(h), self.code(h)
""",
}
OPTIMIZERS = (
    "torch.optim.SGD({params}, lr=0.1)",
    "torch.optim.SGD({params}, lr=0.05, momentum=0.9, weight_decay=1e-3)",
    "torch.optim.Adam({params}, lr=1e-2)",
    "torch.optim.AdamW({params}, lr=1e-2, weight_decay=0.05)",
    "torch.optim.RMSprop({params}, lr=1e-2)",
)
FORWARDS = {
    "plain": "out = model(x)\nloss = F.cross_entropy(out, y)",
    "criterion": "out = model(x)\nloss = criterion(out, y)",
    "in one": "loss = criterion(model(x), y)",
    "two terms": "out = model(x)\nce = criterion(out, y)\nreg = out.pow(2).mean()\nloss = ce + 0.1 * reg",
    "grows": "out = model(x)\nloss = criterion(out, y)\nif i % 2 == 0:\n    loss = loss + 0.05 * out.abs().sum()",
    "in place": "loss = 0.0\nfor part, want in zip(x.chunk(2), y.chunk(2)):\n    loss += criterion(model(part), want)",
    "list": "losses = [criterion(model(x * s), y) for s in (0.5, 1.0)]\nloss = sum(losses) / len(losses)",
    "dict": "out = model(x)\nparts = {'ce': criterion(out, y), 'l1': out.abs().mean()}\nloss = sum(parts.values())",
    "helper": "loss, out = compute_loss(model, x, y)",
    "detached target": "out = model(x)\nwith torch.no_grad():\n    target = model(x + 0.01).softmax(-1)\n"
    "loss = criterion(out, y) + F.mse_loss(out.softmax(-1), target)",
    "weights": "out = model(x)\nloss = criterion(out, y)\n"
    "for p in model.parameters():\n    loss = loss + 1e-3 * p.norm() ** 2",
    "noise": "out = model(x + 0.1 * torch.randn_like(x))\nloss = criterion(out, y)",
    "masked": "out = model(x)\nkeep = y > 0\nloss = criterion(out[keep], y[keep]) if keep.any() else out.sum() * 0.0",
}
HELPER = '''
def compute_loss(model, x, y):
    """The loss and the prediction."""
    out = model(x)
    return F.cross_entropy(out, y, label_smoothing=0.1), out

'''
BACKWARDS = {
    "plain": "loss.backward()",
    "scaled": "(loss / 2).backward()",
    "gradient": "loss.backward(gradient=torch.tensor(0.5))",
    "module": "torch.autograd.backward(loss)",
    "guarded": "if torch.isfinite(loss):\n    loss.backward()",
    "twice": "loss.backward(retain_graph=True)\n(0.5 * loss).backward()",
    "grad": "for p, g in zip(model.parameters(), torch.autograd.grad(loss, model.parameters())):\n    p.grad = g",
}
RESETS = {
    "optimizer": "{opt}.zero_grad()",
    "to none": "{opt}.zero_grad(set_to_none=True)",
    "model": "model.zero_grad()",
    "loop": "for p in model.parameters():\n    p.grad = None",
    "missing": "",
}
SHAPES = {
    "one": "{opt} = {made}",
    "groups": "{opt} = {grouped}",
    "two": "opt_a = {first}\nopt_b = {rest}",
}
PARTS = {  # the parameters of the first layer, and the others
    "class": ("model.body.parameters()", "list(model.head.parameters()) + [model.scale]"),
    "two outputs": ("model.body.parameters()", "[*model.head.parameters(), *model.code.parameters()]"),
}
BETWEEN = {
    "nothing": "",
    "clip norm": "nn.utils.clip_grad_norm_(model.parameters(), 0.5)",
    "clip and log": "norm = nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)\nprint(f'norm {norm:.4f}')",
    "clip value": "nn.utils.clip_grad_value_(model.parameters(), 0.1)",
    "scale": "for p in model.parameters():\n    if p.grad is not None:\n        p.grad.mul_(0.5)",
    "noise": "for p in model.parameters():\n    p.grad += 0.01 * torch.randn_like(p.grad)",
    "checked": "if not torch.isfinite(loss):\n    print('not finite')\n    {leave}",
    "clamp data": "for p in model.parameters():\n    p.grad.data.clamp_(-0.05, 0.05)",
    "log": "total = sum(p.grad.norm() ** 2 for p in model.parameters()) ** 0.5\nprint(f'{total.item():.4f}')",
}
STEPS = {
    "always": "{opt}.step()",
    "accumulated": "if (i + 1) % 2 == 0:\n    {opt}.step()\n    {opt}.zero_grad()",
    "every other": "if (i + 1) % 2 == 0:\n    {opt}.step()",
    "scheduled": "{opt}.step()\nsched.step()",
    "by hand": "with torch.no_grad():\n    for p in model.parameters():\n        p -= 0.05 * p.grad",
}
AFTER = {
    "nothing": "",
    "losses": "history.append(loss.item())",
    "meter": "running += loss.item() * x.size(0)",
    "decay": "for group in {opt}.param_groups:\n    group['lr'] *= 0.95",
    "average": "with torch.no_grad():\n    for e, p in zip(ema.parameters(), model.parameters()):\n"
    "        e.mul_(0.9).add_(p, alpha=0.1)",
    "clamp": "for p in model.parameters():\n    p.data.clamp_(-0.6, 0.6)",
    "evaluate": "model.eval()\nwith torch.no_grad():\n    print(f'{F.cross_entropy(model(xs[0]), ys[0]).item():.4f}')\n"
    "model.train()",
    "saliency": "probe = x.clone().requires_grad_()\nF.cross_entropy(model(probe), y).backward()\n"
    "print(f'{probe.grad.abs().sum().item():.4f}')",
    "saliency by grad": "probe = x.detach().clone()\nprobe.requires_grad = True\n"
    "g, = torch.autograd.grad(F.cross_entropy(model(probe), y), probe)\nprint(f'{g.abs().sum().item():.4f}')",
    "stop": "if loss.item() < 0.2:\n    break",
}
LOOPS = {
    "batches": "for epoch in range(3):\n    for i, (x, y) in enumerate(zip(xs, ys)):\n{body}",
    "steps": "for i in range(7):\n    x, y = xs[i % 3], ys[i % 3]\n{body}",
    "while": "i = 0\nwhile i < 6:\n    x, y = xs[i % 3], ys[i % 3]\n{body}\n    i += 1",
    "skips": "for i in range(8):\n    if i == 3:\n        continue\n    x, y = xs[i % 3], ys[i % 3]\n{body}",
}
PLACES = {
    "script": "{plain}\n",
    "function": "\n\ndef train(model, xs, ys, criterion):\n{inside}\n\n\ntrain(model, xs, ys, criterion)\n",
    "method": """

class Trainer:
    def __init__(self, model, criterion):
        self.model = model
        self.criterion = criterion

    def fit(self, xs, ys):
{deeper}


Trainer(model, criterion).fit(xs, ys)
""",
    "nested": "\n\ndef main():\n    def run():\n{deeper}\n\n    run()\n\n\nmain()\n",
}
DATA = """\
criterion = nn.CrossEntropyLoss()
xs = [torch.randn(4, 6) for _ in range(3)]
ys = [torch.tensor([0, 1, 2, (k + 1) % 3]) for k in range(3)]
"""


def program(seed: int) -> Program:
    """The program of a seed; the same one every time."""
    drawn = Drawn(seed)
    model = drawn.pick("model", list(MODELS))
    opt = drawn.random.choice(("opt", "optimizer", "optim"))
    body = _body(drawn, opt)
    loop = LOOPS[drawn.pick("loop", list(LOOPS))]
    body = body.replace("{leave}", "i += 1\n    continue" if drawn["loop"] == "while" else "continue")
    setup = [_optimizer(drawn, opt), "history, running = [], 0.0"]
    if drawn["optimizers"] == "two":
        body = re.sub(rf"(?m)^( *){opt}\.(step|zero_grad)(\(.*\))$", r"\1opt_a.\2\3\n\1opt_b.\2\3", body)
        body, opt = re.sub(rf"\b{opt}\b", "opt_a", body), "opt_a"
    if "sched.step" in body:
        setup.append(f"sched = torch.optim.lr_scheduler.StepLR({opt}, step_size=2, gamma=0.5)")
    if "ema." in body:
        setup.append("ema = copy.deepcopy(model)")
    looped = loop.format(body=indent(body, "        " if loop.startswith("for epoch") else "    "))
    train = "\n".join([*setup, looped, "print([round(v, 4) for v in history], round(running, 3))"])
    classes = CLASSES.get(model, "")
    if "compute_loss" in body:
        classes += HELPER.replace("(out, y", "(out[0], y") if model == "two outputs" else HELPER
    text = HEAD.format(seed=seed, classes=classes, imports="import copy\n" if "ema." in body else "")
    text += f"{MODELS[model]}\n{DATA}" + _placed(drawn.pick("place", list(PLACES)), train)
    return Program(seed, drawn, f"{text}print(sum(p.abs().sum().item() for p in model.parameters()))\n")


def _optimizer(drawn: Drawn, opt: str) -> str:
    """One optimizer, one with groups, or one for the first layer and one for the rest."""
    first, rest = PARTS.get(drawn["model"], ("model[0].parameters()", "model[1:].parameters()"))
    groups = f"[{{'params': {first}}}, {{'params': {rest}, 'lr': 0.02}}]"
    made = [drawn.random.choice(OPTIMIZERS) for _ in range(2)]
    shape = SHAPES[drawn.pick("optimizers", list(SHAPES), 0.6)]
    return shape.format(
        opt=opt,
        made=made[0].format(params="model.parameters()"),
        grouped=made[0].format(params=groups),
        first=made[0].format(params=first),
        rest=made[1].format(params=rest),
    )


def _body(drawn: Drawn, opt: str) -> str:
    """What happens to one batch."""
    forward = FORWARDS[drawn.pick("forward", list(FORWARDS))]
    if drawn["model"] == "two outputs":
        forward = _with_code(drawn["forward"], forward)
    backward = BACKWARDS[drawn.pick("backward", list(BACKWARDS), 0.4)]
    reset = RESETS[drawn.pick("reset", list(RESETS), 0.4)].format(opt=opt)
    places = ["start", "before backward", "end"]
    if drawn["backward"] == "guarded":
        places.remove("end")  # the first batch would be met with gradients of None
    where = drawn.pick("reset at", places, 0.4)
    between = BETWEEN[drawn.pick("between", list(BETWEEN), 0.3)]
    steps = [kind for kind in STEPS if (kind, drawn["backward"]) != ("by hand", "twice")]  # verify counts optimizers
    step = STEPS[drawn.pick("step", steps, 0.5)].format(opt=opt)
    after = AFTER[drawn.pick("after", list(AFTER))].replace("{opt}", opt)
    if drawn["model"] == "two outputs":
        after = after.replace("model(xs[0])", "model(xs[0])[0]").replace("model(probe)", "model(probe)[0]")
    head = {"start": [reset, forward], "before backward": [forward, reset], "end": [forward]}[where]
    tail = [reset] if where == "end" else []
    return "\n".join(part for part in (*head, backward, between, step, *tail, after) if part)


def _with_code(name: str, forward: str) -> str:
    """For the model of two outputs; both take part, since PyTorch leaves None where nothing reaches a layer."""
    if name in ("in one", "in place", "list"):
        forward = FORWARDS["criterion"]
    if name == "helper":
        forward = "loss, (out, code) = compute_loss(model, x, y)"
    forward = forward.replace("model(x + 0.01)", "model(x + 0.01)[0]").replace("out = model(x", "out, code = model(x")
    return f"{forward}\nloss = loss + 0.1 * code.pow(2).mean()"


def _placed(place: str, train: str) -> str:
    """The training code at the top level, in a function, a method, or a function inside of one."""
    if place == "method":
        train = train.replace("model", "self.model").replace("criterion(", "self.criterion(")
    return PLACES[place].format(plain=train, inside=indent(train, "    "), deeper=indent(train, "        "))
