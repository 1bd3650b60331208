"""What happens after a step, at the ends of epochs and to the course of the loop."""

# ruff: noqa: E501 (statements of programs stand in one line each)
from __future__ import annotations

from tests.combinations.habits.sketch import Sketch, block, under


def after(sketch: Sketch) -> None:
    """Averages, targets, bounds, metrics."""
    sketch.needs("import copy", "import numpy as np")
    kind = sketch.drawn.pick("after", ("none", "ema class", "ema copy", "swa", "best", "bound", "metrics", "soft", "noise",
                                       "look ahead", "probe"), 0.25)  # fmt: skip
    out = sketch.predicted("x", "ema")
    if kind == "ema class":
        sketch.define("""
class EMA:
    def __init__(self, model, decay=0.8):
        self.model, self.decay = model, decay
        self.shadow, self.backup = {}, {}
        for name, p in model.named_parameters():
            if p.requires_grad:
                self.shadow[name] = p.data.clone()

    def update(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.shadow[name] = (1.0 - self.decay) * p.data + self.decay * self.shadow[name]

    def apply(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                self.backup[name] = p.data
                p.data = self.shadow[name]

    def restore(self):
        for name, p in self.model.named_parameters():
            if p.requires_grad:
                p.data = self.backup[name]
        self.backup = {}
""")
        sketch.setup.append("ema = EMA(net)")
        sketch.after.append("ema.update()")
        sketch.epoch_end.append("ema.apply()\nprint('ema', '%.4f' % sum(p.abs().sum().item() for p in net.parameters()))\nema.restore()")
    elif kind == "ema copy":
        sketch.setup.append("ema = copy.deepcopy(net)\nema.eval()")
        sketch.after.append(sketch.one_of(
            "with torch.no_grad():\n    for e, p in zip(ema.parameters(), net.parameters()):\n        e.lerp_(p, 0.2)",
            "d = min(0.9, (1 + i) / (10 + i))\nfor e, p in zip(ema.state_dict().values(), net.state_dict().values()):\n"
            "    if e.dtype.is_floating_point:\n        e.copy_(d * e + (1 - d) * p)",
            "msd = net.state_dict()\nwith torch.no_grad():\n    for k, v in ema.state_dict().items():\n"
            "        if v.dtype.is_floating_point:\n            v *= 0.9\n            v += 0.1 * msd[k].detach()"))
        sketch.end.append(f"x = data[0][0]\nwith torch.no_grad():\n    print('ema %.4f' % {out}.mean().item())")
    elif kind == "swa":
        sketch.needs("from torch.optim.swa_utils import AveragedModel")
        sketch.setup.append("swa = AveragedModel(net)")
        sketch.after.append("if i % 2 == 0:\n    swa.update_parameters(net)")
        sketch.end.append("print('swa %.4f' % sum(p.abs().sum().item() for p in swa.module.parameters()))")
    elif kind == "best":
        sketch.setup.append("best, best_state = float('inf'), None")
        sketch.after.append(sketch.one_of(
            "if loss.item() < best:\n    best = loss.item()\n    best_state = copy.deepcopy(net.state_dict())",
            "if loss.item() < best:\n    best, best_state = loss.item(), {k: v.clone() for k, v in net.state_dict().items()}",
            "if loss < best:\n    best = loss.item()\n    best_state = copy.deepcopy(net).state_dict()"))
        (sketch.end if sketch.chance(0.5) else sketch.epoch_end).append("net.load_state_dict(best_state)\nprint('best %.4f' % best)")
    elif kind == "bound":
        sketch.after.append(sketch.one_of(
            "for p in net.parameters():\n    p.data.clamp_(-0.4, 0.4)",
            "with torch.no_grad():\n    net.head.weight.div_(net.head.weight.norm(dim=1, keepdim=True))",
            "with torch.no_grad():\n    norm = net.head.weight.norm(2, dim=0, keepdim=True)\n"
            "    net.head.weight *= torch.clamp(norm, max=0.5) / (1e-6 + norm)",
            "net.head.bias.data.zero_()", "net.head.weight.data = F.normalize(net.head.weight.data, dim=1)",
            "w = net.head.weight.data\nw -= w.mean()\nnet.head.weight.data = w",
            "for p in net.parameters():\n    p.data.mul_(0.99)", "nn.init.constant_(net.head.bias, 0.1)",
            "mask = (net.head.weight.abs() > 0.05).float()\nnet.head.weight.data *= mask",
            "with torch.no_grad():\n    net.head.weight[0] = 0.1", "net.head.weight.data[:, 0].fill_(0.2)"))
    elif kind == "metrics":
        sketch.use.append(sketch.one_of(
            "right = (out.argmax(1) == y).sum().item()\nhist.append(right / len(y))",
            "pred = out.detach().cpu().numpy().argmax(axis=1)\nhist.append(float((pred == y.numpy()).mean()))",
            "_, pred = torch.max(out.data, 1)\nhist.append(pred.eq(y.data).sum().item() * 1.0)",
            "table = torch.zeros(3, 3)\nfor a, b in zip(y.tolist(), out.argmax(dim=1).tolist()):\n    table[a, b] += 1\n"
            "print(table.tolist())",
            "probs = torch.softmax(out, dim=-1).detach()\nhist.append(probs.max(dim=1)[0].mean().item())",
            "top = out.topk(2, dim=1).indices\nhist.append((top == y.view(-1, 1)).any(1).float().mean().item())",
            "hist += [round(v, 4) for v in out.std(dim=1).tolist()]", "hist.append(np.mean([loss.item(), loss.item() ** 2]))"))
    elif kind == "soft":
        sketch.define("def soft_update(target, source, tau=0.2):\n    for t, s in zip(target.parameters(), source.parameters()):\n"
                      "        t.data.copy_(tau * s.data + (1.0 - tau) * t.data)")  # fmt: skip
        sketch.setup.append("target = Net()\ntarget.load_state_dict(net.state_dict())")
        sketch.after.append(sketch.one_of("soft_update(target, net)", "if i % 2:\n    soft_update(target, net, tau=1.0)"))
        sketch.end.append("print('target %.4f' % sum(p.sum().item() for p in target.parameters()))")
    elif kind == "noise":
        sketch.after.append(sketch.one_of(
            "with torch.no_grad():\n    for p in net.parameters():\n        p.add_(torch.randn_like(p), alpha=0.01)",
            "for p in net.parameters():\n    p.data += 0.01 * torch.randn(p.shape)",
            "with torch.no_grad():\n    for p in net.parameters():\n        p.copy_(p + 0.01 * torch.randn(p.size()))"))
    elif kind == "look ahead":
        sketch.setup.append("slow = [p.detach().clone() for p in net.parameters()]")
        sketch.after.append("if i % 2 == 1:\n    with torch.no_grad():\n        for s, p in zip(slow, net.parameters()):\n"
                            "            s.add_(p - s, alpha=0.5)\n            p.copy_(s)")  # fmt: skip
    elif kind == "probe":
        sketch.after.append(
            f"probe = x.detach().clone().requires_grad_()\nF.cross_entropy({sketch.predicted('probe')}, y).backward()\n"
            "print('%.4f' % probe.grad.abs().sum().item())\nopt.zero_grad()")


def phases(sketch: Sketch) -> None:
    """What changes from epoch to epoch."""
    sketch.needs("import copy", "import io")
    kind = sketch.drawn.pick("phase", ("none", "freeze", "rebuilt", "state", "checkpoint", "head", "evaluate", "modes", "added",
                                       "thaw", "double", "swapped"), 0.25)  # fmt: skip
    out = sketch.predicted("x")
    body = "p for n, p in net.named_parameters() if 'head' not in n"
    start, end = sketch.epoch_start.append, sketch.epoch_end.append
    if kind == "freeze":
        sketch.opt = "torch.optim.SGD(net.parameters(), lr=0.1)"
        start(sketch.one_of(f"for p in ({body}):\n    p.requires_grad = epoch == 0",
                            f"if epoch == 1:\n    for p in [{body}]:\n        p.requires_grad_(False)",
                            "for name, p in net.named_parameters():\n    p.requires_grad = epoch > 0 or 'head' in name",
                            "net.head.requires_grad_(epoch % 2 == 0)"))  # fmt: skip
    elif kind == "rebuilt":
        start(f"if epoch == 1:\n    opt = {sketch.one_of('torch.optim.SGD(net.parameters(), lr=0.02)', 'torch.optim.Adam(net.parameters(), lr=0.005)')}")
    elif kind == "thaw":
        sketch.setup.insert(0, f"for p in [{body}]:\n    p.requires_grad = False")
        sketch.opt = "torch.optim.SGD(net.head.parameters(), lr=0.1)"
        start(f"if epoch == 1:\n    for p in net.parameters():\n        p.requires_grad = True\n"
              f"    opt.add_param_group({{'params': [{body}], 'lr': 0.02}})")  # fmt: skip
    elif kind == "state":
        end(sketch.one_of("state = copy.deepcopy(opt.state_dict())\nopt.load_state_dict(state)",
                          "kept = copy.deepcopy(net.state_dict())\nnet.load_state_dict(kept)",
                          "if epoch == 0:\n    saved = {k: v.clone() for k, v in net.state_dict().items()}\n"
                          "else:\n    net.load_state_dict(saved, strict=False)"))  # fmt: skip
    elif kind == "checkpoint":
        end("buffer = io.BytesIO()\ntorch.save({'net': net.state_dict(), 'epoch': epoch}, buffer)\nbuffer.seek(0)\n"
            "loaded = torch.load(buffer)\nnet.load_state_dict(loaded['net'])\nprint(loaded['epoch'])")
    elif kind == "head":
        end(sketch.one_of("net.head.reset_parameters()", "nn.init.xavier_uniform_(net.head.weight)",
                          "nn.init.normal_(net.head.weight, std=0.1)\nnn.init.zeros_(net.head.bias)"))  # fmt: skip
    elif kind == "evaluate":
        end(block("net.eval()", sketch.one_of(
            under("with torch.no_grad():", "total = 0.0", under("for x, y in data:", f"total += F.cross_entropy({out}, y).item() * len(y)")),
            under("with torch.inference_mode():", f"total = sum(({out}.argmax(1) == y).sum().item() for x, y in data)"),
            block("total = 0.0", under("for x, y in data:", f"total += F.cross_entropy({out}.detach(), y).item()")),
            under("with torch.set_grad_enabled(False):", "total = 0", under("for k, (x, y) in enumerate(data):", f"total += k * {out}.sum().item()")),
        ), "print('eval %.4f' % total)", "net.train()"))  # fmt: skip
    elif kind == "modes":
        start(sketch.one_of("net.train(epoch == 0)", "net.eval()", "net.train() if epoch % 2 else net.eval()",
                            "for m in net.modules():\n    if isinstance(m, (nn.BatchNorm1d, nn.Dropout)):\n        m.eval()"))  # fmt: skip
    elif kind == "added":
        sketch.setup.append("extra = nn.Parameter(torch.zeros(3))\nopt.add_param_group({'params': [extra], 'lr': 0.2})")
        sketch.forward = block(sketch.forward, "out = out + extra")
        sketch.end.append("print('extra %.4f' % extra.sum().item())")
    elif kind == "double":
        sketch.forward = block("for p in net.parameters():\n    assert p.requires_grad", sketch.forward)
    elif kind == "swapped":
        sketch.setup.append("other = copy.deepcopy(net)")
        end("net.load_state_dict(other.state_dict())")


def course(sketch: Sketch) -> None:
    """What the loop does beside going on: accumulation, leaving early, errors that are caught."""
    kind = sketch.drawn.pick("course", ("straight", "accumulated", "leftover", "early", "skipped", "finally", "raised", "stop",
                                        "retried", "scaled", "closure", "twice", "inner"), 0.3)  # fmt: skip
    cleared = "opt.zero_grad()"
    if kind in ("accumulated", "leftover"):
        sketch.drawn["clear"] = "own"
        sketch.loss = block(sketch.loss, "loss = loss / 2")
        test = "(i + 1) % 2 == 0" + (" or (i + 1) == len(data)" if kind == "leftover" else "")
        sketch.step = under(f"if {test}:", *([b for b in sketch.between if "continue" not in b]), sketch.step, cleared)
        sketch.between = []
    elif kind == "early":
        sketch.forward = block("if x.shape[0] < 3:\n    continue", sketch.forward)
    elif kind == "skipped":
        sketch.loss = block(sketch.loss, "if loss.item() > 50:\n    print('skipped')\n    continue")
    elif kind == "finally":
        sketch.step = block(under("try:", sketch.step), under("finally:", "hist.append(loss.item())"))
    elif kind == "raised":
        sketch.define("def check(value):\n    if not torch.isfinite(value):\n        raise ValueError('loss is not finite')\n    return value")
        sketch.loss = block(sketch.loss, "loss = check(loss)")
    elif kind == "stop":
        sketch.use.append("if loss.item() < 0.1:\n    break")
    elif kind == "retried":
        sketch.step = block(sketch.step, under("if i == 1:", sketch.forward, sketch.loss, cleared, sketch.backward, sketch.step))
    elif kind == "scaled":
        sketch.setup.append("scaler = torch.amp.GradScaler('cpu', init_scale=64.0, growth_interval=3)")
        sketch.backward = "scaler.scale(loss).backward()"
        sketch.between.insert(0, "scaler.unscale_(opt)")
        sketch.step = "scaler.step(opt)\nscaler.update()"
    elif kind == "closure":
        inner = block(cleared, sketch.forward, sketch.loss, sketch.backward, "return loss")
        sketch.forward, sketch.loss, sketch.backward, sketch.between = "", under("def closure():", inner), "", []
        sketch.step, sketch.drawn["clear"] = "loss = opt.step(closure)", "own"
        sketch.use = [u for u in sketch.use if "out" not in u]
    elif kind == "twice":
        sketch.backward = block("loss.backward(retain_graph=True)", "(0.1 * out.pow(2).mean()).backward()")
    elif kind == "inner":
        body = block(sketch.forward, sketch.loss, cleared, sketch.backward, *(b for b in sketch.between if "continue" not in b), sketch.step)
        sketch.forward, sketch.loss, sketch.backward, sketch.between = "", under("for k in range(2):", body), "", []
        sketch.step, sketch.drawn["clear"] = "", "own"
