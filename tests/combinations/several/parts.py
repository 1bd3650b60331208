"""What such programs have in common: optimizers, resets, clipping."""

from __future__ import annotations

from tests.combinations.drawing import Drawn

# classes and functions, setting up, one batch, what is printed at the end
Parts = tuple[str, str, str, str]
OPTIMIZERS = (
    "optim.SGD({params}, lr=0.05)",
    "optim.Adam({params}, lr=0.01, betas=(0.5, 0.999))",
    "optim.RMSprop({params}, lr=0.005)",
    "optim.AdamW({params}, lr=0.01)",
    "optim.SGD({params}, lr=0.02, momentum=0.9, nesterov=True)",
)
RESETS = (
    "{opt}.zero_grad()",
    "{net}.zero_grad()",
    "{opt}.zero_grad(set_to_none=True)",
    "for p in {net}.parameters():\n    p.grad = None",
)
CLIPS = (
    "",
    "nn.utils.clip_grad_norm_({net}.parameters(), 0.5)",
    "torch.nn.utils.clip_grad_value_({net}.parameters(), clip_value=0.1)",
    "for p in {net}.parameters():\n    p.grad.data.clamp_(-0.2, 0.2)",
)


def optimizer(drawn: Drawn, params: str) -> str:
    return drawn.random.choice(OPTIMIZERS).format(params=params)


def reset(drawn: Drawn, opt: str, net: str) -> str:
    return drawn.random.choice(RESETS).format(opt=opt, net=net)


def clip(drawn: Drawn, net: str) -> str:
    return drawn.random.choice(CLIPS).format(net=net)
