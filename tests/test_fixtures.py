"""Every program under fixtures/: its translation is valid, complete, stable, and word for word the accepted one."""

from __future__ import annotations

import io
import tokenize

import pytest

from tests.fixture_cases import FixtureCase, all_cases, convert, converted, described

CASES = pytest.mark.parametrize("case", all_cases(), ids=lambda case: case.name)


def comments(text: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(text, newline=None).readline)
    return [token.string.lstrip("#").strip() for token in tokens if token.type == tokenize.COMMENT]


@CASES
def test_it_converts_into_valid_python(case: FixtureCase) -> None:
    for path, result in converted(case).items():
        assert result.error == "", path
        compile(result.text, path, "exec")


@CASES
def test_a_second_conversion_changes_nothing(case: FixtureCase) -> None:
    once = {path: result.text for path, result in converted(case).items()}
    again = {path: result.text for path, result in convert(once, case.config).items()}
    assert again == once


@CASES
def test_no_comment_is_lost(case: FixtureCase) -> None:
    kept = "\n".join(text for result in converted(case).values() for text in comments(result.text))
    for path, result in converted(case).items():  # code that moves to another file takes its comments along
        assert [text for text in comments(result.source) if text not in kept] == [], path


@CASES
def test_line_ends_are_kept(case: FixtureCase) -> None:
    for path, result in converted(case).items():
        ends = [("\r\n" in text, "\n" in text.replace("\r\n", "")) for text in (result.source, result.text)]
        assert ends[0] == ends[1], path


@CASES
def test_the_text_is_the_accepted_one(case: FixtureCase) -> None:
    assert {path: result.text for path, result in converted(case).items()} == case.texts("expected")


@CASES
def test_the_findings_are_the_accepted_ones(case: FixtureCase) -> None:
    assert described(converted(case)).splitlines() == case.findings().splitlines()
    assert all(f.why or f.todo for result in converted(case).values() for f in result.findings)
