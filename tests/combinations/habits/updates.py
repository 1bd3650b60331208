"""Optimizers, learning rates, and what is done to gradients between the backward call and the step."""

# ruff: noqa: E501 (statements of programs stand in one line each)
from __future__ import annotations

from tests.combinations.habits.sketch import Sketch, under

WORDS = ("SGD", "lr=0.1"), ("SGD", "lr=0.05, momentum=0.9, weight_decay=1e-3"), ("Adam", "lr=0.01"), (
    "AdamW", "lr=0.01, weight_decay=0.05"), ("Adam", "lr=0.01, weight_decay=0.01"), (
    "SGD", "lr=0.05, momentum=0.8, nesterov=True"), ("Adagrad", "lr=0.05")  # fmt: skip


def optimizer(sketch: Sketch) -> None:
    sketch.needs("import functools")
    name, words = sketch.drawn.random.choice(WORDS)
    made = f"torch.optim.{name}({{}}, {words})"
    how = sketch.drawn.pick("optimizer", ("plain", "filter", "decay", "layers", "added", "table", "getattr", "partial",
                                          "named", "function", "list", "dict", "settings", "halves", "subclass"), 0.3)  # fmt: skip
    whole = made.format("net.parameters()")
    texts = {
        "plain": whole,
        "filter": made.format("filter(lambda p: p.requires_grad, net.parameters())"),
        "decay": made.format("[{'params': [p for n, p in net.named_parameters() if 'bias' not in n], 'lr': 0.03}, "
                             "{'params': [p for n, p in net.named_parameters() if 'bias' in n], 'lr': 0.01}]"),
        "layers": made.format("[{'params': [p for n, p in net.named_parameters() if not n.startswith('head')]}, "
                              "{'params': net.head.parameters(), 'lr': 0.02}]"),
        "added": made.format("net.head.parameters()"),
        "table": f"{{'a': torch.optim.{name}, 'b': torch.optim.Adam}}['a'](net.parameters(), {words})",
        "getattr": f"getattr(torch.optim, '{name}')(net.parameters(), {words})",
        "partial": f"functools.partial(torch.optim.{name}, {words})(net.parameters())",
        "named": made.format("[p for _, p in sorted(net.named_parameters())]"),
        "function": "make_optimizer(net)", "list": made.format("params"),
        "settings": f"torch.optim.{name}(net.parameters(), **settings)",
        "dict": made.format("groups"), "halves": made.format("rest"),
        "subclass": "Own(net.parameters(), lr=0.1)",
    }  # fmt: skip
    sketch.opt = texts[how]
    if how == "added":
        sketch.setup.append("opt.add_param_group({'params': [p for n, p in net.named_parameters() if 'head' not in n], "
                            "'lr': 0.03})")  # fmt: skip
    if how == "function":
        sketch.define(under("def make_optimizer(model, slow=0.5):", "decay, no_decay = [], []",
                            under("for name, p in model.named_parameters():", "if not p.requires_grad:\n    continue",
                                  "if p.ndim <= 1 or name.endswith('.bias'):\n    no_decay.append(p)",
                                  "else:\n    decay.append(p)"),
                            "groups = [{'params': decay, 'weight_decay': 0.01}, {'params': no_decay, 'weight_decay': 0.0}]",
                            f"return {made.replace(', weight_decay=1e-3', '').replace(', weight_decay=0.05', '').replace(', weight_decay=0.01', '').format('groups')}"))  # fmt: skip
    if how == "list":
        sketch.made.append("params = list(net.parameters())")
    if how == "settings":
        sketch.made.append(f"settings = dict({words})")
    if how == "dict":
        sketch.made.append("groups = []\nfor k, (name, p) in enumerate(net.named_parameters()):\n"
                           "    groups.append({'params': [p], 'lr': 0.05 * 0.8 ** k})")  # fmt: skip
    if how == "halves":
        sketch.made.append("head_ids = set(map(id, net.head.parameters()))\n"
                           "rest = [p for p in net.parameters() if id(p) not in head_ids]")  # fmt: skip
        sketch.setup.append("opt_h = torch.optim.SGD(net.head.parameters(), lr=0.05)")
        sketch.step = "opt.step()\nopt_h.step()\nopt_h.zero_grad()"
    if how == "subclass":
        sketch.define(OWN)


OWN = """
class Own(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1, beta=0.8):
        super().__init__(params, dict(lr=lr, beta=beta))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group['params']:
                if p.grad is None:
                    continue
                state = self.state[p]
                if 'm' not in state:
                    state['m'] = torch.zeros_like(p)
                state['m'].mul_(group['beta']).add_(p.grad, alpha=1 - group['beta'])
                p.add_(state['m'].sign(), alpha=-0.1 * group['lr'])
"""


def rate(sketch: Sketch) -> None:
    """Learning rates that are written by hand, warmed up, or scheduled in odd places."""
    sketch.needs("import math")
    kind = sketch.drawn.pick("rate", ("none", "written", "warm-up", "function", "class", "schedule", "fraction", "plateau",
                                      "chained", "momentum", "own schedule", "lambdas"), 0.25)  # fmt: skip
    place = sketch.drawn.random.choice(("after", "before", "epoch_end"))
    add = getattr(sketch, place if place != "before" else "between").append
    if kind == "written":
        add(sketch.one_of("for g in opt.param_groups:\n    g['lr'] *= 0.9", "opt.param_groups[0]['lr'] = 0.05 / (i + 1)",
                          "for g in opt.param_groups:\n    g['lr'] = max(g['lr'] * 0.7, 0.01)",
                          "for k, g in enumerate(opt.param_groups):\n    g['lr'] = 0.02 * (k + 1)",
                          "for g in opt.param_groups:\n    g['lr'] = g['lr'] / 2 if loss.item() < 1 else g['lr']",
                          "for g in opt.param_groups:\n    g.update(lr=g['lr'] * 0.8)"))  # fmt: skip
    elif kind == "warm-up":
        sketch.between.append("steps_done = epoch * 3 + i\nif steps_done < 4:\n    for g in opt.param_groups:\n"
                              "        g['lr'] = 0.05 * (steps_done + 1) / 4")  # fmt: skip
    elif kind == "function":
        sketch.define("def adjust(optimizer, step, base=0.05):\n    lr = base * 0.5 * (1 + math.cos(math.pi * step / 9))\n"
                      "    for group in optimizer.param_groups:\n        group['lr'] = lr\n    return lr")  # fmt: skip
        add("now = adjust(opt, epoch * 3 + i)\nprint('lr %.4f' % now)" if place != "epoch_end" else "adjust(opt, epoch + 1)")
    elif kind == "class":
        sketch.define("class Warm:\n    def __init__(self, optimizer, total):\n        self.optimizer, self.total, self.n = optimizer, total, 0\n"
                      "        self.bases = [g['lr'] for g in optimizer.param_groups]\n\n    def step(self):\n        self.n += 1\n"
                      "        for base, g in zip(self.bases, self.optimizer.param_groups):\n"
                      "            g['lr'] = base * min(1.0, self.n / self.total)")  # fmt: skip
        sketch.setup.append("warm = Warm(opt, 4)")
        add("warm.step()")
    elif kind == "own schedule":
        sketch.define("class Poly(torch.optim.lr_scheduler._LRScheduler):\n    def __init__(self, optimizer, total, last_epoch=-1):\n"
                      "        self.total = total\n        super().__init__(optimizer, last_epoch)\n\n    def get_lr(self):\n"
                      "        return [base * (1 - self.last_epoch / self.total) ** 0.9 for base in self.base_lrs]")  # fmt: skip
        sketch.setup.append("sched = Poly(opt, 12)")
        add("sched.step()")
    elif kind == "schedule":
        sketch.setup.append("sched = torch.optim.lr_scheduler." + sketch.one_of(
            "MultiStepLR(opt, [1, 3], 0.5)", "CosineAnnealingLR(opt, 6, eta_min=0.001)", "CyclicLR(opt, 0.01, 0.05, step_size_up=2, "
            "cycle_momentum=False)", "LinearLR(opt, 0.3, total_iters=4)", "PolynomialLR(opt, 8)", "ConstantLR(opt, 0.5, 2)",
            "ExponentialLR(opt, gamma=0.8)", "CosineAnnealingWarmRestarts(opt, 2, 2)", "MultiplicativeLR(opt, lambda n: 0.9)",
            "OneCycleLR(opt, max_lr=0.05, total_steps=20, cycle_momentum=False)"))  # fmt: skip
        add(sketch.one_of("sched.step()", "sched.step()\nprint('lr', ['%.5f' % v for v in sched.get_last_lr()])",
                          "sched.step()\nprint('%.5f' % opt.param_groups[0]['lr'])"))  # fmt: skip
    elif kind == "fraction":
        sketch.setup.append("sched = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(opt, T_0=2)")
        sketch.after.append("sched.step(epoch + i / 3)")
    elif kind == "plateau":
        sketch.setup.append("sched = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, mode='min', factor=0.5, patience=0)")
        add(sketch.one_of("sched.step(loss.item())", "sched.step(loss)", "sched.step(float(loss))"))
    elif kind == "chained":
        sketch.setup.append(sketch.one_of(
            "first = torch.optim.lr_scheduler.LinearLR(opt, 0.2, total_iters=2)\n"
            "later = torch.optim.lr_scheduler.CosineAnnealingLR(opt, 6)\n"
            "sched = torch.optim.lr_scheduler.SequentialLR(opt, [first, later], milestones=[2])",
            "sched = torch.optim.lr_scheduler.ChainedScheduler([torch.optim.lr_scheduler.ConstantLR(opt, 0.5, 2), "
            "torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)])",
            "scheds = [torch.optim.lr_scheduler.StepLR(opt, 2, 0.5), torch.optim.lr_scheduler.ExponentialLR(opt, 0.95)]"))
        add("for s in scheds:\n    s.step()" if "scheds" in sketch.setup[-1] else "sched.step()")
    elif kind == "momentum":
        sketch.opt = "torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.5, weight_decay=1e-3)"
        sketch.step = "opt.step()"
        add(sketch.one_of("for g in opt.param_groups:\n    g['momentum'] = 0.9", "opt.param_groups[0]['weight_decay'] = 0.0",
                          "for g in opt.param_groups:\n    g['weight_decay'] *= 2"))  # fmt: skip
    elif kind == "lambdas":
        sketch.setup.append(sketch.one_of(
            "sched = torch.optim.lr_scheduler.LambdaLR(opt, lr_lambda=lambda n: min(1.0, (n + 1) / 4))",
            "def factor(n):\n    return 1.0 if n < 3 else 0.3\nsched = torch.optim.lr_scheduler.LambdaLR(opt, factor)",
            "sched = torch.optim.lr_scheduler.LambdaLR(opt, [lambda n: 0.9 ** n for _ in opt.param_groups])"))
        add("sched.step()")


def between(sketch: Sketch) -> None:
    sketch.needs("import math")
    sketch.drawn.pick("between", ("none", "some"), 0.2)
    if sketch.drawn["between"] == "none":
        return
    every = "for p in net.parameters():\n    "
    named = "for name, p in net.named_parameters():\n    "
    sketch.between.append(sketch.one_of(
        "nn.utils.clip_grad_norm_(net.parameters(), 0.3, norm_type=1)",
        "nn.utils.clip_grad_norm_([p for p in net.parameters() if p.requires_grad], max_norm=0.4)",
        "for g in opt.param_groups:\n    nn.utils.clip_grad_norm_(g['params'], 0.2)",
        "total = nn.utils.clip_grad_norm_(net.parameters(), float('inf'))\nprint('norm %.4f' % total.item())",
        "nn.utils.clip_grad_norm_(net.head.parameters(), 0.1)", "nn.utils.clip_grad_value_(net.head.parameters(), 0.05)",
        f"{every}nn.utils.clip_grad_norm_(p, 0.1)", f"{every}p.grad.data.clamp_(-0.1, 0.1)",
        f"{every}p.grad -= p.grad.mean()", f"{every}if p.grad.dim() > 1:\n        p.grad.add_(-p.grad.mean(dim=1, keepdim=True))",
        f"{every}p.grad = p.grad.sign() * 0.1", f"{every}p.grad += 0.01 * torch.randn_like(p.grad)",
        f"{named}if 'bias' in name:\n        p.grad.zero_()", f"{named}if 'head' in name:\n        p.grad.mul_(2.0)",
        f"{named}if name.endswith('weight'):\n        p.grad.add_(p.data, alpha=0.01)",
        "norms = {n: p.grad.norm().item() for n, p in net.named_parameters() if p.grad is not None}\n"
        "print(' '.join('%.4f' % v for v in norms.values()))",
        "total = 0.0\n" + every + "total += p.grad.data.norm(2).item() ** 2\nprint('norm %.4f' % total ** 0.5)",
        "total = math.sqrt(sum(p.grad.pow(2).sum().item() for p in net.parameters()))\nif total > 0.3:\n"
        "    for p in net.parameters():\n        p.grad.mul_(0.3 / total)",
        "flat = torch.cat([p.grad.view(-1) for p in net.parameters()])\nprint('%.4f' % flat.abs().max().item())",
        f"{every}unit = p.detach().norm().clamp(min=1e-3)\n    g = p.grad.norm()\n    if g > 0.1 * unit:\n"
        "        p.grad.mul_(0.1 * unit / g)",
        "if any(torch.isnan(p.grad).any() for p in net.parameters()):\n    print('nan')\n    continue",
        "if not all(torch.isfinite(p.grad).all() for p in net.parameters() if p.grad is not None):\n    opt.zero_grad()\n    continue",
        "biggest = max(p.grad.abs().max().item() for p in net.parameters())\nprint('%.4f' % biggest)",
        "net.head.weight.grad[0].zero_()", "net.head.weight.grad = net.head.weight.grad * torch.tensor([[1.0], [0.5], [0.0]])",
        "saved = [p.grad.clone() for p in net.parameters()]\nfor p, g in zip(net.parameters(), saved):\n    p.grad = 0.5 * g",
        "grads = [p.grad for p in net.parameters() if p.grad is not None]\nprint(len(grads), '%.4f' % grads[-1].sum())",
        "with torch.no_grad():\n    for p in net.parameters():\n        p.grad.div_(p.grad.norm() + 1e-6)",
        "buf = [0.9 * b + p.grad for b, p in zip(buf, net.parameters())] if i else [p.grad.clone() for p in net.parameters()]\n"
        "for p, b in zip(net.parameters(), buf):\n    p.grad.copy_(b)",
        "slow = {n: p.grad.detach().clone() for n, p in net.named_parameters()}\nfor n, p in net.named_parameters():\n"
        "    p.grad = p.grad + 0.5 * slow[n]",
    ))  # fmt: skip
