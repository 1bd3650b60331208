"""Sources are asked for words before they are asked for a pattern: the answer has to be the pattern's."""

import re
import sys

import pytest

import torch2ms.pipeline  # noqa: F401  (with all the modules that have patterns)
from benchmarks.corpus import fixtures
from torch2ms.analysis.syntax.sources import needed, says


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


def test_the_answers_are_those_of_the_patterns() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith("torch2ms.")]
    patterns = {p for module in modules for p in vars(module).values() if isinstance(p, re.Pattern)}
    sources = [text for files in list(fixtures().values())[::5] for text in files.values()]
    for pattern in patterns:
        if isinstance(pattern.pattern, str):
            assert [says(s, pattern) for s in sources] == [pattern.search(s) is not None for s in sources], pattern
