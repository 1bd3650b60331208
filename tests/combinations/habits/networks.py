"""Networks as people write them: lists and dicts of layers, ties, buffers, hooks, changes in place, functions of their own.

Each is a class `Net` from six numbers to three with a layer `head`, and makes use of all its parameters in every step
where nothing else is said.
"""

# ruff: noqa: E501 (statements of programs stand in one line each)
from __future__ import annotations

from tests.combinations.habits.sketch import Sketch, block, under


def net(sketch: Sketch, init: str, forward: str, more: str = "", base: str = "nn.Module") -> None:
    """Define the class."""
    sketch.define(block(
        under(f"class Net({base}):",
              under("def __init__(self):", "super().__init__()", init), "",
              *([more, ""] if more else []),
              under("def forward(self, x):", forward)),
    ))  # fmt: skip


def plain(sketch: Sketch) -> None:
    net(sketch, "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)", "return self.head(torch.tanh(self.body(x)))")


def layer_list(sketch: Sketch) -> None:
    loop = sketch.one_of(
        "for layer in self.layers:\n    x = x + torch.tanh(layer(x))",
        "for k, layer in enumerate(self.layers):\n    x = torch.tanh(layer(x)) if k else torch.sigmoid(layer(x))",
        "for k in range(len(self.layers)):\n    x = F.softplus(self.layers[k](x)) * self.gains[k]",
        "skips = []\nfor layer in self.layers:\n    x = torch.tanh(layer(x))\n    skips.append(x)\nx = sum(skips)",
        "for layer in reversed(self.layers):\n    x = torch.tanh(layer(x))",
        "x = functools.reduce(lambda h, layer: torch.tanh(layer(h)), self.layers, x)",
    )
    sketch.needs("import functools")
    net(sketch, "self.layers = nn.ModuleList([nn.Linear(6, 6) for _ in range(2)])\nself.gains = [0.7, 1.3]\n"
        "self.head = nn.Linear(6, 3)", f"{loop}\nreturn self.head(x)")  # fmt: skip


def layer_dict(sketch: Sketch) -> None:
    how = sketch.one_of(
        "for name in ('first', 'second'):\n    x = torch.tanh(self.layers[name](x))",
        "for name, layer in self.layers.items():\n    x = torch.tanh(layer(x))",
        "x = torch.tanh(self.layers['second'](torch.sigmoid(self.layers['first'](x))))",
        "x = sum(layer(x) for layer in self.layers.values())",
    )
    net(sketch, "self.layers = nn.ModuleDict({'first': nn.Linear(6, 6)})\nself.layers['second'] = nn.Linear(6, 6)\n"
        "self.head = nn.Linear(6, 3)", f"{how}\nreturn self.head(x)")  # fmt: skip


def slices(sketch: Sketch) -> None:
    how = sketch.one_of(
        "x = self.layers[:2](x)\nx = self.layers[2:](x)",
        "for layer in self.layers[:-1]:\n    x = layer(x)\nx = self.layers[-1](x)",
        "x = nn.Sequential(*list(self.layers.children())[:2])(x)\nx = self.layers[2](x)\nx = self.layers[3](x)",
        "x = self.layers[1](self.layers[0](x))\nx = self.layers[3](self.layers[2](x))",
    )
    net(sketch, "self.layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 6), nn.Sigmoid())\n"
        "self.head = nn.Linear(6, 3)", f"{how}\nreturn self.head(x)")  # fmt: skip


def tied(sketch: Sketch) -> None:
    tie, run = sketch.drawn.random.choice((
        ("self.decoder = nn.Linear(8, 6, bias=False)\nself.decoder.weight = nn.Parameter(self.body.weight.t().clone())",
         "h = self.decoder(torch.tanh(self.body(x)))"),
        ("self.mirror = nn.Linear(6, 8)\nself.mirror.weight = self.body.weight",
         "h = torch.tanh(self.body(x)) @ self.body.weight + self.mirror(x)[:, :6]"),
        ("", "h = F.linear(torch.tanh(self.body(x)), self.body.weight.t())"),
        ("", "h = torch.tanh(self.body(x)).matmul(self.body.weight)"),
        ("self.same = self.body", "h = (torch.tanh(self.body(x)) * torch.sigmoid(self.same(x)))[:, :6]"),
    ))  # fmt: skip
    net(sketch, block("self.body = nn.Linear(6, 8)", tie, "self.head = nn.Linear(6, 3)"), f"{run}\nreturn self.head(h)")


def buffers(sketch: Sketch) -> None:
    how = sketch.one_of(
        "if self.training:\n    self.mean.mul_(0.9).add_(0.1 * x.mean(0).detach())\n    self.seen += 1",
        "if self.training:\n    with torch.no_grad():\n        self.mean = 0.9 * self.mean + 0.1 * x.mean(dim=0)",
        "if self.training:\n    self.mean.copy_(self.mean * 0.5 + x.detach().mean(0) * 0.5)",
        "if self.training:\n    self.mean.data = self.mean.data * 0.9 + 0.1 * x.mean(0)\n    self.seen.add_(1)",
        "if self.seen == 0:\n    self.mean.copy_(x.mean(0))\nself.seen.fill_(1)",
        "self.mean[0] = x[:, 0].mean().detach()",
    )
    net(sketch, "self.register_buffer('mean', torch.zeros(6))\nself.register_buffer('seen', torch.tensor(0))\n"
        "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)",
        f"{how}\nreturn self.head(torch.tanh(self.body(x - self.mean)))")  # fmt: skip
    sketch.end.append("print(net.mean.sum().item(), net.seen.item())")


def normed(sketch: Sketch) -> None:
    layer = sketch.one_of("nn.BatchNorm1d(8)", "nn.LayerNorm(8)", "nn.GroupNorm(2, 8)", "nn.BatchNorm1d(8, momentum=0.3)")
    drop = sketch.one_of("", "h = F.dropout(h, 0.2, self.training)\n", "h = self.drop(h)\n")
    net(sketch, f"self.body = nn.Linear(6, 8, bias=False)\nself.norm = {layer}\nself.drop = nn.Dropout(0.3)\n"
        "self.head = nn.Linear(8, 3)", f"h = torch.tanh(self.norm(self.body(x)))\n{drop}return self.head(h)")  # fmt: skip
    sketch.use.append("")


def weight_norm(sketch: Sketch) -> None:
    made = sketch.one_of("nn.utils.weight_norm(nn.Linear(6, 8))", "torch.nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))",
                         "nn.utils.spectral_norm(nn.Linear(6, 8))")  # fmt: skip
    net(sketch, f"self.body = {made}\nself.head = nn.Linear(8, 3)", "return self.head(torch.tanh(self.body(x)))")


def function(sketch: Sketch) -> None:
    forward, backward = sketch.drawn.random.choice((
        ("ctx.save_for_backward(x)\nreturn x.clamp(min=-0.5)",
         "x, = ctx.saved_tensors\nreturn grad * (x > -0.5).float() * 0.9"),
        ("return x.round()", "return grad"),
        ("ctx.scale = 0.3\nreturn x.view_as(x)", "return -ctx.scale * grad"),
        ("ctx.save_for_backward(x)\nreturn x.sign()", "(x,) = ctx.saved_tensors\nreturn grad * (x.abs() <= 1).to(grad.dtype)"),
        ("y = torch.exp(-x * x)\nctx.save_for_backward(x, y)\nreturn y", "x, y = ctx.saved_tensors\nreturn grad * y * -2 * x"),
    ))  # fmt: skip
    static = "@staticmethod\n"
    sketch.define(under("class Step(torch.autograd.Function):", static + under("def forward(ctx, x):", forward), "",
                        static + under("def backward(ctx, grad):", backward)))  # fmt: skip
    call = sketch.one_of("h = Step.apply(h)", "apply = Step.apply\nh = apply(h) + 0.1 * h", "h = self.act(h)")
    net(sketch, "self.body = nn.Linear(6, 8)\nself.act = Step.apply\nself.head = nn.Linear(8, 3)",
        f"h = 2.0 * self.body(x)\n{call}\nreturn self.head(h)")  # fmt: skip


def hooked(sketch: Sketch) -> None:
    plain(sketch)
    sketch.made.append("features = {}")
    hook, use = sketch.drawn.random.choice((
        ("net.body.register_forward_hook(lambda m, inp, out: features.update(h=out))",
         "loss = loss + 0.1 * features['h'].pow(2).mean()"),
        ("net.body.register_forward_hook(lambda m, inp, out: features.update(h=out.detach()))",
         "print('%.4f' % features['h'].mean().item())"),
        ("net.body.register_forward_pre_hook(lambda m, inp: (inp[0] * 0.5,))", ""),
        ("net.body.register_forward_hook(lambda m, inp, out: out * 1.5)", ""),
        ("net.head.weight.register_hook(lambda g: g * 0.5)", ""),
        ("for p in net.parameters():\n    p.register_hook(lambda g: torch.clamp(g, -0.02, 0.02))", ""),
    ))  # fmt: skip
    sketch.made.append(hook)
    sketch.loss += f"\n{use}" if use else ""


def in_place(sketch: Sketch) -> None:
    how = sketch.one_of(
        "h = self.body(x)\nh.relu_()", "h = self.body(x)\nh += 0.3\nh = torch.tanh(h)", "h = self.body(x)\nh[:, 0] = 0",
        "h = torch.tanh(self.body(x)).clone()\nh[:, 1:3] *= 0.5", "h = self.body(x)\nh.masked_fill_(h < -0.2, 0.0)",
        "h = self.body(x)\nh[h < -0.3] = 0.0", "h = x.new_zeros(x.size(0), 8)\nh[:, :8] = self.body(x)",
        "h = torch.zeros(x.shape[0], 8)\nh.add_(self.body(x)).mul_(0.7)", "h = torch.sin(self.body(x))\nh.sub_(h.mean())",
        "h = self.body(x)\nview = h.view(-1)\nview[::2] *= 0.5", "h = self.body(x)\nfirst = h[0]\nfirst.mul_(2.0)",
        "h = torch.stack([self.body(row) for row in x])\nh.clamp_(min=-0.4)",
        "h = torch.empty(x.size(0), 8)\nfor k in range(x.size(0)):\n    h[k] = self.body(x[k]) * (k + 1)",
        "h = self.body(x)\nkeep = h\nh = h + 1.0\nkeep.mul_(0.5)\nh = h * keep.mean()",
        "h = self.body(x)\nh.index_add_(0, torch.tensor([0, 1]), torch.ones(2, 8))",
    )  # fmt: skip
    net(sketch, "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)", f"{how}\nreturn self.head(h)")


def counted(sketch: Sketch) -> None:
    how = sketch.one_of(
        "self.calls += 1\nif self.calls % 2:\n    h = h * 0.5", "self.calls += 1\nh = h / (1 + 0.1 * self.calls)",
        "Net.total += 1\nh = h * (1.0 if Net.total < 4 else 0.5)", "if self.training:\n    h = h + 0.1 * torch.randn_like(h)",
        "keep = random.random() < 0.5\nh = h * 0.9 if keep else h", "self.last = h\nself.calls = self.last.shape[0]",
        "self.trace.append(h.mean().item())", "h = h * self.temperature\nself.temperature *= 0.9",
    )  # fmt: skip
    sketch.needs("import random")
    net(sketch, "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)\nself.calls = 0\nself.trace = []\n"
        "self.temperature = 1.0", f"h = torch.tanh(self.body(x))\n{how}\nreturn self.head(h)", "total = 0")  # fmt: skip


def inherited(sketch: Sketch) -> None:
    base = under("class Base(nn.Module):",
                 under("def __init__(self, hidden=8):", "super().__init__()", "self.body = nn.Linear(6, hidden)"), "",
                 under("def features(self, x):", "return torch.tanh(self.body(x))"), "",
                 under("def forward(self, x):", "return self.features(x)"))  # fmt: skip
    sketch.define(base)
    how = sketch.one_of("return self.head(super().forward(x))", "return self.head(self.features(x)) * self.gain",
                        "h = super().features(x)\nreturn self.head(h + h.mean(0))")  # fmt: skip
    init = "self.head = nn.Linear(8, 3)"
    more = sketch.one_of("gain = 1.5", "@property\ndef gain(self):\n    return self.head.weight.abs().mean()",
                         "@property\ndef gain(self):\n    return 0.5 + self.head.bias.sum()")  # fmt: skip
    net(sketch, init, how, more, "Base")


def own_parameters(sketch: Sketch) -> None:
    made, run = sketch.drawn.random.choice((
        ("self.w = nn.Parameter(torch.randn(6, 8) * 0.3)\nself.b = nn.Parameter(torch.zeros(8))", "x @ self.w + self.b"),
        ("self.ws = nn.ParameterList([nn.Parameter(torch.randn(6, 8) * 0.3) for _ in range(2)])",
         "sum(x @ w for w in self.ws)"),
        ("self.ws = nn.ParameterDict({'a': nn.Parameter(torch.randn(6, 8) * 0.3)})", "x.matmul(self.ws['a'])"),
        ("self.register_parameter('w', nn.Parameter(torch.randn(8, 6) * 0.3))", "F.linear(x, self.w)"),
        ("self.v = nn.Parameter(torch.randn(8, 6) * 0.3)\nself.g = nn.Parameter(torch.ones(8, 1))",
         "x @ (self.g * self.v / self.v.norm(dim=1, keepdim=True)).t()"),
        ("self.w = nn.Parameter(torch.empty(6, 8))\nnn.init.normal_(self.w, std=0.2)", "torch.einsum('bi,ij->bj', x, self.w)"),
        ("self.w = nn.Parameter(torch.randn(6, 8) * 0.3)\nself.log_s = nn.Parameter(torch.zeros(()))",
         "(x @ self.w) * self.log_s.exp()"),
    ))  # fmt: skip
    net(sketch, f"{made}\nself.head = nn.Linear(8, 3)", f"h = torch.tanh({run})\nreturn self.head(h)")


def attention(sketch: Sketch) -> None:
    mask = sketch.one_of("", "score = score.masked_fill(torch.triu(torch.ones(3, 3), 1) == 1, float('-inf'))\n",
                         "score = score + torch.where(x[:, :3, :1] > 0, 0.0, -1.0)\n",
                         "score = score.masked_fill(~torch.tril(torch.ones(3, 3)).bool(), -1e9)\n")  # fmt: skip
    net(sketch, "self.body = nn.Linear(2, 12)\nself.head = nn.Linear(12, 3)",
        "x = x.view(-1, 3, 2)\nq, k, v = self.body(x).chunk(3, dim=-1)\nscore = q @ k.transpose(-2, -1) / 2.0\n"
        f"{mask}h = (score.softmax(-1) @ v).flatten(1)\nreturn self.head(h)")  # fmt: skip


def cell(sketch: Sketch) -> None:
    net(sketch, "self.cell = nn.GRUCell(2, 8)\nself.head = nn.Linear(8, 3)",
        "h = x.new_zeros(x.size(0), 8)\nfor part in x.view(-1, 3, 2).unbind(1):\n    h = self.cell(part, h)\n"
        "return self.head(h)")  # fmt: skip


def convolved(sketch: Sketch) -> None:
    run = sketch.one_of("h = F.max_pool2d(torch.relu(self.conv(x)), (1, 2), stride=1)", "h = torch.tanh(self.conv(x))[..., :2]")
    net(sketch, "self.conv = nn.Conv2d(1, 4, 3, padding=1)\nself.head = nn.Linear(16, 3)",
        f"x = x.view(-1, 1, 2, 3)\n{run}\nreturn self.head(h.reshape(h.size(0), -1))")  # fmt: skip


def checkpointed(sketch: Sketch) -> None:
    sketch.needs("from torch.utils.checkpoint import checkpoint")
    net(sketch, "self.body = nn.Sequential(nn.Linear(6, 8), nn.Tanh())\nself.head = nn.Linear(8, 3)",
        "h = checkpoint(self.body, x, use_reentrant=False)\nreturn self.head(h)")  # fmt: skip


def cut(sketch: Sketch) -> None:
    how = sketch.one_of(
        "h = torch.tanh(self.body(x))\nh = h + h.detach()", "h = torch.tanh(self.body(x))\nh = h - h.data.mean()",
        "h = self.body(x)\nwith torch.no_grad():\n    s = h.abs().max()\nh = h / s", "h = self.body(x)\nh = h + (h.round() - h).detach()",
        "h = self.body(x)\nh = h / h.norm(dim=1, keepdim=True).detach()", "h = self.body(x)\nh = h * (h.detach() > 0)",
        "h = self.body(x)\nh = h * float(h.mean().item() > 0) + 0.1 * h", "h = self.body(x)\nh = h + self.aside(x)",
    )  # fmt: skip
    net(sketch, "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)", f"{how}\nreturn self.head(h)",
        "@torch.no_grad()\ndef aside(self, x):\n    return torch.tanh(self.body(x * 0.5))")  # fmt: skip


def several(sketch: Sketch) -> None:
    """A network that returns more than one thing."""
    given, taken, sketch.predicts = sketch.drawn.random.choice((
        ("return self.head(h), h", "out, code = net(x)", "{net}({x})[0]"),
        ("return {'out': self.head(h), 'code': h}", "both = net(x)\nout, code = both['out'], both['code']",
         "{net}({x})['out']"),
        ("return Output(self.head(h), h)", "result = net(x)\nout, code = result.out, result.code", "{net}({x}).out"),
        ("return Output(out=self.head(h), code=h)", "out, code = net(x)", "{net}({x})[0]"),
        ("return [self.head(h), h]", "outs = net(x)\nout = outs[0]\ncode = outs[-1]", "{net}({x})[0]"),
        ("self.code = h\nreturn self.head(h)", "out = net(x)\ncode = net.code", "{net}({x})"),
    ))  # fmt: skip
    sketch.needs("from collections import namedtuple")
    sketch.define("Output = namedtuple('Output', ['out', 'code'])")
    net(sketch, "self.body = nn.Linear(6, 8)\nself.head = nn.Linear(8, 3)", f"h = torch.tanh(self.body(x))\n{given}")
    sketch.forward = taken
    sketch.loss += "\n" + sketch.one_of("loss = loss + 0.1 * code.pow(2).mean()", "loss += 0.05 * code.abs().mean()",
                                        "print('%.4f' % code.mean().item())")  # fmt: skip


NETWORKS = {f.__name__: f for f in (plain, layer_list, layer_dict, slices, tied, buffers, normed, weight_norm, function,
                                    hooked, in_place, counted, inherited, own_parameters, attention, cell, convolved,
                                    checkpointed, cut, several)}  # fmt: skip
