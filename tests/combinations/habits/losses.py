"""Losses: functions, lambdas, partials, closures, classes, tables of them, and what is added or weighed."""

# ruff: noqa: E501 (statements of programs stand in one line each)
from __future__ import annotations

from tests.combinations.habits.sketch import Sketch, block


def plain(sketch: Sketch) -> None:
    """As it is."""


def more(sketch: Sketch, *texts: str) -> None:
    """Statements behind the loss."""
    sketch.loss = block(sketch.loss, sketch.one_of(*texts))


def replace(sketch: Sketch, text: str) -> None:
    """Another way to the loss itself; what a network added to it stays."""
    sketch.loss = block(text, *sketch.loss.split("\n")[1:])


def callables(sketch: Sketch) -> None:
    sketch.needs("import functools")
    sketch.made.append(sketch.one_of(
        "crit = lambda out, y: F.cross_entropy(out, y) + 0.01 * out.pow(2).sum()",
        "crit = functools.partial(F.cross_entropy, label_smoothing=0.1)",
        "def crit(out, y, eps=0.1):\n    logp = F.log_softmax(out, dim=-1)\n"
        "    return (1 - eps) * F.nll_loss(logp, y) - eps * logp.mean()",
        "def make_loss(scale):\n    def loss_fn(out, y):\n        return scale * F.cross_entropy(out, y)\n    return loss_fn\n"
        "crit = make_loss(0.7)",
        "losses = {'ce': nn.CrossEntropyLoss(), 'mm': nn.MultiMarginLoss()}\nkind = 'ce'\ncrit = losses[kind]",
        "crit = getattr(nn, 'CrossEntropyLoss')(reduction='sum')",
        "crit = {'a': F.cross_entropy, 'b': lambda out, y: F.nll_loss(F.log_softmax(out, 1), y)}['b']",
        "crit = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1.0, 0.7]))",
    ))  # fmt: skip
    replace(sketch, "loss = crit(out, y)")


def classes(sketch: Sketch) -> None:
    kind = sketch.drawn.pick("criterion", ("focal", "plain class", "learned", "static", "running", "centers"))
    if kind == "focal":
        sketch.define("""
class Crit(nn.Module):
    def __init__(self, gamma=2.0, reduction='mean'):
        super().__init__()
        self.gamma, self.reduction = gamma, reduction

    def forward(self, out, y):
        ce = F.cross_entropy(out, y, reduction='none')
        pt = torch.exp(-ce)
        focal = (1 - pt) ** self.gamma * ce
        return focal.mean() if self.reduction == 'mean' else focal.sum()
""")
    elif kind == "plain class":
        sketch.define("""
class Crit:
    def __init__(self):
        self.seen = []

    def __call__(self, out, y):
        loss = F.cross_entropy(out, y)
        self.seen.append(loss.item())
        return loss
""")
    elif kind == "learned":
        sketch.define("""
class Crit(nn.Module):
    def __init__(self):
        super().__init__()
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, out, y):
        parts = torch.stack([F.cross_entropy(out, y), out.pow(2).mean()])
        return (torch.exp(-self.log_vars) * parts + self.log_vars).sum()
""")
        old = sketch.opt
        sketch.opt = sketch.one_of(old.replace("net.parameters()", "list(net.parameters()) + list(crit.parameters())"),
                                   old.replace("net.parameters()", "[{'params': net.parameters()}, {'params': "
                                               "crit.parameters(), 'lr': 0.01}]"))  # fmt: skip
        sketch.end.append("print(crit.log_vars.sum().item())")
    elif kind == "static":
        sketch.define("""
class Crit:
    weight = 0.5

    @staticmethod
    def fit(out, y):
        return F.cross_entropy(out, y)

    @classmethod
    def size(cls, out):
        return cls.weight * out.pow(2).mean()

    def __call__(self, out, y):
        return self.fit(out, y) + Crit.size(out)
""")
    elif kind == "running":
        sketch.define("""
class Crit(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer('scale', torch.ones(()))

    def forward(self, out, y):
        loss = F.cross_entropy(out, y, reduction='none')
        with torch.no_grad():
            self.scale = 0.9 * self.scale + 0.1 * loss.mean()
        return (loss / self.scale).mean()
""")
    else:
        sketch.define("""
class Crit(nn.Module):
    def __init__(self):
        super().__init__()
        self.centers = nn.Parameter(torch.randn(3, 3))

    def forward(self, out, y):
        return F.cross_entropy(out, y) + 0.1 * (out - self.centers[y]).pow(2).sum(1).mean()
""")
        sketch.setup.append("opt_c = torch.optim.SGD(crit.parameters(), lr=0.5)")
        sketch.step = block(sketch.step, "opt_c.step()\nopt_c.zero_grad()")
    sketch.made.append("crit = Crit()")
    replace(sketch, "loss = crit(out, y)")


def records(sketch: Sketch) -> None:
    sketch.needs("from dataclasses import dataclass, field", "from collections import namedtuple, defaultdict, OrderedDict")
    kind = sketch.drawn.pick("record", ("dataclass", "namedtuple", "dict", "list", "filled", "ordered", "default", "method"))
    if kind == "dataclass":
        sketch.define("@dataclass\nclass Losses:\n    fit: torch.Tensor\n    size: torch.Tensor\n\n    @property\n"
                      "    def total(self):\n        return self.fit + 0.1 * self.size")  # fmt: skip
        replace(sketch, "parts = Losses(F.cross_entropy(out, y), size=out.pow(2).mean())\nloss = parts.total")
    elif kind == "method":
        sketch.define("@dataclass\nclass Losses:\n    parts: dict = field(default_factory=dict)\n\n"
                      "    def add(self, name, value, weight=1.0):\n        self.parts[name] = weight * value\n        return self\n\n"
                      "    def total(self):\n        return sum(self.parts.values())")  # fmt: skip
        replace(sketch, "losses = Losses()\nlosses.add('fit', F.cross_entropy(out, y)).add('size', out.pow(2).mean(), 0.1)\n"
                "loss = losses.total()")  # fmt: skip
    elif kind == "namedtuple":
        sketch.define("Losses = namedtuple('Losses', 'fit size')")
        sketch.define("def compute_loss(out, y):\n    return Losses(F.cross_entropy(out, y), out.abs().mean())")
        replace(sketch, sketch.one_of("parts = compute_loss(out, y)\nloss = parts.fit + 0.1 * parts.size",
                                      "fit, size = compute_loss(out, y)\nloss = fit + 0.2 * size",
                                      "parts = compute_loss(out, y)\nloss = sum(parts)"))  # fmt: skip
    elif kind == "dict":
        sketch.made.append("weights = {'fit': 1.0, 'size': 0.2}")
        replace(sketch, "parts = {'fit': F.cross_entropy(out, y), 'size': out.pow(2).mean()}\n" + sketch.one_of(
            "loss = sum(weights[k] * v for k, v in parts.items())", "loss = 0.0\nfor k in parts:\n    loss += weights[k] * parts[k]",
            "parts = {k: v * weights[k] for k, v in parts.items()}\nloss = torch.stack(list(parts.values())).sum()",
            "parts.update(total=parts['fit'] + parts['size'])\nloss = parts['total']",
            "loss = parts.pop('fit')\nfor name, value in parts.items():\n    loss = loss + weights[name] * value"))  # fmt: skip
    elif kind == "list":
        replace(sketch, "parts = [F.cross_entropy(out, y), 0.1 * out.pow(2).mean()]\n" + sketch.one_of(
            "loss = torch.stack(parts).sum()", "loss = parts[0] + parts[1]", "loss, *rest = parts\nfor r in rest:\n    loss = loss + r",
            "loss = sum(w * p for w, p in zip([1.0, 0.3], parts))", "parts[1] = parts[1] * 2\nloss = sum(parts) / len(parts)",
            "loss = max(parts, key=lambda p: p.item())"))  # fmt: skip
    elif kind == "filled":
        replace(sketch, "parts = []\nfor k in range(3):\n    w = (y == k).float()\n"
                "    parts.append((w * F.cross_entropy(out, y, reduction='none')).sum() / (w.sum() + 1))\nloss = sum(parts)")
    elif kind == "ordered":
        replace(sketch, "parts = OrderedDict()\nparts['fit'] = F.cross_entropy(out, y)\nparts['size'] = out.abs().mean()\n"
                "loss = sum(parts[k] for k in parts)\nprint({k: round(v.item(), 4) for k, v in parts.items()})")
    else:
        sketch.made.append("log = defaultdict(list)")
        more(sketch, "log['loss'].append(loss.item())\nloss = loss * 0.5")
        sketch.end.append("print([round(v, 4) for v in log['loss']])")


def weighed(sketch: Sketch) -> None:
    sketch.needs("import random")
    more(sketch,
         "loss = loss / loss.item()", "loss = loss / (1.0 + loss.detach())", "loss = loss * (0.5 if loss.item() > 1 else 1.5)",
         "loss = F.cross_entropy(out, y, reduction='none')\nloss = loss.topk(2)[0].mean()",
         "each = F.cross_entropy(out, y, reduction='none')\nloss = (each * torch.softmax(each.detach(), 0)).sum()",
         "loss = loss + 0.01 * sum(p.abs().sum() for n, p in net.named_parameters() if 'bias' not in n)",
         "reg = torch.tensor(0.0)\nfor n, p in net.named_parameters():\n    if n.endswith('weight'):\n        reg += p.norm()\n"
         "loss = loss + 0.01 * reg",
         "lam = torch.rand(1).item()\nperm = torch.randperm(x.size(0))\nloss = lam * loss + (1 - lam) * F.cross_entropy(out, y[perm])",
         "with torch.no_grad():\n    soft = out.softmax(1)\nloss = loss + F.kl_div(F.log_softmax(out * 0.5, 1), soft, reduction='batchmean')",
         "p = out.softmax(1)\nloss = loss + 0.1 * (p * torch.log(p + 1e-8)).sum(1).mean()",
         "if random.random() < 0.5:\n    loss = loss + 0.2 * out.pow(2).mean()", "loss = (loss - 0.2).abs() + 0.2",
         "match i % 3:\n    case 0:\n        loss = loss * 2\n    case 1:\n        loss = loss + out.mean()\n    case _:\n        pass",
         "if (m := out.abs().max()) > 0.3:\n    loss = loss + 0.1 * m", "loss = torch.where(loss > 1.0, loss * 0.5, loss)",
         "assert not torch.isnan(loss), 'nan'", "loss = torch.logsumexp(torch.stack([loss, 0.5 * out.pow(2).mean()]), 0)",
         "loss += 0.1 * (net.head.weight @ net.head.weight.t() - torch.eye(3)).pow(2).sum()")  # fmt: skip


def teachers(sketch: Sketch) -> None:
    sketch.needs("import copy", "import random")
    out = sketch.predicted("x", "teacher")
    sketch.made.append(sketch.one_of(
        "teacher = copy.deepcopy(net)\nteacher.eval()", "teacher = copy.deepcopy(net).requires_grad_(False)",
        "teacher = Net()\nteacher.load_state_dict(net.state_dict())\nfor p in teacher.parameters():\n    p.requires_grad = False"))
    more(sketch, *(f"{wanted}\nloss = {loss}" for wanted in (
        f"with torch.no_grad():\n    wanted = {out}", f"wanted = {out}.detach()", f"wanted = {out}.data")
        for loss in ("loss + F.mse_loss(out, wanted)", "0.5 * loss + F.kl_div(out.log_softmax(1), wanted.softmax(1), "
                     "reduction='batchmean')")))  # fmt: skip
    sketch.after.append(sketch.one_of(
        "with torch.no_grad():\n    for t, p in zip(teacher.parameters(), net.parameters()):\n        t.mul_(0.9).add_(p, alpha=0.1)",
        "for t, p in zip(teacher.parameters(), net.parameters()):\n    t.data = 0.9 * t.data + 0.1 * p.data",
        "for t, p in zip(teacher.parameters(), net.parameters()):\n    t.data.copy_(p.data if random.random() < 0.5 else t.data)",
        "state = teacher.state_dict()\nfor k, v in net.state_dict().items():\n    state[k] = 0.9 * state[k] + 0.1 * v\n"
        "teacher.load_state_dict(state)", "if i % 2 == 1:\n    teacher.load_state_dict(net.state_dict())"))
    sketch.end.append("print(sum(p.abs().sum().item() for p in teacher.parameters()))")


def second(sketch: Sketch) -> None:
    """A penalty on a gradient."""
    sketch.forward = block("x = x.clone().requires_grad_(True)", sketch.forward)
    more(sketch, "grad = torch.autograd.grad(out.sum(), x, create_graph=True)[0]\nloss = loss + 0.1 * grad.pow(2).sum(1).mean()",
         "(grad,) = torch.autograd.grad(outputs=out, inputs=x, grad_outputs=torch.ones_like(out), create_graph=True)\n"
         "loss = loss + ((grad.norm(2, dim=1) - 1) ** 2).mean()",
         "grad = torch.autograd.grad(loss, x, retain_graph=True)[0]\nadv = (x + 0.1 * grad.sign()).detach()\n"
         f"loss = loss + F.cross_entropy({sketch.predicted('adv')}, y)",
         "grad = torch.autograd.grad(loss, net.head.weight, create_graph=True)[0]\nloss = loss + 0.1 * grad.norm()")  # fmt: skip


LOSSES = {f.__name__: f for f in (plain, callables, classes, records, weighed, teachers, second)}
