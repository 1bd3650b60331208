"""Seeds that nobody chose."""

import os

import mindspore as ms


def fresh_seed():
    seed = int.from_bytes(os.urandom(4), "little") >> 1
    ms.set_seed(seed)
    return seed
