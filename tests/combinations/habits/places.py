"""Where training stands: at the top level, in functions and methods of all kinds, in generators, objects, callbacks."""

# ruff: noqa: E501 (statements of programs stand in one line each)
from __future__ import annotations

import re

from tests.combinations.habits.sketch import Sketch, block, under

NAMES = ("net", "crit", "opt", "opt_h", "opt_c", "sched", "scheds", "scaler", "teacher", "ema", "swa", "warm", "target",
         "slow", "extra", "features", "log", "other", "params", "weights", "best", "best_state")  # fmt: skip
OPENING = {
    "list": "for i, (x, y) in enumerate(data):",
    "zip": "for i, (x, y) in enumerate(zip([d[0] for d in data], [d[1] for d in data])):",
    "index": "for i in range(len(data)):\n    x, y = data[i]",
    "generator": "for i, (x, y) in enumerate(batches(data)):",
    "iterator": "it = iter(data)\nfor i in range(3):\n    x, y = next(it)",
    "dicts": "for i, batch in enumerate([{'x': a, 'y': b} for a, b in data]):\n    x, y = batch['x'], batch['y']",
    "loader": "for i, (x, y) in enumerate(loader):",
    "walrus": "i = -1\nwhile (i := i + 1) < len(data):\n    x, y = data[i]",
    "batch": "for i, batch in enumerate(data):\n    x, y = (t.clone() for t in batch)",
}
BATCHES = "def batches(data):\n    for x, y in data:\n        yield x * 1.0, y"


def program_text(sketch: Sketch, seed: int) -> str:
    """The whole program."""
    pick = sketch.drawn.pick
    clear = sketch.drawn.get("clear") or pick("clear", ("backward", "start", "end", "step"), 0.3)
    zero = "" if clear == "own" else sketch.one_of("opt.zero_grad()", "opt.zero_grad()", "net.zero_grad()",
                                                   "opt.zero_grad(set_to_none=True)")  # fmt: skip
    body = block(
        zero if clear == "start" else "", sketch.forward, sketch.loss, zero if clear == "backward" else "", sketch.backward,
        *sketch.between, sketch.step, zero if clear in ("end", "step") else "", *sketch.after, *sketch.use,
        sketch.one_of("hist.append(loss.item())", "print('%d %.4f' % (i, loss.item()))", "seen.append(loss.detach())"),
    )  # fmt: skip
    place = pick("place", tuple(PLACES))
    data = pick("data", tuple(OPENING), 0.3)
    if data == "batch" or data == "generator":
        sketch.define(BATCHES)
    sizes = sketch.one_of("(4, 4, 4)", "(5, 4, 3)", "(4, 5, 4)")
    made = [f"data = [(torch.randn(b, 6), torch.tensor([0, 1, 2, 1, 0][:b])) for b in {sizes}]"]
    if data == "loader":
        sketch.needs("from torch.utils.data import DataLoader, TensorDataset")
        made.append("loader = DataLoader(TensorDataset(torch.cat([d[0] for d in data]), torch.cat([d[1] for d in data])), "
                    "batch_size=4)")  # fmt: skip
    written = PLACES[place](sketch, body, OPENING[data], made)
    head = ["import torch", "import torch.nn as nn", "import torch.nn.functional as F"]
    whole = block(*sketch.defined, written)
    more = [line for line in sketch.imports if _used(line, whole)]
    parts = [block(*sorted(more), *head), f"torch.manual_seed({seed})", *sketch.defined, written]
    return "\n\n\n".join(parts) + "\n"


def _used(line: str, text: str) -> bool:
    """Whether a name that the import binds stands in the text."""
    names = re.findall(r"\w+", line.rpartition(" as ")[2] if " as " in line else line.rpartition("import ")[2])
    return any(re.search(rf"\b{name}\b", text) for name in names)


def loop(sketch: Sketch, body: str, opening: str) -> str:
    batch = opening + "\n" + "\n".join("    " + line if line else line for line in body.split("\n"))
    return under("for epoch in range(2):", *sketch.epoch_start, batch, *sketch.epoch_end)


def made(sketch: Sketch, first: list[str]) -> list[str]:
    return [*first, "net = Net()", *sketch.made, f"opt = {sketch.opt}", *sketch.setup]


STATE = "hist, seen = [], []"
SHOWN = "print(['%.4f' % h for h in hist], ['%.4f' % s.item() for s in seen])"
WEIGHTS = "print('%.4f' % sum(p.abs().sum().item() for p in net.parameters()))"


def shown(sketch: Sketch) -> list[str]:
    return [SHOWN, *sketch.end, WEIGHTS]


def script(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    return block(*made(sketch, first), STATE, loop(sketch, body, opening), *shown(sketch))


def main(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    inner = under("def main():", script(sketch, body, opening, first))
    return block(inner, "", "", sketch.one_of("main()", "if __name__ == '__main__':\n    main()"))


def generator(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """A loop that yields after every batch."""
    run = under("def run():", *made(sketch, first), STATE, loop(sketch, block(body, "yield i, loss.item()"), opening), *shown(sketch))
    return block(run, "", "", "for i, value in run():\n    print(i, '%.4f' % value)")


def decorated(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    sketch.needs("import functools")
    kind = sketch.one_of(
        "def logged(fn):\n    @functools.wraps(fn)\n    def inner(*args, **kwargs):\n        print('start')\n"
        "        result = fn(*args, **kwargs)\n        print('end')\n        return result\n    return inner",
        "def logged(fn):\n    def inner(*args):\n        return fn(*args)\n    return inner")
    train = under("@logged\ndef train(data):", *made(sketch, []), STATE, loop(sketch, body, opening), *shown(sketch), "return loss.item()")
    return block("import functools", kind, "", "", train, "", "", *first, "print('%.4f' % train(data))")


def managed(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """Under a context manager of the program's own."""
    timer = ("class Timer:\n    def __enter__(self):\n        print('in')\n        return self\n\n"
             "    def __exit__(self, *exc):\n        print('out')\n        return False")  # fmt: skip
    flag = ("import contextlib\n\n\n@contextlib.contextmanager\ndef Timer():\n    print('in')\n    try:\n        yield 3\n"
            "    finally:\n        print('out')")  # fmt: skip
    opened = sketch.one_of("with Timer():", "with Timer() as t:")
    where = sketch.drawn.pick("managed", ("loop", "batch"))
    inner = under(opened, body) if where == "batch" else body
    text = loop(sketch, inner, opening)
    text = under(opened, text) if where == "loop" else text
    return block(sketch.one_of(timer, flag), "", "", *made(sketch, first), STATE, text, *shown(sketch))


def of_self(text: str) -> str:
    """With what is made once as attributes."""
    text = re.sub(rf"(?<![.\w'\"])({'|'.join(NAMES)})\b(?!['\"=])(?! for\b)", r"self.\1", text)
    if "def self.crit(" not in text:
        return text
    return text.replace("def self.crit(", "def crit(") + "\nself.crit = crit"


def trainer(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """A class; its step in a method of its own, or inherited, or from a mixin."""
    kind = sketch.drawn.pick("class", ("one method", "step", "inherited", "super", "mixin", "callback", "property", "call"))
    init = under("def __init__(self):", "self.hist = []", *(of_self(line) for line in made(sketch, [])))
    body = of_self(body).replace("hist.append", "self.hist.append").replace("hist +=", "self.hist +=")
    body = re.sub(r"seen\.append\(loss\.detach\(\)\)", "self.hist.append(loss.item())", body)
    end = [of_self(line) for line in (*sketch.end, WEIGHTS)]
    ends = under("def report(self, data):", "print(['%.4f' % h for h in self.hist])", *end)
    plan = Sketch(sketch.drawn, epoch_start=[of_self(t) for t in sketch.epoch_start], epoch_end=[of_self(t) for t in sketch.epoch_end])
    own = body if kind == "one method" else ""
    early = re.sub(r"\b(continue|break)\b", "return", body)
    call = {"super": "self.train_step(i, x, y, epoch)", "call": "self(i, x, y, epoch)"}.get(kind, "self.train_step(i, x, y, epoch)")
    fit = under("def fit(self, data):", loop(plan, own or call, opening.replace("loader", "self.loader")))
    if "self.loader" in fit:
        init = block(init, "    self.loader = loader")
    step = under("def train_step(self, i, x, y, epoch):", early)
    run = block(*first, "trainer = Trainer()", "trainer.fit(data)", "trainer.report(data)")
    if kind == "one method":
        return block(under("class Trainer:", init, "", fit, "", ends), "", "", run)
    if kind in ("step", "callback"):
        return block(under("class Trainer:", init, "", step, "", fit, "", ends), "", "", run)
    if kind == "call":
        return block(under("class Trainer:", init, "", step.replace("train_step", "__call__"), "", fit, "", ends), "", "", run)
    if kind == "inherited":
        return block(under("class Base:", fit, "", ends), "", "", under("class Trainer(Base):", init, "", step), "", "", run)
    if kind == "super":
        over = under("def train_step(self, i, x, y, epoch):", "print('step', i)", "return super().train_step(i, x, y, epoch)")
        return block(under("class Base:", init, "", step, "", fit, "", ends), "", "", under("class Trainer(Base):", over), "", "", run)
    if kind == "mixin":
        return block(under("class StepMixin:", step), "", "", under("class FitMixin:", fit, "", ends), "", "",
                     under("class Trainer(StepMixin, FitMixin):", init), "", "", run)  # fmt: skip
    prop = "@property\ndef lr(self):\n    return self.opt.param_groups[0]['lr']"
    return block(under("class Trainer:", init, "", prop, "", step, "", fit, "", ends), "", "", run, "print('%.5f' % trainer.lr)")


def step_function(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """The batch in a function that closes over what is there, or has it handed over, in one of many ways."""
    kind = sketch.drawn.pick("step", ("global", "closure", "handed", "partial", "default", "table", "made", "object"))
    early = re.sub(r"\b(continue|break)\b", "return None", body)
    names = [m for m in dict.fromkeys(re.findall(r"(?m)^(\w+) =", block(*made(sketch, [])))) if re.search(rf"\b{m}\b", body)]
    rebound = [n for n in names if re.search(rf"(?m)^\s*{n} [-+*/]?=", body)]
    lines = made(sketch, first)
    if rebound or kind == "global":
        head = f"global {', '.join(rebound)}\n" if rebound else ""
        step = under("def train_step(i, x, y, epoch):", head + early)
        call = "train_step(i, x, y, epoch)"
        return block(*lines, STATE, "", "", step, "", "", loop(sketch, call, opening), *shown(sketch))
    args = ", ".join(["i", "x", "y", "epoch", "hist", "seen", *names])
    if kind == "closure":
        step = under("def train_step(i, x, y, epoch):", early)
        run = under("def run():", *lines, STATE, "", step, "", loop(sketch, "train_step(i, x, y, epoch)", opening), *shown(sketch))
        return block(run, "", "", "run()")
    if kind == "made":
        step = under("def train_step(i, x, y, epoch):", early, "return loss.item()")
        make = under(f"def make_step({', '.join(['hist', 'seen', *names])}):", step, "return train_step")
        return block(make, "", "", *lines, STATE, f"step_of = make_step({', '.join(['hist', 'seen', *names])})",
                     loop(sketch, "step_of(i, x, y, epoch)", opening), *shown(sketch))  # fmt: skip
    if kind == "default":
        given = ", ".join(f"{n}={n}" for n in names)
        step = under(f"def train_step(i, x, y, epoch, {given}):", early)
        return block(*lines, STATE, "", "", step, "", "", loop(sketch, "train_step(i, x, y, epoch)", opening), *shown(sketch))
    step = under(f"def train_step({args}):", early)
    call = {"partial": f"step_of(i, x, y, epoch, hist=hist, seen=seen, {', '.join(f'{n}={n}' for n in names)})",
            "table": f"steps['train']({args})",
            "object": f"train_step({', '.join(['i', 'x', 'y', 'epoch', 'hist', 'seen', *(f's.{n}' for n in names)])})"}.get(
                kind, f"train_step({args})")  # fmt: skip
    extra = {"partial": "import functools\nstep_of = functools.partial(train_step)", "table": "steps = {'train': train_step}",
             "object": "from types import SimpleNamespace\ns = SimpleNamespace(" + ", ".join(f"{n}={n}" for n in names) + ")"}.get(kind, "")
    return block(step, "", "", *lines, STATE, extra, loop(sketch, call, opening), *shown(sketch))


def recursion(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """Epochs that call themselves."""
    lone = re.sub(r"(?m)^for epoch in range\(2\):\n", "", loop(sketch, body, opening))
    inner = re.sub(r"(?m)^    ", "", lone)
    run = under("def epochs(epoch):", "if epoch == 2:\n    return", inner, "epochs(epoch + 1)")
    rebound = [n for n in NAMES + ("best", "best_state", "saved") if re.search(rf"(?m)^\s*{n}(, \w+)? =", inner)]
    if rebound:
        run = run.replace("def epochs(epoch):", f"def epochs(epoch):\n    global {', '.join(rebound)}")
    return block(*made(sketch, first), STATE, "", "", run, "", "", "epochs(0)", *shown(sketch))


def whiles(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """Until it has converged."""
    inner = loop(sketch, body, opening).replace("for epoch in range(2):", "while epoch < 2 and change > 1e-9:")
    more = "    before, change = now, abs(before - loss.item())\n    now = loss.item()\n    epoch += 1"
    return block(*made(sketch, first), STATE, "epoch, change, before, now = 0, 1.0, 0.0, 0.0", inner, more, *shown(sketch))


def asynchronous(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    run = under("async def train():", *made(sketch, first), STATE, loop(sketch, block(body, "await asyncio.sleep(0)"), opening), *shown(sketch))
    return block("import asyncio", "", "", run, "", "", "asyncio.run(train())")


def parallel(sketch: Sketch, body: str, opening: str, first: list[str]) -> str:
    """The network under a wrapper, here called and there trained."""
    wrap = sketch.one_of("model = torch.compile(net, backend='eager')", "model = nn.DataParallel(net)", "model = net", "model = net.to('cpu')")
    body = re.sub(r"\bnet\(", "model(", body)
    lines = made(sketch, first)
    lines.insert(len(first) + 1, wrap)
    return block(*lines, STATE, loop(sketch, body, opening), *shown(sketch))


PLACES = {f.__name__: f for f in (script, main, generator, decorated, managed, trainer, step_function, recursion, whiles,
                                  asynchronous, parallel)}  # fmt: skip
