"""Proof: every fixture that is translated whole gives torch's losses, gradients, weights and RESULT.

The programs of both sides run in a few forked processes (`verified`); those that use optimizers as others before
them did run MindSpore's updates without the compiler (updates.py). What is refused is known by name: a fixture
can only leave the list of those that are run by leaving its refusal in findings.txt for a reader to see.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fixture_cases import FixtureCase, all_cases, converted, write
from tests.installed import skip_without
from tests.updates import compiled, verified
from torch2ms import Tier
from torch2ms.verify import Case, Report, cli_table

skip_without("torch", "mindspore", reason="verification runs both sides")

WHOLE = tuple(case for case in all_cases() if not case.refused)
WORKERS = int(os.environ.get("TORCH2MS_TEST_WORKERS", "2"))
# nobody reads the gradient: it is not computed, so none can be compared
DEAD_GRADIENTS = {"seeds/gradient_guide_q1_1", "seeds/gradient_guide_rc2_1"}
# The finding states what the translation assumes (in these words); these programs are those where it does not hold.
WRONG_ASSUMPTIONS = dict.fromkeys(
    ("forward/loops_and_conditions",),
    "assumed: every parameter of the optimizer takes part in the loss",
)
WITH = {"forward/einops_patterns": ("einops",), "trainer/tensorboard_writer": ("tensorboard", "tensorboardX")}
# MindSpore raises here for want of a CPU kernel: loud, and right where the kernel exists.
NOT_ON_CPU = {"mixed_precision/bf16_autocast_cpu": "BFloat16"}


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[FixtureCase, Report]:
    """The verification of every case that is asked for in this run of pytest."""
    wanted = dict.fromkeys(_selected(request.session.items))
    root = tmp_path_factory.mktemp("translated")
    asked = dict(zip(WHOLE, compiled(case.texts("expected").values() for case in WHOLE), strict=True))
    pairs = [Case(c.main, write(converted(c), root / c.name), compiled=asked[c]) for c in wanted]
    return dict(zip(wanted, verified(pairs, WORKERS), strict=True))


def _selected(items: list[pytest.Item]) -> Iterator[FixtureCase]:
    for item in items:
        if item.path == Path(__file__) and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            yield item.callspec.params["case"]


def _run(case: FixtureCase) -> object:
    """The case, or what says that it does not run where a library of its program is missing."""
    missing = [name for name in WITH.get(case.name, ()) if importlib.util.find_spec(name) is None]
    skips = [pytest.mark.skip(reason=f"needs {name}") for name in missing]
    return pytest.param(case, id=case.name, marks=skips)


@pytest.mark.parametrize("case", [_run(case) for case in WHOLE])
def test_both_sides_agree(case: FixtureCase, reports: dict[FixtureCase, Report]) -> None:
    report = reports[case]
    source = case.main.read_text(encoding="utf-8")
    if case.name in DEAD_GRADIENTS:
        assert [problem.what for problem in report.problems] == ["gradients"], cli_table(report)
        return
    if case.name in NOT_ON_CPU:
        assert report.verdict == "not run" and NOT_ON_CPU[case.name] in report.reason, cli_table(report)
        return
    if case.name in WRONG_ASSUMPTIONS:
        told = [f for r in converted(case).values() for f in r.findings if f.tier is Tier.ASSUMED]
        assert any(WRONG_ASSUMPTIONS[case.name] in finding.why for finding in told)
        assert report.verdict == "differ", "the assumption holds now: take the case off the list"
        return
    assert report.agrees, cli_table(report)
    assert set(report.compared) - {"printed lines"}, "only printed numbers were compared"
    assert not [note for note in report.notes if "printed" in note], cli_table(report)
    if "\nRESULT = " in source:
        assert report.compared.get("result"), "RESULT was not compared"


def test_exactly_the_refused_programs_are_left_out() -> None:
    refused = {c.name for c in all_cases() if any(r.count(Tier.REFUSED) for r in converted(c).values())}
    assert refused == {case.name for case in all_cases() if case.refused}
