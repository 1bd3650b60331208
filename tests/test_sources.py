"""Sources are asked for words before they are asked for a pattern: the answer has to be the pattern's."""

import re
import sys

import pytest

import torch2ms.pipeline  # noqa: F401  (with all the modules that have patterns)
from benchmarks.corpus import fixtures
from torch2ms.analysis.syntax.sources import needed, says
from torch2ms.tape.project import FLAGS


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (r"\bfilter\(\s*lambda", ("filter(",)),
        (r"backward|_grad\b", ("backward", "_grad")),
        (r"multi_?gpu", ("multi",)),
        (r"(?:cell|module)\(x?\)", ("cell", "module")),
        (r"(?:cpu|cuda)\(x?\)", ()),  # `c` and one of two short texts
        (r"(?:long)?er", ()),
        (r"(?<!self)\.training", (".training",)),
        (r"\w+= [a-z]+", ()),
        (r"(?i)backward", ()),
        (r"(?i:back)ward", ("ward",)),
    ],
)
def test_words_that_a_pattern_needs(pattern: str, words: tuple[str, ...]) -> None:
    assert needed(re.compile(pattern)) == words


def patterns() -> list[re.Pattern[str]]:
    modules = [module for name, module in sys.modules.items() if name.startswith("torch2ms.")]
    found = {p for module in modules for p in vars(module).values() if isinstance(p, re.Pattern)}
    return sorted((p for p in found if isinstance(p.pattern, str)), key=lambda p: p.pattern)


def test_the_answers_are_those_of_the_patterns() -> None:
    sources = [text for files in list(fixtures().values())[::5] for text in files.values()]
    for pattern in patterns():
        assert [says(s, pattern) for s in sources] == [pattern.search(s) is not None for s in sources], pattern


def test_no_pattern_goes_through_signs_in_a_row_again_and_again() -> None:
    """One that can read `####` in many ways tries them all where what it wants does not follow, and never ends."""
    signs = ("#", "# ", "-", "=", " ", "\\\n", "a.", "(", "[", "a, ")
    rows = [f"# Part.\n{sign * 79}\n{sign * 79}\nx = y.z\n" for sign in signs]
    for pattern in patterns():
        for row in rows:
            pattern.search(row)


def test_flags_are_seen_behind_comments_and_line_ends() -> None:
    sources = ["x = (y.  # why\n  requires_grad)\n", "y. \\\n  requires_grad = True\n", "f(y, requires_grad=True)\n"]
    assert [FLAGS.search(source) is not None for source in sources] == [True, True, False]
