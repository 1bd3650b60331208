"""Patterns of einops against their definition, element by element; einops itself is not needed."""

from __future__ import annotations

import itertools
import math

import pytest

from tests.installed import skip_without
from torch2ms.wrappers.spellings.patterns import methods

skip_without("torch", reason="the methods are run")

REARRANGED = [
    ("b n (h d) -> b h n d", {"b": 2, "n": 3, "h": 2, "d": 4}, ("h",)),
    ("b h n d -> b n (h d)", {"b": 2, "h": 3, "n": 4, "d": 5}, ()),
    ("b c (h p) (w q) -> b (h w) (p q c)", {"b": 2, "c": 3, "h": 2, "p": 2, "w": 3, "q": 2}, ("p", "q")),
    ("(b h) 1 d -> b (d h) 1", {"b": 3, "h": 2, "d": 5}, ("h",)),
    ("b c -> c 1 b 1", {"b": 2, "c": 3}, ()),
    ("a b c -> (c a) b", {"a": 2, "b": 3, "c": 4}, ()),
    ("(a b c) -> c b a", {"a": 2, "b": 3, "c": 4}, ("a", "c")),
]
REPEATED = [
    ("h n d -> b h n d", {"h": 2, "n": 3, "d": 4, "b": 5}, ("b",)),
    ("1 n d -> b n d", {"n": 3, "d": 4, "b": 5}, ("b",)),
    ("b n -> c (b h) n", {"b": 2, "n": 3, "c": 2, "h": 3}, ("c", "h")),
    ("h w -> (h r) (s w)", {"h": 2, "w": 3, "r": 2, "s": 2}, ("r", "s")),
    (" -> b", {"b": 3}, ("b",)),
]
REDUCED = [
    ("b n d -> b n", {"b": 2, "n": 3, "d": 4}, ()),
    ("b (h p) w -> b 1 h", {"b": 2, "h": 2, "p": 3, "w": 2}, ("p",)),
    ("b n d -> ", {"b": 2, "n": 3, "d": 4}, ()),
    ("b n d -> d b", {"b": 2, "n": 3, "d": 4}, ()),
]
WITH_OTHERS = [  # the axes behind the dots are spelled out on the right of the bar
    ("rearrange", "b d ... -> b ... d", "b d x y -> b x y d"),
    ("rearrange", "... (h d) -> ... h d", "x y (h d) -> x y h d"),
    ("rearrange", "b (h c) ... -> b h (...) c", "b (h c) x y -> b h (x y) c"),
    ("rearrange", "... a b -> ... (b a) 1", "x y a b -> x y (b a) 1"),
    ("rearrange", "a ... b -> b ... a", "a x y b -> b x y a"),
    ("repeat", "... d -> ... h d", "x y d -> x y h d"),
    ("repeat", "b ... -> (b h) ...", "b x y -> (b h) x y"),
    ("reduce", "b ... -> b", "b x y -> b"),
    ("reduce", "... n l -> n l", "x y n l -> n l"),
    ("reduce", "(h b) ... -> b h", "(h b) x y -> b h"),
]
LENGTHS = {"a": 2, "b": 3, "c": 2, "d": 4, "h": 2, "n": 2, "l": 3, "x": 2, "y": 3}
TOLD = [
    (
        "rearrange",
        "b n (h d) -> b h n d",
        {"h": "self.heads"},
        "",
        "x.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2)",
    ),
    ("rearrange", "b c -> b c 1 1", {}, "", "x[:, :, None, None]"),
    ("repeat", "1 1 d -> b 1 d", {"b": "b"}, "", "x.expand(b, -1, -1)"),
    (
        "reduce",
        "b c (h 2) (w 2) -> b c h w",
        {},
        "max",
        "x.reshape(*x.shape[:2], -1, 2, x.shape[3] // 2, 2).amax((3, 5))",
    ),
]
NOT_TOLD: list[tuple[str, str, dict[str, str], str]] = [
    ("rearrange", "b (h d) -> b h d", {}, ""),  # two lengths that nobody gives
    ("rearrange", "a b ... c d -> d c ... b a", {}, ""),  # nobody knows how many there are between
    ("rearrange", "b c -> b", {}, ""),
    ("repeat", "b -> b c", {}, ""),
    ("reduce", "b c -> b", {}, "prod"),
    ("rearrange", "b c - b c", {}, ""),
]


def groups(side: str) -> list[list[str]]:
    found: list[list[str]] = []
    for part in side.replace("(", " ( ").replace(")", " ) ").split():
        if part == "(":
            found.append(["("])
        elif part == ")":
            found[-1].append(")")
        elif found and found[-1][:1] == ["("] and found[-1][-1] != ")":
            found[-1].append(part)
        else:
            found.append([part])
    return [[axis for axis in group if axis not in ("(", ")", "1")] for group in found]


def place(side: list[list[str]], at: dict[str, int], lengths: dict[str, int]) -> tuple[int, ...]:
    """Where an element stands, by the definition: the last axis of a group is the fastest."""
    found = []
    for group in side:
        index = 0
        for axis in group:
            index = index * lengths[axis] + at[axis]
        found.append(index)
    return tuple(found)


def agrees(
    function: str, pattern: str, spelled: str, lengths: dict[str, int], given: tuple[str, ...], named: bool
) -> None:
    import torch

    left, right = (groups(side) for side in spelled.split("->"))
    x = torch.randn([math.prod(lengths[a] for a in group) for group in left], dtype=torch.float64)
    expected = torch.zeros([math.prod(lengths[a] for a in group) for group in right], dtype=torch.float64)
    axes = sorted({axis for group in [*left, *right] for axis in group})
    for position in itertools.product(*(range(lengths[a]) for a in axes)):
        at = dict(zip(axes, position, strict=True))
        expected[place(right, at, lengths)] += x[place(left, at, lengths)]
    if function != "reduce":  # each element stands where it belongs once
        assert expected.numel() == math.prod(lengths[a] for group in right for a in group)
    text = methods(function, pattern, {a: str(lengths[a]) for a in given}, "x", named, "sum")
    assert text, pattern
    made = eval(text, {"x": x})
    assert made.shape == expected.shape, text
    assert torch.allclose(made, expected), text


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(
    ("function", "case"),
    [(f, c) for f, cs in (("rearrange", REARRANGED), ("repeat", REPEATED), ("reduce", REDUCED)) for c in cs],
)
def test_elements_stand_where_the_pattern_says(
    function: str, case: tuple[str, dict[str, int], tuple[str, ...]], named: bool
) -> None:
    pattern, lengths, given = case
    agrees(function, pattern, pattern, lengths, given, named)


@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize(("function", "pattern", "spelled"), WITH_OTHERS)
def test_axes_that_nobody_counts(function: str, pattern: str, spelled: str, named: bool) -> None:
    agrees(function, pattern, spelled, LENGTHS, ("h",), named)


@pytest.mark.parametrize(("function", "pattern", "sizes", "how", "text"), TOLD)
def test_as_a_person_would_write_it(function: str, pattern: str, sizes: dict[str, str], how: str, text: str) -> None:
    assert methods(function, pattern, sizes, "x", True, how) == text


@pytest.mark.parametrize(("function", "pattern", "sizes", "how"), NOT_TOLD)
def test_what_takes_more_than_methods_is_left(function: str, pattern: str, sizes: dict[str, str], how: str) -> None:
    assert methods(function, pattern, sizes, "x", True, how) == ""
