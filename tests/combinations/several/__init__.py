"""Programs with several networks or states: adversaries, targets, twins, recurrences, policies, attacks, heads."""

from __future__ import annotations

from textwrap import indent

from tests.combinations.drawing import Drawn, Program, block
from tests.combinations.several.adversaries import adversaries
from tests.combinations.several.carried import recurrences, targets, twins
from tests.combinations.several.objectives import attacks, heads, policies

HEAD = """\
import copy
import itertools

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

torch.manual_seed({seed})
{classes}
"""
KINDS = {
    "adversaries": adversaries,
    "targets": targets,
    "twins": twins,
    "recurrences": recurrences,
    "policies": policies,
    "attacks": attacks,
    "heads": heads,
}
LOOPS = {
    "steps": "for i in range(6):\n{body}",
    "epochs": "for epoch in range(2):\n    for i in range(3):\n{deep}",
    "while": "i = 0\nwhile i < 6:\n{body}\n    i += 1",
}


def program(seed: int) -> Program:
    """The program of a seed; the same one every time."""
    drawn = Drawn(seed)
    classes, setup, body, ending = KINDS[drawn.pick("program", list(KINDS))](drawn)
    loop = LOOPS[drawn.pick("loop", list(LOOPS))].format(body=indent(body, "    "), deep=indent(body, " " * 8))
    place = drawn.pick("place", ("script", "main"))
    text = HEAD.format(seed=seed, classes=classes)
    train = block(setup, loop, ending)
    if place == "main":
        train = f'\n\ndef main():\n{indent(train, "    ")}\n\n\nif __name__ == "__main__":\n    main()'
    return Program(seed, drawn, f"{text}{train}\n")
