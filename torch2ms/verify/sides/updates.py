"""MindSpore's optimizers without the compiler: the same Python, run directly, is ready for a first step in no time.

Compiling an update takes longer than all else that a short program does. What can only be seen of a compiled update (an
argument that it does not take, a value that it keeps from its first call) is not seen here.
"""

from __future__ import annotations

import inspect

from mindspore.experimental import optim
from mindspore.experimental.optim import adamw


def run_uncompiled() -> None:
    """Take the compiler from the updates of this process."""
    for optimizer in vars(optim).values():
        update = getattr(optimizer, "implementation", None)
        if update is not None:
            optimizer.implementation = inspect.unwrap(update)
    adamw.prepare_func = inspect.unwrap(adamw.prepare_func)
