"""Loops over networks and their optimizers: which are written out, and what becomes of the names in their heads."""

from __future__ import annotations

import pytest

from torch2ms import convert_source

HEAD = """import torch

net_a, net_b = torch.nn.Linear(3, 2), torch.nn.Linear(3, 2)
opt_a = torch.optim.SGD(net_a.parameters(), lr=0.1)
opt_b = torch.optim.Adam(net_b.parameters(), lr=0.1)
x = torch.ones(4, 3)
for _ in range(3):
"""
TURN = """        opt.zero_grad()
        loss = net(x).sum()
        loss.backward()
        opt.step()
"""


def text(head: str, turn: str = TURN, behind: str = "") -> str:
    result = convert_source(f"{HEAD}    for {head}:\n{turn}{behind}")
    assert not result.error, result.error
    return result.text


@pytest.mark.parametrize(
    "head",
    [
        "net, opt in ((net_a, opt_a), (net_b, opt_b))",
        "opt, net in [[opt_a, net_a], [opt_b, net_b]]",
        "net, opt in zip((net_a, net_b), [opt_a, opt_b])",
    ],
)
def test_turns_become_statements(head: str) -> None:
    made = text(head)
    assert "net_a(x).sum()" in made and "net_b(x).sum()" in made
    assert "for net" not in made and "opt_b(b_grads)" in made


def test_questions_of_the_turn_are_answered() -> None:
    asked = "        if net is net_b:\n            loss = loss * 2  # twice\n"
    turn = TURN.replace("        loss.b", f"{asked}        loss.b")
    made = text("net, opt in ((net_a, opt_a), (net_b, opt_b))", turn + "        print('a' if net is net_a else 'b')\n")
    assert "if " not in made.replace("if self", "") and made.count("loss * 2  # twice") == 1
    assert made.index("net_a(x)") < made.index("net_b(x)") < made.index("loss * 2")
    assert "print('a')" in made and "print('b')" in made


def test_constants_are_bound_where_they_are_read() -> None:
    head = "name, factor, net, opt in (('a', 1, net_a, opt_a), ('b', 2, net_b, opt_b))"
    made = text(head, TURN + "        print(f'{name}: {loss.item()}')\n")
    assert "name = 'a'" in made and "name = 'b'" in made and "factor" not in made
    decided = text(head, TURN.replace("loss.b", "print(1) if factor == 2 else print(0)\n        loss.b"))
    assert decided.index("print(0)") < decided.index("print(1)") and "factor" not in decided


def test_comments_of_the_head_and_of_branches_that_never_run_stay() -> None:
    head = "net, opt in [\n        (net_a, opt_a),  # first\n        (net_b, opt_b),\n    ]"
    asked = "        if net is opt:\n            # never\n            loss = loss * 3\n"
    turn = TURN.replace("        loss.b", f"{asked}        loss.b")
    made = text(head, turn)
    assert "# first" in made and "# never" in made


@pytest.mark.parametrize(
    ("turn", "behind"),
    [
        (TURN + "        if loss < 0:\n            break\n", ""),
        (TURN + "        net = None\n", ""),
        (TURN + "        net_a = net_b\n", ""),
        (TURN + "        later = lambda: net\n", ""),
        (TURN, "    print(net)\n"),
    ],
)
def test_other_loops_stay(turn: str, behind: str) -> None:
    assert "for net, opt in" in text("net, opt in ((net_a, opt_a), (net_b, opt_b))", turn, behind)
