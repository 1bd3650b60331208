"""Which programs run MindSpore's optimizers compiled, as users do: every one that is the first to use them so.

To compile an update takes longer than all else that most of the programs do, and it is the same for many of them. What
the compiler alone can make wrong lies in what an optimizer is given, and in what changes under it between its steps:
the first program with each way of making an optimizer runs compiled, the first in which something changes under
optimizers that are made so, and the first with each line that changes something, whatever its names are.
"""

from __future__ import annotations

import ast
import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from torch2ms.verify import Case, Report
from torch2ms.verify.runner import verify_case
from torch2ms.verify.sides.warm import warm_each
from torch2ms.verify.verification import Run

CHANGING = re.compile(
    r"param_groups|lr_scheduler|\.lrs?\b|\bjit\b|GRAPH_MODE|set_data|assign_value|insert_param|load_|\bpickle\b|Optimizer\b"
    r"|parameters\.|float(16|64)|\bamp\b"
)
FREE = re.compile(r"(?<![\w.])[^\W\d]\w*|\b\d[\w.]*|#.*")  # names that are no attributes, numbers and comments
OPTIMIZERS = {"Adadelta", "Adagrad", "Adam", "Adamax", "AdamW", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"}


def verified(cases: Iterable[Case], workers: int) -> list[Report]:
    """The reports of programs; compiled decides where uncompiled does not agree: the two do not round alike."""

    def one(case: Case, run: Run) -> Report:
        with tempfile.TemporaryDirectory() as empty:
            report = verify_case(replace(case, cwd=Path(empty)), run)
        return report if case.compiled or report.agrees else one(replace(case, compiled=True), run)

    return list(warm_each(one, cases, workers))


def compiled(programs: Iterable[Iterable[str]]) -> Iterator[bool]:
    """Of each translated program, in their order, whether it runs compiled."""
    known: set[tuple[object, ...]] = set()
    for texts in programs:
        text = "\n".join(texts)
        ways = set(_made(text))
        changes = {found[0] for found in CHANGING.finditer(text)}
        ways |= {(*way, change) for way in ways or {()} for change in changes}
        ways |= {(_shape(line),) for line in text.splitlines() if CHANGING.search(line)}
        yield not ways <= known
        known |= ways


def _shape(line: str) -> str:
    """A line without what its author was free to choose."""
    return FREE.sub(lambda found: found[0] if CHANGING.search(found[0]) else "_", line.strip())


def _made(text: str) -> Iterator[tuple[object, ...]]:
    """How optimizers are made: of which class, with what kinds of arguments."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in OPTIMIZERS:
            given = [type(argument).__name__ for argument in node.args]
            yield node.func.attr, *given, *sorted(f"{k.arg}={type(k.value).__name__}" for k in node.keywords)
