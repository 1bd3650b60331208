"""Projects of several files: where the optimizer is made, who goes backward, who steps, and in which file that is."""

from __future__ import annotations

from tests.combinations.drawing import Drawn, Program, block, under

MODELS = {
    "plain": "nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 3)",
    "norm": "nn.Linear(5, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3)",
    "dropout": "nn.Linear(5, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, 3)",
}
OPTIMIZERS = {
    "sgd": ("SGD", {"lr": "0.05"}),
    "momentum": ("SGD", {"lr": "0.05", "momentum": "0.9", "weight_decay": "1e-4"}),
    "adam": ("Adam", {"lr": "0.01"}),
    "adamw": ("AdamW", {"lr": "0.01", "weight_decay": "0.05"}),
    "rmsprop": ("RMSprop", {"lr": "0.005"}),
}
IMPORTS = {  # how `main` and the trainer find a definition of another file
    "names": ("from {file} import {name}", "{name}"),
    "module": ("import {file}", "{file}.{name}"),
    "alias": ("import {file} as m_{file}", "m_{file}.{name}"),
    "star": ("from {file} import *", "{name}"),
}


def program(seed: int) -> Program:
    """The project of a seed."""
    drawn = Drawn(seed)
    drawn["program"] = "project"
    style = drawn.pick("style", ("trainer", "functions"), 0.7)
    files = _trainer(drawn) if style == "trainer" else _functions(drawn)
    files["nets.py"] = _model(drawn)
    files["main.py"] = files["main.py"].replace("SEED", str(seed))
    return Program(seed, dict(drawn), files["main.py"], {path: text.strip() + "\n" for path, text in files.items()})


# --- what all of them have


def _model(drawn: Drawn) -> str:
    layers = MODELS[drawn.pick("layers", list(MODELS))]
    gives = drawn["gives"]
    loss = {
        "logits": ["return self.body(x)"],
        "loss": ["out = self.body(x)", "if y is None:", "    return out", "return F.cross_entropy(out, y), out"],
        "dict": ["out = self.body(x)", "if y is None:", "    return out",
                 "return {'loss': F.cross_entropy(out, y), 'penalty': 0.01 * out.pow(2).mean(), 'out': out}"],
        "record": ["out = self.body(x)", "if y is None:", "    return out",
                   "return Output(loss=F.cross_entropy(out, y), logits=out)"],
    }[gives]  # fmt: skip
    record = under("@dataclass\nclass Output:", "loss: torch.Tensor = None", "logits: torch.Tensor = None")
    forward = under("def forward(self, x, y=None):", *loss)
    made = under("def __init__(self):", "super().__init__()", f"self.body = nn.Sequential({layers})")
    return "\n\n".join(
        [
            "\n".join(["from dataclasses import dataclass\n", *HEAD, "import torch.nn.functional as F\n"]),
            record if gives == "record" else "",
            under("class Net(nn.Module):", made, "", forward),
        ]
    )


def _imported(drawn: Drawn, file: str, name: str, kind: str) -> tuple[str, str]:
    """The import of a name, and how it is written then."""
    line, use = IMPORTS[drawn.pick(kind, list(IMPORTS), 0.5)]
    return line.format(file=file, name=name), use.format(file=file, name=name)


def _loss(drawn: Drawn, net: str, loss_fn: str) -> list[str]:
    """Statements that make `loss` of a batch `x, y`."""
    gives = drawn["gives"]
    if gives == "logits":
        return [f"out = {net}(x)", f"loss = {loss_fn}(out, y)"]
    if gives == "loss":
        return [f"loss, out = {net}(x, y)"]
    if gives == "dict":
        return [f"losses = {net}(x, y)", "loss = losses['loss'] + losses['penalty']"]
    return [f"result = {net}(x, y)", "loss = result.loss"]


def _clip(drawn: Drawn, params: str) -> list[str]:
    how = drawn.pick("clip", ("none", "norm", "value", "logged"), 0.3)
    return {
        "none": [],
        "norm": [f"torch.nn.utils.clip_grad_norm_({params}, 1.0)"],
        "value": [f"torch.nn.utils.clip_grad_value_({params}, 0.1)"],
        "logged": [f"norm = torch.nn.utils.clip_grad_norm_({params}, 0.5)", "print('norm %.4f' % float(norm))"],
    }[how]


def _optimizer(drawn: Drawn, params: str) -> tuple[str, str]:
    """How it is made, and what has to be defined for that in a file `optimizers.py`."""
    name, options = OPTIMIZERS[drawn.pick("optimizer", list(OPTIMIZERS))]
    words = ", ".join(f"{k}={v}" for k, v in options.items())
    how = drawn.pick("built", ("here", "function", "table", "getattr"), 0.4)
    if how == "here":
        return f"torch.optim.{name}({params}, {words})", ""
    body = {
        "function": [f"return torch.optim.{name}(model.parameters(), {words})"],
        "table": [f"kinds = {{'a': torch.optim.{name}, 'b': torch.optim.Adagrad}}",
                  f"return kinds[kind](model.parameters(), {words})"],
        "getattr": [f"options = dict({words})",
                    f"return getattr(torch.optim, '{name}')(model.parameters(), **options)"],
    }[how]  # fmt: skip
    made = params.removesuffix(".parameters()")
    return f"build_optimizer({made})", "import torch\n\n\n" + under("def build_optimizer(model, kind='a'):", *body)


def _scheduler(drawn: Drawn, optimizer: str) -> tuple[str, str]:
    """How a schedule is made, and whether it steps by batch or by epoch."""
    how = drawn.pick("schedule", ("none", "epoch", "batch"), 0.4)
    made = {
        "none": "None",
        "epoch": f"torch.optim.lr_scheduler.StepLR({optimizer}, step_size=1, gamma=0.5)",
        "batch": f"torch.optim.lr_scheduler.LambdaLR({optimizer}, lambda step: 1.0 / (1.0 + 0.1 * step))",
    }
    return made[how], how


HEAD = ("import torch", "import torch.nn as nn")
DATA = "[(torch.randn(4, 5), torch.randint(0, 3, (4,))) for _ in range(4)]"


# --- a class that trains


def _trainer(drawn: Drawn) -> dict[str, str]:
    drawn.pick("gives", ("logits", "loss", "dict", "record"), 0.4)
    base = drawn.pick("base", ("none", "loop", "step", "mixin"), 0.2)
    apart = drawn.pick("layout", ("together", "update method", "step in the loop", "step in a hook", "handed on"))
    every = drawn.pick("every", ("1", "2", "counter"), 0.5)
    scaled = drawn.pick("scaler", ("no", "off", "on"), 0.6) if apart in ("together", "update method") else "no"
    made = drawn.pick("made", ("main", "init", "configure"), 0.3)
    clear = drawn.pick("clear", ("before", "after", "network"))
    opt, helper = _optimizer(drawn, "self.model.parameters()" if made != "main" else "model.parameters()")
    schedule, when = _scheduler(drawn, "self.optimizer")
    clip = _clip(drawn, "self.model.parameters()")
    loss = _loss(drawn, "self.model", "self.criterion")
    zero = "self.model.zero_grad()" if clear == "network" else "self.optimizer.zero_grad()"
    first, last = ([zero], []) if clear == "before" else ([], [zero])
    k = "self.every" if every != "1" else "1"
    divided = [f"loss = loss / {k}"] if every != "1" else []
    backward = "loss.backward()" if scaled == "no" else "self.scaler.scale(loss).backward()"
    unscale = ["self.scaler.unscale_(self.optimizer)"] if scaled != "no" and clip else []
    step = ["self.optimizer.step()"] if scaled == "no" else ["self.scaler.step(self.optimizer)", "self.scaler.update()"]
    by_batch = ["self.scheduler.step()"] if when == "batch" else []
    update = [*unscale, *clip, *step, *last, *by_batch]
    count = ["self.count += 1"] if every == "counter" else []
    due = {"1": "", "2": f"if (i + 1) % {k} == 0:", "counter": f"if self.count % {k} == 0:"}[every]
    start = {"1": "", "2": f"if i % {k} == 0:", "counter": f"if self.count % {k} == 0:"}[every]
    opening = [under(start, *first) if start and first else block(*first)]
    seen = "self.history.append(loss.item())"
    in_step: list[str] = []
    in_loop: list[str] = []
    methods: list[str] = []
    hook = ""
    if apart == "together":
        body = [*loss, *divided, backward, *count, under(due, *update) if due else block(*update), seen]
        in_step = [*opening, *body]
    elif apart == "update method":
        methods.append(under("def update(self):", *update))
        body = [*loss, *divided, backward, *count, under(due, "self.update()") if due else "self.update()", seen]
        in_step = [*opening, *body]
    elif apart == "step in the loop":
        in_step = [*opening, *loss, *divided, backward, *count, seen]
        in_loop = [under(due, *update) if due else block(*update)]
    elif apart == "step in a hook":
        in_step = [*opening, *loss, *divided, backward, *count, seen]
        done = [u.replace("self.", "trainer.") for u in update]
        asked = due.replace("self.", "trainer.").replace("(i + 1)", "(trainer.i + 1)")
        done = [under(asked, *done)] if asked else done
        hook = under("class StepHook:", under("def after_batch(self, trainer):", *done))
        in_loop = ["self.i = i", "for hook in self.hooks:\n    hook.after_batch(self)"]
    else:
        helped = [c.replace("self.model", "model") for c in clip]
        clear_first = ["optimizer.zero_grad()"] if every == "1" else []
        helped = [*clear_first, "loss.backward()", *helped, "optimizer.step()"]
        hook = under("def descend(loss, optimizer, model):", *helped)
        every, count, by = "1", [], by_batch
        in_step = [*([] if clear_first else [zero]), *loss, "descend(loss, self.optimizer, self.model)", *by, seen]
    drawn["every"] = every
    return _classes(drawn, base, made, opt, helper, schedule, when, scaled, in_step, in_loop, methods, hook)


def _classes(
    drawn: Drawn, base: str, made: str, opt: str, helper: str, schedule: str, when: str, scaled: str,
    in_step: list[str], in_loop: list[str], methods: list[str], hook: str,
) -> dict[str, str]:  # fmt: skip
    """The files around the statements."""
    train_step = under("def train_step(self, i, x, y):", *in_step)
    epoch_end = ["self.scheduler.step()"] if when == "epoch" else []
    fit = under(
        "def fit(self, data, epochs):",
        under("for epoch in range(epochs):", "self.model.train()",
              under("for i, (x, y) in enumerate(data):", "self.train_step(i, x, y)", *in_loop), *epoch_end,
              "print(epoch, '%.4f' % self.evaluate(data))"),
    )  # fmt: skip
    counted = under("for x, y in data:", "right += (self.model(x).argmax(1) == y).sum().item()")
    evaluate = under("def evaluate(self, data):", "self.model.eval()", "right = 0",
                     under("with torch.no_grad():", counted), "return right / 16")  # fmt: skip
    scaler = f"self.scaler = torch.amp.GradScaler('cpu', init_scale=256.0, enabled={scaled == 'on'})"
    configure = under("def configure(self):", f"return {opt}")
    given = ", optimizer" if made == "main" else ""
    chosen = {"main": "optimizer", "init": opt, "configure": "self.configure()"}[made]
    init = under(
        f"def __init__(self, model{given}, every=2):", "self.model = model", "self.criterion = nn.CrossEntropyLoss()",
        "self.every = every", "self.count = 0", "self.history = []", f"self.optimizer = {chosen}",
        *([f"self.scheduler = {schedule}"] if when != "none" else []),
        *([scaler] if scaled != "no" else []),
        *(["self.hooks = [StepHook()]"] if "StepHook" in hook else []),
    )  # fmt: skip
    own = [configure] if made == "configure" else []
    tools = [*HEAD, "", ""]
    lines: list[str] = []
    files: dict[str, str] = {}
    if helper and made != "main":
        lines.append("from optimizers import build_optimizer")
    if helper:
        files["optimizers.py"] = helper
    if hook:
        name = "StepHook" if "StepHook" in hook else "descend"
        line, use = _imported(drawn, "tools", name, "import")
        files["tools.py"] = "\n".join([*tools, hook])
        lines.append(line)
        init, train_step = init.replace("StepHook", use), train_step.replace("descend(", f"{use}(")
    parts = {
        "none": ([], [init, *own, train_step, *methods, fit, evaluate], ""),
        "loop": ([fit, evaluate], [init, *own, train_step, *methods], "Base"),
        "step": ([init, train_step, *methods], [*own, fit, evaluate], "Base"),
        "mixin": ([evaluate, *methods], [init, *own, train_step, fit], "Base"),
    }[base]
    inherited, rest, parent = parts
    if inherited:
        where = "base.py" if drawn.pick("file", ("other", "same"), 0.7) == "other" else ""
        body = under("class Base:", "\n\n".join(inherited))
        trainer = under("class Trainer(Base):", "\n\n".join(rest))
        if where:
            files["base.py"] = "\n".join([*HEAD, *lines, "", "", body])
            files["training.py"] = "\n".join([*HEAD, *lines, "from base import Base", "", "", trainer])
        else:
            files["training.py"] = "\n".join([*HEAD, *lines, "", "", body, "", "", trainer])
    else:
        files["training.py"] = "\n".join([*HEAD, *lines, "", "", under("class Trainer:", "\n\n".join(rest))])
    net, net_use = _imported(drawn, "nets", "Net", "model import")
    trainer_line, trainer_use = _imported(drawn, "training", "Trainer", "trainer import")
    build = ["from optimizers import build_optimizer"] if helper and made == "main" else []
    setup = [f"model = {net_use}()", f"data = {DATA}"]
    made_here = [f"optimizer = {opt}"] if made == "main" else []
    run = [f"trainer = {trainer_use}(model{', optimizer' if made == 'main' else ''})", "trainer.fit(data, 2)",
           "print([round(h, 4) for h in trainer.history])"]  # fmt: skip
    files["main.py"] = _main(drawn, ["import torch", *build, net, trainer_line], [*setup, *made_here, *run])
    return files


def _main(drawn: Drawn, head: list[str], body: list[str]) -> str:
    where = drawn.pick("main", ("function", "script"))
    lines = ["torch.manual_seed(SEED)", *body]
    if where == "script":
        return "\n".join([*head, "", *lines])
    return "\n".join([*head, "", "", under("def main():", *lines), "", "", 'if __name__ == "__main__":\n    main()'])


# --- functions that train


def _functions(drawn: Drawn) -> dict[str, str]:
    drawn.pick("gives", ("logits", "loss", "dict", "record"), 0.4)
    apart = drawn.pick("layout", ("together", "batch function", "loss function", "generator"))
    clear = drawn.pick("clear", ("before", "after", "network"))
    every = drawn.pick("every", ("1", "2"), 0.6) if apart in ("together", "batch function") else "1"
    opt, helper = _optimizer(drawn, "model.parameters()")
    schedule, when = _scheduler(drawn, "optimizer")
    clip = _clip(drawn, "model.parameters()")
    loss = _loss(drawn, "model", "criterion")
    zero = "model.zero_grad()" if clear == "network" else "optimizer.zero_grad()"
    first, last = ([zero], []) if clear == "before" else ([], [zero])
    divided = ["loss = loss / 2"] if every == "2" else []
    update = [*clip, "optimizer.step()", *last, *(["scheduler.step()"] if when == "batch" else [])]
    closing = under("if (i + 1) % 2 == 0:", *update) if every == "2" else block(*update)
    opening = under("if i % 2 == 0:", *first) if every == "2" and first else block(*first)
    args = "model, criterion, optimizer, scheduler"
    seen = "history.append(loss.item())"
    more: list[str] = []
    if apart == "together":
        inner = [opening, *loss, *divided, "loss.backward()", closing, seen]
    elif apart == "batch function":
        more.append(under(f"def train_batch(i, x, y, {args}):", opening, *loss, *divided, "loss.backward()", closing,
                          "return loss.item()"))  # fmt: skip
        inner = [f"history.append(train_batch(i, x, y, {args}))"]
    elif apart == "loss function":
        more.append(under("def compute_loss(model, criterion, x, y):", *loss, "return loss"))
        inner = [opening, "loss = compute_loss(model, criterion, x, y)", "loss.backward()", closing, seen]
    else:
        inner = [opening, *loss, "loss.backward()", closing, "yield i, loss.item()"]
    head = "def train_epoch(model, criterion, optimizer, scheduler, data, history):"
    epoch = under(head, "model.train()", under("for i, (x, y) in enumerate(data):", *inner))
    line, use = _imported(drawn, "engine", "train_epoch", "import")
    net, net_use = _imported(drawn, "nets", "Net", "model import")
    call = f"{use}(model, criterion, optimizer, scheduler, data, history)"
    each = f"for i, value in {call}:\n    history.append(value)" if apart == "generator" else call
    body = [
        f"model = {net_use}()", f"data = {DATA}", "criterion = nn.CrossEntropyLoss()", f"optimizer = {opt}",
        f"scheduler = {schedule}", "history = []",
        under("for epoch in range(2):", each, *(["scheduler.step()"] if when == "epoch" else [])),
        "print([round(h, 4) for h in history])",
    ]  # fmt: skip
    build = ["from optimizers import build_optimizer"] if helper else []
    files = {
        "engine.py": "\n\n\n".join(["import torch\nimport torch.nn as nn", *more, epoch]),
        "main.py": _main(drawn, ["import torch", "import torch.nn as nn", *build, line, net], body),
    }
    return files | ({"optimizers.py": helper} if helper else {})
