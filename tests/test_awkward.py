"""Constructs that are seldom written: the file around them must convert, and this is what they become."""

from __future__ import annotations

from textwrap import dedent

import pytest

from torch2ms import convert_source

PROGRAMS = {
    "an argument of several lines without parentheses of its own": (
        """
        import torch

        def copy(p, q):
            p = torch.zeros(2, 3)
            q = torch.arange(6.0)
            p.copy_(
                q[0:6]
                .view_as(p)
            )
            return p
        """,
        """
        def copy(p, q):
            p = ops.zeros((2, 3))
            q = ops.arange(6.0)
            p[()] = (q[0:6]
                .reshape(p.shape))
            return p
        """,
    ),
    "a receiver of several lines that gets a name": (
        """
        import torch

        def windows(patches: torch.Tensor, k):
            rows = (
                patches[:, 1:3]
                .flatten(1, 2)[:, :k]
                .unflatten(0, (2, 3))
            )
            return rows
        """,
        """
        def windows(patches: ms.Tensor, k):
            tensor = (patches[:, 1:3]
                .flatten(1, 2)[:, :k])
            rows = (
                tensor
                .reshape((2, 3) + tensor.shape[1:])
            )
            return rows
        """,
    ),
    "a loop over names whose body is a block": (
        """
        import torch

        class Tracker:
            def __init__(self, names):
                self.total = torch.zeros(3)
                for name in ("near", "far"):
                    if name not in names:
                        setattr(self, name, 0)
        """,
        """
        class Tracker:
            def __init__(self, names):
                self.total = ops.zeros(3)
                for name in ("near", "far"):
                    if name not in names:
                        setattr(self, name, 0)
        """,
    ),
    "an array by its annotation": (
        """
        import numpy as np
        import torch

        def forward_step(poison: np.ndarray, grads) -> np.ndarray:
            poison -= 0.1 * grads(poison)[0]
            return poison

        def backward_step(poison: np.ndarray) -> np.ndarray:
            return (torch.as_tensor(poison) + 1).numpy()

        def attack(x, grads):
            return [backward_step(forward_step(np.copy(init), grads)) for init in x]
        """,
        """
        def backward_step(poison: np.ndarray) -> np.ndarray:
            return (ms.tensor(poison) + 1).asnumpy()
        """,
    ),
    "data of objects that are no tensors": (
        """
        import torch

        def fill(node, record, matrix, rows):
            node.data = 5
            record.data = {"x": torch.ones(2)}
            record.data = None
        """,
        """
        def fill(node, record, matrix, rows):
            node.data = 5
            record.data = {"x": ops.ones(2)}
            record.data = None
        """,
    ),
    "asking for a class that everything would be of": (
        """
        import torch
        from torch.utils.data import Dataset

        def kept(x):
            return x if isinstance(x, Dataset) else torch.relu(x)
        """,
        """
        def kept(x):
            # torch2ms: T2M608 torch.utils.data.Dataset -> ask for what it can do: hasattr(x, '__getitem__')
            return x if isinstance(x, Dataset) else ops.relu(x)
        """,
    ),
    "a local variable with the name of an import": (
        """
        import torch.nn as nn

        class Net(Base):
            def __init__(self):
                self.act = nn.Sigmoid()

        def build(size):
            nn = Other(size)
            return wrap(nn)
        """,
        """
        from mindspore import nn as ms_nn

        class Net(Base):
            def __init__(self):
                self.act = ms_nn.Sigmoid()
        """,
    ),
    "a network of a list is moved, another is used that is made of it": (
        """
        import torch
        from zoo import pick

        def run(models, x):
            models[0].cuda()
            part = pick(models, x)
            net = part.inner
            net.train()
            return torch.relu(net(x))
        """,
        """
        def run(models, x):
            models[0]
            part = pick(models, x)
            net = part.inner
            net.set_train()
            return ops.relu(net(x))
        """,
    ),
    "a method that calls itself": (
        """
        import torch

        class Node:
            def __init__(self):
                self.child = Node()

            def run(self, loss):
                self.total = self.child.run(loss)
                loss.backward()
                return self.total
        """,
        "self.total = self.child.run(loss)",
    ),
    "annotations in quotes": (
        """
        from typing import TYPE_CHECKING, Literal, Optional
        if TYPE_CHECKING:
            import torch
            from torch.optim import Optimizer

        def f(x: "torch.Tensor", how: Literal["torch"], y: Optional["list[torch.Tensor]"] = None) -> "Optimizer":
            z: "torch.Tensor | None" = None
            return x, y, z
        """,
        """
        def f(x: "ms.Tensor", how: Literal["torch"], y: Optional["list[ms.Tensor]"] = None) -> "optim.Optimizer":
            z: "ms.Tensor | None" = None
            return x, y, z
        """,
    ),
    "an accelerator that a function needs after all": (
        """
        import torch
        from accelerate import Accelerator

        def folder(accelerator):
            return accelerator.get_tracker("clearml").id

        accelerator = Accelerator()
        print(folder(accelerator))
        """,
        "def folder(accelerator):",
    ),
    "a leaf that is made among the statements of the forward": (
        """
        import torch

        def gradient(model, loss_fn, x, y):
            if isinstance(x, torch.Tensor):
                leaf = x.clone().detach().requires_grad_(True)
                inputs, y = prepare(leaf, y)
            else:
                leaf = torch.from_numpy(x)
                leaf.requires_grad = True
                inputs = leaf
            loss = loss_fn(model(inputs), y)
            model.zero_grad()
            loss.backward()
            return leaf.grad
        """,
        "T2M110",
    ),
    "a rate that is read in a module without any import of a framework": (
        """
        from .base import Schedule

        class Steps(Schedule):
            def rates(self):
                return [group["lr"] for group in self.optimizer.param_groups]  # not of torch.optim
        """,
        'return [group["lr"].item() for group in self.optimizer.param_groups]',
    ),
    "names of the forward that are deleted": (
        """
        import torch

        model = torch.nn.Linear(2, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for x, y in data:
            optimizer.zero_grad()
            out = model(x)
            loss = ((out - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            del out  # for the memory
            del x, out, loss
        """,
        """
        for x, y in data:
            loss, grads = grad_fn(x, y)
            optimizer(grads)
            # for the memory
            del x, loss
        """,
    ),
    "a layer with the name of a definition that rules bring": (
        """
        import torch

        def build(size):
            batch_norm = torch.nn.BatchNorm2d(size)
            return [batch_norm]
        """,
        "    batch_norm.set_train()",
    ),
    "a function of the same name as the one it is made from": (
        """
        import torch

        channel_shuffle = documented(torch.channel_shuffle, "it shuffles")
        """,
        """
        channel_shuffle = documented(ms_channel_shuffle, "it shuffles")
        """,
    ),
    "torch comes through a star": (
        """
        from fastai.basics import *

        def f(y):
            return torch.relu(y)
        """,
        """
        from fastai.basics import *
        from mindspore import ops

        def f(y):
            return ops.relu(y)
        """,
    ),
    "an import that may fail, of a name the output wants": (
        """
        import torch
        try:
            import numpy as np
        except ImportError:
            np = None

        def f(x):
            return torch.iinfo(torch.int32).max + np.max(x)
        """,
        "import numpy as ms_np",
    ),
    "an empty tuple beside a wrapper of training": (
        """
        import torch
        from accelerate import Accelerator

        accelerator = Accelerator()
        nothing = ()
        model = accelerator.prepare(torch.nn.Linear(2, 1))
        """,
        "nothing = ()",
    ),
    "the gradient of a tensor that another function differentiates": (
        """
        import torch

        class Explainer:
            def make(self, n):
                self.mask = torch.nn.Parameter(torch.randn(n))

            def collect(self):
                if self.mask.grad is None:
                    raise ValueError("no gradient")
                return self.mask.grad != 0.0
        """,
        "if self.mask.grad is None:",
    ),
    "a comment behind the head of a method that becomes empty": (
        """
        import torch

        class Wrapped(torch.optim.Optimizer):
            def zero_grad(self, set_to_none: bool = True):  # type: ignore[override]
                self.inner.zero_grad(set_to_none=set_to_none)
        """,
        "def zero_grad(self, set_to_none: bool = True):  # type: ignore[override]",
    ),
    "a clone whose receiver is taken for a tensor, in a file that keeps torch": (
        """
        import torch

        class Env:
            def make(self):
                spec = self.spec(1).expand(3)
                self.kept = spec.clone()
                torch.unknown_to_us()
        """,
        "self.kept = spec.copy()",
    ),
    "an optimizer in a wrapper that is not seen, beside the gradients of its module": (
        """
        import torch
        from privacy import Clipping, Sampling

        net = Sampling(torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(net.parameters(), lr=1)
        optimizer = Clipping(optimizer)
        optimizer.zero_grad()
        loss = net(torch.ones(1, 4)).sum()
        loss.backward()
        optimizer.step()
        for name, param in net.named_parameters():
            print(name, param.grad)
        """,
        "for (name, param), param_grad in zip(net.parameters_and_names(), net_grads):\n    print(name, param_grad)",
    ),
    "gradients that a refused autograd.Function takes": (
        """
        import torch

        class Env:
            def step(self, x):
                class Predict(torch.autograd.Function):
                    @staticmethod
                    def forward(ctx, x):
                        ctx.save_for_backward(x)
                        return self.rollout(x)

                    @staticmethod
                    def backward(ctx, grad_out):
                        x, = ctx.saved_tensors
                        with torch.enable_grad():
                            x = x.detach()
                            x.requires_grad_(True)
                            y = self.model(x)
                            return torch.autograd.grad(y, x, grad_outputs=grad_out, create_graph=True)

                return Predict.apply(x)
        """,
        "return torch.autograd.grad(y, x, grad_outputs=grad_out, create_graph=True)",
    ),
    "a loop that is translated but for what an earlier conversion marked": (
        """
        import torch
        from mindspore import ops

        class Halved:
            def sync(self, grads, scale=1.0):
                grad_of = dict(zip(self.half_params, grads))
                for p, p32 in zip(self.half_params, self.params):
                    if p in grad_of:
                        # torch2ms: T2M115 Tensor.grad -> use the gradients that the gradient function returns
                        p32.grad.copy_(grad_of[p])
                    torch.relu(p)
        """,
        "grads))\n        for p, p32 in zip(",
    ),
    "an optimizer that clears what it wraps": (
        """
        import torch

        class Surgery(torch.optim.Optimizer):
            def __init__(self, optimizer: torch.optim.Optimizer):
                self.optimizer = optimizer

            def begin(self):
                self.zero_grad()

            def zero_grad(self, set_to_none=True):
                self.optimizer.zero_grad(set_to_none=set_to_none)

            def step(self, closure=None):
                return self.optimizer.step(closure)

            def set_grad(self, grads):
                idx = 0
                for group in self.optimizer.param_groups:
                    for p in group["params"]:
                        p.grad = grads[idx]
                        idx += 1
        """,
        "self.zero_grad()",
    ),
    "an argument behind the last of a call over several lines": (
        """
        import torch

        net = torch.nn.Linear(2, 1)
        opt = torch.optim.Adam(
            net.parameters(),
            lr=0.1,
            betas=(0, 0.999)
        )
        """,
        "    betas=(0, 0.999),\n    weight_decay=0.0\n)",
    ),
    "objects that hold objects of their kind": (
        """
        import torch

        class Operator:
            def mv(self, x):
                return self.apply(x)

        class Sum(Operator):
            def __init__(self, a: Operator, b: Operator):
                self.a, self.b = a, b
                self.shape, self.kind, self.name, self.count = a.shape, a.kind, a.name, 0

            def mv(self, x):
                self.count += 1
                return self.a.mv(x) + self.b.mv(x) + self.rmv(x)

            def rmv(self, x):
                self.kind, self.name = "r", "rmv"
                return self.a.rmv(x) + self.b.rmv(x) + self.mm(x)

            def mm(self, x):
                self.shape, self.count = x.shape, self.count + 1
                return self.a.mm(x) + self.b.mm(x) + self.mv(x) + torch.relu(x)
        """,
        "ops.relu(x)",
    ),
    "a method with the name of a tensor's on something else": (
        """
        import torch

        def tell(logger, loss):
            logger.log("loss", torch.log(loss).item(), 3)
        """,
        """
        def tell(logger, loss):
            logger.log("loss", ops.log(loss).item(), 3)
        """,
    ),
    "a class body of which nothing is left": (
        """
        import torch
        net = torch.nn.Linear(2, 2)
        class Setup:
            net.cuda()  # once
        """,
        """
        class Setup:
            pass
            # once
        """,
    ),
    "steps in the body of a class": (
        """
        import torch

        class Study:
            net = torch.nn.Linear(3, 1)
            (net(torch.ones(2, 3)).sum()).backward()
        """,
        """
        class Study:
            net = nn.Dense(3, 1)
            # torch2ms: T2M110 backward call""",
    ),
    "a comment behind what a function gives that is written out": (
        """
        import torch

        def slope(y, x):
            return torch.autograd.grad(y.sum(), x)[0]  # one row for each output

        def rows_of(net, x):
            x = x.detach().requires_grad_(True)
            y = net(x).pow(2)
            found = slope(y, x)
            return found.detach()
        """,
        """
        def rows_of(net, x):
            x = ops.stop_gradient(x)
            # one row for each output
        """,
    ),
    "a container that begins with a class of the program, called through an object that is not seen": (
        """
        import torch
        from torch import nn

        class Scale(nn.Module):
            def forward(self, x):
                return x / 255

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.network = nn.Sequential(Scale(), nn.ReLU(inplace=True))

        def learner(args):
            x = torch.randn(5, 4)
            return args["net"].network(x) + x
        """,
        """
        def learner(args):
            x = ops.randn(5, 4)
            return args["net"].network(x) + x
        """,
    ),
    "a function outside of a class whose parameter is called self": (
        """
        import torch

        def read_alone(keeper, path):
            keeper.load_state_dict(torch.load(path))

        def restore(self, path):
            read_alone(self, path)

        restore(torch.nn.Linear(3, 2), "net.pth")
        """,
        """
        def read_alone(keeper, path):
            ms.load_param_into_net(keeper, ms.load_checkpoint(path))
        """,
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_awkward_program(name: str) -> None:
    source, expected = map(dedent, PROGRAMS[name])
    result = convert_source(source.lstrip())
    assert not result.error
    assert expected.strip() in result.text
