"""Sums of products: einsum."""

from __future__ import annotations

import re

import libcst as cst

from torch2ms.api.choice import Choice
from torch2ms.api.facts import Use

_WRITTEN_OUT = Choice("einsum({equation}, {*operands})")  # MindSpore's own does not run on every device


def einsum(use: Use) -> Choice:
    """An equation of two operands as matmul between transposed operands, where the letters allow it."""
    equation = use.value("equation")
    if use.kind("equation") == "tensor":
        return Choice(refuse="the letters stand behind each operand", todo="write the equation as a string")
    if not isinstance(equation, str) or use.starred("operands") or "." in equation:
        return _WRITTEN_OUT
    left, arrow, result = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    listed = use.node("operands") if use.count("operands") == 1 else None
    count = len(listed.elements) if isinstance(listed, (cst.List, cst.Tuple)) else use.count("operands")
    if any(len(set(term)) != len(term) for term in terms) or len(terms) != count:
        return _WRITTEN_OUT
    if not arrow:
        letters = re.sub(",", "", left)
        result = "".join(sorted(letter for letter in set(letters) if letters.count(letter) == 1))
    text = _one(terms[0], result) if len(terms) == 1 else _two(terms, result) if len(terms) == 2 else None
    if text is None and len(terms) == 2 and set(result) <= set("".join(terms)):
        if _complex(use):  # a product of matrices has a gradient, one of elements has none
            return _WRITTEN_OUT
        text, large = _broadcast(terms[0], terms[1], result)
        return Choice(text, assume="the product of both operands fits into memory" if large else "")
    return _WRITTEN_OUT if text is None else Choice(text)


def _complex(use: Use) -> bool:
    listed = use.node("operands") if use.count("operands") == 1 else None
    nodes = [bound.original.value for bound in use.binding.variadic["operands"]]
    if isinstance(listed, (cst.List, cst.Tuple)):
        nodes = [element.value for element in listed.elements]
    types = [use.facts.dtype(node) for node in nodes]
    return any(t.startswith("complex") for t in types) or not all(types) and use.asks("speaks_of_complex")


def _permuted(text: str, have: str, want: str) -> str:
    """The text that brings the letters of `have` into the order of `want`."""
    if have == want:
        return text
    order = tuple(have.index(letter) for letter in want)
    moved = [i for i, place in enumerate(order) if i != place]
    if len(moved) == 2:
        one, two = (place - len(have) if len(have) > 2 else place for place in moved)
        return f"{text}.swapaxes({one}, {two})"
    return f"{text}.permute{order}"


def _one(term: str, result: str) -> str | None:
    summed = [i for i, letter in enumerate(term) if letter not in result]
    kept = "".join(letter for letter in term if letter in result)
    if set(kept) != set(result):
        return None
    text = "{operands|first}"
    if summed:
        text += f".sum({summed[0] if len(summed) == 1 else tuple(summed)})"
    return _permuted(text, kept, result)


def _two(terms: list[str], result: str) -> str | None:
    """Batch letters first, then the free letter of each side around the one letter that is summed."""
    a, b = terms
    batch = [letter for letter in result if letter in a and letter in b]
    summed = [letter for letter in a if letter in b and letter not in result]
    free_a = [letter for letter in a if letter not in b]
    free_b = [letter for letter in b if letter not in a]
    first, second = "{operands|first}", "{operands|second}"
    if any(letter not in result for letter in free_a + free_b):
        return None
    if not batch and len(summed) == 1 and len(b) == 2 and len(free_b) == 1:  # a stack of rows by one matrix
        want_a, want_b = "".join(free_a) + summed[0], summed[0] + free_b[0]
        product = f"ops.matmul({_permuted(first, a, want_a)}, {_permuted(second, b, want_b)})"
        return _permuted(product, "".join(free_a) + free_b[0], result)
    if len(summed) != 1 or len(free_a) > 1 or len(free_b) > 1:
        return None
    head, k = "".join(batch), summed[0]
    if free_a and free_b:
        want_a, want_b, have = head + free_a[0] + k, head + k + free_b[0], head + free_a[0] + free_b[0]
        product = f"ops.matmul({_permuted(first, a, want_a)}, {_permuted(second, b, want_b)})"
        return _permuted(product, have, result)
    return None


def _broadcast(a: str, b: str, result: str) -> tuple[str, bool]:
    """The broadcast product in the order of the result, then the sum; and whether the product outgrows both."""
    summed = "".join(letter for letter in dict.fromkeys(a + b) if letter not in result)
    order = result + summed
    texts = []
    for name, term in (("{operands|first}", a), ("{operands|second}", b)):
        text = _permuted(name, term, "".join(letter for letter in order if letter in term))
        index = [":" if letter in term else "None" for letter in order]
        while index and index[0] == "None":
            index.pop(0)
        texts.append(f"{text}[{', '.join(index)}]" if "None" in index else text)
    product = f"{texts[0]} * {texts[1]}"
    if not summed:
        return product, False
    axes = tuple(range(len(result), len(order)))
    large = set(order) not in (set(a), set(b))
    return f"({product}).sum({axes[0] if len(axes) == 1 else axes})", large
