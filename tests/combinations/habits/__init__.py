"""Programs with the habits of real code: how networks, losses, updates and phases are written, and where they stand."""

from __future__ import annotations

from tests.combinations.drawing import Drawn, Program
from tests.combinations.habits import phases, places, updates
from tests.combinations.habits.losses import LOSSES
from tests.combinations.habits.networks import NETWORKS
from tests.combinations.habits.sketch import Sketch


def program(seed: int) -> Program:
    """The program of a seed; the same one every time."""
    drawn = Drawn(seed)
    sketch = Sketch(drawn)
    NETWORKS[drawn.pick("program", tuple(NETWORKS))](sketch)
    updates.optimizer(sketch)
    LOSSES[drawn.pick("loss", tuple(LOSSES))](sketch)
    habits = [updates.rate, updates.between, phases.after, phases.phases]
    for habit in drawn.random.sample(habits, drawn.random.choice((1, 2, 2, 3))):
        habit(sketch)
    phases.course(sketch)
    return Program(seed, drawn, places.program_text(sketch, seed))
