"""Programs whose control flow is drawn: what stands around forward, loss, clear, backward, step and between them.

The stages of one batch are written down one after the other. Before any of them the rest may go under a condition, into
a `try`, a loop or a `with` block, or be left early; the other branch skips the batch or draws the same stages again. On
top of that each program has one extra: a schedule, a scaler, gradients changed by hand, a network frozen in turn, ...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from textwrap import indent

from tests.combinations.drawing import Drawn, Program, block, under

HEAD = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
"""
CONDITIONS = ("i % 2 == 0", "i % 2", "i == 2", "i < 3", "(i + 1) % 2 == 0", "flag", "not flag", "i > 1 and flag",
              "x.shape[0] > 3", "mode == 'a'", "loss_scale > 1", "step_of[0] > 2")  # fmt: skip
FORWARDS = ("out = net(x)", "h = torch.sigmoid(net[0](x))\nout = net[2](h)", "out = net(x)\nout = out * scale",
            "noise = 0.1 * x\nout = net(x + noise)", "out = net(x)\nout = out + net(x * 0.5)")  # fmt: skip
LOSSES = ("crit(out, y)", "(out - y).pow(2).mean()", "F.smooth_l1_loss(out, y)",
          "F.huber_loss(out, y, delta=0.5) + 0.01 * out.pow(2).sum()",
          "crit(out, y) + reg * sum(p.pow(2).sum() for p in net.parameters())")  # fmt: skip
GROWN = ("loss = loss + 0.1 * out.pow(2).mean()", "loss = loss / 2", "loss += 0.05 * (out * out).mean()",
         "loss = loss_scale * loss", "penalty = out.exp().mean()\nloss = loss + 0.1 * penalty")  # fmt: skip
CLEARS = ("opt.zero_grad()", "net.zero_grad()", "opt.zero_grad(set_to_none=True)", "opt.zero_grad(set_to_none=False)",
          "for p in net.parameters():\n    p.grad = None")  # fmt: skip
BACKWARDS = ("loss.backward()", "loss.backward()", "(0.5 * loss).backward()", "torch.autograd.backward(loss)")
BETWEEN = (
    "", "", "", "",
    "norm = nn.utils.clip_grad_norm_(net.parameters(), 0.5)\nprint('norm %.4f' % norm)",
    "nn.utils.clip_grad_norm_(net.parameters(), 0.3)",
    "nn.utils.clip_grad_value_(net.parameters(), 0.1)",
    "print('%.4f' % sum(p.grad.norm().item() for p in net.parameters()))",
    "for p in net.parameters():\n    p.grad.mul_(0.9)",
)  # fmt: skip
SKIPPED = ("print('skip %.4f' % x.sum().item())", "hist.append(0.5)", "step_of[0] += 1")
USES = ("", "print('%d %.4f' % (i, loss.item()))", "hist.append(loss.item())", "seen.append(loss.detach())",
        "print('%.4f' % out.mean().item())", "hist.append((out > 0).sum().item())")  # fmt: skip
OPTIMIZERS = ("torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)", "torch.optim.Adam(net.parameters(), lr=0.02)",
              "torch.optim.SGD(net.parameters(), lr=0.1)", "torch.optim.AdamW(net.parameters(), lr=0.02)",
              "torch.optim.RMSprop(net.parameters(), lr=0.01)", "torch.optim.Adagrad(net.parameters(), lr=0.05)",
              "torch.optim.SGD([{'params': net[0].parameters()}, {'params': net[2].parameters(), 'lr': 0.03}], lr=0.1)",
              )  # fmt: skip
NETWORKS = ("nn.Sequential(nn.Linear(4, 6), nn.Softplus(), nn.Linear(6, 1))",
            "nn.Sequential(nn.Linear(4, 6), nn.Sigmoid(), nn.Linear(6, 1))")  # fmt: skip
STAGES = ("input", "forward", "loss", "clear", "backward", "between", "step", "use")


class Batch:
    """The statements of one batch, as they are drawn."""

    def __init__(self, drawn: Drawn, stages: dict[str, Callable[[], str]]) -> None:
        self.drawn, self.stages, self.around = drawn, stages, []
        self.left = drawn.random.choice((1, 1, 2, 2, 3))  # how much control flow may come

    def one_of(self, choices: tuple[str, ...]) -> str:
        return self.drawn.random.choice(choices)

    def chance(self, of: float) -> bool:
        return self.drawn.random.random() < of

    def rest(self, names: tuple[str, ...], loops: int = 0) -> str:
        """What is left of a batch, from the first of these stages on."""
        if not names:
            return ""
        if self.left and names[0] not in ("use", "input") and self.chance(0.3):
            self.left -= 1
            return self.flow(names, loops)
        return block(self.stages[names[0]](), self.rest(names[1:], loops))

    def flow(self, names: tuple[str, ...], loops: int) -> str:
        """The rest under control flow. What uses the loss comes after it, where the branches meet again."""
        inner, after = names, ()
        if names[-1] == "use" and names[1:] and not names[0].endswith(("loss", "forward")) and self.chance(0.6):
            inner, after = names[:-1], ("use",)
        kinds = ["if", "if else", "leave", "try", "with", "log"]
        kinds += ["exclusive", "elif"] if any(n.endswith("backward") for n in names) else []
        kinds += ["repeat"] if names[0].endswith("forward") and not loops else []
        kinds += ["grow"] if names[0] in ("clear", "backward") else []
        kind = self.one_of(tuple(kinds))
        self.around.append(f"{kind} before {names[0]}")
        test, skip = f"if {self.one_of(CONDITIONS)}:", self.one_of(SKIPPED)
        if kind == "leave":
            return block(under(test, skip, "continue"), self.rest(names, loops))
        if kind == "log":
            return block(under(test, skip), self.rest(names, loops))
        if kind == "grow":
            return block(under(test, self.one_of(GROWN)), self.rest(names, loops))
        body = self.rest(inner, loops + (kind == "repeat"))
        tail = self.rest(after, loops)
        if kind == "exclusive":
            return block(under(test, body), under("else:", self.rest(inner, loops)), tail)
        if kind == "elif":
            other = under(f"elif {self.one_of(CONDITIONS)}:", self.rest(inner, loops))
            return block(under(test, skip), other, under("else:", body), tail)
        if kind == "if else":
            order = (body, skip) if self.chance(0.5) else (skip, body)
            return block(under(test, order[0]), under("else:", order[1]), tail)
        head, end = {
            "if": (test, ""),
            "try": ("try:", self.one_of((under("finally:", skip), under("except RuntimeError:", "print('no')")))),
            "with": (self.one_of(("with torch.enable_grad():", "with torch.autograd.set_detect_anomaly(True):")), ""),
            "repeat": (self.one_of(("for k in range(2):", "for k, scale in enumerate((0.7, 1.2)):")), ""),
        }[kind]
        return block(under(head, body), end, tail)


# --- extras: they change stages, and add to what is set up before the loop and done after an epoch


class Plan:
    """The stages of a program, and what stands around its loop."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        choose = drawn.random.choice
        self.network, self.optimizer = choose(NETWORKS), choose(OPTIMIZERS)
        self.stages: tuple[str, ...] = STAGES
        self.made: list[str] = []
        self.setup: list[str] = []
        self.epoch_start: list[str] = []
        self.epoch_end: list[str] = []
        self.end: list[str] = []
        self.clear = choose(CLEARS) if drawn.random.random() < 0.4 else CLEARS[0]
        self.where = drawn.pick("clear", ("backward", "start", "end", "forward"), 0.3)
        self.text: dict[str, Callable[[], str]] = {
            "input": lambda: self.clear if self.where == "start" else "",
            "forward": lambda: choose(FORWARDS),
            "loss": lambda: block(self.clear if self.where == "forward" else "", f"loss = {choose(LOSSES)}"),
            "clear": lambda: self.clear if self.where == "backward" else "",
            "backward": lambda: choose(BACKWARDS),
            "between": lambda: choose(BETWEEN),
            "step": lambda: block(self.step(), self.clear if self.where == "end" else ""),
            "use": lambda: choose(USES),
        }

    def step(self) -> str:
        return "opt.step()"

    def then(self, stage: str, *more: str) -> None:
        """More statements after those of a stage, one of them each time."""
        before, choose = self.text[stage], self.drawn.random.choice
        self.text[stage] = lambda: block(before(), choose(more))

    def before(self, stage: str, *more: str) -> None:
        """More statements before those of a stage."""
        after, choose = self.text[stage], self.drawn.random.choice
        self.text[stage] = lambda: block(choose(more), after())

    def instead(self, stage: str, *texts: str) -> None:
        """Other statements for a stage."""
        choose = self.drawn.random.choice
        self.text[stage] = lambda: choose(texts)


def schedule(plan: Plan) -> None:
    choose = plan.drawn.random.choice
    made = choose(("StepLR(opt, step_size=2, gamma=0.5)", "CosineAnnealingLR(opt, T_max=6)", "ExponentialLR(opt, 0.9)",
                   "LambdaLR(opt, lambda n: 1.0 / (n + 1))", "OneCycleLR(opt, 0.05, 30, cycle_momentum=False)",
                   "ReduceLROnPlateau(opt, patience=0, factor=0.5)"))  # fmt: skip
    plan.setup.append(f"sched = torch.optim.lr_scheduler.{made}")
    step = "sched.step(loss.item())" if "Plateau" in made else "sched.step()"
    where = plan.drawn.pick("schedule", ("batch", "epoch", "before", "logged"))
    if where == "epoch" and "Plateau" not in made:
        plan.epoch_end.append(step)
    elif where == "before" and "Plateau" not in made:
        plan.before("step", step)
    else:
        plan.then("step", step)
    if where == "logged":
        plan.then("use", "print('lr %.5f' % opt.param_groups[0]['lr'])")


def scaler(plan: Plan) -> None:
    plan.setup.append("scaler = torch.amp.GradScaler('cpu', init_scale=64.0, growth_interval=2)")
    plan.instead("backward", "scaler.scale(loss).backward()")
    plan.instead("between", "", "scaler.unscale_(opt)",
                 "scaler.unscale_(opt)\nnn.utils.clip_grad_norm_(net.parameters(), 0.5)")  # fmt: skip
    plan.step = lambda: "scaler.step(opt)\nscaler.update()"  # type: ignore[method-assign]


def closure(plan: Plan) -> None:
    inner = block("opt.zero_grad()", "out = net(x)", "loss = crit(out, y)", "loss.backward()", "return loss")
    for stage in ("forward", "clear", "backward", "between"):
        plan.instead(stage, "")
    plan.where = "start"
    plan.instead("input", "")
    plan.instead("loss", under("def closure():", inner))
    plan.step = lambda: "loss = opt.step(closure)"  # type: ignore[method-assign]
    plan.instead("use", *(use for use in USES if "out" not in use))


def accumulate(plan: Plan) -> None:
    choose = plan.drawn.random.choice
    plan.where = "end"
    test = choose(("(i + 1) % 2 == 0", "i % 2 == 1", "(i + 1) % 2 == 0 or i == len(data) - 1", "(i + 1) % 3 == 0"))
    between = plan.text["between"]
    plan.instead("between", "")
    plan.step = lambda: under(f"if {test}:", between(), "opt.step()", plan.clear)  # type: ignore[method-assign]
    plan.text["step"] = lambda: plan.step()
    plan.then("loss", "loss = loss / 2", "")


def epoch_clear(plan: Plan) -> None:
    plan.where = "nowhere"
    plan.epoch_start.append(plan.clear)
    if plan.drawn.pick("epoch", ("step each", "step once")) == "step once":
        plan.step = lambda: ""  # type: ignore[method-assign]
        plan.epoch_end.append("opt.step()")


def gradients(plan: Plan) -> None:
    plan.instead("between", "for p in net.parameters():\n    p.grad = p.grad.clamp(-0.1, 0.1)",
                 "for p in net.parameters():\n    p.grad = p.grad * 0.5 + 0.01 * p.detach()",
                 "for p in net.parameters():\n    p.grad.add_(p.data, alpha=0.01)",
                 "net[0].weight.grad[0] = 0.0", "net[2].weight.grad.zero_()",
                 "grads = [p.grad.clone() for p in net.parameters()]\n"
                 "print('%.4f' % sum(g.sum().item() for g in grads))",
                 "with torch.no_grad():\n    for p in net.parameters():\n        p.grad /= 2.0",
                 "g = net[0].weight.grad.abs().mean().item()\nprint('g %.4f' % g)")  # fmt: skip


def frozen(plan: Plan) -> None:
    freeze, thaw = (f"for p in net[0].parameters():\n    p.requires_grad = {flag}" for flag in (False, True))
    how = plan.drawn.pick("freeze", ("in turn", "at first", "one epoch"))
    if how == "in turn":
        plan.before("forward", f"if i % 2 == 0:\n{indent(freeze, '    ')}\nelse:\n{indent(thaw, '    ')}")
    elif how == "at first":
        plan.setup.append(freeze)
    else:
        plan.epoch_start.append("for p in net[0].parameters():\n    p.requires_grad_(epoch == 1)")
    plan.instead("between", "")


def cut(plan: Plan) -> None:
    plan.instead("forward", "out = net(x)\nwith torch.no_grad():\n    y = y + 0.1 * net(x * 0.9)",
                 "h = net[0](x)\nif i % 2:\n    h = h.detach()\nout = net[2](torch.sigmoid(h))",
                 "with torch.no_grad():\n    h = net[0](x)\nout = net[2](torch.sigmoid(h))",
                 "with torch.set_grad_enabled(i % 3 != 0):\n    h = net[0](x)\nout = net[2](torch.sigmoid(h))",
                 "out = net(x)\ny = out.detach() * 0.1 + y")  # fmt: skip
    plan.instead("between", "")


def collected(plan: Plan) -> None:
    plan.instead("loss", "losses = [crit(out, y), 0.1 * out.pow(2).mean()]\nloss = sum(losses)",
                 "parts = {'fit': crit(out, y)}\nparts['size'] = 0.1 * out.pow(2).mean()\nloss = sum(parts.values())",
                 "losses = []\nfor w in (0.5, 1.0):\n    losses.append(w * crit(out * w, y))\n"
                 "loss = torch.stack(losses).mean()", "losses = {}\nlosses['fit'] = crit(out, y)\n"
                 "losses['total'] = losses['fit'] + 0.1 * out.pow(2).mean()\nloss = losses['total']")  # fmt: skip


def in_place(plan: Plan) -> None:
    plan.instead("forward", "out = net(x)\nout += 0.1", "h = net[0](x)\nh.mul_(0.5)\nout = net[2](torch.sigmoid(h))",
                 "out = net(x)\nout[0] = 0.3", "out = net(x).clone()\nout[:, 0].mul_(0.7)",
                 "buf = torch.zeros(6, 1)\nbuf[:3] = net(x[:3])\nbuf[3:] = net(x[3:])\nout = buf",
                 "out = torch.zeros(6, 1)\nfor k in range(2):\n    out += net(x * (k + 1))",
                 "out = net(x)\nout.clamp_(-0.4, 0.4).add_(0.01)")  # fmt: skip


def second(plan: Plan) -> None:
    test = plan.drawn.random.choice(CONDITIONS)
    plan.then("loss", "aux = 0.2 * out.pow(2).mean()", "aux = 0.1 * (out + loss).pow(2).mean()")
    plan.instead("backward", "loss.backward(retain_graph=True)\naux.backward()",
                 f"loss.backward(retain_graph=True)\nif {test}:\n    aux.backward()",
                 "torch.autograd.backward([loss, aux])",
                 "aux.backward(retain_graph=True)\nprint('mid')\nloss.backward()")  # fmt: skip


def higher(plan: Plan) -> None:
    plan.instead("forward", "x = x.clone().requires_grad_()\nout = net(x)")
    plan.then("loss", "g, = torch.autograd.grad(out.sum(), x, create_graph=True)\nloss = loss + 0.1 * g.pow(2).mean()",
              "g = torch.autograd.grad(loss, net[2].weight, create_graph=True)[0]\nloss = loss + 0.1 * g.norm()",
              "g = torch.autograd.grad(loss, x, retain_graph=True)[0]\nprint('g %.4f' % g.abs().sum())")  # fmt: skip


def modes(plan: Plan) -> None:
    plan.network = "nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.Linear(6, 1))"
    plan.optimizer = plan.optimizer.replace("net[0].parameters()", "net[:2].parameters()")
    plan.instead("forward", "out = net(x)", "h = torch.relu(net[1](net[0](x)))\nout = net[2](h)")
    plan.then("use", "net.eval()\nwith torch.no_grad():\n    print('%.4f' % net(x).mean().item())\nnet.train()",
              "net.train(i % 2 == 0)", "")  # fmt: skip
    if plan.drawn.random.random() < 0.5:
        plan.epoch_end.append(under("with torch.no_grad():", "net.eval()", "print('%.4f' % crit(net(x), y).item())"))
        plan.epoch_start.append("net.train()")


def leaf(plan: Plan) -> None:
    plan.made.append("shift = torch.zeros(1, requires_grad=True)")
    how = plan.drawn.pick("leaf", ("optimizer", "by hand", "own"))
    plan.then("forward", "out = out + shift")
    if how == "optimizer":
        plan.optimizer = "torch.optim.SGD(list(net.parameters()) + [shift], lr=0.1)"
        plan.clear = "opt.zero_grad()"
    elif how == "by hand":
        plan.then("step", "with torch.no_grad():\n    shift -= 0.1 * shift.grad\nshift.grad = None")
    else:
        plan.setup.append("opt_s = torch.optim.Adam([shift], lr=0.05)")
        plan.then("step", "opt_s.step()\nopt_s.zero_grad()")
    plan.end.append("print('shift %.4f' % shift.item())")


def hooks(plan: Plan) -> None:
    plan.instead("forward", "h = net[0](x)\nh.register_hook(lambda g: g * 0.5)\nout = net[2](torch.sigmoid(h))",
                 "out = net(x)\nout.register_hook(lambda g: g.clamp(-0.02, 0.02))",
                 "out = net(x)\nif i % 2:\n    out.register_hook(lambda g: 2 * g)",
                 "h = net[0](x)\nh.retain_grad()\nout = net[2](torch.sigmoid(h))")  # fmt: skip


def many(plan: Plan) -> None:
    """Optimizers in a list."""
    made = "torch.optim.SGD(net[0].parameters(), lr=0.1)", "torch.optim.Adam(net[2].parameters(), lr=0.01)"
    plan.setup.append(f"opts = [{', '.join(made)}]")
    plan.clear = plan.drawn.random.choice(("for o in opts:\n    o.zero_grad()", "net.zero_grad()"))
    plan.step = lambda: "for o in opts:\n    o.step()"  # type: ignore[method-assign]


def adversaries(plan: Plan) -> None:
    """A generator and a critic, who take their steps one after the other."""
    plan.made += ["gen = nn.Sequential(nn.Linear(3, 5), nn.Softplus(), nn.Linear(5, 4))",
                  "opt_g = torch.optim.Adam(gen.parameters(), lr=0.02)"]  # fmt: skip
    plan.stages = ("fake forward", "critic loss", "clear", "critic backward", "between", "step",
                   "fake loss", "fake clear", "fake backward", "fake step", "use")  # fmt: skip
    again = plan.drawn.pick("fake", ("shared", "drawn again", "made again"))
    plan.where = "backward"
    plan.clear = plan.drawn.random.choice(("opt.zero_grad()", "net.zero_grad()", "opt.zero_grad(set_to_none=True)"))
    more = {"shared": "", "drawn again": "fake = gen(torch.randn(6, 3))\n", "made again": "fake = gen(z)\n"}[again]
    seen = "fake.detach()" if again == "shared" else plan.drawn.random.choice(("fake.detach()", "fake"))
    plan.text |= {
        "fake forward": lambda: "z = torch.randn(6, 3)\nfake = gen(z)",
        "fake clear": lambda: "opt_g.zero_grad()",
        "fake backward": lambda: "loss_g.backward()",
        "fake step": lambda: "opt_g.step()",
    }
    plan.instead("critic loss", f"loss = F.softplus(-net(x)).mean() + F.softplus(net({seen})).mean()",
                 f"loss = net({seen}).mean() - net(x).mean()")  # fmt: skip
    plan.instead("critic backward", "loss.backward()",
                 "loss.backward()\nextra = 0.5 + 0.5 * net(x).pow(2).mean()\nextra.backward()")  # fmt: skip
    plan.instead("fake loss", f"{more}loss_g = F.softplus(-net(fake)).mean()",
                 f"{more}loss_g = -net(fake).mean() + 0.1 * (fake - x).pow(2).mean()")  # fmt: skip
    plan.instead("use", "print('%.4f %.4f' % (loss.item(), loss_g.item()))", "hist.append(loss_g.item())",
                 "print('%.4f' % fake.mean().item())", "hist.append(loss.item())")  # fmt: skip
    if plan.drawn.pick("frozen critic", ("no", "yes"), 0.7) == "yes":
        plan.before("fake loss", "for p in net.parameters():\n    p.requires_grad = False")
        plan.then("fake step", "for p in net.parameters():\n    p.requires_grad = True")


def two_heads(plan: Plan) -> None:
    """A second network that is trained on what the first one makes, by one optimizer or by its own."""
    plan.made.append("head = nn.Linear(1, 2)")
    if plan.drawn.pick("head", ("own", "same")) == "own":
        plan.made.append("opt_h = torch.optim.SGD(head.parameters(), lr=0.1, momentum=0.9)")
        plan.then("step", "opt_h.step()\nopt_h.zero_grad()", "opt_h.step()\nhead.zero_grad()")
    else:
        plan.optimizer = "torch.optim.Adam([*net.parameters(), *head.parameters()], lr=0.02)"
        plan.clear = "opt.zero_grad()"
    plan.then("loss", "loss = loss + 0.3 * head(out).pow(2).mean()",
              "loss_h = head(out).exp().mean()\nloss = loss + 0.1 * loss_h",
              "target = head(out.detach()).mean()\nloss = loss + target.pow(2)")  # fmt: skip
    plan.instead("between", "", "nn.utils.clip_grad_norm_(net.parameters(), 0.3)",
                 "nn.utils.clip_grad_norm_(list(net.parameters()) + list(head.parameters()), 0.3)")  # fmt: skip


def plain(plan: Plan) -> None:
    """Nothing more."""


EXTRAS = {f.__name__: f for f in (plain, schedule, scaler, closure, accumulate, epoch_clear, gradients, frozen, cut,
                                  collected, in_place, second, higher, modes, leaf, hooks, many, adversaries,
                                  two_heads)}  # fmt: skip
PLACES = ("script", "function", "method", "step function", "step method", "nested", "handed", "dict")


def program(seed: int) -> Program:
    """The program of a seed; the same one every time."""
    drawn = Drawn(seed)
    extra = drawn.pick("program", tuple(EXTRAS))
    place = drawn.pick("place", PLACES)
    plan = Plan(drawn)
    EXTRAS[extra](plan)
    batch = Batch(drawn, plan.text)
    body = batch.rest(plan.stages)
    drawn["flow"] = ", ".join(batch.around) or "none"
    choose = drawn.random.choice
    made = [*plan.made, f"net = {plan.network}", f"crit = {choose(('nn.MSELoss()', 'nn.SmoothL1Loss()'))}",
            f"opt = {plan.optimizer}"]  # fmt: skip
    epochs = bool(plan.epoch_start or plan.epoch_end or "epoch" in body) or drawn.random.random() < 0.3
    text = block(HEAD, f"torch.manual_seed({seed})", placed(place, made, plan, body, epochs, choose))
    return Program(seed, drawn, text + "\n")


DATA = "data = [(torch.randn(6, 4), torch.randn(6, 1)) for _ in range(5)]"
SETTINGS = "scale, reg, loss_scale, flag, mode = 0.7, 0.01, 1.5, {flag}, {mode!r}"
NAMES = ("net", "gen", "head", "opt_g", "opt_h", "crit", "opt", "sched", "scaler", "opts", "shift", "opt_s")


def placed(place: str, made: list[str], plan: Plan, body: str, epochs: bool, choose: Callable) -> str:
    """The program with its loop at the top level, in a function or a method, or the batch in one of its own."""
    settings = SETTINGS.format(flag=choose((True, False)), mode=choose(("a", "b")))
    state = "hist, seen, step_of = [], [], [0]"
    end = ["print(['%.4f' % h for h in hist], step_of)", "print(['%.4f' % s.item() for s in seen])", *plan.end]
    if place == "dict":
        held = {name: f"parts['{name}']" for name in NAMES}
        made, body, state = [_held(m, held) for m in made], _held(body, held), f"parts = {{}}\n{state}"
        plan.setup, plan.epoch_start, plan.epoch_end, plan.end = (
            [_held(line, held) for line in lines] for lines in (plan.setup, plan.epoch_start, plan.epoch_end, plan.end)
        )
        end = [_held(line, held) for line in end]
        run = under("def run(data):", settings, state, *made, *plan.setup, around(plan, body, epochs), *end)
        return block(DATA, "", "", run, "", "", "run(data)")
    if place == "handed":
        names = [m.partition(" = ")[0] for m in (*made, *plan.setup) if re.match(r"\w+ = ", m)]
        args = ", ".join(["i", "x", "y", *names, *(["epoch"] if "epoch" in body else [])])
        step = under(f"def train_step({args}):", body.replace("continue", "return"))
        return block(DATA, settings, state, "", "", step, "", "",
                     under("def main():", *made, *plan.setup, around(plan, f"train_step({args})", epochs), *end),
                     "", "", "main()")  # fmt: skip
    if place.startswith("step"):
        return _apart(place, made, plan, body, epochs, settings, state, end)
    loop = around(plan, body, epochs)
    whole = block(state, *plan.setup, loop, *end)
    if place == "script":
        return block(*made, DATA, settings, whole)
    if place == "function":
        args = "net, crit, opt, data, scale, reg, loss_scale, flag, mode"
        calls = [f"train(net, crit, opt, data, 0.7, 0.01, 1.5, {flag}, 'a')" for flag in (True, False)]
        return block(*made, DATA, "", "", under(f"def train({args}):", whole), "", "", *calls)
    if place == "nested":
        return block("", under("def main():", *made, DATA, settings, whole), "\n\nmain()")
    init = under("def __init__(self):", *(of_self(line) for line in made))
    fit = under("def fit(self, data, scale=0.7, reg=0.01, loss_scale=1.5, flag=True, mode='a'):", of_self(whole))
    return block("", under("class Trainer:", init, "", fit), "\n", DATA, "Trainer().fit(data)")


def _held(text: str, held: dict[str, str]) -> str:
    """With what is made once in a dictionary."""
    return re.sub(r"\b(?<![.'])(\w+)\b(?! for)(?!')", lambda found: held.get(found[0], found[0]), text)


def around(plan: Plan, body: str, epochs: bool) -> str:
    """The loop over the batches, in one over epochs."""
    loop = under("for i, (x, y) in enumerate(data):", body)
    return under("for epoch in range(2):", *plan.epoch_start, loop, *plan.epoch_end) if epochs else loop


def of_self(text: str) -> str:
    """With what is made once as attributes."""
    return re.sub(rf"\b(?<!\.)({'|'.join(NAMES)})\b(?! for)", r"self.\1", text)


def _apart(place: str, made: list[str], plan: Plan, body: str, epochs: bool, settings: str, state: str,
           end: list[str]) -> str:  # fmt: skip
    """With the batch in a function or method of its own."""
    body = body.replace("continue", "return")
    if place == "step function":
        step = under("def train_step(i, x, y):", body)
        return block(*made, DATA, settings, state, *plan.setup, "", "", step, "", "",
                     around(plan, "train_step(i, x, y)", epochs), *end)  # fmt: skip
    step = under("def train_step(self, i, x, y):", of_self(body))
    init = under("def __init__(self):", *(of_self(line) for line in (*made, *plan.setup)))
    fit = under("def fit(self, data):", of_self(around(plan, "self.train_step(i, x, y)", epochs)))
    return block("", DATA, settings, state, "", "", under("class Trainer:", init, "", step, "", fit), "", "",
                 "trainer = Trainer()", "trainer.fit(data)",
                 *(re.sub(r"\bshift\b(?!')(?! %)", "trainer.shift", line) for line in end))  # fmt: skip
