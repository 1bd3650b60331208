"""Element types and tensors without dimensions that MindSpore does not take: what they go through instead."""

from __future__ import annotations

import pytest

from torch2ms import Tier, convert_source


def line(make: str, use: str) -> str:
    result = convert_source(f"import torch\nx = {make}\ny = {use}\n")
    assert not [f for f in result.findings if f.tier is Tier.REFUSED], result.findings
    return result.text.splitlines()[-1]


@pytest.mark.parametrize(
    ("make", "use", "text"),
    [
        ("torch.tensor([True, False])", "torch.amax(x)", "y = ops.amax(x.astype(ms.int32)).astype(ms.bool_)"),
        ("torch.tensor([True, False])", "torch.argsort(x)", "y = ops.argsort(x.astype(ms.int32)).astype(ms.int64)"),
        ("torch.ones(2, dtype=torch.bfloat16)", "x.sin()", "y = x.astype(ms.float32).sin().astype(ms.bfloat16)"),
        ("torch.ones(2, dtype=torch.bfloat16)", "torch.isnan(x)", "y = ops.isnan(x.astype(ms.float32))"),
        ("torch.tensor(2.0)", "torch.cumsum(x, 0)", "y = ops.cumsum(x.reshape(1), 0).reshape(())"),
        ("torch.ones(2)", "torch.amax(x)", "y = ops.amax(x)"),
    ],
)
def test_a_way_around(make: str, use: str, text: str) -> None:
    assert line(make, use) == text


@pytest.mark.parametrize(
    ("make", "use"),
    [
        ("torch.tensor([3, 4], dtype=torch.uint8)", "torch.pow(x, x)"),  # overflows are those of a byte
        ("torch.tensor([True, False])", "torch.square(x)"),  # gives integers
        ("torch.tensor([True, False])", "torch.sort(x)"),  # two tensors, of which one is boolean
    ],
)
def test_no_way_around(make: str, use: str) -> None:
    findings = convert_source(f"import torch\nx = {make}\ny = {use}\n").findings
    assert any(f.tier is Tier.REFUSED and "takes no tensors of" in f.why for f in findings)
