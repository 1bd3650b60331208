"""Questions about calls and places, in projects that have very many of them."""

from __future__ import annotations

import pytest

from torch2ms.analysis.evaluation.transfer import MANY, widened
from torch2ms.analysis.infer import infer
from torch2ms.analysis.program.project import Project
from torch2ms.analysis.program.structure import Stmt
from torch2ms.analysis.values import overlaps
from torch2ms.parsing import parse
from torch2ms.tape.ledger import again

LAYER = """
class Layer{}(nn.Module):
    def forward(self, x, flag):
        for part in self.parts:
            x = part.forward(x, flag)
        return x
"""
LAYERS = 40


def test_callers_of_callers_are_asked_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from torch import nn\n" + "".join(map(LAYER.format, range(LAYERS)))
    project = Project()
    module = project.add("layers.py", parse(text), text)
    infer(project)
    asked: list[Stmt] = []
    loops = again.bound_in_loops
    monkeypatch.setattr(again, "bound_in_loops", lambda stmt: asked.append(stmt) or loops(stmt))
    forwards = [info.scope for info in module.functions.values()]
    assert [again.given_by_loops(scope, project) for scope in forwards] == [{"x"}] * LAYERS
    assert len(asked) <= (again.CALLERS + 1) * LAYERS**2


def test_places_without_end_become_the_layers_that_hold_them() -> None:
    few = frozenset(f"self.a{i}.b.weight" for i in range(MANY))
    assert widened(few) == few
    many = frozenset(f"^self.a{i}.b{j}.c.weight" for i in range(20) for j in range(MANY))
    made = widened(many)
    assert len(made) <= MANY
    assert all(any(overlaps(place, held) for held in made) for place in many)
