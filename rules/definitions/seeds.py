"""Seeds that nobody chose."""

import os

import mindspore as ms
import numpy as np


def fresh_seed():
    seed = int.from_bytes(os.urandom(4), "little") >> 1
    ms.set_seed(seed)
    return seed


def renew_seed():
    fresh_seed()


def rng_state():
    """The draws begin anew with a seed, from which they can begin again; those of NumPy go on."""
    if not hasattr(rng_state, "seeds"):
        rng_state.seeds = np.random.default_rng(ms.get_seed())
    seed = int(rng_state.seeds.integers(2**31 - 1))
    ms.set_seed(seed)
    return ms.Tensor(seed, ms.int64)


class ForkedDraws:
    """What is drawn inside changes nothing of what is drawn behind."""

    def __enter__(self):
        self.state = rng_state()

    def __exit__(self, *error):
        ms.set_seed(int(self.state))
