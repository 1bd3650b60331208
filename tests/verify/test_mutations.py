"""Every kind of planted mistake is found; what cannot be seen is known by name and reason."""

from __future__ import annotations

import pytest

from tests.verify.mutations import EQUAL, KINDS, Planted, planted, run, translations
from torch2ms.verify import Report, cli_table

PLACES = 1  # `python -m tests.verify.mutations` plants three
MISTAKES = [mistake for kind in KINDS for mistake in planted(kind, PLACES)]


@pytest.fixture(scope="module")
def reports(request: pytest.FixtureRequest) -> dict[str, Report]:
    """The verification of every mistake that is asked for in this run of pytest."""
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    wanted = [item.callspec.params["mistake"] for item in items if hasattr(item, "callspec")]
    return {mistake.name: report for mistake, report in zip(wanted, run(wanted), strict=True)}


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.name)
def test_a_planted_mistake_is_found(mistake: Planted, reports: dict[str, Report]) -> None:
    report = reports[mistake.name]
    assert report.exit_code in (1, 2), cli_table(report)


def test_every_kind_has_a_place() -> None:
    assert len(KINDS) >= 40 and {mistake.kind.name for mistake in MISTAKES} == {kind.name for kind in KINDS}


def test_exceptions_are_of_known_kinds_and_places() -> None:
    places = {name for name, _, _ in translations()}
    for kind, excepted in EQUAL.items():
        assert kind in {k.name for k in KINDS} and excepted.keys() <= places
